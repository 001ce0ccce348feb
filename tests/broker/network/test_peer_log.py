"""Log lines about peers: escaped, and no more than a few a second."""

from __future__ import annotations

import logging

import pytest

from kmini.broker.network.peer_log import PeerLog, printable

log = logging.getLogger("kmini.test_peer_log")


def test_what_a_peer_sent_is_escaped_and_cut() -> None:
    assert printable("a\n\x1b[31mö") == "a\\x0a\\x1b[31m\\xf6"
    assert len(printable("x" * 10_000)) == 200


def test_a_peer_fills_no_log(caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch) -> None:
    second = 1.0
    monkeypatch.setattr("kmini.broker.network.peer_log.time.monotonic", lambda: second)
    caplog.set_level(logging.INFO, log.name)
    peers = PeerLog(log)
    for number in range(50):
        (peers.info if number % 2 else peers.warning)("group %s has %d members", "g\n", number)
    assert len(caplog.records) == 20
    assert {record.levelname for record in caplog.records} == {"INFO", "WARNING"}
    assert caplog.records[3].getMessage() == "group g\\x0a has 3 members"
    second = 2.0
    peers.info("on it goes")
    assert [record.getMessage() for record in caplog.records[20:]] == [
        "30 lines like the next one were left out",
        "on it goes",
    ]


def test_lines_below_the_level_are_not_counted(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.WARNING, log.name)
    peers = PeerLog(log)
    for _ in range(50):
        peers.info("chatter")
    peers.warning("this is meant")
    assert [record.getMessage() for record in caplog.records] == ["this is meant"]
