"""ListOffsets: timestamps, and the places in the log that negative ones name."""

from __future__ import annotations

import pytest

from kmini.broker.broker import BrokerServer
from kmini.broker.controller import topics
from kmini.protocol.errors import (
    NONE,
    FencedLeaderEpoch,
    InvalidRequest,
    UnknownLeaderEpoch,
    UnknownTopicOrPartition,
    UnsupportedVersion,
)
from kmini.protocol.messages.list_offsets import (
    EARLIEST,
    EARLIEST_LOCAL,
    EARLIEST_PENDING_UPLOAD,
    LATEST,
    LATEST_TIERED,
    MAX_TIMESTAMP,
    ListOffsetsRequest,
)
from kmini.protocol.records.batch import build_batch
from kmini.protocol.records.record import Record
from kmini.protocol.topics import TopicPartition
from kmini.storage.deletion import without_checkpoint
from kmini.storage.validation import validate

EXAMPLE = ListOffsetsRequest(
    replica_id=-1,
    topics=[
        ListOffsetsRequest.Topic(
            name="orders", partitions=[ListOffsetsRequest.Topic.Partition(partition_index=0, timestamp=-1)]
        )
    ],
)

Asked = ListOffsetsRequest.Topic.Partition
UNKNOWN = (-1, -1)


def request(*timestamps: int, topic: str = "t", partition: int = 0, **options: int) -> ListOffsetsRequest:
    asked = [Asked(partition_index=partition, timestamp=timestamp, **options) for timestamp in timestamps]
    return ListOffsetsRequest(topics=[ListOffsetsRequest.Topic(name=topic, partitions=asked)])


def of(response):
    return response.topics[0].partitions[0]


@pytest.fixture
async def filled(broker: BrokerServer) -> BrokerServer:
    """Five records in two batches, with timestamps 100, 300, 200 and 250, 300."""
    topics.create(broker, "t")
    led = broker.replica_manager.leader_of(TopicPartition("t", 0))
    for timestamps in ((100, 300, 200), (250, 300)):
        batch = build_batch([Record(0, timestamp, None, b"v") for timestamp in timestamps])
        led.append(validate(memoryview(batch), led.log.config, 1_000), 1_000)
    return broker


@pytest.mark.parametrize("version", range(1, 12))
async def test_every_version_knows_both_ends(filled: BrokerServer, ask, version: int) -> None:
    latest, earliest = (
        of(await ask(filled, request(LATEST), version)),
        of(await ask(filled, request(EARLIEST), version)),
    )
    assert (latest.error_code, latest.timestamp, latest.offset) == (NONE, -1, 5)
    assert (earliest.error_code, earliest.timestamp, earliest.offset) == (NONE, -1, 0)
    assert {latest.leader_epoch, earliest.leader_epoch} == ({0} if version >= 4 else {-1})


@pytest.mark.parametrize(
    ("timestamp", "found"),
    [(0, (100, 0)), (100, (100, 0)), (101, (300, 1)), (300, (300, 1)), (301, UNKNOWN)],
)
async def test_a_timestamp_finds_the_first_record_at_or_after_it(
    filled: BrokerServer, ask, timestamp: int, found
) -> None:
    answer = of(await ask(filled, request(timestamp)))
    assert (answer.error_code, (answer.timestamp, answer.offset)) == (NONE, found)


async def test_what_was_deleted_is_not_found(filled: BrokerServer, ask) -> None:
    filled.replica_manager.leader_of(TopicPartition("t", 0)).delete_records(2, without_checkpoint)
    answer = of(await ask(filled, request(101)))
    assert (answer.timestamp, answer.offset) == (200, 2)
    assert of(await ask(filled, request(EARLIEST))).offset == 2


async def test_the_largest_timestamp_is_where_it_was_first_reached(filled: BrokerServer, ask) -> None:
    answer = of(await ask(filled, request(MAX_TIMESTAMP)))
    assert (answer.timestamp, answer.offset) == (300, 1)


async def test_an_empty_log_has_no_largest_timestamp(broker: BrokerServer, ask) -> None:
    topics.create(broker, "t")
    answer = of(await ask(broker, request(MAX_TIMESTAMP)))
    assert (answer.error_code, answer.timestamp, answer.offset) == (NONE, *UNKNOWN)


async def test_without_tiers_the_local_log_is_the_log_and_the_remote_one_is_nowhere(filled: BrokerServer, ask) -> None:
    assert of(await ask(filled, request(EARLIEST_LOCAL))).offset == 0
    for timestamp in (LATEST_TIERED, EARLIEST_PENDING_UPLOAD):
        answer = of(await ask(filled, request(timestamp)))
        assert (answer.error_code, answer.offset, answer.leader_epoch) == (NONE, -1, -1)


@pytest.mark.parametrize(
    ("timestamp", "version"),
    [(MAX_TIMESTAMP, 6), (EARLIEST_LOCAL, 7), (LATEST_TIERED, 8), (EARLIEST_PENDING_UPLOAD, 10), (-7, 11)],
)
async def test_a_name_from_a_later_version_is_unsupported(
    filled: BrokerServer, ask, timestamp: int, version: int
) -> None:
    assert of(await ask(filled, request(timestamp), version)).error_code == UnsupportedVersion.code


async def test_a_partition_that_is_named_twice_is_refused_once(filled: BrokerServer, ask) -> None:
    response = await ask(filled, request(LATEST, EARLIEST))
    assert [p.error_code for p in response.topics[0].partitions] == [InvalidRequest.code]


async def test_unknown_partitions_and_foreign_epochs_get_their_codes(filled: BrokerServer, ask) -> None:
    assert of(await ask(filled, request(LATEST, topic="nope"))).error_code == UnknownTopicOrPartition.code
    assert of(await ask(filled, request(LATEST, partition=1))).error_code == UnknownTopicOrPartition.code
    assert of(await ask(filled, request(LATEST, current_leader_epoch=1))).error_code == UnknownLeaderEpoch.code
    filled.replica_manager.partitions[TopicPartition("t", 0)].leader_epoch = 2
    assert of(await ask(filled, request(LATEST, current_leader_epoch=1))).error_code == FencedLeaderEpoch.code
