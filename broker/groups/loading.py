"""Finding out from a partition of `__consumer_offsets` what its groups are.

The last record of a key decides. Records of a transaction count from where it is committed on, if it is: before that
they are pending.
"""

from __future__ import annotations

import logging
from typing import NamedTuple

from ...protocol.errors import KafkaError
from ...protocol.records.batch import BatchHeader
from ...protocol.records.record import Record
from ...protocol.topics import TopicPartition
from ...storage.log import PartitionLog
from ..internal_topic import stored_batches, stored_records
from .offsets import CommittedOffset, CommittedOffsets
from .records import (
    GROUP,
    OFFSET_KEYS,
    CorruptRecord,
    GroupMetadata,
    decode_group,
    decode_group_key,
    decode_offset,
    decode_offset_prefix,
    key_type,
    split_offset_key,
)

log = logging.getLogger("kmini.groups")

Latest = dict[bytes, Record]
"""The last record of every key, tombstones included: a commit that is decided late must not undo a later one."""


class LoadedGroup(NamedTuple):
    """A group as its partition has it."""

    metadata: GroupMetadata | None
    """None for one that only commits offsets (a simple consumer's), or whose protocol is not served here."""
    offsets: CommittedOffsets


def replay(partition_log: PartitionLog) -> dict[str, LoadedGroup]:
    """The groups of one partition, by id. Blocks; what cannot be read is logged and left out."""
    replayed = _Replayed()
    latest, pending = _last_records(partition_log)
    for key, record in latest.items():
        if record.value is not None:
            try:
                replayed.add(key, record.value)
            except CorruptRecord as error:
                log.error("%s: the record at %d is left out: %s", partition_log.topic_partition, record.offset, error)
    for producer_id, records in pending.items():
        for key, record in records.items():
            try:
                replayed.add_pending(producer_id, key, record, latest.get(key))
            except CorruptRecord as error:
                log.error("%s: the record at %d is left out: %s", partition_log.topic_partition, record.offset, error)
    return replayed.groups


class _Replayed:
    """Groups, as the last records of their keys make them."""

    def __init__(self) -> None:
        self.groups: dict[str, LoadedGroup] = {}
        self._places: dict[bytes, dict[int, CommittedOffset]] = {}
        """Where the offsets of a topic go, by what their keys begin with: nearly all keys differ in the partition
        only."""

    def add(self, key: bytes, value: bytes) -> None:
        """Raises CorruptRecord."""
        if key.startswith(OFFSET_KEYS):
            committed = decode_offset(value)
            prefix, partition = split_offset_key(key)
            place = self._places.get(prefix)
            if place is None:
                group_id, topic = decode_offset_prefix(prefix)
                place = self._places[prefix] = self._offsets(group_id).partitions(topic)
            place[partition] = committed
        elif key_type(key) == GROUP:
            group_id = decode_group_key(key)
            metadata = decode_group(value)
            self.groups[group_id] = LoadedGroup(metadata, self._offsets(group_id))

    def add_pending(self, producer_id: int, key: bytes, record: Record, known: Record | None) -> None:
        """Raises CorruptRecord. Transactions commit offsets and nothing else, and remove none; `known` counts now."""
        if not key.startswith(OFFSET_KEYS) or record.value is None:
            return
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


def _last_records(partition_log: PartitionLog) -> tuple[Latest, dict[int, Latest]]:
    """The last record of every key, and those of transactions that are not decided, by producer id."""
    latest: Latest = {}
    pending: dict[int, Latest] = {}
    start = partition_log.log_start_offset
    for header, batch in stored_batches(partition_log):
        try:
            if header.is_control:
                _decide(latest, pending, header, batch)
                continue
            records = stored_records(header, batch)
        except (KafkaError, ValueError) as error:
            log.error("%s: the batch at %d is left out: %s", partition_log.topic_partition, header.base_offset, error)
            continue
        into = pending.setdefault(header.producer_id, {}) if header.is_transactional else latest
        for record in records:
            if record.key is not None and record.offset >= start:
                into[record.key] = record
    return latest, pending


def _decide(latest: Latest, pending: dict[int, Latest], header: BatchHeader, batch: memoryview) -> None:
    """A marker: what its producer had pending counts now, or never."""
    from ...protocol.records.control import parse_end_transaction_marker  # transactions are rare

    marker = parse_end_transaction_marker(batch)
    if marker is None:
        return
    for key, record in pending.pop(header.producer_id, {}).items():
        known = latest.get(key)
        if not marker.is_abort and (known is None or known.offset < record.offset):
            latest[key] = record
