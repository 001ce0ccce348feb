"""Progress of long work: on stderr where that is a terminal, and nowhere else."""

from __future__ import annotations

import pytest

from kmini import Broker

BAR = "━"
"""The characters of a progress bar."""


@pytest.fixture
def address(broker) -> str:
    for number in range(50):
        broker.produce("orders", b"%d" % number)
    return broker.bootstrap_servers


@pytest.fixture
def data_dir(tmp_path):
    with Broker(data_dir=tmp_path / "data") as broker:
        broker.produce("orders", b"v")
    return tmp_path / "data"


def test_produce_shows_how_much_of_its_file_is_read(on_terminal, address, tmp_path) -> None:
    path = tmp_path / "lines"
    path.write_bytes(b"x" * 99 + b"\n" + b"y" * 99 + b"\n")
    said = on_terminal("produce", "orders", "--file", path, "-b", address, streams=("stderr",))
    assert BAR in said
    assert "200/200 bytes" in said
    assert said.endswith("2 records produced to orders\n")


def test_consume_into_a_file_shows_how_many_records_are_printed(on_terminal, address) -> None:
    said = on_terminal("consume", "orders", "-b", address, streams=("stderr",))
    assert BAR in said
    assert "50/50" in said


def test_records_on_the_same_terminal_are_not_disturbed_by_progress(on_terminal, address) -> None:
    assert on_terminal("consume", "orders", "-b", address) == "".join(f"{number}\n" for number in range(50))


def test_the_dump_of_a_log_into_a_file_shows_how_much_is_read(on_terminal, data_dir) -> None:
    assert BAR in on_terminal("log", "dump", data_dir, streams=("stderr",))


def test_graduating_shows_how_much_is_copied(on_terminal, data_dir, tmp_path) -> None:
    assert BAR in on_terminal("graduate", data_dir, tmp_path / "kafka", streams=("stderr",))


@pytest.mark.parametrize("command", [["produce", "orders", "--file", "/dev/null"], ["consume", "orders"]], ids=" ".join)
def test_without_a_terminal_there_is_no_progress(run, address, command: list[str]) -> None:
    assert BAR not in run(*command, "-b", address).stderr


def test_without_a_terminal_nothing_that_draws_is_imported(address) -> None:
    import subprocess
    import sys

    code = "import sys; from kmini.cli import main\ntry: main()\nfinally: print(*sys.modules, file=sys.stderr)"
    finished = subprocess.run(
        [sys.executable, "-c", code, "consume", "orders", "-b", address],
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
    )
    assert not {name for name in finished.stderr.split() if name.startswith("rich")}
