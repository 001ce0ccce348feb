"""OffsetDelete: what is forgotten, and what members still read is not."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from kmini.broker.broker import BrokerServer
from kmini.broker.controller import topics
from kmini.broker.groups.classic.classic_group import ClassicGroup
from kmini.broker.groups.classic.group_states import GroupState
from kmini.broker.groups.committed_offsets import CommittedOffset
from kmini.broker.groups.group import Committer
from kmini.protocol.errors import (
    GroupIdNotFound,
    GroupSubscribedToTopic,
    InvalidGroupId,
    NonEmptyGroup,
    NotCoordinator,
    UnknownTopicOrPartition,
)
from kmini.protocol.messages.offset_delete import OffsetDeleteRequest
from kmini.protocol.topics import CONSUMER_OFFSETS, TopicPartition

EXAMPLE = OffsetDeleteRequest(
    group_id="readers",
    topics=[
        OffsetDeleteRequest.Topic(name="orders", partitions=[OffsetDeleteRequest.Topic.Partition(partition_index=0)])
    ],
)

StartBroker = Callable[..., Awaitable[BrokerServer]]
Ask = Callable[..., Awaitable[Any]]
Topic = OffsetDeleteRequest.Topic


@pytest.fixture
async def broker(start_broker: StartBroker) -> BrokerServer:
    broker = await start_broker()
    topics.create_missing(broker, CONSUMER_OFFSETS)
    topics.create(broker, "orders", partitions=3)
    changes = broker.groups.store.changes("g")
    group = broker.groups.group_for_commit(Committer("", None, -1, 9), changes)
    for partition in range(3):
        changes.set(TopicPartition("orders", partition), CommittedOffset(40, 7, "", broker.clock.now_ms()))
    await broker.groups.commit(group, changes)
    return broker


def delete(*partitions: int, topic: str = "orders", group_id: str = "g") -> OffsetDeleteRequest:
    wanted = [Topic.Partition(partition_index=partition) for partition in partitions]
    return OffsetDeleteRequest(group_id=group_id, topics=[Topic(name=topic, partitions=wanted)])


def codes(answer: Any) -> dict[int, int]:
    return {
        partition.partition_index: partition.error_code for topic in answer.topics for partition in topic.partitions
    }


def held(broker: BrokerServer) -> set[int]:
    return {partition for _, partition in broker.groups.groups["g"].offsets}


async def test_offsets_are_forgotten_for_good(broker: BrokerServer, ask: Ask, start_broker: StartBroker) -> None:
    answer = await ask(broker, delete(0, 2))
    assert answer.error_code == 0
    assert codes(answer) == {0: 0, 2: 0}
    assert held(broker) == {1}
    await broker.stop()
    assert held(await start_broker()) == {1}


async def test_what_was_never_committed_is_no_error(broker: BrokerServer, ask: Ask) -> None:
    await ask(broker, delete(0))
    assert codes(await ask(broker, delete(0))) == {0: 0}


async def test_partitions_that_there_are_not_are_refused_by_themselves(broker: BrokerServer, ask: Ask) -> None:
    unknown = UnknownTopicOrPartition.code
    assert codes(await ask(broker, delete(0, 9, -1))) == {0: 0, 9: unknown, -1: unknown}
    assert codes(await ask(broker, delete(0, topic="absent"))) == {0: unknown}
    assert held(broker) == {1, 2}


@pytest.mark.parametrize(("group_id", "error"), [("", InvalidGroupId), ("absent", GroupIdNotFound)])
async def test_there_must_be_a_group(broker: BrokerServer, ask: Ask, group_id: str, error: Any) -> None:
    answer = await ask(broker, delete(0, group_id=group_id))
    assert (answer.error_code, answer.topics) == (error.code, [])


async def test_without_the_topic_of_offsets_there_is_no_coordinator(start_broker: StartBroker, ask: Ask) -> None:
    answer = await ask(await start_broker(), delete(0))
    assert answer.error_code == NotCoordinator.code


def make_stable(
    group: ClassicGroup, protocol_type: str, monkeypatch: pytest.MonkeyPatch, subscribed: set[str] | None
) -> None:
    group.state = GroupState.STABLE
    group.protocol_type = protocol_type
    monkeypatch.setattr(ClassicGroup, "subscribed_topics", lambda _: subscribed)


async def test_topics_that_members_read_are_kept(
    broker: BrokerServer, ask: Ask, monkeypatch: pytest.MonkeyPatch
) -> None:
    topics.create(broker, "other")
    group = broker.groups.groups["g"]
    make_stable(group, "consumer", monkeypatch, {"other"})
    assert codes(await ask(broker, delete(0, topic="other"))) == {0: GroupSubscribedToTopic.code}
    assert codes(await ask(broker, delete(0))) == {0: 0}
    group.state = GroupState.EMPTY


async def test_members_that_are_no_consumers_may_read_anything(
    broker: BrokerServer, ask: Ask, monkeypatch: pytest.MonkeyPatch
) -> None:
    group = broker.groups.groups["g"]
    make_stable(group, "connect", monkeypatch, None)
    answer = await ask(broker, delete(0))
    assert (answer.error_code, answer.topics) == (NonEmptyGroup.code, [])
    assert held(broker) == {0, 1, 2}
    group.state = GroupState.EMPTY
