"""OffsetCommit: what is kept, what is refused and with which code, in every version."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from kmini.broker import scheduler as background
from kmini.broker.broker import BrokerServer
from kmini.broker.controller import topics
from kmini.broker.groups.committed_offsets import CommittedOffset
from kmini.broker.security.resources import ResourceType
from kmini.protocol.errors import (
    GroupIdNotFound,
    IllegalGeneration,
    InvalidGroupId,
    NotCoordinator,
    OffsetMetadataTooLarge,
    UnknownMemberId,
    UnknownServerError,
    UnknownTopicId,
    UnknownTopicOrPartition,
)
from kmini.protocol.messages.find_coordinator import FindCoordinatorRequest
from kmini.protocol.messages.offset_commit import OffsetCommitRequest
from kmini.protocol.messages.offset_delete import OffsetDeleteRequest
from kmini.protocol.messages.offset_fetch import OffsetFetchRequest
from kmini.protocol.topics import CONSUMER_OFFSETS, TopicPartition
from kmini.protocol.uuids import ZERO_UUID


def example(resource: ResourceType, topic_id: bytes) -> OffsetCommitRequest:
    """A request that needs the permission on this kind of resource; `topic_id` is the one of "orders"."""
    return OffsetCommitRequest(
        group_id="readers",
        topics=[
            OffsetCommitRequest.Topic(
                name="orders",
                topic_id=topic_id,
                partitions=[
                    OffsetCommitRequest.Topic.Partition(partition_index=0, committed_offset=1, committed_metadata=None)
                ],
            )
        ],
    )


StartBroker = Callable[..., Awaitable[BrokerServer]]
Ask = Callable[..., Awaitable[Any]]
Topic = OffsetCommitRequest.Topic

VERSIONS = range(OffsetCommitRequest.min_version, OffsetCommitRequest.max_version + 1)


@pytest.fixture
async def broker(start_broker: StartBroker) -> BrokerServer:
    broker = await start_broker()
    topics.create_missing(broker, CONSUMER_OFFSETS)
    topics.create(broker, "orders", partitions=3)
    return broker


def commit(*partitions: Any, topic: str = "orders", topic_id: bytes = ZERO_UUID, **fields: Any) -> OffsetCommitRequest:
    """Of group g; partitions as numbers, or as what makes one."""
    wanted = [
        Topic.Partition(
            **{
                "committed_offset": 42,
                "committed_metadata": "note",
                **(partition if isinstance(partition, dict) else {"partition_index": partition}),
            }
        )
        for partition in partitions
    ]
    fields = {"group_id": "g", **fields}
    return OffsetCommitRequest(topics=[Topic(name=topic, topic_id=topic_id, partitions=wanted)], **fields)


def codes(answer: Any) -> list[int]:
    return [partition.error_code for topic in answer.topics for partition in topic.partitions]


def kept(broker: BrokerServer, partition: int = 0, group_id: str = "g") -> CommittedOffset | None:
    group = broker.groups.groups.get(group_id)
    return None if group is None else group.offsets.get(TopicPartition("orders", partition))


@pytest.mark.parametrize("version", VERSIONS)
async def test_an_offset_is_kept(broker: BrokerServer, ask: Ask, version: int) -> None:
    topic_id = broker.controller.topics["orders"].id
    request = commit({"partition_index": 1, "committed_leader_epoch": 5}, topic_id=topic_id)
    answer = await ask(broker, request, version)
    assert codes(answer) == [0]
    assert answer.topics[0].name == ("orders" if version < 10 else "")
    assert answer.topics[0].topic_id == (topic_id if version >= 10 else ZERO_UUID)
    committed = kept(broker, 1)
    assert committed is not None
    assert (committed.offset, committed.metadata, committed.expire_timestamp_ms) == (42, "note", None)
    assert committed.leader_epoch == (5 if version >= 6 else -1)
    assert committed.topic_id == topic_id
    assert broker.clock.now_ms() - 60_000 < committed.commit_timestamp_ms <= broker.clock.now_ms()


async def test_version_1_gives_the_time_of_the_commit(broker: BrokerServer, ask: Ask) -> None:
    await ask(broker, commit({"partition_index": 0, "commit_timestamp": 777}), 1)
    committed = kept(broker)
    assert committed is not None
    assert committed.commit_timestamp_ms == 777


@pytest.mark.parametrize("version", [2, 3, 4])
async def test_versions_2_to_4_may_say_how_long_to_keep_it(broker: BrokerServer, ask: Ask, version: int) -> None:
    await ask(broker, commit(0, retention_time_ms=5_000), version)
    committed = kept(broker)
    assert committed is not None
    assert committed.expire_timestamp_ms == committed.commit_timestamp_ms + 5_000


async def test_a_retention_time_beyond_all_time_is_for_ever(broker: BrokerServer, ask: Ask) -> None:
    assert codes(await ask(broker, commit(0, retention_time_ms=2**63 - 1), 4)) == [0]
    committed = kept(broker)
    assert committed is not None
    assert committed.expire_timestamp_ms == 2**63 - 1


async def test_null_metadata_is_kept_as_the_empty_string(broker: BrokerServer, ask: Ask) -> None:
    await ask(broker, commit({"partition_index": 0, "committed_metadata": None}))
    await ask(broker, commit({"partition_index": 0, "committed_metadata": None}), 9)
    committed = kept(broker)
    assert committed is not None
    assert committed.metadata == ""


async def test_partitions_that_there_are_not_are_refused_by_themselves(broker: BrokerServer, ask: Ask) -> None:
    assert codes(await ask(broker, commit(0, 3, -1, 2), 9)) == [0, *[UnknownTopicOrPartition.code] * 2, 0]
    assert kept(broker, 2) is not None
    assert codes(await ask(broker, commit(0, topic="absent"), 9)) == [UnknownTopicOrPartition.code]


async def test_a_topic_id_that_there_is_not_is_refused(broker: BrokerServer, ask: Ask) -> None:
    for topic_id in (ZERO_UUID, bytes(range(16))):
        assert codes(await ask(broker, commit(0, topic_id=topic_id))) == [UnknownTopicId.code]
    assert broker.groups.groups == {}


async def test_metadata_is_measured_in_characters(broker: BrokerServer, ask: Ask) -> None:
    request = commit(
        {"partition_index": 0, "committed_metadata": "ä" * 4096},
        {"partition_index": 1, "committed_metadata": "m" * 4097},
        2,
    )
    assert codes(await ask(broker, request, 9)) == [0, OffsetMetadataTooLarge.code, 0]
    assert kept(broker, 1) is None
    committed = kept(broker, 0)
    assert committed is not None
    assert len(committed.metadata) == 4096


async def test_a_commit_from_outside_makes_the_group(broker: BrokerServer, ask: Ask) -> None:
    assert codes(await ask(broker, commit(0, member_id="anyone"), 9)) == [0]
    assert broker.groups.groups["g"].is_empty
    assert broker.groups.groups["g"].protocol_type is None


async def test_offsets_may_be_committed_without_a_group_id(broker: BrokerServer, ask: Ask) -> None:
    assert codes(await ask(broker, commit(0, group_id=""), 9)) == [0]
    assert kept(broker, group_id="") is not None


@pytest.mark.parametrize("version", range(1, 11))
async def test_a_generation_of_a_group_that_is_not_known(broker: BrokerServer, ask: Ask, version: int) -> None:
    topic_id = broker.controller.topics["orders"].id
    request = commit(0, topic_id=topic_id, generation_id_or_member_epoch=1, member_id="m")
    expected = GroupIdNotFound if version >= 9 else IllegalGeneration
    assert codes(await ask(broker, request, version)) == [expected.code]
    assert broker.groups.groups == {}


async def test_a_generation_of_an_empty_group_has_no_members(broker: BrokerServer, ask: Ask) -> None:
    await ask(broker, commit(0), 9)
    request = commit(1, generation_id_or_member_epoch=0, member_id="m")
    assert codes(await ask(broker, request, 9)) == [UnknownMemberId.code]
    assert kept(broker, 1) is None


async def test_errors_of_the_group_are_those_of_every_partition_that_there_is(broker: BrokerServer, ask: Ask) -> None:
    too_long = {"partition_index": 1, "committed_metadata": "m" * 5000}
    request = commit(0, too_long, 7, generation_id_or_member_epoch=1, member_id="m")
    unknown = UnknownTopicOrPartition.code
    assert codes(await ask(broker, request, 8)) == [IllegalGeneration.code, IllegalGeneration.code, unknown]


async def test_without_the_topic_of_offsets_there_is_no_coordinator(start_broker: StartBroker, ask: Ask) -> None:
    broker = await start_broker()
    topics.create(broker, "orders")
    assert codes(await ask(broker, commit(0), 9)) == [NotCoordinator.code]
    assert codes(await ask(broker, commit(5), 9)) == [UnknownTopicOrPartition.code]


async def test_clients_from_before_coordinators_need_not_look_for_one(start_broker: StartBroker, ask: Ask) -> None:
    broker = await start_broker()
    topics.create(broker, "orders")
    assert codes(await ask(broker, commit(0), 0)) == [0]
    assert kept(broker) is not None


async def test_nothing_to_commit_is_answered_with_nothing(broker: BrokerServer, ask: Ask) -> None:
    assert (await ask(broker, OffsetCommitRequest(group_id="g", topics=[]), 9)).topics == []
    assert broker.groups.groups == {}


async def test_the_last_one_counts_of_a_partition_that_is_there_twice(broker: BrokerServer, ask: Ask) -> None:
    twice = ({"partition_index": 0, "committed_offset": offset} for offset in (1, 2))
    assert codes(await ask(broker, commit(*twice), 9)) == [0, 0]
    committed = kept(broker)
    assert committed is not None
    assert committed.offset == 2


async def test_more_than_one_batch_can_take_is_all_or_nothing(broker: BrokerServer, ask: Ask) -> None:
    large = {"partition_index": 0, "committed_metadata": "m" * 4096}
    answer = await ask(broker, commit(*[large] * 300, 7), 9)
    assert codes(answer) == [UnknownServerError.code] * 300 + [UnknownTopicOrPartition.code]
    assert kept(broker) is None


async def test_many_partitions_let_others_have_turns(
    broker: BrokerServer, ask: Ask, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(background, "_TURN_S", 0.0)
    numbers = [*range(1_000)]
    absent = OffsetDeleteRequest.Topic(
        name="absent", partitions=[OffsetDeleteRequest.Partition(partition_index=number) for number in numbers]
    )
    asked = OffsetFetchRequest.Group.Topic(name="orders", partition_indexes=numbers)
    turns = 0

    async def count_turns() -> None:
        nonlocal turns
        while True:
            await asyncio.sleep(0)
            turns += 1

    others = asyncio.ensure_future(count_turns())
    try:
        for request, version in (
            (commit(*numbers), 9),
            (OffsetFetchRequest(groups=[OffsetFetchRequest.Group(group_id="g", topics=[asked])]), 9),
            (OffsetDeleteRequest(group_id="g", topics=[absent]), 0),
            (FindCoordinatorRequest(coordinator_keys=[f"group-{number}" for number in numbers]), 4),
        ):
            before = turns
            await ask(broker, request, version)
            assert turns - before > 500, request.name
    finally:
        others.cancel()


async def test_a_group_id_that_no_record_has_room_for_is_refused_and_not_a_mistake_of_ours(
    broker: BrokerServer, ask: Ask, caplog: pytest.LogCaptureFixture
) -> None:
    answer = await ask(broker, commit(0, 1, 7, group_id="g" * 0x8000), 9)
    assert codes(answer) == [InvalidGroupId.code, InvalidGroupId.code, UnknownTopicOrPartition.code]
    assert not caplog.records


async def test_a_restart_finds_every_offset(start_broker: StartBroker, broker: BrokerServer, ask: Ask) -> None:
    for number in range(30):
        await ask(broker, commit({"partition_index": number % 3, "committed_offset": number}, group_id=f"g{number}"), 9)
    before = {name: dict(group.offsets.by_topic) for name, group in broker.groups.groups.items()}
    await broker.stop()
    again = await start_broker()
    assert {name: dict(group.offsets.by_topic) for name, group in again.groups.groups.items()} == before
