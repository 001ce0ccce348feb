"""Read the headers of the batches of a segment file, and no records.

They tell the number of records (and so of buckets), where the file stands against the cleaner's checkpoint, since when
it waits for compaction, and how transactions ended. Nothing is verified here: the map step reads everything and reports
damage.
"""

from __future__ import annotations

import contextlib
import os
import struct
from collections.abc import Iterator
from typing import NamedTuple

from ...protocol.errors import CorruptMessage, InvalidRecord
from ...protocol.records.batch import HEADER_SIZE, MAGIC, MAGIC_AT, NO_TIMESTAMP, BatchHeader, read_header
from ...protocol.records.batch_records import decode_records, iter_records
from ...protocol.records.control import ControlType, control_type
from ...storage.filesystem import OsFileSystem
from ...storage.inspect.dump_log import walk
from ...storage.inspect.dump_report import Source
from .transaction_outcomes import ABORTED, COMMITTED, Event, EventsOfFile

WINDOW_BYTES = 64 * 1024
"""Bytes read at a time where batches are small."""
SMALL_BYTES = 4 * 1024
"""Most bytes of a small batch. After a larger batch, only the next header is read."""


class FileHeaders(NamedTuple):
    """A summary of the headers of one file."""

    batches: int = 0
    records: int = 0
    """Number of records; an upper bound for messages of magic 0 and 1, which have only offsets."""
    first_timestamp: int = NO_TIMESTAMP
    """Timestamp of the first record, as the cleaner estimates it (`storage/cleaner/dirtiness.py`)."""
    largest_timestamp: int = NO_TIMESTAMP
    next_offset: int = 0
    """Offset after the last record; the base offset of an empty file."""
    events: tuple[Event, ...] = ()


def read_headers(path: str, base_offset: int) -> FileHeaders:
    """Summarize the headers of a file. OSError if it cannot be read."""
    with open(path, "rb") as file:
        descriptor = file.fileno()
        size = os.fstat(descriptor).st_size
        try:
            return _summary(_headers(descriptor, size), descriptor, base_offset)
        except _Implausible:
            pass
    with contextlib.closing(Source(OsFileSystem(), path)) as source:
        found = ((each.position, each.header) for each in walk(source, base_offset, verify=False) if not each.problem)
        with open(path, "rb") as file:
            return _summary(((p, h) for p, h in found if h is not None), file.fileno(), base_offset)


class _Implausible(Exception):
    """The bytes at this position are not a whole batch of magic 2."""


def _headers(descriptor: int, size: int) -> Iterator[tuple[int, BatchHeader]]:
    position, start, window, length = 0, 0, b"", HEADER_SIZE
    while position < size:
        if position + HEADER_SIZE > start + len(window):
            start, window = position, os.pread(descriptor, length, position)
            if len(window) < HEADER_SIZE:
                raise _Implausible
        at = position - start
        try:
            header = read_header(window, at)
        except (struct.error, CorruptMessage):
            raise _Implausible from None
        if window[at + MAGIC_AT] != MAGIC or header.size < HEADER_SIZE or position + header.size > size:
            raise _Implausible
        yield position, header
        position += header.size
        length = WINDOW_BYTES if header.size < SMALL_BYTES else HEADER_SIZE


def _summary(headers: Iterator[tuple[int, BatchHeader]], descriptor: int, base_offset: int) -> FileHeaders:
    batches = records = 0
    first, largest, next_offset = NO_TIMESTAMP, NO_TIMESTAMP, base_offset
    events = EventsOfFile()
    for position, header in headers:
        if not batches:
            first = _first_timestamp(descriptor, position, header)
        batches += 1
        records += header.record_count if header.magic == MAGIC else header.last_offset_delta + 1
        if header.max_timestamp > largest:
            largest = header.max_timestamp
        next_offset = header.next_offset
        if header.is_transactional:
            if header.is_control:
                _note_marker(descriptor, position, header, events)
            elif header.record_count:
                events.data(header.producer_id, header.base_offset, header.max_timestamp)
    return FileHeaders(batches, records, first, largest, next_offset, events.events())


def _first_timestamp(descriptor: int, position: int, header: BatchHeader) -> int:
    if header.is_log_append_time or header.magic < MAGIC or header.record_count == 0:
        return header.max_timestamp
    if not header.has_delete_horizon:
        return header.base_timestamp
    batch = os.pread(descriptor, header.size, position)
    with contextlib.suppress(CorruptMessage, InvalidRecord):
        for records in iter_records(batch, 0, header):
            return records[0].timestamp
    return header.max_timestamp


def _note_marker(descriptor: int, position: int, header: BatchHeader, events: EventsOfFile) -> None:
    if header.record_count == 0:
        return  # a cleaning emptied it: no data of its transaction was left
    with contextlib.suppress(CorruptMessage, InvalidRecord, IndexError):
        kind = control_type(decode_records(os.pread(descriptor, header.size, position), 0, header)[0].key)
        if kind == ControlType.ABORT:
            events.marker(ABORTED, header.producer_id, header.base_offset, header.max_timestamp)
        elif kind == ControlType.COMMIT:
            events.marker(COMMITTED, header.producer_id, header.base_offset, header.max_timestamp)
