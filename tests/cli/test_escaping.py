"""Control characters on a terminal: visible, never obeyed."""

from __future__ import annotations

import json

import pytest

from kmini.cli.escaping import escaped, visible_bytes, visible_json

HOSTILE = "a\x1b[31m\x07\n\tb\x7f\x9b\u202ec"
SHOWN = r"a\x1b[31m\x07\n\tb\x7f\x9b\u202ec"


def test_control_characters_are_escaped_and_other_text_stays() -> None:
    assert escaped(HOSTILE) == SHOWN
    assert escaped("Grüße, 你好, 👩‍👩‍👧, \\n") == "Grüße, 你好, 👩‍👩‍👧, \\n"


def test_bytes_that_are_no_text_are_escaped() -> None:
    assert visible_bytes("é\x1b".encode() + b"\xff") == "é\\x1b\\xff".encode()


def test_escaped_json_has_the_same_meaning() -> None:
    text = json.dumps(HOSTILE, ensure_ascii=False)
    assert visible_json(text).isprintable()
    assert json.loads(visible_json(text)) == HOSTILE


@pytest.fixture
def hostile(broker):
    """The topic `t` with a record whose key, value and headers hold control characters."""
    broker.produce("t", HOSTILE.encode(), key=HOSTILE.encode(), headers=[(HOSTILE, HOSTILE.encode())])
    return broker


def test_keys_values_and_headers_are_escaped_on_a_terminal(on_terminal, hostile) -> None:
    printed = on_terminal("consume", "t", "-K", "=", "--headers", "-b", hostile.bootstrap_servers)
    assert printed == f"{SHOWN}={SHOWN}\t{SHOWN}={SHOWN}\n"


def test_json_is_escaped_on_a_terminal(on_terminal, hostile) -> None:
    printed = on_terminal("consume", "t", "--format", "json", "-b", hostile.bootstrap_servers)
    assert printed.rstrip("\n").isprintable()
    assert json.loads(printed)["value"] == HOSTILE


def test_a_pipe_gets_the_bytes_as_they_are(ask, hostile) -> None:
    assert ask("consume", "t", "-K", "=").stdout_bytes == f"{HOSTILE}={HOSTILE}\n".encode()


def test_group_ids_are_escaped_in_tables_and_messages(on_terminal, ask, run, hostile) -> None:
    ask("consume", "t", "--group", HOSTILE)
    assert SHOWN in on_terminal("group", "list", "-b", hostile.bootstrap_servers, width=200)
    assert f"{SHOWN}\tt\t0\t1" in ask("group", "describe").stdout
    refused = run("group", "describe", HOSTILE + "!", "-b", hostile.bootstrap_servers)
    assert f"kmini: {SHOWN}!: GROUP_ID_NOT_FOUND" in refused.stderr


def test_transactional_ids_are_escaped_in_messages(run, hostile) -> None:
    refused = run("txn", "abort", HOSTILE, "-b", hostile.bootstrap_servers)
    assert f"kmini: {SHOWN}: TRANSACTIONAL_ID_NOT_FOUND" in refused.stderr


def test_a_topic_name_of_the_user_is_escaped_in_messages(run, hostile) -> None:
    refused = run("consume", "t\x1b[31m", "-b", hostile.bootstrap_servers)
    assert "\x1b" not in refused.stderr
    assert r"t\x1b[31m" in refused.stderr


def test_the_dump_of_a_log_is_escaped(on_terminal, tmp_path) -> None:
    from kmini import Broker

    with Broker(data_dir=tmp_path) as broker:
        broker.produce("t", HOSTILE.encode(), headers=[(HOSTILE, HOSTILE.encode())])
    assert "\x1b" not in on_terminal("log", "dump", "--records", tmp_path)
    assert "\x9b" not in on_terminal("log", "dump", "--records", "--format", "json", tmp_path)
