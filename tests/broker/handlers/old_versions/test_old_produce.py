"""Produce versions 0 to 2: message sets, stored as batches."""

from __future__ import annotations

import pytest

from kmini.broker.api.request_context import CloseConnection
from kmini.broker.broker import BrokerServer
from kmini.broker.controller import topics
from kmini.protocol.errors import (
    NONE,
    CorruptMessage,
    InvalidRecord,
    InvalidRequiredAcks,
    InvalidTimestamp,
    InvalidTopic,
    MessageTooLarge,
    UnknownTopicOrPartition,
)
from kmini.protocol.messages.produce import ProduceRequest
from kmini.protocol.records.batch import build_batch, iter_batches
from kmini.protocol.records.batch_records import decode_all
from kmini.protocol.records.compression import Codec
from kmini.protocol.records.old_formats.messages import build_messages, build_wrapper
from kmini.protocol.records.record import Record
from kmini.protocol.topics import TopicPartition

Topic = ProduceRequest.Topic
VERSIONS = (0, 1, 2)
CODECS = (Codec.NONE, Codec.GZIP, Codec.SNAPPY, Codec.LZ4)


def sent(count: int = 3, timestamp: int = 1_000) -> list[Record]:
    return [Record(n, timestamp + n, b"k", b"v%d" % n) for n in range(count)]


def messages(records: list[Record], magic: int = 1, codec: Codec = Codec.NONE) -> bytes:
    return bytes(build_messages(records, magic)) if codec == Codec.NONE else build_wrapper([records], magic, codec)


def request(records: bytes | None, *, topic: str = "t", acks: int = -1) -> ProduceRequest:
    data = [Topic.Partition(index=0, records=records)]
    return ProduceRequest(acks=acks, timeout_ms=1_000, topic_data=[Topic(name=topic, partition_data=data)])


def of(response):
    return response.responses[0].partition_responses[0]


def log_of(broker: BrokerServer):
    return broker.replica_manager.leader_of(TopicPartition("t", 0)).log


def stored(broker: BrokerServer) -> bytes:
    log = log_of(broker)
    return log.read(0, 1 << 20, limit_offset=log.high_watermark)


@pytest.fixture
async def topic(broker: BrokerServer) -> str:
    topics.create(broker, "t")
    return "t"


@pytest.mark.parametrize("codec", CODECS)
@pytest.mark.parametrize("version", VERSIONS)
async def test_a_set_is_stored_as_a_batch(broker: BrokerServer, topic: str, ask, version: int, codec: Codec) -> None:
    magic = int(version == 2)
    for expected in (0, 300):
        answer = of(await ask(broker, request(messages(sent(300), magic, codec)), version))
        assert (answer.error_code, answer.base_offset, answer.log_append_time_ms) == (NONE, expected, -1)
    assert [(header.magic, header.codec, header.record_count) for _, header in iter_batches(stored(broker))] == [
        (2, codec, 300)
    ] * 2
    records = decode_all(stored(broker))
    assert [record.offset for record in records] == list(range(600))
    assert {record.timestamp for record in records} == ({*range(1_000, 1_300)} if magic else {-1})


async def test_append_time_is_told_from_version_2_on(broker: BrokerServer, ask) -> None:
    topics.create(broker, "t", configs={"message.timestamp.type": "LogAppendTime"})
    told = [of(await ask(broker, request(messages(sent(), 1)), version)).log_append_time_ms for version in VERSIONS]
    assert told[:2] == [-1, -1]
    assert told[2] > 1_000_000
    assert {record.timestamp for record in decode_all(stored(broker))} >= {told[2]}


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("magic", [0, 1, 2])
async def test_any_version_brings_any_magic(broker: BrokerServer, topic: str, ask, version: int, magic: int) -> None:
    """Kafka has never minded, for the sake of clients that do."""
    data = bytes(build_batch(sent())) if magic == 2 else messages(sent(), magic)
    answer = of(await ask(broker, request(data), version))
    assert (answer.error_code, answer.base_offset) == (NONE, 0)
    assert [record.value for record in decode_all(stored(broker))] == [b"v0", b"v1", b"v2"]


@pytest.mark.parametrize("version", VERSIONS)
async def test_several_batches_are_no_set(broker: BrokerServer, topic: str, ask, version: int) -> None:
    assert of(await ask(broker, request(bytes(build_batch(sent())) * 2), version)).error_code == InvalidRecord.code


@pytest.mark.parametrize("acks", [1, -1])
@pytest.mark.parametrize("records", [b"", messages(sent(1))[:-1]])
async def test_a_set_without_a_whole_message_stores_nothing_and_is_no_error(
    broker: BrokerServer, topic: str, ask, records: bytes, acks: int
) -> None:
    answer = of(await ask(broker, request(records, acks=acks), 2))
    assert (answer.error_code, answer.base_offset) == (NONE, -1)
    assert log_of(broker).log_end_offset == 0


async def test_what_follows_the_last_whole_message_is_left_out(broker: BrokerServer, topic: str, ask) -> None:
    assert of(await ask(broker, request(messages(sent())[:-1]), 2)).error_code == NONE
    assert log_of(broker).log_end_offset == 2


@pytest.mark.parametrize("version", VERSIONS)
async def test_what_is_wrong_has_kafkas_code(broker: BrokerServer, topic: str, ask, version: int) -> None:
    damaged = messages(sent())[:-1] + b"x"
    nested = build_wrapper([sent()], 1, Codec.GZIP)
    for records, error in (
        (None, InvalidRecord),
        (damaged, CorruptMessage),
        (bytes(26), CorruptMessage),
        (nested * 2, InvalidRecord),
        (messages(sent(1), 0) + messages(sent(1), 1), InvalidRecord),
        (messages(sent(1, timestamp=1 << 60)), InvalidTimestamp),
        (messages([Record(0, 1, None, bytes(1 << 20))]), MessageTooLarge),
    ):
        answer = of(await ask(broker, request(records), version))
        assert (answer.error_code, answer.base_offset) == (error.code, -1), error
    assert log_of(broker).log_end_offset == 0


async def test_other_checks_come_in_kafkas_order(broker: BrokerServer, topic: str, ask) -> None:
    damaged = messages(sent())[:-1] + b"x"
    broken = request(damaged, topic="unknown", acks=7)
    assert of(await ask(broker, broken, 2)).error_code == UnknownTopicOrPartition.code
    assert of(await ask(broker, request(damaged, acks=7), 2)).error_code == InvalidRequiredAcks.code
    topics.create(broker, "__consumer_offsets", partitions=1)
    assert of(await ask(broker, request(damaged, topic="__consumer_offsets"), 2)).error_code == InvalidTopic.code


@pytest.mark.sockets
async def test_a_set_that_takes_its_time_is_validated_elsewhere(broker: BrokerServer, topic: str, ask, turns) -> None:
    """While the loop answers others."""
    records = [Record(n, 1, b"k", b"v" * 10) for n in range(10_000)]
    for data in (messages(records), messages(records, codec=Codec.GZIP)):
        turns()
        assert of(await ask(broker, request(data), 2)).error_code == NONE
        assert turns() > 3
    assert log_of(broker).log_end_offset == 20_000


async def test_without_acks_an_error_closes_the_connection(broker: BrokerServer, topic: str, ask) -> None:
    with pytest.raises(CloseConnection):
        await ask(broker, request(messages(sent())[:-1] + b"x", acks=0), 1)


async def test_what_was_stored_is_a_log_like_any(broker: BrokerServer, topic: str, ask, start_broker) -> None:
    for version in VERSIONS:
        await ask(broker, request(messages(sent(), int(version == 2), Codec.LZ4)), version)
    before = stored(broker)
    await broker.stop()
    again = await start_broker()
    assert stored(again) == before
