"""What a group coordinator has told survives its failover: answers wait for the replicas, readers see what these have.

Two or three brokers over one partition of `__consumer_offsets`; followers are held back where a test says so.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from typing import Any

import pytest

from kmini.broker.broker import Broker
from kmini.broker.clock import MovableClock
from kmini.broker.controller import topics
from kmini.broker.coordinators.coordinator_topic import Producer
from kmini.broker.local_cluster import LocalCluster
from kmini.broker.transactions.markers import Marker
from kmini.client import Client
from kmini.client.address import parse_addresses
from kmini.client.connection import Connection
from kmini.protocol.errors import error_name
from kmini.protocol.messages import (
    AddOffsetsToTxnRequest,
    DeleteGroupsRequest,
    DescribeGroupsRequest,
    HeartbeatRequest,
    InitProducerIdRequest,
    JoinGroupRequest,
    LeaveGroupRequest,
    ListGroupsRequest,
    OffsetCommitRequest,
    OffsetDeleteRequest,
    OffsetFetchRequest,
    SyncGroupRequest,
    TxnOffsetCommitRequest,
)
from kmini.protocol.topics import CONSUMER_OFFSETS, TRANSACTION_STATE, TopicPartition
from support.broker.clusters import Clusters
from support.until import until_async

OFFSETS = TopicPartition(CONSUMER_OFFSETS, 0)
NONE = "NONE"
COMMIT_TIMEOUT_MS = 5_000


class Coordinators:
    """A cluster, and requests to the broker that coordinates the group "g"."""

    def __init__(self, cluster: LocalCluster, clock: MovableClock) -> None:
        self.cluster = cluster
        self.clock = clock
        self._waiting: set[asyncio.Future[Any]] = set()

    async def begin(self) -> None:
        broker = self.cluster.brokers[1]
        for name in (CONSUMER_OFFSETS, TRANSACTION_STATE):
            topics.create_missing(broker, name)
        topics.create(broker, "t", partitions=3)
        self.cluster.move_leader(TopicPartition(TRANSACTION_STATE, 0), self.leader.config.node_id)

    async def end(self) -> None:
        await asyncio.gather(*self._waiting, return_exceptions=True)

    @property
    def leader(self) -> Broker:
        return self.cluster.brokers[self.cluster.state(OFFSETS).leader]

    @property
    def followers(self) -> list[Broker]:
        return [
            self.cluster.brokers[one] for one in self.cluster.state(OFFSETS).isr if one != self.leader.config.node_id
        ]

    async def hold(self) -> None:
        for follower in self.followers:
            await follower.fetcher_manager.hold()

    def release(self) -> None:
        for broker in self.cluster.brokers.values():
            broker.fetcher_manager.release()

    async def ask(self, request: Any, version: int | None = None) -> Any:
        """The coordinator's answer, in a version that names topics by name. A connection serves one request after the
        other, so each has its own."""
        address = parse_addresses(self.leader.address)[0]
        connection = await Connection.open(address)
        if isinstance(request, OffsetCommitRequest):
            version = 9
        try:
            return await connection.send(request, version=version)
        finally:
            await connection.close()

    async def appended(self, request: Any, version: int | None = None) -> asyncio.Future[Any]:
        """The answer to come, once the request has appended to the log."""
        log = self.leader.partitions[OFFSETS].log
        end = log.log_end_offset
        answer = asyncio.ensure_future(self.ask(request, version))
        self._waiting.add(answer)
        await until_async(lambda: answer.done() or log.log_end_offset > end)
        return answer

    async def settled(self) -> None:
        """Return when the coordinator has loaded what it was elected with."""
        partition = self.leader.partitions[OFFSETS]
        await until_async(lambda: partition.has_settled)

    async def time_out(self) -> None:
        await self.clock.advance(COMMIT_TIMEOUT_MS, liveness=True)

    # --- requests

    async def committed(self, *, stable: bool = False, partition: int = 0) -> int | str:
        """The offset that OffsetFetch answers, or the name of its error."""
        request = OffsetFetchRequest(
            group_id="g",
            topics=[OffsetFetchRequest.Topic(name="t", partition_indexes=[partition])],
            require_stable=stable,
        )
        answer = await self.ask(request, 7)
        if answer.error_code:
            return error_name(answer.error_code)
        (found,) = answer.topics[0].partitions
        return error_name(found.error_code) if found.error_code else int(found.committed_offset)

    async def all_committed(self) -> dict[int, int]:
        answer = await self.ask(OffsetFetchRequest(group_id="g", topics=None), 7)
        return {one.partition_index: one.committed_offset for topic in answer.topics for one in topic.partitions}

    async def described(self) -> tuple[str, int]:
        """State and number of members, as DescribeGroups answers."""
        (group,) = (await self.ask(DescribeGroupsRequest(groups=["g"]), 5)).groups
        return (error_name(group.error_code) if group.error_code else group.group_state), len(group.members)

    async def described_members(self) -> list[str]:
        (group,) = (await self.ask(DescribeGroupsRequest(groups=["g"]), 5)).groups
        return [member.member_id for member in group.members]

    async def listed(self) -> list[str]:
        answer = await self.ask(ListGroupsRequest())
        return [error_name(answer.error_code)] if answer.error_code else [group.group_id for group in answer.groups]

    async def stable_member(self) -> str:
        """A member that leads the group and has its assignment."""
        joined = await self.ask(joining(), 3)
        assert (joined.error_code, joined.leader) == (0, joined.member_id)
        assert (await self.ask(syncing(joined.member_id, joined.generation_id), 3)).error_code == 0
        return str(joined.member_id)


def commit(offset: int, partition: int = 0) -> OffsetCommitRequest:
    Topic = OffsetCommitRequest.Topic
    one = Topic.Partition(partition_index=partition, committed_offset=offset, committed_metadata="")
    return OffsetCommitRequest(group_id="g", topics=[Topic(name="t", partitions=[one])])


def joining(member_id: str = "", instance_id: str | None = None) -> JoinGroupRequest:
    return JoinGroupRequest(
        group_id="g",
        session_timeout_ms=30_000,
        rebalance_timeout_ms=60_000,
        member_id=member_id,
        group_instance_id=instance_id,
        protocol_type="consumer",
        protocols=[JoinGroupRequest.Protocol(name="range", metadata=b"")],
    )


def syncing(member_id: str, generation_id: int) -> SyncGroupRequest:
    Assignment = SyncGroupRequest.Assignment
    assignments = [Assignment(member_id=member_id, assignment=b"all")]
    return SyncGroupRequest(group_id="g", generation_id=generation_id, member_id=member_id, assignments=assignments)


def code(answer: Any) -> str:
    """The name of the error of an answer that is about one partition, or one group."""
    if hasattr(answer, "topics"):
        answer = answer.topics[0].partitions[0]
    elif hasattr(answer, "results"):
        answer = answer.results[0]
    return error_name(answer.error_code)


@pytest.fixture
async def start(clusters: Clusters) -> AsyncIterator[Callable[..., Any]]:
    """A maker of one cluster; settings are written with underscores for dots."""
    started: list[Coordinators] = []

    async def start(brokers: int = 2, **settings: object) -> Coordinators:
        properties = {
            "offsets.topic.num.partitions": "1",
            "transaction.state.log.num.partitions": "1",
            "offsets.commit.timeout.ms": str(COMMIT_TIMEOUT_MS),
            "replica.fetch.wait.max.ms": "50",
            "group.initial.rebalance.delay.ms": "0",
            "auto.leader.rebalance.enable": "false",
        }
        clock = MovableClock()
        cluster = await clusters.start(brokers, properties, clock=clock, **settings)
        started.append(Coordinators(cluster, clock))
        await started[-1].begin()
        return started[-1]

    yield start
    for one in started:
        one.release()
        await clusters.stop(one.cluster)
        await one.end()


Start = Callable[..., Any]


async def test_committed_offsets_are_there_when_another_broker_coordinates(start: Start) -> None:
    world: Coordinators = await start(3)
    cluster = world.cluster
    partition = TopicPartition("t", 0)
    async with Client(",".join(broker.address for broker in cluster.brokers.values())) as ours:
        for offset in range(3):
            await ours.commit_offsets("g", {partition: offset})
            first = world.leader.config.node_id
            await cluster.kill(first)
            assert world.leader.config.node_id != first
            assert (await ours.committed_offsets("g"))[partition].offset == offset
            await cluster.restart(first)
    assert cluster.controller.topics[CONSUMER_OFFSETS].replication_factor == 3


# --- offsets


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
    log = world.leader.partitions[OFFSETS].log
    await until_async(lambda: log.high_watermark == log.log_end_offset)
    assert await world.committed() == 2


async def test_a_commit_that_cannot_be_appended_leaves_no_trace(start: Start) -> None:
    world: Coordinators = await start(min_insync_replicas=2)
    await world.cluster.kill(world.followers[0].config.node_id)
    assert code(await world.ask(commit(1))) == "COORDINATOR_NOT_AVAILABLE"
    assert world.leader.groups.groups == {}
    assert world.leader.partitions[OFFSETS].log.log_end_offset == 0
    joined = await world.ask(joining(), 3)
    assert error_name(joined.error_code) == "COORDINATOR_NOT_AVAILABLE"
    assert world.leader.groups.groups == {}
    assert await world.listed() == []


async def test_a_commit_whose_coordinator_moves_is_told_so_and_is_nowhere(start: Start) -> None:
    world: Coordinators = await start()
    await world.ask(commit(1))
    old = world.leader
    await world.hold()
    answer = await world.appended(commit(2))
    world.cluster.move_leader(OFFSETS, world.followers[0].config.node_id)
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
    log = world.leader.partitions[OFFSETS].log
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


async def transactional_producer(world: Coordinators) -> Producer:
    began = await world.ask(InitProducerIdRequest(transactional_id="x", transaction_timeout_ms=60_000))
    assert began.error_code == 0
    producer = Producer(began.producer_id, began.producer_epoch)
    request = AddOffsetsToTxnRequest(
        transactional_id="x", producer_id=producer.producer_id, producer_epoch=producer.epoch, group_id="g"
    )
    assert (await world.ask(request)).error_code == 0
    return producer


def transactional(producer: Producer, offset: int) -> TxnOffsetCommitRequest:
    Topic = TxnOffsetCommitRequest.Topic
    one = Topic.Partition(partition_index=0, committed_offset=offset, committed_metadata="")
    return TxnOffsetCommitRequest(
        transactional_id="x",
        group_id="g",
        producer_id=producer.producer_id,
        producer_epoch=producer.epoch,
        topics=[Topic(name="t", partitions=[one])],
    )


async def transactional_commit(world: Coordinators, offset: int) -> Producer:
    producer = await transactional_producer(world)
    assert code(await world.ask(transactional(producer, offset), 4)) == NONE
    return producer


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


# --- groups


async def test_a_new_group_is_shown_and_its_generation_told_when_the_replicas_have_it(start: Start) -> None:
    world: Coordinators = await start()
    await world.hold()
    joined = await world.appended(joining(), 3)
    await world.clock.advance(100, liveness=True)  # the initial rebalance is over
    assert await world.described() == ("Dead", 0)
    assert await world.listed() == []
    assert not joined.done()
    world.release()
    assert (await joined).generation_id == 1
    assert await world.described() == ("CompletingRebalance", 1)
    assert await world.listed() == ["g"]


async def test_a_new_group_that_times_out_shows_without_members_once_the_replicas_have_it(start: Start) -> None:
    world: Coordinators = await start()
    await world.hold()
    joined = await world.appended(joining(), 3)
    await world.time_out()
    assert error_name((await joined).error_code) == "COORDINATOR_NOT_AVAILABLE"
    assert await world.listed() == []
    world.release()
    log = world.leader.partitions[OFFSETS].log
    await until_async(lambda: log.high_watermark == log.log_end_offset)
    assert await world.described() == ("Empty", 0)
    assert await world.listed() == ["g"]


async def test_an_assignment_is_told_and_shown_when_the_replicas_have_it(start: Start) -> None:
    world: Coordinators = await start()
    joined = await world.ask(joining(), 3)
    await world.hold()
    synced = await world.appended(syncing(joined.member_id, joined.generation_id), 3)
    assert not synced.done()
    assert (await world.described())[0] == "CompletingRebalance"
    world.release()
    assert (await synced).assignment == b"all"
    await world.cluster.kill(world.leader.config.node_id)
    assert await world.described() == ("Stable", 1)
    (group,) = (await world.ask(DescribeGroupsRequest(groups=["g"]), 5)).groups
    assert group.members[0].member_assignment == b"all"


async def test_an_assignment_that_times_out_is_told_to_no_member(start: Start) -> None:
    world: Coordinators = await start()
    joined = await world.ask(joining(), 3)
    await world.hold()
    synced = await world.appended(syncing(joined.member_id, joined.generation_id), 3)
    await world.time_out()
    answer = await synced
    assert (error_name(answer.error_code), answer.assignment) == ("COORDINATOR_NOT_AVAILABLE", b"")
    assert (await world.described())[0] == "PreparingRebalance"


async def test_an_assignment_whose_coordinator_moves_is_told_to_no_member(start: Start) -> None:
    world: Coordinators = await start()
    joined = await world.ask(joining(), 3)
    await world.hold()
    synced = await world.appended(syncing(joined.member_id, joined.generation_id), 3)
    world.cluster.move_leader(OFFSETS, world.followers[0].config.node_id)
    assert error_name((await synced).error_code) == "NOT_COORDINATOR"


async def test_a_new_id_of_a_static_member_is_told_and_shown_when_the_replicas_have_it(start: Start) -> None:
    world: Coordinators = await start()
    joined = await world.ask(joining(instance_id="i"), 5)
    synced = SyncGroupRequest(group_id="g", generation_id=1, member_id=joined.member_id, group_instance_id="i")
    assert (await world.ask(synced, 3)).error_code == 0
    await world.hold()
    again = await world.appended(joining(instance_id="i"), 5)
    assert not again.done()
    assert await world.described_members() == [joined.member_id]
    world.release()
    following = (await again).member_id
    assert following != joined.member_id
    assert await world.described_members() == [following]


async def test_a_member_has_left_when_the_replicas_have_that(start: Start) -> None:
    world: Coordinators = await start()
    member_id = await world.stable_member()
    await world.hold()
    left = await world.appended(LeaveGroupRequest(group_id="g", member_id=member_id), 2)
    assert not left.done()
    await world.time_out()
    assert error_name((await left).error_code) == "COORDINATOR_NOT_AVAILABLE"


async def test_a_deleted_group_is_shown_until_the_replicas_have_its_tombstone(start: Start) -> None:
    world: Coordinators = await start()
    await world.ask(commit(1))
    await world.hold()
    answer = await world.appended(DeleteGroupsRequest(groups_names=["g"]))
    assert await world.listed() == ["g"]
    assert await world.described() == ("Empty", 0)
    assert await world.committed() == 1
    await world.time_out()
    assert code(await answer) == "COORDINATOR_NOT_AVAILABLE"
    assert await world.listed() == ["g"]
    world.release()
    log = world.leader.partitions[OFFSETS].log
    await until_async(lambda: log.high_watermark == log.log_end_offset)
    assert await world.listed() == []
    assert await world.committed() == -1
    assert world.leader.groups.groups == {}


# --- a new coordinator


async def test_a_new_coordinator_tells_nothing_that_may_be_lost_again(start: Start) -> None:
    """It has a commit that one replica lacks, and cannot know whether a client was told of it."""
    world: Coordinators = await start(3)
    member_id = await world.stable_member()
    first, behind = world.leader, world.followers[1]
    log = world.followers[0].logs.logs[OFFSETS]
    await behind.fetcher_manager.hold()
    answer = await world.appended(commit_of(member_id, 2))
    await until_async(lambda: log.log_end_offset == first.partitions[OFFSETS].log.log_end_offset)
    await world.followers[0].fetcher_manager.hold()
    world.cluster.move_leader(OFFSETS, world.followers[0].config.node_id)
    assert code(await answer) == "NOT_COORDINATOR"
    loading = "COORDINATOR_LOAD_IN_PROGRESS"
    assert await world.committed() == loading
    assert await world.committed(stable=True) == loading
    assert await world.described() == (loading, 0)
    assert await world.listed() == [loading]
    assert code(await world.ask(commit_of(member_id, 3))) == loading
    assert error_name((await world.ask(joining(member_id), 3)).error_code) == loading
    assert error_name((await world.ask(syncing(member_id, 1), 3)).error_code) == loading
    heartbeat = HeartbeatRequest(group_id="g", generation_id=1, member_id=member_id)
    assert error_name((await world.ask(heartbeat, 3)).error_code) == NONE, "as in Kafka: there is nothing to tell it"
    assert code(await world.ask(DeleteGroupsRequest(groups_names=["g"]))) == loading
    world.release()
    await world.settled()
    assert await world.committed() == 2
    assert await world.described() == ("Stable", 1)


def commit_of(member_id: str, offset: int) -> OffsetCommitRequest:
    request = commit(offset)
    request.member_id, request.generation_id_or_member_epoch = member_id, 1
    return request
