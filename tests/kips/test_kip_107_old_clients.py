"""KIP-107 is "a pure addition": clients that are older than it meet deleted records as they meet expired ones."""

import pytest

from kmini import Broker
from kmini.protocol.errors import NONE, OffsetOutOfRange
from kmini.protocol.messages.fetch import FetchRequest
from kmini.protocol.messages.list_offsets import EARLIEST, LATEST, ListOffsetsRequest
from kmini.protocol.messages.produce import ProduceRequest
from kmini.protocol.records.batch_records import decode_all
from kmini.protocol.records.old_formats.messages import build_messages, build_wrapper
from kmini.protocol.records.record import Record
from kmini.testing import Wire

ONE_RECORD_SEGMENTS = {"segment.bytes": 100}


@pytest.fixture(autouse=True)
def _ten_records_without_the_first_four(broker: Broker) -> None:
    broker.create_topic("t", config=ONE_RECORD_SEGMENTS)
    for number in range(10):
        broker.produce("t", b"%d" % number)
    broker.delete_records("t", offset=4)


def fetch(wire: Wire, offset: int, version: int):
    asked = FetchRequest.Partition(partition=0, fetch_offset=offset, partition_max_bytes=1 << 20)
    topics = [FetchRequest.Topic(topic="t", partitions=[asked])]
    return wire.ask(FetchRequest(max_wait_ms=0, min_bytes=1, topics=topics), version).responses[0].partitions[0]


def offsets(wire: Wire, timestamp: int, count: int = 100) -> list[int]:
    asked = ListOffsetsRequest.Partition(partition_index=0, timestamp=timestamp, max_num_offsets=count)
    topics = [ListOffsetsRequest.Topic(name="t", partitions=[asked])]
    answer = wire.ask(ListOffsetsRequest(topics=topics), 0).topics[0].partitions[0]
    assert answer.error_code == NONE
    return list(answer.old_style_offsets)


@pytest.mark.parametrize("version", [0, 1, 2, 3, 4])
def test_deleted_records_are_out_of_range_in_every_version(wire: Wire, version: int) -> None:
    assert fetch(wire, 3, version).error_code == OffsetOutOfRange.code
    assert decode_all(fetch(wire, 4, version).records)[0].value == b"4"


def test_the_log_begins_where_it_was_deleted_to(wire: Wire) -> None:
    assert offsets(wire, EARLIEST) == [4]
    assert offsets(wire, LATEST, 1) == [10]
    assert offsets(wire, LATEST) == [10, 9, 8, 7, 6, 5, 4]


@pytest.mark.parametrize("version", [0, 1, 2])
def test_their_records_are_deleted_as_any(broker: Broker, wire: Wire, version: int) -> None:
    records = [Record(n, 1_000_000, b"k", b"%d" % n) for n in range(2)]
    sets = [bytes(build_messages(records, int(version == 2))), build_wrapper([records], int(version == 2), 1)]
    for records_sent in sets:
        data = [ProduceRequest.Partition(index=0, records=records_sent)]
        topics = [ProduceRequest.Topic(name="t", partition_data=data)]
        wire.ask(ProduceRequest(acks=1, timeout_ms=1_000, topic_data=topics), version)
    broker.delete_records("t", offset=13)
    read = [record for record in decode_all(fetch(wire, 13, 2).records) if record.offset >= 13]
    assert [(record.offset, record.value) for record in read] == [(13, b"1")]
