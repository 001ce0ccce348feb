"""Finding out from a partition of `__consumer_offsets` what its groups are.

The last record of a key decides. Offsets of a transaction that is not decided are pending.
"""

from __future__ import annotations

from functools import partial
from typing import NamedTuple

from ...protocol.records.record import Record
from ...protocol.topics import TopicPartition
from ...storage.log import PartitionLog
from ..internal_records import LastRecords, last_records, take_in
from .offsets import CommittedOffset, CommittedOffsets
from .records import (
    GROUP,
    OFFSET_KEYS,
    GroupMetadata,
    decode_group,
    decode_group_key,
    decode_offset,
    decode_offset_prefix,
    key_type,
    split_offset_key,
)


class LoadedGroup(NamedTuple):
    """A group as its partition has it."""

    metadata: GroupMetadata | None
    """None for one that only commits offsets (a simple consumer's), or whose protocol is not served here."""
    offsets: CommittedOffsets


def replay(partition_log: PartitionLog) -> dict[str, LoadedGroup]:
    """The groups of one partition, by id. Blocks; what cannot be read is logged and left out."""
    replayed = _Replayed()
    latest, pending = last_records(partition_log)
    take_in(partition_log, latest, replayed.add)
    for producer_id, records in pending.items():
        take_in(partition_log, records, partial(replayed.add_pending, producer_id, latest))
    return replayed.groups


class _Replayed:
    """Groups, as the last records of their keys make them."""

    def __init__(self) -> None:
        self.groups: dict[str, LoadedGroup] = {}
        self._places: dict[bytes, dict[int, CommittedOffset]] = {}
        """Where the offsets of a topic go, by what their keys begin with: nearly all keys differ in the partition
        only."""

    def add(self, key: bytes, record: Record) -> None:
        """What counts. Raises CorruptRecord."""
        if record.value is None:
            return
        if key.startswith(OFFSET_KEYS):
            committed = decode_offset(record.value)
            prefix, partition = split_offset_key(key)
            place = self._places.get(prefix)
            if place is None:
                group_id, topic = decode_offset_prefix(prefix)
                place = self._places[prefix] = self._offsets(group_id).partitions(topic)
            place[partition] = committed
        elif key_type(key) == GROUP:
            group_id = decode_group_key(key)
            metadata = decode_group(record.value)
            self.groups[group_id] = LoadedGroup(metadata, self._offsets(group_id))

    def add_pending(self, producer_id: int, latest: LastRecords, key: bytes, record: Record) -> None:
        """What a transaction wants to count; `latest` does now. It commits offsets and nothing else, and removes none.
        Raises CorruptRecord."""
        if not key.startswith(OFFSET_KEYS) or record.value is None:
            return
        known = latest.get(key)
        is_over = known is not None and known.offset > record.offset
        if known is not None and known.value is None and is_over:
            return
        committed = None if is_over else decode_offset(record.value)
        prefix, partition = split_offset_key(key)
        group_id, topic = decode_offset_prefix(prefix)
        topic_partition = TopicPartition(topic, partition)
        self._offsets(group_id).add_pending(producer_id, topic_partition, committed, record.offset)

    def _offsets(self, group_id: str) -> CommittedOffsets:
        group = self.groups.get(group_id)
        if group is None:
            group = self.groups[group_id] = LoadedGroup(None, CommittedOffsets())
        return group.offsets
