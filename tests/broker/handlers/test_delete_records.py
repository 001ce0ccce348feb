"""DeleteRecords, asked of the handler; `tests/kips/test_kip_107_*.py` have the rules of KIP-107."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from kmini.broker.broker import BrokerServer
from kmini.broker.controller import topics
from kmini.protocol.errors import NONE, OffsetOutOfRange, UnknownTopicOrPartition
from kmini.protocol.messages.delete_records import HIGH_WATERMARK, DeleteRecordsRequest
from kmini.protocol.messages.produce import ProduceRequest
from kmini.protocol.records.batch import build_batch
from kmini.protocol.records.record import Record

EXAMPLE = DeleteRecordsRequest(
    timeout_ms=1000,
    topics=[
        DeleteRecordsRequest.Topic(
            name="orders", partitions=[DeleteRecordsRequest.Topic.Partition(partition_index=0, offset=0)]
        )
    ],
)

Ask = Callable[..., Awaitable[Any]]


@pytest.fixture
async def filled(broker: BrokerServer, ask: Ask) -> BrokerServer:
    """With a topic "t" of two partitions, and three records in partition 0."""
    topics.create(broker, "t", partitions=2)
    records = bytes(build_batch([Record(offset, 1, None, b"v", ()) for offset in range(3)]))
    Topic = ProduceRequest.Topic
    topic = Topic(name="t", partition_data=[Topic.Partition(index=0, records=records)])
    (answer,) = (await ask(broker, ProduceRequest(acks=-1, timeout_ms=1000, topic_data=[topic]), 9)).responses
    assert answer.partition_responses[0].error_code == NONE
    return broker


def deletion(offsets: dict[tuple[str, int], int]) -> DeleteRecordsRequest:
    Topic = DeleteRecordsRequest.Topic
    return DeleteRecordsRequest(
        timeout_ms=1000,
        topics=[
            Topic(name=name, partitions=[Topic.Partition(partition_index=number, offset=offset)])
            for (name, number), offset in offsets.items()
        ],
    )


@pytest.mark.parametrize("version", range(3))
async def test_every_version_answers_with_the_low_watermark(filled: BrokerServer, ask: Ask, version: int) -> None:
    (topic,) = (await ask(filled, deletion({("t", 0): 2}), version)).topics
    assert [(one.partition_index, one.low_watermark, one.error_code) for one in topic.partitions] == [(0, 2, NONE)]


async def test_partitions_of_a_topic_named_twice_are_answered_together(filled: BrokerServer, ask: Ask) -> None:
    (topic,) = (await ask(filled, deletion({("t", 0): HIGH_WATERMARK, ("t", 1): 0}))).topics
    assert [(one.partition_index, one.low_watermark) for one in topic.partitions] == [(0, 3), (1, 0)]


async def test_a_refused_partition_does_not_hinder_the_others(filled: BrokerServer, ask: Ask) -> None:
    answer = await ask(filled, deletion({("t", 0): 1, ("t", 1): 9, ("absent", 0): 0}))
    codes = {(topic.name, one.partition_index): one.error_code for topic in answer.topics for one in topic.partitions}
    assert codes == {
        ("t", 0): NONE,
        ("t", 1): OffsetOutOfRange.code,
        ("absent", 0): UnknownTopicOrPartition.code,
    }
