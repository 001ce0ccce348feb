"""Groups to administer: with members in two states, without members, and without a protocol."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

from kmini.broker.broker import BrokerServer
from kmini.broker.controller import topics
from kmini.broker.groups.classic.member import Joining
from kmini.protocol.messages.join_group import JoinGroupRequest
from kmini.protocol.messages.offset_commit import OffsetCommitRequest
from kmini.protocol.messages.sync_group import SyncGroupRequest
from kmini.protocol.topics import CONSUMER_OFFSETS

StartBroker = Callable[..., Awaitable[BrokerServer]]


Ask = Callable[..., Awaitable[Any]]


async def broker_with_groups(start_broker: StartBroker, ask: Ask) -> BrokerServer:
    """A broker with the groups "stable", "joined", "empty" and "simple"."""
    broker = await start_broker()
    topics.create_missing(broker, CONSUMER_OFFSETS)
    topics.create(broker, "orders", partitions=1)
    for group, instance in (("stable", "one"), ("joined", None)):
        request = JoinGroupRequest(
            group_id=group,
            session_timeout_ms=10_000,
            rebalance_timeout_ms=10_000,
            member_id="",
            group_instance_id=instance,
            protocol_type="consumer",
            protocols=[JoinGroupRequest.Protocol(name="range", metadata=b"wishes")],
        )
        member = await ask(broker, request, 5 if instance else 3)
    stable = broker.groups.groups["stable"]
    (member_id,) = stable.members
    share = SyncGroupRequest.Assignment(member_id=member_id, assignment=b"share")
    sync = SyncGroupRequest(
        group_id="stable",
        generation_id=1,
        member_id=member_id,
        protocol_type="consumer",
        protocol_name="range",
        assignments=[share],
    )
    await ask(broker, sync)
    assert member.error_code == 0
    broker.groups.join("empty", Joining("", None, "", "/", 10_000, 10_000, "consumer", {"range": b""}))
    Topic = OffsetCommitRequest.Topic
    for group in ("empty", "simple"):
        partition = Topic.Partition(partition_index=0, committed_offset=7, committed_metadata="")
        commit = OffsetCommitRequest(group_id=group, topics=[Topic(name="orders", partitions=[partition])])
        answer = await ask(broker, commit, 8)
        assert answer.topics[0].partitions[0].error_code == 0
    return broker
