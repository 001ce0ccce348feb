"""KIP-87 was never adopted; what its compatibility section promises old clients of tombstones holds all the same."""

from collections.abc import Callable

import pytest

from kmini import Broker
from kmini.protocol.errors import NONE
from kmini.protocol.messages.fetch import FetchRequest
from kmini.protocol.messages.produce import ProduceRequest
from kmini.protocol.records.batch import build_batch
from kmini.protocol.records.batch_records import decode_all
from kmini.protocol.records.old_formats.messages import build_messages
from kmini.protocol.records.record import Record
from kmini.testing import Wire

TOMBSTONE = Record(0, 1_000_000, b"key", None)
Consume = Callable[[int], Record]


def produce(wire: Wire, records: bytes, version: int) -> None:
    data = [ProduceRequest.Partition(index=0, records=records)]
    topics = [ProduceRequest.Topic(name="t", partition_data=data)]
    (topic,) = wire.ask(ProduceRequest(acks=1, timeout_ms=1_000, topic_data=topics), version).responses
    assert topic.partition_responses[0].error_code == NONE


@pytest.fixture
def fetch(wire: Wire) -> Consume:
    """The only record of the topic, as a reader of that version gets it."""

    def ask(version: int) -> Record:
        asked = FetchRequest.Partition(partition=0, fetch_offset=0, partition_max_bytes=1 << 20)
        topics = [FetchRequest.Topic(topic="t", partitions=[asked])]
        response = wire.ask(FetchRequest(max_wait_ms=0, min_bytes=1, topics=topics), version)
        (record,) = decode_all(response.responses[0].partitions[0].records)
        return record

    return ask


@pytest.fixture(autouse=True)
def _compacted_topic(broker: Broker) -> None:
    broker.create_topic("t", config={"cleanup.policy": "compact"})


@pytest.mark.parametrize("version", [2, 3, 4, 12])
def test_a_new_producers_tombstone_is_a_null_value_to_every_consumer(wire: Wire, fetch: Consume, version: int) -> None:
    produce(wire, bytes(build_batch([TOMBSTONE])), 9)
    assert fetch(version) == TOMBSTONE


@pytest.mark.parametrize("version", [0, 1])
def test_so_it_is_to_clients_without_timestamps(wire: Wire, fetch: Consume, version: int) -> None:
    produce(wire, bytes(build_batch([TOMBSTONE])), 9)
    assert fetch(version) == TOMBSTONE._replace(timestamp=-1)


@pytest.mark.parametrize("magic", [0, 1])
@pytest.mark.parametrize("read_in", [1, 2, 12])
def test_a_null_value_of_magic_0_or_1_is_a_tombstone(wire: Wire, fetch: Consume, magic: int, read_in: int) -> None:
    produce(wire, bytes(build_messages([TOMBSTONE], magic)), 1 + magic)
    record = fetch(read_in)
    assert (record.key, record.value) == (b"key", None)


@pytest.mark.parametrize("magic", [0, 1])
@pytest.mark.parametrize("read_in", [1, 2, 12])
def test_an_empty_value_is_none(wire: Wire, fetch: Consume, magic: int, read_in: int) -> None:
    produce(wire, bytes(build_messages([TOMBSTONE._replace(value=b"")], magic)), 1 + magic)
    assert fetch(read_in).value == b""
