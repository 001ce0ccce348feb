"""Tables: no cell is cut, whatever the width of the terminal."""

from __future__ import annotations

import pytest

LONG = "x" * 200 + ".end"


@pytest.mark.parametrize("width", [1, 20, 80, 300])
def test_no_name_is_cut_on_a_terminal(on_terminal, broker, width: int) -> None:
    broker.create_topic(LONG, 2)
    broker.produce(LONG, b"v")
    printed = on_terminal("topic", "describe", "-b", broker.bootstrap_servers, width=width)
    rows = [line.split() for line in printed.splitlines() if LONG in line]
    assert rows == [[LONG, "0", "1", "1", "1", "0", "1"], [LONG, "1", "1", "1", "1", "0", "0"]]
    assert "…" not in printed


def test_no_name_is_cut_in_a_pipe(ask, broker) -> None:
    broker.create_topic(LONG)
    assert f"{LONG}\t0\t1\t1\t1\t0\t0\n" in ask("topic", "describe").stdout
