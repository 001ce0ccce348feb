"""Produce: what is appended, refused, repeated and waited for."""

from __future__ import annotations

import asyncio

import pytest

from kmini.broker.api.request_context import CloseConnection, Context
from kmini.broker.broker import BrokerServer
from kmini.broker.controller import topics
from kmini.broker.handlers.produce import produce as handler
from kmini.broker.purgatory import RELEASED_IN_PLACE
from kmini.broker.replication.partition import Partition
from kmini.broker.security.resources import ResourceType
from kmini.protocol.errors import (
    NONE,
    CorruptMessage,
    InvalidProducerEpoch,
    InvalidRecord,
    InvalidRequiredAcks,
    InvalidTopic,
    MessageTooLarge,
    NotEnoughReplicas,
    NotEnoughReplicasAfterAppend,
    OutOfOrderSequenceNumber,
    RequestTimedOut,
    TransactionalIdAuthorizationFailed,
    UnknownTopicId,
    UnknownTopicOrPartition,
    UnsupportedCompressionType,
)
from kmini.protocol.messages.fetch import FetchRequest
from kmini.protocol.messages.produce import ProduceRequest
from kmini.protocol.records.batch import build_batch
from kmini.protocol.records.compression import Codec
from kmini.protocol.records.record import Record
from kmini.protocol.topics import TopicPartition
from support.broker.fed_connection import FedConnection
from support.broker.permission_requests import batch as example_batch
from support.until import until_async


def example(resource: ResourceType, topic_id: bytes) -> ProduceRequest:
    """A request that needs the permission on this kind of resource; `topic_id` is the one of "orders"."""
    is_id = resource is ResourceType.TRANSACTIONAL_ID
    return ProduceRequest(
        transactional_id="payments" if is_id else None,
        acks=-1,
        timeout_ms=1000,
        topic_data=[
            ProduceRequest.Topic(
                name="orders",
                topic_id=topic_id,
                partition_data=[ProduceRequest.Topic.Partition(index=0, records=example_batch(transactional=is_id))],
            )
        ],
    )


Topic = ProduceRequest.Topic


def batch(*values: bytes, **options: object) -> bytes:
    return bytes(build_batch([Record(0, 1_000, b"k", value) for value in values or (b"v",)], **options))


def request(
    records: bytes | None = None, *, topic: str = "t", partition: int = 0, acks: int = -1, **fields: object
) -> ProduceRequest:
    data = [Topic.Partition(index=partition, records=batch() if records is None else records)]
    return ProduceRequest(
        acks=acks, topic_data=[Topic(name=topic, partition_data=data)], **{"timeout_ms": 1_000} | fields
    )


def of(response):
    return response.responses[0].partition_responses[0]


@pytest.fixture
async def topic(broker: BrokerServer) -> str:
    topics.create(broker, "t")
    return "t"


def log_end(broker: BrokerServer) -> int:
    return broker.replica_manager.leader_of(TopicPartition("t", 0)).log.log_end_offset


@pytest.mark.parametrize("version", range(3, 14))
@pytest.mark.parametrize("acks", [1, -1])
async def test_every_version_appends_and_tells_the_first_offset(
    broker: BrokerServer, topic: str, ask, version: int, acks: int
) -> None:
    for first_offset in (0, 2):
        asked = request(batch(b"a", b"b"), acks=acks)
        asked.topic_data[0].topic_id = broker.controller.topics[topic].id
        answer = of(await ask(broker, asked, version))
        assert (answer.error_code, answer.base_offset, answer.log_append_time_ms) == (NONE, first_offset, -1)
    assert log_end(broker) == 4


async def test_each_partition_has_its_own_outcome(broker: BrokerServer, ask) -> None:
    topics.create(broker, "t", partitions=2)
    asked = request()
    asked.topic_data[0].partition_data += [
        Topic.Partition(index=1, records=b""),
        Topic.Partition(index=2, records=batch()),
    ]
    asked.topic_data.append(Topic(name="nope", partition_data=[Topic.Partition(index=0, records=batch())]))
    response = await ask(broker, asked, 9)
    codes = [[p.error_code for p in topic.partition_responses] for topic in response.responses]
    assert codes == [[NONE, InvalidRecord.code, UnknownTopicOrPartition.code], [UnknownTopicOrPartition.code]]


async def test_an_unknown_topic_id_is_an_error_of_its_partitions(broker: BrokerServer, topic: str, ask) -> None:
    asked = request()
    asked.topic_data[0].topic_id = b"\1" * 16
    assert of(await ask(broker, asked, 13)).error_code == UnknownTopicId.code


async def test_acks_other_than_0_1_and_all_are_refused(broker: BrokerServer, topic: str, ask) -> None:
    assert of(await ask(broker, request(acks=2), 9)).error_code == InvalidRequiredAcks.code
    assert log_end(broker) == 0


def corrupt(records: bytes) -> bytes:
    return records[:-1] + bytes([records[-1] ^ 1])


@pytest.mark.parametrize(
    ("records", "error"),
    [
        (b"", InvalidRecord),
        (batch()[:40], InvalidRecord),
        (batch()[:-1], InvalidRecord),
        (batch() + batch(), InvalidRecord),
        (corrupt(batch()), CorruptMessage),
        (batch()[:16] + b"\1" + batch()[17:], InvalidRecord),
        (batch()[:16] + b"\3" + batch()[17:], CorruptMessage),
        (batch(base_offset=5), InvalidRecord),
        (bytes(build_batch([Record(delta, 1_000, b"k", b"v") for delta in (1, 0, 2)])), InvalidRecord),
        (batch(control=True), InvalidRecord),
        (batch(transactional=True), TransactionalIdAuthorizationFailed),
        (batch(transactional=True, control=True), TransactionalIdAuthorizationFailed),
        (batch(producer_id=1, producer_epoch=0), InvalidRecord),
    ],
)
async def test_bad_batches_get_their_code_and_leave_the_log_as_it_was(
    broker: BrokerServer, topic: str, ask, records: bytes, error
) -> None:
    answer = of(await ask(broker, request(records), 9))
    assert (answer.error_code, answer.base_offset) == (error.code, -1)
    assert log_end(broker) == 0


async def test_the_records_at_fault_are_named(broker: BrokerServer, ask) -> None:
    topics.create(broker, "t", configs={"cleanup.policy": "compact"})
    records = bytes(build_batch([Record(0, 1_000, key, b"v") for key in (b"k", None, b"k", None)]))
    answer = of(await ask(broker, request(records), 8))
    assert answer.error_code == InvalidRecord.code
    assert [error.batch_index for error in answer.record_errors] == [1, 3]
    assert "key" in answer.error_message


async def test_a_batch_larger_than_the_topic_allows_is_too_large(broker: BrokerServer, ask) -> None:
    topics.create(broker, "t", configs={"max.message.bytes": "200"})
    assert of(await ask(broker, request(batch(b"x" * 300)), 9)).error_code == MessageTooLarge.code
    assert of(await ask(broker, request(batch(b"x" * 50)), 9)).error_code == NONE


async def test_zstd_needs_version_7(broker: BrokerServer, topic: str, ask) -> None:
    records = batch(codec=Codec.ZSTD)
    assert of(await ask(broker, request(records), 6)).error_code == UnsupportedCompressionType.code
    assert of(await ask(broker, request(records), 7)).error_code == NONE


async def test_internal_topics_are_the_brokers_own(broker: BrokerServer, ask) -> None:
    topics.create(broker, "__consumer_offsets")
    assert of(await ask(broker, request(topic="__consumer_offsets"), 9)).error_code == InvalidTopic.code


async def test_a_batch_that_its_producer_repeats_is_answered_as_the_first_time(
    broker: BrokerServer, topic: str, ask
) -> None:
    first = batch(b"a", producer_id=7, producer_epoch=0, base_sequence=0)
    second = batch(b"b", producer_id=7, producer_epoch=0, base_sequence=1)
    for records, offset in ((first, 0), (second, 1), (first, 0), (second, 1)):
        answer = of(await ask(broker, request(records), 9))
        assert (answer.error_code, answer.base_offset) == (NONE, offset)
    assert log_end(broker) == 2


async def test_a_gap_in_the_sequence_and_an_old_epoch_are_refused(broker: BrokerServer, topic: str, ask) -> None:
    for options, code in (
        ({"producer_epoch": 1, "base_sequence": 0}, NONE),
        ({"producer_epoch": 1, "base_sequence": 2}, OutOfOrderSequenceNumber.code),
        ({"producer_epoch": 0, "base_sequence": 1}, InvalidProducerEpoch.code),
    ):
        assert of(await ask(broker, request(batch(producer_id=7, **options)), 9)).error_code == code
    assert log_end(broker) == 1


async def test_a_compressed_batch_is_validated_off_the_loop_and_appended(broker: BrokerServer, topic: str, ask) -> None:
    values = [b"%d" % n for n in range(5_000)]
    for codec in (Codec.GZIP, Codec.SNAPPY, Codec.LZ4, Codec.ZSTD):
        assert of(await ask(broker, request(batch(*values, codec=codec)), 9)).error_code == NONE
    assert log_end(broker) == 20_000


async def test_a_topic_that_vanishes_while_its_records_are_validated_takes_none(
    broker: BrokerServer, topic: str, ask
) -> None:
    records = batch(*[b"%d" % n for n in range(5_000)], codec=Codec.GZIP)
    task = asyncio.create_task(ask(broker, request(records), 9))
    await asyncio.sleep(0)
    topics.delete(broker, topic)
    assert of(await task).error_code == UnknownTopicOrPartition.code


async def test_acks_all_waits_for_the_high_watermark_and_a_time_out_keeps_the_records(
    broker: BrokerServer, topic: str, ask, monkeypatch: pytest.MonkeyPatch
) -> None:
    log = broker.replica_manager.leader_of(TopicPartition("t", 0)).log
    monkeypatch.setattr(type(log), "update_high_watermark", lambda self, offset: False)
    assert of(await ask(broker, request(timeout_ms=1), 9)).error_code == RequestTimedOut.code
    assert (log.log_end_offset, log.high_watermark) == (1, 0)
    assert of(await ask(broker, request(acks=1), 9)).error_code == NONE


async def test_too_few_replicas_in_sync_refuse_acks_all_and_write_nothing(broker: BrokerServer, ask) -> None:
    topics.create(broker, "t", configs={"min.insync.replicas": "2"})
    assert of(await ask(broker, request(), 9)).error_code == NONE  # never more than there are replicas
    partition = broker.replica_manager.leader_of(TopicPartition("t", 0))
    partition.update(partition.state._replace(replicas=(1, 2)))
    assert of(await ask(broker, request(), 9)).error_code == NotEnoughReplicas.code
    assert of(await ask(broker, request(acks=1), 9)).error_code == NONE
    assert log_end(broker) == 2


def with_follower(broker: BrokerServer, number: int) -> Partition:
    """The partition, with a broker 2 in sync that has not fetched yet."""
    partition = broker.replica_manager.leader_of(TopicPartition("t", number))
    partition.update(partition.state._replace(replicas=(1, 2), isr=(1, 2)))
    return partition


async def test_replicas_that_fall_out_of_sync_while_an_append_waits_are_told(broker: BrokerServer, ask) -> None:
    topics.create(broker, "t", partitions=2, configs={"min.insync.replicas": "2"})
    partition = with_follower(broker, 0)
    asked = request()
    slow = batch(*[b"%d" % n for n in range(5_000)], codec=Codec.GZIP)
    asked.topic_data[0].partition_data.append(Topic.Partition(index=1, records=slow))
    task = asyncio.create_task(ask(broker, asked, 9))
    while partition.log.log_end_offset == 0:  # noqa: ASYNC110 (no event tells of it)
        await asyncio.sleep(0)
    partition.follower_fetched(2, 1, 0)  # while the records of the other partition are validated
    partition.update(partition.state._replace(isr=(1,)))
    first, second = (await task).responses[0].partition_responses
    assert (first.error_code, first.base_offset) == (NotEnoughReplicasAfterAppend.code, -1)
    assert second.error_code == NONE
    assert partition.log.log_end_offset == 1, "the records stay"


async def test_an_append_that_all_in_sync_replicas_have_succeeds_even_if_one_leaves_later(
    broker: BrokerServer, ask, in_purgatory
) -> None:
    topics.create(broker, "t", partitions=2, configs={"min.insync.replicas": "2"})
    partitions = [with_follower(broker, number) for number in range(2)]
    asked = request(timeout_ms=60_000)
    asked.topic_data[0].partition_data.append(Topic.Partition(index=1, records=batch()))
    task = asyncio.create_task(ask(broker, asked, 9))
    await in_purgatory(broker, 1)
    partitions[0].follower_fetched(2, 1, 0)
    partitions[0].update(partitions[0].state._replace(isr=(1,)))
    partitions[1].follower_fetched(2, 1, 0)
    assert [one.error_code for one in (await task).responses[0].partition_responses] == [NONE, NONE]


async def test_acks_0_is_not_answered_and_an_error_closes_the_connection(broker: BrokerServer, topic: str) -> None:
    context = Context(broker.services, None, 9, "test")  # type: ignore[arg-type]
    assert await handler(request(bytearray(batch()), acks=0), context) is None
    assert log_end(broker) == 1
    with pytest.raises(CloseConnection, match="UNKNOWN_TOPIC_OR_PARTITION"):
        await handler(request(topic="nope", acks=0), context)


async def test_flush_messages_1_has_every_batch_on_the_disk_before_it_answers(broker: BrokerServer, ask) -> None:
    topics.create(broker, "t", configs={"flush.messages": "1"})
    for count in (1, 2, 3):
        assert of(await ask(broker, request(), 9)).error_code == NONE
        assert broker.replica_manager.leader_of(TopicPartition("t", 0)).log.recovery_point == count


def _answers_to_a_record(broker: BrokerServer, readers: int) -> list[tuple[str, bytes]]:
    """The answers when a record is appended for which readers wait, with the names of their connections, in order."""
    topics.create(broker, "t", partitions=1)
    written: list[tuple[str, bytes]] = []
    asked = FetchRequest.Topic.Partition(partition=0, fetch_offset=0, partition_max_bytes=1 << 20)
    fetch = FetchRequest(max_wait_ms=60_000, min_bytes=1, topics=[FetchRequest.Topic(topic="t", partitions=[asked])])
    for _ in range(readers):
        FedConnection(broker, "reader", written).send((fetch, 12))
    assert len(broker.purgatory) == readers
    assert not written
    FedConnection(broker, "producer", written).send((request(acks=1), 12))
    return written


async def test_a_reader_that_waits_has_the_records_before_their_producer_is_answered(broker: BrokerServer) -> None:
    """Both in the turn of the loop in which the record is appended."""
    answered = _answers_to_a_record(broker, readers=1)
    assert [name for name, _ in answered] == ["reader", "producer"]


async def test_a_producer_does_not_stand_behind_a_crowd_of_readers(broker: BrokerServer) -> None:
    crowd = RELEASED_IN_PLACE + 1
    answered = _answers_to_a_record(broker, readers=crowd)
    await until_async(lambda: len(answered) == crowd + 1)
    assert [name for name, _ in answered] == ["producer", *["reader"] * crowd]
