"""Groups and committed offsets in `__consumer_offsets`: written by a store, and read as a new coordinator does."""

from __future__ import annotations

from collections import deque
from typing import Any

from kmini.broker.broker import BrokerServer
from kmini.broker.groups.committed_offsets import CommittedOffset, CommittedOffsets
from kmini.broker.groups.group_loader import LoadedGroup
from kmini.broker.groups.group_records import GroupMetadata, encode_offset, offset_key, offset_key_prefix
from kmini.broker.groups.group_store import GroupStore
from kmini.broker.replication.partition import Partition
from kmini.protocol.records.batch import build_batch
from kmini.protocol.records.batch_records import decode_all
from kmini.protocol.records.record import Record
from kmini.protocol.topics import CONSUMER_OFFSETS, TopicPartition
from kmini.storage.producers.producer_state_manager import Origin
from kmini.storage.validation import ValidatedRecords

PARTITION = TopicPartition("orders", 3)
OFFSET = CommittedOffset(42, 7, "note", 1000)


def stored_groups(store: GroupStore) -> dict[str, LoadedGroup]:
    """The groups in the partitions that the broker leads, by id."""
    groups: dict[str, LoadedGroup] = {}
    for number in range(store.topic.partition_count):
        partition = store._replica_manager.partitions.get(TopicPartition(CONSUMER_OFFSETS, number))
        if partition is not None:
            deque(store.load(partition, groups.__setitem__), maxlen=0)
    return groups


async def commit(store: GroupStore, group_id: str, *partitions: TopicPartition, offset: int = 42) -> CommittedOffsets:
    offsets, changes = CommittedOffsets(), store.changes(group_id)
    for partition in partitions or (PARTITION,):
        changes.set(partition, OFFSET._replace(offset=offset))
    await store.write_offsets(changes, offsets)
    return offsets


def held(offsets: CommittedOffsets) -> dict[TopicPartition, int]:
    return {partition: committed.offset for partition in offsets if (committed := offsets.get(partition))}


def records_of(store: GroupStore, group_id: str) -> list[Record]:
    log = store._replica_manager.partitions[TopicPartition(CONSUMER_OFFSETS, store.partition_of(group_id))].log
    return decode_all(log.read(0, 1 << 20, limit_offset=log.high_watermark))


def an_empty_group(**changes: Any) -> GroupMetadata:
    fields = {"protocol_type": "consumer", "generation_id": 3, "protocol_name": None, "leader_id": None}
    return GroupMetadata(**{**fields, "state_timestamp_ms": 5, "members": [], **changes})


def a_member(**changes: Any) -> GroupMetadata.Member:
    fields = {"member_id": "m", "group_instance_id": "i", "client_id": "c", "client_host": "/h"}
    rest = {"rebalance_timeout_ms": 2, "session_timeout_ms": 1, "subscription": b"s", "assignment": b"a"}
    return GroupMetadata.Member(**{**fields, **rest, **changes})


def append_offsets(partition: Partition, numbers: range, *, offset: int = 7, group: str = "g") -> None:
    """Append committed offsets of partitions of "orders", in one batch."""
    prefix, value = offset_key_prefix(group, "orders"), encode_offset(CommittedOffset(offset, -1, "", 0))
    records = [Record(0, 0, offset_key(prefix, number), value) for number in numbers]
    partition.append(ValidatedRecords.of(build_batch(records)), 0, Origin.COORDINATOR)


def loaded_offsets(broker: BrokerServer) -> dict[int, int]:
    group = broker.groups.groups["g"]
    return {number: one.offset for number, one in group.offsets.by_topic["orders"].items()}
