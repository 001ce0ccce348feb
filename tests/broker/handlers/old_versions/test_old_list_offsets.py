"""ListOffsets version 0: where segments begin."""

from __future__ import annotations

import pytest

from kmini.broker.broker import BrokerServer
from kmini.broker.controller import topics
from kmini.protocol.errors import NONE, InvalidRequest, UnknownTopicOrPartition, UnsupportedVersion
from kmini.protocol.messages.list_offsets import EARLIEST, LATEST, MAX_TIMESTAMP, ListOffsetsRequest
from kmini.protocol.records.batch import build_batch
from kmini.protocol.records.record import Record
from kmini.protocol.topics import TopicPartition
from kmini.storage.segment import Segment
from kmini.storage.validation import ValidatedRecords

Asked = ListOffsetsRequest.Topic.Partition


def request(*asked: tuple[int, int], topic: str = "t", replica_id: int = -1) -> ListOffsetsRequest:
    """A timestamp, and how many offsets at most, each."""
    partitions = [Asked(partition_index=0, timestamp=time, max_num_offsets=count) for time, count in asked]
    return ListOffsetsRequest(
        replica_id=replica_id, topics=[ListOffsetsRequest.Topic(name=topic, partitions=partitions)]
    )


@pytest.fixture
async def filled(broker: BrokerServer, monkeypatch: pytest.MonkeyPatch) -> BrokerServer:
    """Five records, each in a segment that was written to at 100, 200, 300, 400 and 500."""
    topics.create(broker, "t", configs={"segment.bytes": "100"})
    led = broker.replica_manager.leader_of(TopicPartition("t", 0))
    for _ in range(5):
        led.append(ValidatedRecords.of(build_batch([Record(0, 7, None, b"value")])), 1_000)
    monkeypatch.setattr(Segment, "modified_ms", property(lambda segment: 100 + 100 * segment.base_offset))
    return broker


async def told(broker: BrokerServer, ask, *asked: tuple[int, int], **options: int) -> list[list[int]]:
    answer = await ask(broker, request(*asked, **options), 0)
    assert {partition.error_code for partition in answer.topics[0].partitions} == {NONE}
    return [list(partition.old_style_offsets) for partition in answer.topics[0].partitions]


async def test_both_ends(filled: BrokerServer, ask) -> None:
    assert await told(filled, ask, (LATEST, 1), (EARLIEST, 1), (LATEST, 3), (EARLIEST, 3)) == [[5], [0], [5, 4, 3], [0]]
    assert await told(filled, ask, (LATEST, 100)) == [[5, 4, 3, 2, 1, 0]]


async def test_by_the_time_that_a_segment_was_written_to(filled: BrokerServer, ask) -> None:
    assert await told(filled, ask, (500, 9), (499, 9), (300, 2), (99, 9)) == [[4, 3, 2, 1, 0], [3, 2, 1, 0], [2, 1], []]
    assert await told(filled, ask, (1 << 62, 1)) == [[5]]


async def test_none_are_asked_for(filled: BrokerServer, ask) -> None:
    assert await told(filled, ask, (LATEST, 0), (EARLIEST, 0)) == [[], []]


async def test_the_log_start_offset_takes_the_place_of_what_is_below(filled: BrokerServer, ask) -> None:
    led = filled.replica_manager.leader_of(TopicPartition("t", 0))
    led.log.raise_log_start_offset(2)
    assert await told(filled, ask, (EARLIEST, 1), (LATEST, 9)) == [[2], [5, 4, 3, 2, 2, 2]]


async def test_a_consumer_sees_the_high_watermark_in_place_of_what_is_beyond(filled: BrokerServer, ask) -> None:
    log = filled.replica_manager.leader_of(TopicPartition("t", 0)).log
    log.high_watermark = 3
    assert await told(filled, ask, (LATEST, 9), (LATEST, 1), (200, 9)) == [[3, 3, 2, 1, 0], [3], [1, 0]]
    assert await told(filled, ask, (LATEST, 2), replica_id=-2) == [[5, 4]]


async def test_an_empty_log_has_one_place(broker: BrokerServer, ask) -> None:
    topics.create(broker, "t")
    assert await told(broker, ask, (LATEST, 9), (EARLIEST, 9)) == [[0], [0]]


@pytest.mark.parametrize(
    ("asked", "topic", "error"),
    [
        ((MAX_TIMESTAMP, 1), "no", UnsupportedVersion),
        ((-100, 1), "t", UnsupportedVersion),
        ((LATEST, -1), "no", UnknownTopicOrPartition),
        ((LATEST, -1), "t", InvalidRequest),
    ],
)
async def test_errors_come_in_kafkas_order(
    filled: BrokerServer, ask, asked: tuple[int, int], topic: str, error: type
) -> None:
    answer = (await ask(filled, request(asked, topic=topic), 0)).topics[0].partitions[0]
    assert (answer.error_code, list(answer.old_style_offsets)) == (error.code, [])
