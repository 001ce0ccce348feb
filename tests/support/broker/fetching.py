"""Fetch requests about one partition, and what their answers hold."""

from __future__ import annotations

from typing import Any

from kmini.broker.broker import BrokerServer
from kmini.protocol.messages.fetch import FetchRequest
from kmini.protocol.records.batch import build_batch
from kmini.protocol.records.batch_records import decode_all
from kmini.protocol.records.record import Record
from kmini.protocol.topics import TopicPartition
from kmini.storage.validation import validate

Asked = FetchRequest.Topic.Partition


def append(broker: BrokerServer, topic: str, *values: bytes, partition: int = 0) -> None:
    """One batch."""
    led = broker.replica_manager.leader_of(TopicPartition(topic, partition))
    batch = build_batch([Record(0, 1_000, None, value) for value in values])
    led.append(validate(memoryview(batch), led.log.config, 1_000), 1_000)


def request(topic: str = "t", offset: int = 0, **options: Any) -> FetchRequest:
    fields: dict[str, Any] = {"max_wait_ms": 0, "min_bytes": 1} | {
        name: options.pop(name) for name in list(options) if name in FetchRequest.__slots__
    }
    asked = Asked(**{"partition": 0, "fetch_offset": offset, "partition_max_bytes": 1 << 20} | options)
    return FetchRequest(topics=[FetchRequest.Topic(topic=topic, partitions=[asked])], **fields)


def of(response: Any) -> Any:
    """The only partition of a response."""
    return response.responses[0].partitions[0]


def values(answer: Any) -> list[bytes | None]:
    return [record.value for record in decode_all(answer.records)]
