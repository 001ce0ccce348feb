"""DescribeProducers: what a partition knows of producer ids."""

from __future__ import annotations

from kmini.broker.broker import BrokerServer
from kmini.broker.controller import topics
from kmini.protocol.errors import NONE, InvalidTopic, UnknownTopicOrPartition
from kmini.protocol.messages.describe_producers import DescribeProducersRequest
from kmini.protocol.records.batch import build_batch
from kmini.protocol.records.record import Record
from kmini.protocol.topics import TopicPartition
from kmini.storage.validation import validate

EXAMPLE = DescribeProducersRequest(topics=[DescribeProducersRequest.Topic(name="orders", partition_indexes=[0])])

Topic = DescribeProducersRequest.Topic


def request(name: str, *partitions: int) -> DescribeProducersRequest:
    return DescribeProducersRequest(topics=[Topic(name=name, partition_indexes=list(partitions))])


def append(broker: BrokerServer, timestamp: int, **producer: int) -> None:
    led = broker.replica_manager.leader_of(TopicPartition("t", 0))
    batch = build_batch([Record(0, timestamp, None, b"v"), Record(0, timestamp, None, b"v")], **producer)
    led.append(validate(memoryview(batch), led.log.config, timestamp), timestamp)


async def test_each_producer_is_told_with_where_it_stands(broker: BrokerServer, ask) -> None:
    topics.create(broker, "t")
    append(broker, 1_000, producer_id=7, producer_epoch=3, base_sequence=0)
    append(broker, 2_000, producer_id=7, producer_epoch=3, base_sequence=2)
    append(broker, 3_000, producer_id=8, producer_epoch=0, base_sequence=0, transactional=True)
    append(broker, 4_000)
    ((answer,),) = (topic.partitions for topic in (await ask(broker, request("t", 0))).topics)
    assert answer.error_code == NONE
    assert [
        (p.producer_id, p.producer_epoch, p.last_sequence, p.last_timestamp, p.coordinator_epoch)
        for p in answer.active_producers
    ] == [(7, 3, 3, 2_000, -1), (8, 0, 1, 3_000, -1)]
    assert [p.current_txn_start_offset for p in answer.active_producers] == [-1, 4]


async def test_a_partition_is_described_once_however_often_it_is_named(broker: BrokerServer, ask) -> None:
    topics.create(broker, "t", partitions=2)
    twice = request("t", 0, 1, 0)
    twice.topics.append(Topic(name="t", partition_indexes=[1]))
    ((*answers,),) = (topic.partitions for topic in (await ask(broker, twice)).topics)
    assert [(a.partition_index, a.error_code, a.active_producers) for a in answers] == [(0, NONE, []), (1, NONE, [])]


async def test_unknown_partitions_and_impossible_names_have_their_codes(broker: BrokerServer, ask) -> None:
    topics.create(broker, "t")
    for name, partition, code in (
        ("t", 1, UnknownTopicOrPartition.code),
        ("t", -1, UnknownTopicOrPartition.code),
        ("absent", 0, UnknownTopicOrPartition.code),
        ("no name", 0, InvalidTopic.code),
        ("", 0, InvalidTopic.code),
    ):
        ((answer,),) = (topic.partitions for topic in (await ask(broker, request(name, partition))).topics)
        assert (answer.error_code, bool(answer.error_message)) == (code, True)
