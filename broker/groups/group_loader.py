"""Replay of a partition of `__consumer_offsets`: the groups and committed offsets that it holds.

The last record of a key counts. Offsets of an open transaction are pending. Values are decoded after all records are
read, because later records supersede most of them.
"""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from ...protocol.records.record import Record
from ...protocol.topics import TopicPartition
from ...storage.log import PartitionLog
from ..coordinators.internal_records import RECORDS_A_STEP, CorruptRecord, replayed
from .committed_offsets import CommittedOffsets
from .group_records import (
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
from .modern import record_format

if TYPE_CHECKING:
    from .modern.changes import Change

log = logging.getLogger("kmini.internal_topics")

ReadChange = Callable[[int, str, bytes], "Change[Any] | None"]
"""Makes the change of a record: of the type and the name in its key, and its value. None for a record of an old version
that means nothing any more. Raises CorruptRecord."""


class LoadedGroup(NamedTuple):
    """A group as its partition holds it."""

    metadata: GroupMetadata | None
    """None for a group that only holds offsets (a simple consumer's), and for one of another kind."""
    offsets: CommittedOffsets
    kind: str = ""
    """The kind of a group that the coordinator assigns, as ListGroups names it; empty for any other."""
    changes: Sequence[Change[Any]] = ()
    """The changes that make it, of such a group."""


def read_groups(partition_log: PartitionLog) -> dict[str, LoadedGroup]:
    """Read the groups of one partition, by id. Blocks; unreadable records are logged and skipped."""
    groups: dict[str, LoadedGroup] = {}
    deque(replay_in_steps(partition_log, groups), maxlen=0)
    return groups


def replay_in_steps(partition_log: PartitionLog, groups: dict[str, LoadedGroup]) -> Iterator[None]:
    """Put the groups of one partition into `groups`, in short steps."""
    stored = _Stored()
    yield from replayed(partition_log, stored)
    yield from stored.decode(partition_log.topic_partition, groups)


class _Pending(NamedTuple):
    """An offset that an open transaction commits."""

    record_offset: int
    value: bytes | None
    """None if a later record counts already."""


class _Stored:
    """A `Replay` that keeps the last value of every key, and pending values of open transactions."""

    def __init__(self) -> None:
        self._metadata: dict[bytes, bytes] = {}
        self._of_modern_groups: dict[str, dict[bytes, bytes]] = {}
        """Values by group id, and by key."""
        self._offsets: dict[bytes, dict[int, bytes]] = {}
        """Values by the prefix of their keys, which most keys share with many others, and by partition."""
        self._pending: dict[int, dict[bytes, _Pending]] = {}

    def add(self, key: bytes, record: Record) -> None:
        if key.startswith(OFFSET_KEYS):
            self._set(key, record.value)
            if self._pending:
                self._supersede(key, record)
        elif (kind := key_type(key)) == GROUP:
            if record.value is None:
                self._metadata.pop(key, None)
            else:
                self._metadata[key] = record.value
        elif kind in record_format.KINDS:
            self._set_of_modern_group(key, record.value)

    def _set_of_modern_group(self, key: bytes, value: bytes | None) -> None:
        group_id = record_format.decode_key(key).group_id
        values = self._of_modern_groups.setdefault(group_id, {})
        values.pop(key, None)
        if value is not None:
            values[key] = value
        if not values:
            del self._of_modern_groups[group_id]

    def _set(self, key: bytes, value: bytes | None) -> None:
        prefix, partition = split_offset_key(key)
        offsets = self._offsets.get(prefix)
        if offsets is None:
            offsets = self._offsets[prefix] = {}
        if value is None:
            offsets.pop(partition, None)
        else:
            offsets[partition] = value

    def _supersede(self, key: bytes, record: Record) -> None:
        """Void pending values of a key: a later record counts. They stay pending, unless that record removes the
        offset."""
        for pending in self._pending.values():
            if key in pending and record.value is None:
                del pending[key]
            elif key in pending:
                pending[key] = pending[key]._replace(value=None)

    def add_pending(self, producer_id: int, key: bytes, record: Record) -> None:
        """Add a record of a transaction, which may only commit offsets."""
        if key.startswith(OFFSET_KEYS) and record.value is not None:
            split_offset_key(key)
            self._pending.setdefault(producer_id, {})[key] = _Pending(record.offset, record.value)

    def decide(self, producer_id: int, *, is_commit: bool) -> None:
        for key, (record_offset, value) in self._pending.pop(producer_id, {}).items():
            if not is_commit or value is None:
                continue
            self._set(key, value)
            for pending in self._pending.values():
                if key in pending and pending[key].record_offset < record_offset:
                    pending[key] = pending[key]._replace(value=None)

    def decode(self, topic_partition: TopicPartition, groups: dict[str, LoadedGroup]) -> Iterator[None]:
        """Move all values into `groups`, in steps, each of which frees what it moved."""
        while self._metadata:
            key, value = self._metadata.popitem()
            try:
                group_id = decode_group_key(key)
                groups[group_id] = LoadedGroup(decode_group(value), CommittedOffsets())
            except CorruptRecord as error:
                log.error("%s: a group is left out: %s", topic_partition, error)
            yield
        while self._of_modern_groups:
            group_id, of_group = self._of_modern_groups.popitem()
            kind = record_format.KINDS[key_type(next(reversed(of_group)))]
            changes = yield from _changes(topic_partition, kind, of_group)
            if changes:
                groups[group_id] = LoadedGroup(None, CommittedOffsets(), kind, changes)
        while self._offsets:
            prefix, values = self._offsets.popitem()
            if values:
                yield from _decode_offsets(topic_partition, groups, prefix, values)
        for producer_id, pending in self._pending.items():
            for key, one in pending.items():
                try:
                    _decode_pending(groups, producer_id, key, one)
                except CorruptRecord as error:
                    log.error("%s: the record at %d is left out: %s", topic_partition, one.record_offset, error)
                yield


def _reader(kind: str) -> ReadChange:
    """What reads the records of this kind of group, imported when there are some."""
    if kind == record_format.CONSUMER:
        from .consumer import state_changes as consumer

        return consumer.read_change
    if kind == record_format.SHARE:
        from .share import state_changes as share

        return share.read_change
    from .streams import state_changes as streams

    return streams.read_change


def _changes(
    topic_partition: TopicPartition, kind: str, values: Mapping[bytes, bytes]
) -> Generator[None, None, list[Change[Any]]]:
    """Decode the records of a group of this kind, in steps, in the order in which their changes can be applied."""
    read_change = _reader(kind)
    changes: list[Change[Any]] = []
    for key, value in sorted(values.items()):  # by type: members before what they have
        try:
            key_type, _, name = record_format.decode_key(key)
            change = read_change(key_type, name, value) if record_format.KINDS[key_type] == kind else None
        except CorruptRecord as error:
            log.error("%s: a record of a %s group is left out: %s", topic_partition, kind, error)
            continue
        if change is not None:
            changes.append(change)
        yield
    return changes


def _decode_offsets(
    topic_partition: TopicPartition, groups: dict[str, LoadedGroup], prefix: bytes, values: dict[int, bytes]
) -> Iterator[None]:
    """Decode the offsets of a group for one topic, in steps."""
    try:
        group_id, topic = decode_offset_prefix(prefix)
    except CorruptRecord as error:
        log.error("%s: %d committed offsets are left out: %s", topic_partition, len(values), error)
        return
    decoded = {}
    while values:
        partition, value = values.popitem()
        try:
            decoded[partition] = decode_offset(value)
        except CorruptRecord as error:
            where = (topic_partition, group_id, topic, partition)
            log.error("%s: the offset of group %r for %s-%d is left out: %s", *where, error)
        if len(values) % RECORDS_A_STEP == 0:
            yield
    if decoded:
        _offsets_of(groups, group_id).partitions(topic).update(decoded)


def _decode_pending(groups: dict[str, LoadedGroup], producer_id: int, key: bytes, pending: _Pending) -> None:
    committed = None if pending.value is None else decode_offset(pending.value)
    prefix, partition = split_offset_key(key)
    group_id, topic = decode_offset_prefix(prefix)
    offsets = _offsets_of(groups, group_id)
    offsets.add_pending(producer_id, TopicPartition(topic, partition), committed, pending.record_offset)


def _offsets_of(groups: dict[str, LoadedGroup], group_id: str) -> CommittedOffsets:
    group = groups.get(group_id)
    if group is None:
        group = groups[group_id] = LoadedGroup(None, CommittedOffsets())
    return group.offsets
