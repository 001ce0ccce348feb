"""KIP-107 on one broker: a test for each sentence of the proposal that asks something of it.

What the proposal says of followers is tested with several brokers; what it says of authorization, with an authorizer.
"""

import asyncio
import json
import struct
from pathlib import Path

import pytest

from kmini import Broker
from kmini.client import Client
from kmini.protocol.errors import (
    NONE,
    OffsetOutOfRange,
    PolicyViolation,
    RequestTimedOut,
    UnknownTopicOrPartition,
)
from kmini.protocol.messages.create_topics import CreateTopicsRequest
from kmini.protocol.messages.delete_records import DeleteRecordsRequest, DeleteRecordsResponse
from kmini.protocol.messages.fetch import FetchRequest
from kmini.protocol.messages.list_offsets import EARLIEST, ListOffsetsRequest
from kmini.protocol.messages.produce import ProduceRequest
from kmini.protocol.records.batch import build_batch
from kmini.protocol.records.batch_records import decode_all
from kmini.protocol.records.record import Record
from kmini.protocol.topics import TopicPartition
from kmini.storage.filesystem import OsFileSystem
from kmini.storage.offset_checkpoint_file import read_offsets
from kmini.testing import Wire

ONE_RECORD_SEGMENTS = {"segment.bytes": 100}
"""A record of these tests takes 70 bytes, so that a segment holds one."""


def fill(broker: Broker, topic: str, count: int, configs: dict[str, str | int] | None = None) -> None:
    broker.create_topic(topic, config=configs)
    for number in range(count):
        broker.produce(topic, b"%d" % number, timestamp_ms=1_000_000 + number)


def delete(
    wire: Wire, offsets: dict[tuple[str, int], int], timeout_ms: int = 5_000
) -> dict[tuple[str, int], tuple[int, int]]:
    """Low watermark and error code of each partition."""
    Topic = DeleteRecordsRequest.Topic
    topics = [
        Topic(name=name, partitions=[Topic.Partition(partition_index=partition, offset=offset)])
        for (name, partition), offset in offsets.items()
    ]
    response = wire.ask(DeleteRecordsRequest(topics=topics, timeout_ms=timeout_ms))
    return {
        (topic.name, partition.partition_index): (partition.low_watermark, partition.error_code)
        for topic in response.topics
        for partition in topic.partitions
    }


def fetch(wire: Wire, topic: str, offset: int, *, version: int = 12, log_start_offset: int = -1):
    """The answer for one partition."""
    Topic = FetchRequest.Topic
    asked = Topic.Partition(
        partition=0, fetch_offset=offset, partition_max_bytes=1 << 20, log_start_offset=log_start_offset
    )
    request = FetchRequest(max_wait_ms=0, min_bytes=0, topics=[Topic(topic=topic, partitions=[asked])])
    return wire.ask(request, version).responses[0].partitions[0]


def earliest(wire: Wire, topic: str) -> int:
    Topic = ListOffsetsRequest.Topic
    asked = Topic.Partition(partition_index=0, timestamp=EARLIEST)
    response = wire.ask(ListOffsetsRequest(topics=[Topic(name=topic, partitions=[asked])]))
    return response.topics[0].partitions[0].offset


def log_dir(broker: Broker) -> Path:
    (directory,) = Path(broker.data_dir).glob("broker-*")
    return directory


def segments(broker: Broker, topic: str) -> list[int]:
    return sorted(int(path.stem) for path in (log_dir(broker) / f"{topic}-0").glob("*.log"))


# Public interfaces, 2): protocol


def test_the_request_is_topics_with_partitions_and_offsets_then_the_timeout() -> None:
    Topic = DeleteRecordsRequest.Topic
    request = DeleteRecordsRequest(
        topics=[Topic(name="t", partitions=[Topic.Partition(partition_index=3, offset=40)])], timeout_ms=500
    )
    expected = struct.pack(">ih1siiqi", 1, 1, b"t", 1, 3, 40, 500)
    assert b"".join(request.encode(0)) == expected


def test_the_response_is_low_watermark_and_error_code_by_partition() -> None:
    encoded = struct.pack(">iih1siiqh", 0, 1, 1, b"t", 1, 3, 40, 7)
    response = DeleteRecordsResponse.decode(encoded, 0)
    (partition,) = response.topics[0].partitions
    assert (partition.partition_index, partition.low_watermark, partition.error_code) == (3, 40, RequestTimedOut.code)


def test_fetch_carries_the_log_start_offset_both_ways_from_version_5(broker: Broker, wire: Wire) -> None:
    fill(broker, "orders", 10)
    delete(wire, {("orders", 0): 4})
    assert fetch(wire, "orders", 4, version=5).log_start_offset == 4
    assert fetch(wire, "orders", 4, version=4).log_start_offset == -1


def test_an_offset_of_minus_one_means_the_high_watermark(broker: Broker, wire: Wire) -> None:
    fill(broker, "orders", 10)
    assert delete(wire, {("orders", 0): -1}) == {("orders", 0): (10, NONE)}
    assert broker.offsets("orders") == (10, 10, 10, 10)


# Public interfaces, 1): the call


async def test_delete_records_before_gives_a_result_for_every_partition(broker: Broker) -> None:
    await asyncio.to_thread(fill, broker, "orders", 10)
    async with Client(broker.bootstrap_servers) as client:
        results = await client.delete_records_before({("orders", 0): 4, ("orders", 7): 1}, timeout_ms=5_000)
    assert results[("orders", 0)] == (4, None)
    assert results[("orders", 7)].low_watermark == -1
    assert isinstance(results[("orders", 7)].error, UnknownTopicOrPartition)


# Public interfaces, 3): the checkpoint file


def test_the_checkpoint_is_log_begin_offset_checkpoint_in_the_format_of_the_others(broker: Broker, wire: Wire) -> None:
    fill(broker, "orders", 10)
    delete(wire, {("orders", 0): 4})
    path = log_dir(broker) / "log-begin-offset-checkpoint"
    assert path.read_text() == "0\n1\norders 0 4\n"
    assert (log_dir(broker) / "log-start-offset-checkpoint").read_bytes() == path.read_bytes()


# Public interfaces, 4): the script


def test_the_script_takes_a_file_of_offsets(broker: Broker, tmp_path: Path, run_command) -> None:
    fill(broker, "orders", 10)
    offsets = tmp_path / "offsets.json"
    offsets.write_text(json.dumps({"partitions": [{"topic": "orders", "partition": 0, "offset": 4}], "version": 1}))
    result = run_command(
        "kafka-delete-data", "--bootstrap-server", broker.bootstrap_servers, "--delete-offset-json-file", str(offsets)
    )
    assert result.returncode == 0, result.stderr
    assert broker.offsets("orders").log_start_offset == 4


# Proposed changes: soft delete


def test_data_in_the_middle_of_a_segment_stays_on_disk_and_is_not_exposed(broker: Broker, wire: Wire) -> None:
    fill(broker, "orders", 10)
    size = (log_dir(broker) / "orders-0" / f"{0:020d}.log").stat().st_size
    delete(wire, {("orders", 0): 4})
    assert (log_dir(broker) / "orders-0" / f"{0:020d}.log").stat().st_size == size
    assert fetch(wire, "orders", 3).error_code == OffsetOutOfRange.code


def test_deleted_files_are_unlinked_after_the_delay(broker: Broker, wire: Wire) -> None:
    fill(broker, "orders", 10, {**ONE_RECORD_SEGMENTS, "retention.ms": -1})
    delete(wire, {("orders", 0): 4})
    folder = log_dir(broker) / "orders-0"
    assert len(list(folder.glob("*.log.deleted"))) == 4
    broker.advance_clock(62_000)
    assert list(folder.glob("*.deleted")) == []


# Step 4: outcomes


def test_the_result_is_the_low_watermark_when_every_live_replica_has_followed(broker: Broker, wire: Wire) -> None:
    fill(broker, "orders", 10)
    assert delete(wire, {("orders", 0): 7}, timeout_ms=0) == {("orders", 0): (7, NONE)}


@pytest.mark.parametrize("offset", [11, 1 << 62, -2])
def test_an_offset_beyond_the_high_watermark_is_out_of_range(broker: Broker, wire: Wire, offset: int) -> None:
    fill(broker, "orders", 10)
    assert delete(wire, {("orders", 0): offset}) == {("orders", 0): (-1, OffsetOutOfRange.code)}
    assert broker.offsets("orders").log_start_offset == 0


def test_each_partition_of_a_request_has_its_own_outcome(broker: Broker, wire: Wire) -> None:
    fill(broker, "orders", 10)
    fill(broker, "compacted", 0, {"cleanup.policy": "compact"})
    outcomes = delete(wire, {("orders", 0): 4, ("compacted", 0): 0, ("missing", 0): 0, ("orders", 1): 0})
    assert outcomes == {
        ("orders", 0): (4, NONE),
        ("compacted", 0): (-1, PolicyViolation.code),
        ("missing", 0): (-1, UnknownTopicOrPartition.code),
        ("orders", 1): (-1, UnknownTopicOrPartition.code),
    }


def test_a_topic_that_is_compacted_and_deleted_allows_it(broker: Broker, wire: Wire) -> None:
    broker.create_topic("both", config={"cleanup.policy": "compact,delete"})
    broker.produce("both", b"v", key=b"k")
    assert delete(wire, {("both", 0): 1}) == {("both", 0): (1, NONE)}


# Routine operation in the broker


def test_a_batch_that_straddles_the_log_start_offset_is_sent_whole(broker: Broker, wire: Wire) -> None:
    """Kafka's wording of "only message with offset >= log_start_offset": clients skip the records below."""
    broker.create_topic("orders")
    with_client(broker, "orders", 10)
    delete(wire, {("orders", 0): 4})
    assert [record.offset for record in decode_all(fetch(wire, "orders", 4).records)] == list(range(10))
    assert [record.offset for record in broker.records("orders")] == list(range(4, 10))


def with_client(broker: Broker, topic: str, count: int) -> None:
    """Produce `count` records as one batch."""

    async def produce() -> None:
        async with Client(broker.bootstrap_servers) as client:
            await client.produce(topic, 0, [Record(0, 1_000_000, None, b"%d" % n, ()) for n in range(count)])

    asyncio.run(produce())


def test_retention_raises_the_log_start_offset_to_the_smallest_offset_left(broker: Broker, wire: Wire) -> None:
    fill(broker, "orders", 10, {**ONE_RECORD_SEGMENTS, "retention.bytes": 210, "retention.ms": -1})
    broker.apply_retention()
    start = broker.offsets("orders").log_start_offset
    assert start == segments(broker, "orders")[0] > 0
    assert earliest(wire, "orders") == start


def test_retention_does_not_lower_it(broker: Broker, wire: Wire) -> None:
    fill(broker, "orders", 10, {**ONE_RECORD_SEGMENTS, "retention.ms": -1})
    delete(wire, {("orders", 0): 6})
    broker.apply_retention()
    assert broker.offsets("orders").log_start_offset == 6


def test_it_is_checkpointed_periodically(broker: Broker) -> None:
    fill(broker, "orders", 10, {**ONE_RECORD_SEGMENTS, "retention.bytes": 210, "retention.ms": -1})
    broker.apply_retention()
    broker.advance_clock(120_000)
    checkpointed = read_offsets(OsFileSystem(), str(log_dir(broker) / "log-begin-offset-checkpoint"))
    assert checkpointed[TopicPartition("orders", 0)] == broker.offsets("orders").log_start_offset > 0


def test_it_survives_a_restart_and_is_checkpointed_at_shutdown(broker: Broker) -> None:
    fill(broker, "orders", 10)
    broker.delete_records("orders", 4)
    broker.stop()
    assert "orders 0 4" in (log_dir(broker) / "log-begin-offset-checkpoint").read_text()
    broker.start()
    assert broker.offsets("orders").log_start_offset == 4


def test_loading_takes_the_begin_checkpoint_where_the_released_name_is_missing(broker: Broker) -> None:
    fill(broker, "orders", 10)
    broker.delete_records("orders", 4)
    broker.stop()
    (log_dir(broker) / "log-start-offset-checkpoint").unlink()
    broker.start()
    assert broker.offsets("orders").log_start_offset == 4


def test_what_was_answered_survives_a_kill(start_server) -> None:
    """Kafka writes the checkpoint now and then, and may bring records back; here it is there before the answer."""
    server = start_server()
    with Wire(server.bootstrap_servers) as wire:
        wire.ask(CreateTopicsRequest(topics=[CreateTopicsRequest.Topic(name="orders", num_partitions=1)]), 4)
        produce(wire, "orders", 10)
        assert delete(wire, {("orders", 0): 4}) == {("orders", 0): (4, NONE)}
    server.kill()
    server.start()
    with Wire(server.bootstrap_servers) as wire:
        assert earliest(wire, "orders") == 4
        assert fetch(wire, "orders", 3).error_code == OffsetOutOfRange.code
        assert [record.value for record in decode_all(fetch(wire, "orders", 4).records)][-1] == b"9"


def produce(wire: Wire, topic: str, count: int) -> None:
    """One batch a record."""
    for number in range(count):
        batch = bytes(build_batch([Record(0, 1_000_000, None, b"%d" % number)]))
        data = [ProduceRequest.Topic.Partition(index=0, records=batch)]
        topics = [ProduceRequest.Topic(name=topic, partition_data=data)]
        response = wire.ask(ProduceRequest(acks=1, timeout_ms=1_000, topic_data=topics), 9)
        assert response.responses[0].partition_responses[0].error_code == NONE


# Step 4, the wait itself


def test_the_wait_ends_with_the_topic(broker: Broker, wire: Wire, lagging_replica, until_waiting) -> None:
    fill(broker, "orders", 10)
    lagging_replica("orders", 2)
    topics = [
        DeleteRecordsRequest.Topic(
            name="orders", partitions=[DeleteRecordsRequest.Topic.Partition(partition_index=0, offset=4)]
        )
    ]
    correlation_id = wire.send(DeleteRecordsRequest(topics=topics, timeout_ms=60_000), 2)
    until_waiting(1)
    broker.delete_topic("orders")
    response = wire.receive(DeleteRecordsResponse, 2, correlation_id)
    assert response.topics[0].partitions[0].error_code == UnknownTopicOrPartition.code
