"""Short ways to write the requests of the differential tests, with kafka-python's classes."""

from __future__ import annotations

import uuid
from collections.abc import Mapping, Sequence
from typing import Any

from kafka.protocol.admin import (
    AlterClientQuotasRequest,
    CreateTopicsRequest,
    DeleteRecordsRequest,
    DeleteTopicsRequest,
)
from kafka.protocol.consumer import FetchRequest, ListOffsetsRequest
from kafka.protocol.metadata import MetadataRequest
from kafka.protocol.producer import InitProducerIdRequest, ProduceRequest

from support.until import until
from support.wire import Wire

NO_ID = uuid.UUID(int=0)

Entity = tuple[tuple[str, str | None], ...]
"""Whom a quota is for: type and name of each part, None for the default name."""


def create_topics(*topics: dict[str, Any], validate_only: bool = False, timeout_ms: int = 10_000) -> Any:
    """Each topic: name, and what there is of num_partitions, replication_factor, assignments, configs."""
    Topic = CreateTopicsRequest.CreatableTopic
    Assignment, Config = Topic.CreatableReplicaAssignment, Topic.CreatableTopicConfig
    return CreateTopicsRequest(
        topics=[
            Topic(
                name=topic["name"],
                num_partitions=topic.get("num_partitions", 1),
                replication_factor=topic.get("replication_factor", 1),
                assignments=[
                    Assignment(partition_index=index, broker_ids=brokers)
                    for index, brokers in topic.get("assignments", {}).items()
                ],
                configs=[Config(name=name, value=value) for name, value in topic.get("configs", {}).items()],
            )
            for topic in topics
        ],
        timeout_ms=timeout_ms,
        validate_only=validate_only,
    )


def delete_topics(*names: str | uuid.UUID, version: int, timeout_ms: int = 10_000) -> Any:
    if version < 6:
        return DeleteTopicsRequest(topic_names=list(names), timeout_ms=timeout_ms)
    State = DeleteTopicsRequest.DeleteTopicState
    states = [
        State(name=None, topic_id=name) if isinstance(name, uuid.UUID) else State(name=name, topic_id=NO_ID)
        for name in names
    ]
    return DeleteTopicsRequest(topics=states, timeout_ms=timeout_ms)


def produce(
    topic: str | uuid.UUID,
    records: bytes | None,
    *,
    partition: int = 0,
    acks: int = -1,
    timeout_ms: int = 5_000,
    transactional_id: str | None = None,
) -> Any:
    Topic = ProduceRequest.TopicProduceData
    data = [Topic.PartitionProduceData(index=partition, records=records)]
    return ProduceRequest(
        transactional_id=transactional_id,
        acks=acks,
        timeout_ms=timeout_ms,
        topic_data=[Topic(**_named(topic, "name"), partition_data=data)],
    )


def fetch(
    topic: str | uuid.UUID,
    offset: int,
    *,
    partition: int = 0,
    max_wait_ms: int = 0,
    min_bytes: int = 0,
    max_bytes: int = 1 << 20,
    partition_max_bytes: int = 1 << 20,
    isolation_level: int = 0,
    session_id: int = 0,
    session_epoch: int = -1,
    current_leader_epoch: int = -1,
    last_fetched_epoch: int = -1,
) -> Any:
    Topic = FetchRequest.FetchTopic
    wanted = Topic.FetchPartition(
        partition=partition,
        current_leader_epoch=current_leader_epoch,
        fetch_offset=offset,
        last_fetched_epoch=last_fetched_epoch,
        log_start_offset=-1,
        partition_max_bytes=partition_max_bytes,
    )
    return FetchRequest(
        replica_id=-1,
        max_wait_ms=max_wait_ms,
        min_bytes=min_bytes,
        max_bytes=max_bytes,
        isolation_level=isolation_level,
        session_id=session_id,
        session_epoch=session_epoch,
        topics=[Topic(**_named(topic, "topic"), partitions=[wanted])],
        forgotten_topics_data=[],
        rack_id="",
    )


def list_offsets(
    topic: str, *timestamps: int, partitions: Sequence[int] | None = None, isolation_level: int = 0, epoch: int = -1
) -> Any:
    """Ask for each timestamp; they need partitions of their own, because a partition may stand in a request once."""
    Topic = ListOffsetsRequest.ListOffsetsTopic
    numbers = [0] * len(timestamps) if partitions is None else partitions
    wanted = [
        Topic.ListOffsetsPartition(partition_index=number, current_leader_epoch=epoch, timestamp=timestamp)
        for number, timestamp in zip(numbers, timestamps, strict=True)
    ]
    topics = [Topic(name=topic, partitions=wanted)]
    return ListOffsetsRequest(replica_id=-1, isolation_level=isolation_level, topics=topics, timeout_ms=5_000)


def delete_records(topic: str, *entries: tuple[int, int], timeout_ms: int = 5_000) -> Any:
    """Each entry: a partition and the first offset to keep."""
    Topic = DeleteRecordsRequest.DeleteRecordsTopic
    partitions = [
        Topic.DeleteRecordsPartition(partition_index=partition, offset=offset) for partition, offset in entries
    ]
    return DeleteRecordsRequest(topics=[Topic(name=topic, partitions=partitions)], timeout_ms=timeout_ms)


def alter_client_quotas(key: str, values: Mapping[Entity, float | None]) -> Any:
    """Set one kind of quota for entities; None removes it."""
    Entry = AlterClientQuotasRequest.EntryData
    entries = [
        Entry(
            entity=[Entry.EntityData(entity_type=kind, entity_name=name) for kind, name in entity],
            ops=[Entry.OpData(key=key, value=value or 0.0, remove=value is None)],
        )
        for entity, value in values.items()
    ]
    return AlterClientQuotasRequest(entries=entries, validate_only=False)


def metadata(*topics: str | uuid.UUID, everything: bool = False, auto_create: bool = False) -> Any:
    Topic = MetadataRequest.MetadataRequestTopic
    wanted = [
        Topic(name=None, topic_id=topic) if isinstance(topic, uuid.UUID) else Topic(name=topic, topic_id=NO_ID)
        for topic in topics
    ]
    return MetadataRequest(topics=None if everything else wanted, allow_auto_topic_creation=auto_create)


def init_producer_id(
    *, transactional_id: str | None = None, timeout_ms: int = 60_000, producer_id: int = -1, producer_epoch: int = -1
) -> Any:
    return InitProducerIdRequest(
        transactional_id=transactional_id,
        transaction_timeout_ms=timeout_ms,
        producer_id=producer_id,
        producer_epoch=producer_epoch,
    )


def _named(topic: str | uuid.UUID, field: str) -> dict[str, Any]:
    return {"topic_id": topic} if isinstance(topic, uuid.UUID) else {field: topic}


def wait_for_leaders(wire: Wire, topic: str, partitions: int) -> None:
    """Return when every partition takes requests: Apache Kafka answers CreateTopics, and starts, a moment earlier."""
    request = list_offsets(topic, *[-1] * partitions, partitions=range(partitions))

    def are_led() -> bool:
        (answer,) = wire.ask(request, 5).topics
        return not any(partition.error_code for partition in answer.partitions)

    until(are_led, f"leaders of {topic}")
