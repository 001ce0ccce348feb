"""Committed offsets in a cluster: clients learn of a commit when the in-sync replicas have it, and a failover keeps it.

Two or three brokers over one partition of `__consumer_offsets`; a test may hold the followers back.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import pytest

from kmini.broker.transactions.markers import Marker
from kmini.client import Client
from kmini.protocol.errors import error_name
from kmini.protocol.messages import (
    OffsetDeleteRequest,
)
from kmini.protocol.topics import CONSUMER_OFFSETS, TopicPartition
from support.broker.cluster_coordinators import (
    NONE,
    OFFSETS,
    Coordinators,
    code,
    commit,
    joining,
    transactional,
    transactional_commit,
    transactional_producer,
)
from support.until import until_async

pytestmark = pytest.mark.sockets

Start = Callable[..., Any]


async def test_committed_offsets_survive_failovers_of_the_coordinator(start: Start) -> None:
    world: Coordinators = await start(3)
    cluster = world.cluster
    partition = TopicPartition("t", 0)
    async with Client(",".join(broker.address for broker in cluster.brokers.values())) as ours:
        for offset in range(3):
            await ours.commit_offsets("g", {partition: offset})
            first = world.leader.node_id
            await cluster.kill(first)
            assert world.leader.node_id != first
            assert (await ours.committed_offsets("g"))[partition].offset == offset
            await cluster.restart(first)
    assert cluster.controller.topics[CONSUMER_OFFSETS].replication_factor == 3


async def test_a_commit_is_answered_when_the_replicas_have_it_and_shown_from_then_on(start: Start) -> None:
    world: Coordinators = await start()
    assert code(await world.ask(commit(1))) == NONE
    await world.hold()
    answers = [await world.appended(commit(offset)) for offset in (2, 3)]
    other = await world.appended(commit(7, partition=1))
    assert await world.committed() == 1
    assert await world.committed(partition=1) == -1
    assert await world.all_committed() == {0: 1}
    assert not any(answer.done() for answer in (*answers, other))
    world.release()
    assert [code(await answer) for answer in (*answers, other)] == [NONE] * 3
    assert await world.all_committed() == {0: 3, 1: 7}


async def test_a_commit_that_times_out_shows_once_the_replicas_have_it(start: Start) -> None:
    world: Coordinators = await start()
    await world.ask(commit(1))
    await world.hold()
    answer = await world.appended(commit(2))
    await world.time_out()
    assert code(await answer) == "COORDINATOR_NOT_AVAILABLE"
    assert await world.committed() == 1
    world.release()
    log = world.leader.replica_manager.partitions[OFFSETS].log
    await until_async(lambda: log.high_watermark == log.log_end_offset)
    assert await world.committed() == 2


async def test_a_commit_that_cannot_be_appended_leaves_no_trace(start: Start) -> None:
    world: Coordinators = await start(min_insync_replicas=2)
    await world.cluster.kill(world.followers[0].node_id)
    assert code(await world.ask(commit(1))) == "COORDINATOR_NOT_AVAILABLE"
    assert world.leader.groups.groups == {}
    assert world.leader.replica_manager.partitions[OFFSETS].log.log_end_offset == 0
    joined = await world.ask(joining(), 3)
    assert error_name(joined.error_code) == "COORDINATOR_NOT_AVAILABLE"
    assert world.leader.groups.groups == {}
    assert await world.listed() == []


async def test_a_commit_whose_coordinator_moves_fails_and_leaves_no_trace(start: Start) -> None:
    world: Coordinators = await start()
    await world.ask(commit(1))
    old = world.leader
    await world.hold()
    answer = await world.appended(commit(2))
    world.cluster.move_leader(OFFSETS, world.followers[0].node_id)
    assert code(await answer) == "NOT_COORDINATOR"
    assert old.groups.groups == {}
    world.release()
    await world.settled()
    assert await world.committed() == 1


async def test_a_stable_fetch_waits_for_the_replicas(start: Start) -> None:
    world: Coordinators = await start()
    await world.ask(commit(1))
    await world.hold()
    answer = await world.appended(commit(2))
    fetched = asyncio.ensure_future(world.committed(stable=True))
    waiting = world.leader.purgatory
    await until_async(lambda: len(waiting) == 2 or fetched.done())
    await world.time_out()
    assert await fetched == "NOT_COORDINATOR", "as Apache Kafka answers where a stable fetch times out"
    assert code(await answer) == "COORDINATOR_NOT_AVAILABLE"
    world.release()
    assert await world.committed(stable=True) == 2


async def test_offsets_of_a_transaction_are_shown_when_the_replicas_have_its_marker(start: Start) -> None:
    world: Coordinators = await start()
    await world.ask(commit(1))
    producer = await transactional_commit(world, 2)
    await world.hold()
    marker = Marker(producer, is_commit=True, coordinator_epoch=0)
    writing = asyncio.ensure_future(world.leader.marker_writer.write(marker, [OFFSETS]))
    await asyncio.sleep(0)
    log = world.leader.replica_manager.partitions[OFFSETS].log
    assert log.high_watermark < log.log_end_offset
    assert await world.committed() == 1
    world.release()
    assert await writing == {OFFSETS: 0}
    assert await world.committed() == 2


async def test_a_transactional_commit_is_answered_when_the_replicas_have_it(start: Start) -> None:
    world: Coordinators = await start()
    producer = await transactional_producer(world)
    await world.hold()
    answer = await world.appended(transactional(producer, 2), 4)
    assert not answer.done()
    assert await world.listed() == []
    await world.time_out()
    assert code(await answer) == "COORDINATOR_NOT_AVAILABLE"
    world.release()
    assert code(await world.ask(transactional(producer, 2), 4)) == NONE
    assert await world.listed() == ["g"]


async def test_a_deleted_offset_is_shown_until_the_replicas_have_its_tombstone(start: Start) -> None:
    world: Coordinators = await start()
    await world.ask(commit(1))
    await world.hold()
    Topic = OffsetDeleteRequest.Topic
    deletion = OffsetDeleteRequest(
        group_id="g", topics=[Topic(name="t", partitions=[Topic.Partition(partition_index=0)])]
    )
    answer = await world.appended(deletion)
    assert await world.committed() == 1
    world.release()
    assert (await answer).error_code == 0
    assert await world.committed() == -1
