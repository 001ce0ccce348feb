"""A fetch of several partitions: what ends its wait."""

from __future__ import annotations

import asyncio

import pytest

from kmini.broker.broker import BrokerServer
from kmini.broker.controller import topics
from kmini.protocol.errors import (
    NotLeaderOrFollower,
    UnknownTopicOrPartition,
)
from kmini.storage.log import PartitionLog
from support.broker.asking import ask_in, context_of
from support.broker.fetching import Asked, append, of, request, values


async def test_it_waits_for_min_bytes_and_an_append_wakes_it(
    broker: BrokerServer, topic: str, ask, in_purgatory
) -> None:
    task = asyncio.create_task(ask(broker, request(max_wait_ms=60_000), 12))
    await in_purgatory(broker, 1)
    append(broker, topic, b"a")
    assert values(of(await task)) == [b"a"]
    assert len(broker.purgatory) == 0


async def test_too_little_does_not_wake_it(broker: BrokerServer, topic: str, ask, in_purgatory) -> None:
    task = asyncio.create_task(ask(broker, request(max_wait_ms=60_000, min_bytes=1_000), 12))
    await in_purgatory(broker, 1)
    append(broker, topic, b"a")
    await asyncio.sleep(0)
    assert not task.done()
    append(broker, topic, b"b" * 1_000)
    assert values(of(await task)) == [b"a", b"b" * 1_000]


@pytest.mark.parametrize("session_epoch", [-1, 0], ids=["no session", "a session"])
async def test_a_fetch_for_no_bytes_does_not_wait(broker: BrokerServer, topic: str, ask, session_epoch: int) -> None:
    asked = request(min_bytes=0, max_wait_ms=60_000, session_epoch=session_epoch)
    asking = asyncio.ensure_future(ask(broker, asked, 12))
    await asyncio.sleep(0)
    assert asking.done()
    assert values(of(asking.result())) == []


@pytest.mark.parametrize("kind", ["one partition", "several partitions", "a session"])
async def test_a_fetch_reads_once_after_its_wait(
    broker: BrokerServer, topic: str, in_purgatory, monkeypatch: pytest.MonkeyPatch, kind: str
) -> None:
    reads: list[int] = []
    read = PartitionLog.read

    def counting(log: PartitionLog, offset: int, *limits: object) -> bytes:
        reads.append(offset)
        return read(log, offset, *limits)

    context = context_of(broker, 12)
    asked = request(session_epoch=-1, max_wait_ms=60_000)
    if kind == "several partitions":
        asked.topics[0].partitions.append(Asked(partition=1, fetch_offset=0, partition_max_bytes=100))
    if kind == "a session":
        begun = await ask_in(context, request(session_epoch=0))
        asked.session_id, asked.session_epoch, asked.topics = begun.session_id, 1, []
    monkeypatch.setattr(PartitionLog, "read", counting)
    waiting = asyncio.ensure_future(ask_in(context, asked))
    await in_purgatory(broker, 1)
    assert reads == []
    append(broker, topic, b"a")
    assert values((await waiting).responses[0].partitions[0]) == [b"a"]
    assert reads == [0]


async def test_when_time_is_over_it_answers_with_what_there_is(broker: BrokerServer, topic: str, ask) -> None:
    append(broker, topic, b"a")
    assert values(of(await ask(broker, request(max_wait_ms=1, min_bytes=10_000), 12))) == [b"a"]


async def test_a_topic_that_is_deleted_ends_the_wait(broker: BrokerServer, topic: str, ask, in_purgatory) -> None:
    task = asyncio.create_task(ask(broker, request(max_wait_ms=60_000), 12))
    await in_purgatory(broker, 1)
    topics.delete(broker, topic)
    assert of(await task).error_code == NotLeaderOrFollower.code


async def test_an_error_in_one_partition_is_answered_at_once_with_the_data_of_others(
    broker: BrokerServer, topic: str, ask
) -> None:
    append(broker, topic, b"a")
    asked = request(max_wait_ms=60_000, min_bytes=1 << 20)
    asked.topics[0].partitions.append(Asked(partition=9, fetch_offset=0, partition_max_bytes=100))
    good, bad = (await ask(broker, asked, 12)).responses[0].partitions
    assert values(good) == [b"a"]
    assert bad.error_code == UnknownTopicOrPartition.code
