"""Write files of metadata records: snapshots in Kafka's format (KIP-630), which is also that of bootstrap.checkpoint.

Record batches of magic 2, back to back, with offsets from 0, all of leader epoch 0:

    control batch   SnapshotHeader, and the quorum's own records
    batches         the metadata records, each the value of a record without a key
    control batch   SnapshotFooter
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Sequence

from ..protocol.metadata_records import MetadataRecord, SnapshotFooter, SnapshotHeader
from ..protocol.records.batch import build_batch
from ..protocol.records.control import ControlType
from ..protocol.records.record import Record
from ..protocol.schema import Message
from ..storage.filesystem import File, FileSystem

_CONTROL_KEY = struct.Struct(">hh")
_BATCH_BYTES = 64 * 1024
"""Bytes of metadata records after which a new batch begins."""

ControlRecord = tuple[ControlType, Message]


def write_snapshot(
    filesystem: FileSystem,
    path: str,
    records: Iterable[MetadataRecord],
    *,
    now_ms: int,
    control_records: Sequence[ControlRecord] = (),
    last_contained_log_timestamp_ms: int = 0,
) -> int:
    """Write a new file, which is on the disk when this returns; return the number of metadata records. Blocks.

    `control_records` follow the header. Holds one batch at a time. OSError if the disk refuses.
    """
    header = SnapshotHeader(last_contained_log_timestamp_ms=last_contained_log_timestamp_ms)
    file = filesystem.open(path, create=True)
    try:
        writer = _Writer(file, now_ms)
        writer.append_control([(ControlType.SNAPSHOT_HEADER, header), *control_records])
        count = writer.append_all(records)
        writer.append_control([(ControlType.SNAPSHOT_FOOTER, SnapshotFooter())])
        file.sync()
    finally:
        file.close()
    return count


class _Writer:
    """Appends batches and assigns offsets."""

    def __init__(self, file: File, now_ms: int) -> None:
        self._file = file
        self._now_ms = now_ms
        self._next_offset = 0

    def append_control(self, records: Sequence[ControlRecord]) -> None:
        """Append one batch of control records."""
        pairs = [(_CONTROL_KEY.pack(0, kind), b"".join(record.encode(0))) for kind, record in records]
        self._append(pairs, is_control=True)

    def append_all(self, records: Iterable[MetadataRecord]) -> int:
        """Append records in batches; return the number of records."""
        count = size = 0
        values: list[tuple[None, bytes]] = []
        for record in records:
            value = record.framed()
            values.append((None, value))
            count += 1
            size += len(value)
            if size >= _BATCH_BYTES:
                self._append(values)
                values, size = [], 0
        if values:
            self._append(values)
        return count

    def _append(self, pairs: Sequence[tuple[bytes | None, bytes]], *, is_control: bool = False) -> None:
        base_offset = self._next_offset
        records = [Record(base_offset + at, self._now_ms, key, value) for at, (key, value) in enumerate(pairs)]
        self._file.append(build_batch(records, base_offset=base_offset, leader_epoch=0, control=is_control))
        self._next_offset += len(records)
