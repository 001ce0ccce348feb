"""Compaction that a test can await."""

from __future__ import annotations

import pytest

from kmini import Broker
from kmini.protocol.errors import PolicyViolation


def test_a_topic_is_compacted_when_the_call_returns() -> None:
    with Broker() as broker:
        broker.create_topic("profiles", configs={"cleanup.policy": "compact"})
        for value in (b"1", b"2", b"3"):
            broker.produce("profiles", value, key=b"a")
        broker.produce("profiles", b"1", key=b"b")
        (report,) = broker.compact("profiles")
        assert (report.records_read, report.superseded) == (4, 2)
        assert [(record.offset, record.key) for record in broker.records("profiles")] == [(2, b"a"), (3, b"b")]


async def test_also_awaited() -> None:
    async with Broker() as broker:
        await broker.create_topic("profiles", 3, configs={"cleanup.policy": "compact"})
        assert len(await broker.compact("profiles")) == 3


def test_a_week_makes_tombstones_go() -> None:
    with Broker() as broker:
        broker.create_topic("profiles", configs={"cleanup.policy": "compact"})
        broker.produce("profiles", b"1", key=b"a")
        broker.produce("profiles", None, key=b"a")
        (report,) = broker.compact("profiles")
        assert report.tombstones_waiting == 1
        broker.advance_clock(7 * 86_400_000)
        assert broker.records("profiles") == []


def test_a_topic_that_is_not_compacted_is_an_error() -> None:
    with Broker() as broker:
        broker.create_topic("plain")
        with pytest.raises(PolicyViolation):
            broker.compact("plain")
