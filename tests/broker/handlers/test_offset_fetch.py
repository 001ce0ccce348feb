"""OffsetFetch: what was committed comes back, in every version; what was not is no error."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from kmini.broker.broker import BrokerServer
from kmini.broker.controller import topics
from kmini.broker.groups.committed_offsets import CommittedOffset
from kmini.broker.groups.group import Committer
from kmini.broker.handlers import offset_fetch
from kmini.broker.security.resources import ResourceType
from kmini.protocol.errors import InvalidRequest, NotCoordinator, UnknownTopicId, UnstableOffsetCommit
from kmini.protocol.messages.offset_fetch import OffsetFetchRequest
from kmini.protocol.topics import CONSUMER_OFFSETS, TopicPartition


def example(resource: ResourceType, topic_id: bytes) -> OffsetFetchRequest:
    """A request that needs the permission on this kind of resource; `topic_id` is the one of "orders"."""
    return OffsetFetchRequest(
        group_id="readers",
        topics=[OffsetFetchRequest.Topic(name="orders", partition_indexes=[0])],
        groups=[
            OffsetFetchRequest.Group(
                group_id="readers",
                topics=[OffsetFetchRequest.Group.Topic(name="orders", topic_id=topic_id, partition_indexes=[0])],
            )
        ],
    )


StartBroker = Callable[..., Awaitable[BrokerServer]]
Ask = Callable[..., Awaitable[Any]]
Group = OffsetFetchRequest.Group

VERSIONS = range(OffsetFetchRequest.min_version, OffsetFetchRequest.max_version + 1)
NOTHING = (-1, -1, "", 0)


@pytest.fixture
async def broker(start_broker: StartBroker) -> BrokerServer:
    broker = await start_broker()
    topics.create_missing(broker, CONSUMER_OFFSETS)
    topics.create(broker, "orders", partitions=3)
    await commit(broker, "g", 1)
    return broker


async def commit(
    broker: BrokerServer, group_id: str, *partitions: int, topic: str = "orders", topic_id: bytes = bytes(16)
) -> None:
    changes = broker.groups.store.changes(group_id)
    group = broker.groups.group_for_commit(Committer("", None, -1, 9), changes)
    for partition in partitions:
        committed = CommittedOffset(40 + partition, 7, "note", broker.clock.now_ms(), topic_id=topic_id)
        changes.set(TopicPartition(topic, partition), committed)
    await broker.groups.commit(group, changes)


def fetch(
    version: int, broker: BrokerServer, *partitions: int, group_id: str = "g", **fields: Any
) -> OffsetFetchRequest:
    """Partitions of orders; without any, all there are of every topic."""
    if version >= 8:
        topic_id = broker.controller.topics["orders"].id
        wanted = [Group.Topic(name="orders", topic_id=topic_id, partition_indexes=list(partitions))]
        return OffsetFetchRequest(groups=[Group(group_id=group_id, topics=wanted if partitions else None)], **fields)
    asked = [OffsetFetchRequest.Topic(name="orders", partition_indexes=list(partitions))]
    return OffsetFetchRequest(group_id=group_id, topics=asked if partitions else None, **fields)


def answers(answer: Any) -> dict[int, tuple[Any, ...]]:
    group = answer.groups[0] if answer.groups else answer
    return {
        partition.partition_index: (
            partition.committed_offset,
            partition.committed_leader_epoch,
            partition.metadata,
            partition.error_code,
        )
        for topic in group.topics
        for partition in topic.partitions
    }


@pytest.mark.parametrize("version", VERSIONS)
async def test_what_was_committed_comes_back(broker: BrokerServer, ask: Ask, version: int) -> None:
    answer = await ask(broker, fetch(version, broker, 1, 2), version)
    assert answers(answer) == {1: (41, 7 if version >= 5 else -1, "note", 0), 2: NOTHING}


@pytest.mark.parametrize("version", range(2, 11))
async def test_null_asks_for_everything(broker: BrokerServer, ask: Ask, version: int) -> None:
    await commit(broker, "g", 2)
    assert set(answers(await ask(broker, fetch(version, broker), version))) == {1, 2}


@pytest.mark.parametrize("version", VERSIONS)
async def test_a_group_that_is_not_known_has_committed_nothing(broker: BrokerServer, ask: Ask, version: int) -> None:
    answer = await ask(broker, fetch(version, broker, 1, group_id="absent"), version)
    assert answers(answer) == {1: NOTHING}
    assert "absent" not in broker.groups.groups


async def test_partitions_and_topics_that_there_are_not_have_no_offset_either(broker: BrokerServer, ask: Ask) -> None:
    assert answers(await ask(broker, fetch(9, broker, 99, -1), 9)) == {99: NOTHING, -1: NOTHING}
    asked = [OffsetFetchRequest.Topic(name="absent", partition_indexes=[0])]
    assert answers(await ask(broker, OffsetFetchRequest(group_id="g", topics=asked), 5)) == {0: NOTHING}


async def test_many_groups_are_answered_one_by_one(broker: BrokerServer, ask: Ask) -> None:
    await commit(broker, "h", 2)
    wanted = [Group.Topic(name="orders", partition_indexes=[1, 2])]
    names = ["g", "h", "absent", "g"]
    request = OffsetFetchRequest(groups=[Group(group_id=name, topics=wanted) for name in names])
    answer = await ask(broker, request, 8)
    assert [group.group_id for group in answer.groups] == names
    offsets = [[p.committed_offset for p in group.topics[0].partitions] for group in answer.groups]
    assert offsets == [[41, -1], [-1, 42], [-1, -1], [41, -1]]
    assert (await ask(broker, OffsetFetchRequest(groups=[]), 8)).groups == []


async def test_a_group_named_many_times_is_answered_once(
    broker: BrokerServer, ask: Ask, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(offset_fetch, "MOST_UNNAMED", 10)
    await commit(broker, "g", 0, 1, 2)
    request = OffsetFetchRequest(groups=[Group(group_id="g", topics=None)] * 5)
    answer = await ask(broker, request, 8)
    assert [group.error_code for group in answer.groups] == [0, 0, 0, *[InvalidRequest.code] * 2]
    assert [len(group.topics) for group in answer.groups] == [1, 1, 1, 0, 0]


async def test_a_topic_id_that_there_is_not_is_the_error_of_its_partitions(broker: BrokerServer, ask: Ask) -> None:
    wanted = [Group.Topic(topic_id=bytes(range(16)), partition_indexes=[0, 1])]
    answer = await ask(broker, OffsetFetchRequest(groups=[Group(group_id="g", topics=wanted)]), 10)
    assert answers(answer) == {0: (-1, -1, "", UnknownTopicId.code), 1: (-1, -1, "", UnknownTopicId.code)}
    assert answer.groups[0].error_code == 0


async def test_an_offset_of_another_topic_of_that_name_is_none(broker: BrokerServer, ask: Ask) -> None:
    await commit(broker, "g", 0, topic_id=bytes(range(16)))
    assert answers(await ask(broker, fetch(10, broker, 0, 1), 10)) == {0: NOTHING, 1: (41, 7, "note", 0)}
    assert answers(await ask(broker, fetch(9, broker, 0), 9)) == {0: (40, 7, "note", 0)}


async def test_everything_by_id_leaves_out_topics_that_are_gone(broker: BrokerServer, ask: Ask) -> None:
    await commit(broker, "g", 0, topic="gone")
    answer = await ask(broker, fetch(10, broker), 10)
    assert [topic.topic_id for topic in answer.groups[0].topics] == [broker.controller.topics["orders"].id]
    answer = await ask(broker, fetch(9, broker), 9)
    assert {topic.name for topic in answer.groups[0].topics} == {"orders", "gone"}


@pytest.mark.parametrize("version", [7, 8, 9, 10])
async def test_an_offset_that_a_transaction_may_replace_is_unstable_for_every_client(
    broker: BrokerServer, ask: Ask, version: int
) -> None:
    await commit(broker, "g", 2)
    offsets = broker.groups.groups["g"].offsets
    offsets.add_pending(5, TopicPartition("orders", 1), CommittedOffset(50, -1, "", 1))
    stable = await ask(broker, fetch(version, broker, 1, 2, require_stable=True), version)
    assert answers(stable) == {1: (-1, -1, "", UnstableOffsetCommit.code), 2: (42, 7, "note", 0)}
    assert answers(await ask(broker, fetch(version, broker, 1), version)) == {1: (41, 7, "note", 0)}
    everything = await ask(broker, fetch(version, broker, require_stable=True), version)
    assert answers(everything) == answers(stable)


async def test_clients_from_before_coordinators_need_not_look_for_one(start_broker: StartBroker, ask: Ask) -> None:
    broker = await start_broker()
    topics.create(broker, "orders")
    assert answers(await ask(broker, fetch(0, broker, 0), 0)) == {0: NOTHING}


@pytest.mark.parametrize("version", range(1, 11))
async def test_without_the_topic_of_offsets_there_is_no_coordinator(
    start_broker: StartBroker, ask: Ask, version: int
) -> None:
    broker = await start_broker()
    topics.create(broker, "orders")
    answer = await ask(broker, fetch(version, broker, 0), version)
    code = NotCoordinator.code
    if version < 2:
        assert answers(answer) == {0: (-1, -1, "", code)}
    else:
        group = answer if version < 8 else answer.groups[0]
        assert (group.error_code, group.topics) == (code, [])
