"""A cluster whose brokers coordinate the group "g", and the requests of its members."""

from __future__ import annotations

import asyncio
from typing import Any

from kmini.broker.broker import BrokerServer
from kmini.broker.clock import MovableClock
from kmini.broker.controller import topics
from kmini.broker.coordinators.coordinator_topic import Producer
from kmini.broker.local_cluster import LocalCluster
from kmini.client.address import parse_addresses
from kmini.client.connection import Connection
from kmini.protocol.errors import error_name
from kmini.protocol.messages import (
    AddOffsetsToTxnRequest,
    DescribeGroupsRequest,
    InitProducerIdRequest,
    JoinGroupRequest,
    ListGroupsRequest,
    OffsetCommitRequest,
    OffsetFetchRequest,
    SyncGroupRequest,
    TxnOffsetCommitRequest,
)
from kmini.protocol.topics import CONSUMER_OFFSETS, TRANSACTION_STATE, TopicPartition
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

    async def end(self) -> None:
        await asyncio.gather(*self._waiting, return_exceptions=True)

    @property
    def leader(self) -> BrokerServer:
        return self.cluster.brokers[self.cluster.state(OFFSETS).leader]

    @property
    def followers(self) -> list[BrokerServer]:
        return [self.cluster.brokers[one] for one in self.cluster.state(OFFSETS).isr if one != self.leader.node_id]

    async def hold(self) -> None:
        for follower in self.followers:
            await follower.replica_manager.fetcher_manager.hold()

    def release(self) -> None:
        for broker in self.cluster.brokers.values():
            broker.replica_manager.fetcher_manager.release()

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
        log = self.leader.replica_manager.partitions[OFFSETS].log
        end = log.log_end_offset
        answer = asyncio.ensure_future(self.ask(request, version))
        self._waiting.add(answer)
        await until_async(lambda: answer.done() or log.log_end_offset > end)
        return answer

    async def settled(self) -> None:
        """Return when the coordinator has loaded what it was elected with."""
        partition = self.leader.replica_manager.partitions[OFFSETS]
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


def commit_of(member_id: str, offset: int) -> OffsetCommitRequest:
    request = commit(offset)
    request.member_id, request.generation_id_or_member_epoch = member_id, 1
    return request


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
