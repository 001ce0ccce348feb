"""Dump the three indexes of a segment, compared with their log if it exists."""

from __future__ import annotations

from collections.abc import Iterator
from struct import Struct

from ...protocol.records.batch import BatchHeader
from .dump_log import Found, look, walk
from .dump_report import Damage, Dump, File, Note, Part, Source, count, time_of

_OFFSET_ENTRY = Struct(">ii")
_TIME_ENTRY = Struct(">qi")
_TRANSACTION_ENTRY = Struct(">hqqqq")


def dump_offset_index(source: Source, base_offset: int, log: Source | None) -> Dump:
    """Dump entries (offset, position): each has the last offset of the batch that starts at the position."""
    data, zeros = _content(source, _OFFSET_ENTRY)
    yield File(source.path, f"offset index, {count(len(data) // _OFFSET_ENTRY.size, 'entry')}")
    last_offset = last_position = -1
    for at, (relative, position) in _entries(data, _OFFSET_ENTRY):
        offset = base_offset + relative
        yield Part("entry", {"offset": offset, "position": position})
        if relative < 0 or offset <= last_offset or position <= last_position:
            yield Damage(source.path, at, f"({offset} at {position}) comes after ({last_offset} at {last_position})")
        elif log is not None and (problem := _what_is_wrong(log, offset, position)):
            yield Damage(source.path, at, problem)
        last_offset, last_position = offset, position
    yield from _tail(source, _OFFSET_ENTRY, zeros)


def dump_time_index(source: Source, base_offset: int, log: Source | None) -> Dump:
    """Dump entries (timestamp, offset): no batch up to and including the offset has a later timestamp."""
    data, zeros = _content(source, _TIME_ENTRY)
    yield File(source.path, f"time index, {count(len(data) // _TIME_ENTRY.size, 'entry')}")
    last_timestamp, last_offset = -1, base_offset
    latest = _LatestTimestamps(walk(log, base_offset, verify=False) if log is not None else iter(()))
    for at, (timestamp, relative) in _entries(data, _TIME_ENTRY):
        offset = base_offset + relative
        yield Part("entry", {"time": time_of(timestamp), "timestamp": timestamp, "offset": offset})
        if relative < 0 or timestamp <= last_timestamp or offset < last_offset:
            yield Damage(source.path, at, f"({timestamp}, {offset}) comes after ({last_timestamp}, {last_offset})")
        elif (later := latest.up_to(offset)) > timestamp:
            yield Damage(source.path, at, f"up to offset {offset} there is a timestamp of {later}, after {timestamp}")
        last_timestamp, last_offset = timestamp, offset
    yield from _tail(source, _TIME_ENTRY, zeros)


def dump_transaction_index(source: Source, base_offset: int, log: Source | None) -> Dump:
    """Dump aborted transactions, in the order of their ABORT markers."""
    data = source.read(0, source.size)
    yield File(source.path, f"aborted transactions, {count(len(data) // _TRANSACTION_ENTRY.size, 'entry')}")
    last_marker = base_offset - 1
    for at, (version, producer_id, first_offset, marker, last_stable_offset) in _entries(data, _TRANSACTION_ENTRY):
        fields = {"producer": producer_id, "first_offset": first_offset, "marker": marker}
        yield Part("entry", {**fields, "last_stable_offset": last_stable_offset})
        if version != 0:
            yield Damage(source.path, at, f"there is no version {version}")
        elif marker <= last_marker:
            yield Damage(source.path, at, f"the marker at {marker} comes after {last_marker}")
        elif first_offset > marker:
            yield Damage(source.path, at, f"the transaction begins at {first_offset}, after its marker at {marker}")
        last_marker = marker
    yield from _tail(source, _TRANSACTION_ENTRY, 0)


class _LatestTimestamps:
    """The largest timestamp up to an offset, for offsets that ascend: one walk through the log."""

    def __init__(self, batches: Iterator[Found]) -> None:
        self._batches = batches
        self._largest = -1
        self._ahead: BatchHeader | None = None

    def up_to(self, offset: int) -> int:
        while True:
            if self._ahead is None:
                self._ahead = next(
                    (found.header for found in self._batches if found.header and not found.problem), None
                )
            if self._ahead is None or self._ahead.last_offset > offset:
                return self._largest
            self._largest = max(self._largest, self._ahead.max_timestamp)
            self._ahead = None


def _what_is_wrong(log: Source, offset: int, position: int) -> str:
    """Return how the log contradicts an entry of the offset index; empty if it does not."""
    if position >= log.size:
        return f"position {position} is beyond the batches of the log, which has {log.size} bytes"
    found = look(log, position)
    if found.header is None or found.problem:
        return f"at position {position} of the log there is no whole batch"
    header = found.header
    if header.last_offset > offset or header.base_offset > offset:
        return f"the batch at position {position} ends at offset {header.last_offset}, not at {offset}"
    return ""


def _content(source: Source, entry: Struct) -> tuple[bytes, int]:
    """Return the entries without the zeros after them, and the number of entries of zeros."""
    data = source.read(0, source.size)
    used = -(-len(data.rstrip(b"\0")) // entry.size) * entry.size
    zeros = (len(data) - used) // entry.size
    return (data[:used], zeros) if zeros > 0 else (data, 0)


def _entries(data: bytes, entry: Struct) -> Iterator[tuple[int, tuple[int, ...]]]:
    whole = len(data) - len(data) % entry.size
    return zip(range(0, whole, entry.size), entry.iter_unpack(memoryview(data)[:whole]), strict=True)


def _tail(source: Source, entry: Struct, zeros: int) -> Dump:
    if zeros:
        yield Note(f"{count(zeros, 'entry')} of zeros: place that Apache Kafka reserves while a segment is active")
    rest = source.size % entry.size
    if rest:
        yield Damage(source.path, source.size - rest, f"a rest of {count(rest, 'byte')} is no whole entry")
