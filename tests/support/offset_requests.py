"""Short ways to write the requests about coordinators and committed offsets, with kafka-python's classes."""

from __future__ import annotations

import uuid
from collections.abc import Iterable
from functools import partial
from typing import Any

from kafka.protocol.consumer import OffsetCommitRequest, OffsetDeleteRequest, OffsetFetchRequest
from kafka.protocol.metadata import FindCoordinatorRequest

from support.until import until
from support.wire import Wire

NO_ID = uuid.UUID(int=0)
NOT_YET = (14, 15, 16)
"""COORDINATOR_LOAD_IN_PROGRESS, COORDINATOR_NOT_AVAILABLE, NOT_COORDINATOR."""


def find(*keys: str, version: int, key_type: int = 0) -> Any:
    if version < 4:
        return FindCoordinatorRequest(key=keys[0], key_type=key_type)
    return FindCoordinatorRequest(key_type=key_type, coordinator_keys=list(keys))


def commit(
    group: str,
    topic: str | uuid.UUID,
    *partitions: int | tuple[int, int, str | None],
    generation: int = -1,
    member_id: str = "",
    instance_id: str | None = None,
    retention_ms: int = -1,
    leader_epoch: int = 0,
) -> Any:
    """Partitions as numbers, or with offset and metadata."""
    Topic = OffsetCommitRequest.OffsetCommitRequestTopic
    wanted = []
    for each in partitions:
        partition, offset, text = each if isinstance(each, tuple) else (each, 10 + each, "note")
        wanted.append(
            Topic.OffsetCommitRequestPartition(
                partition_index=partition,
                committed_offset=offset,
                committed_leader_epoch=leader_epoch,
                committed_metadata=text,
            )
        )
    named = {"topic_id": topic} if isinstance(topic, uuid.UUID) else {"name": topic}
    return OffsetCommitRequest(
        group_id=group,
        generation_id_or_member_epoch=generation,
        member_id=member_id,
        group_instance_id=instance_id,
        retention_time_ms=retention_ms,
        topics=[Topic(**named, partitions=wanted)],
    )


def fetch(
    group: str | list[str],
    topics: Iterable[tuple[str | uuid.UUID, Iterable[int]]] | None,
    version: int,
    *,
    stable: bool = False,
    member_id: str | None = None,
    member_epoch: int = -1,
) -> Any:
    if version < 8:
        Topic = OffsetFetchRequest.OffsetFetchRequestTopic
        asked = None if topics is None else [Topic(name=name, partition_indexes=list(some)) for name, some in topics]
        return OffsetFetchRequest(group_id=group, topics=asked, require_stable=stable)
    Group = OffsetFetchRequest.OffsetFetchRequestGroup
    Topics = Group.OffsetFetchRequestTopics
    listed = [*topics] if topics is not None else None
    groups = [
        Group(
            group_id=name,
            member_id=member_id,
            member_epoch=member_epoch,
            topics=None
            if listed is None
            else [
                Topics(
                    name="" if isinstance(topic, uuid.UUID) else topic,
                    topic_id=topic if isinstance(topic, uuid.UUID) else NO_ID,
                    partition_indexes=list(some),
                )
                for topic, some in listed
            ],
        )
        for name in ([group] if isinstance(group, str) else group)
    ]
    return OffsetFetchRequest(groups=groups, require_stable=stable)


def delete(group: str, *topics: tuple[str, Iterable[int]]) -> Any:
    Topic = OffsetDeleteRequest.OffsetDeleteRequestTopic
    Partition = Topic.OffsetDeleteRequestPartition
    return OffsetDeleteRequest(
        group_id=group,
        topics=[
            Topic(name=name, partitions=[Partition(partition_index=partition) for partition in some])
            for name, some in topics
        ],
    )


def await_transaction_coordinator(wire: Wire, transactional_id: str) -> None:
    """Have the topic of transactions made, and the id's partition of it led."""
    request = find(transactional_id, version=1, key_type=1)
    until(lambda: wire.ask(request, 1).error_code not in NOT_YET, f"a coordinator of {transactional_id}")


def await_share_coordinator(wire: Wire, key: str) -> None:
    """Have the topic of states of share groups made, and the partition of a share partition's key led."""
    request = find(key, version=6, key_type=2)
    until(lambda: wire.ask(request, 6).coordinators[0].error_code not in NOT_YET, f"a coordinator of {key}")


def await_coordinator(wire: Wire, *groups: str) -> None:
    """Have the topic of offsets made, and each group's partition of it led and loaded."""
    for group in groups:
        until(partial(_is_loaded, wire, group), f"a coordinator that has loaded {group}")


def _is_loaded(wire: Wire, group: str) -> bool:
    if wire.ask(find(group, version=1), 1).error_code:
        return False
    return wire.ask(fetch(group, [], 5), 5).error_code not in NOT_YET
