"""OffsetForLeaderEpoch: where an epoch ended."""

from __future__ import annotations

import pytest

from kmini.broker.broker import BrokerServer
from kmini.broker.controller import topics
from kmini.protocol.errors import NONE, FencedLeaderEpoch, UnknownLeaderEpoch, UnknownTopicOrPartition
from kmini.protocol.messages.offset_for_leader_epoch import OffsetForLeaderEpochRequest
from kmini.protocol.records.batch import build_batch
from kmini.protocol.records.record import Record
from kmini.protocol.topics import TopicPartition
from kmini.storage.validation import validate

EXAMPLE = OffsetForLeaderEpochRequest(
    topics=[
        OffsetForLeaderEpochRequest.Topic(
            topic="orders", partitions=[OffsetForLeaderEpochRequest.Topic.Partition(partition=0, leader_epoch=0)]
        )
    ]
)

Topic = OffsetForLeaderEpochRequest.Topic
UNKNOWN = (-1, -1)


def request(epoch: int, *, topic: str = "t", partition: int = 0, current: int = -1) -> OffsetForLeaderEpochRequest:
    asked = Topic.Partition(partition=partition, current_leader_epoch=current, leader_epoch=epoch)
    return OffsetForLeaderEpochRequest(replica_id=-1, topics=[Topic(topic=topic, partitions=[asked])])


def of(response):
    (answer,) = response.topics[0].partitions
    return answer


@pytest.fixture
async def led(broker: BrokerServer) -> BrokerServer:
    """Three records in epoch 2, two in epoch 5, and nothing yet in epoch 7."""
    topics.create(broker, "t")
    partition = broker.replica_manager.leader_of(TopicPartition("t", 0))
    for epoch, count in ((2, 3), (5, 2), (7, 0)):
        partition.leader_epoch = epoch
        partition.become_leader()
        for _ in range(count):
            batch = build_batch([Record(0, 1_000, None, b"v")])
            partition.append(validate(memoryview(batch), partition.log.config, 1_000), 1_000)
    return broker


@pytest.mark.parametrize(
    ("asked", "answer"),
    [(-1, UNKNOWN), (2, (2, 3)), (3, (2, 3)), (4, (2, 3)), (5, (5, 5)), (6, (5, 5)), (7, (7, 5)), (8, UNKNOWN)],
)
async def test_an_epoch_ends_where_the_next_one_begins(
    led: BrokerServer, ask, asked: int, answer: tuple[int, int]
) -> None:
    found = of(await ask(led, request(asked)))
    assert (found.error_code, found.leader_epoch, found.end_offset) == (NONE, *answer)


@pytest.mark.parametrize("version", range(5))
async def test_every_version_tells_the_end_and_from_version_1_on_the_epoch(
    led: BrokerServer, ask, version: int
) -> None:
    found = of(await ask(led, request(3), version))
    assert (found.error_code, found.leader_epoch, found.end_offset) == (NONE, 2 if version else -1, 3)


@pytest.mark.parametrize(
    ("current", "code"),
    [(-1, NONE), (7, NONE), (6, FencedLeaderEpoch.code), (-2, FencedLeaderEpoch.code), (8, UnknownLeaderEpoch.code)],
)
async def test_a_client_with_another_idea_of_the_leader_is_refused(
    led: BrokerServer, ask, current: int, code: int
) -> None:
    found = of(await ask(led, request(5, current=current)))
    assert (found.error_code, found.end_offset) == (code, -1 if code else 5)


@pytest.mark.parametrize(("topic", "partition"), [("t", 1), ("t", -1), ("absent", 0), ("no name", 0)])
async def test_an_unknown_partition_has_no_epochs(led: BrokerServer, ask, topic: str, partition: int) -> None:
    found = of(await ask(led, request(5, topic=topic, partition=partition)))
    assert (found.error_code, found.leader_epoch, found.end_offset) == (UnknownTopicOrPartition.code, *UNKNOWN)
