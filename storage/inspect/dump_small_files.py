"""Dump producer snapshots, checkpoints, and the files that name the owner of a directory."""

from __future__ import annotations

from collections.abc import Iterator
from struct import Struct

from ...protocol.records.crc import crc32c
from ...protocol.uuids import parse_uuid
from ..producers.producer_entry import ProducerEntry
from ..producers.producer_snapshot import (
    ENTRY,
    entry_of,
)
from .dump_report import Damage, Dump, File, Note, Part, Source, Span, count, shown, time_of

_PREFIX = Struct(">hIi")
_SNAPSHOT_VERSION = 1
_CRC_AT, _COUNT_AT = 2, 6

OFFSET_FIELDS = ("topic", "partition", "offset")
EPOCH_FIELDS = ("epoch", "start_offset")
_CHECKPOINT_VERSION = "0"


def dump_snapshot(source: Source, offset: int) -> Dump:
    """Dump the state of each producer at `offset`."""
    data = source.read(0, source.size)
    whole = max(0, len(data) - _PREFIX.size) // ENTRY.size
    yield File(source.path, f"producers before offset {offset}, {count(whole, 'entry')}")
    if len(data) < _PREFIX.size:
        yield Damage(source.path, 0, f"{count(len(data), 'byte')} are too few for a snapshot")
        return
    version, crc, announced = _PREFIX.unpack_from(data)
    if version != _SNAPSHOT_VERSION:
        yield Damage(source.path, 0, f"version {version} is unknown")
    actual = crc32c(memoryview(data)[_COUNT_AT:])
    if actual != crc:
        yield Damage(source.path, _CRC_AT, f"the CRC is {actual:08x}, it says {crc:08x}")
    if announced != whole:
        yield Damage(source.path, _COUNT_AT, f"{announced} entries are announced, {whole} are there")
    for fields in ENTRY.iter_unpack(memoryview(data)[_PREFIX.size : _PREFIX.size + whole * ENTRY.size]):
        yield Part("producer", _producer(entry_of(*fields)))
    rest = (len(data) - _PREFIX.size) % ENTRY.size
    if rest:
        yield Damage(source.path, len(data) - rest, f"a rest of {count(rest, 'byte')} is no whole entry")


def _producer(entry: ProducerEntry) -> dict[str, object]:
    fields: dict[str, object] = {"producer": entry.producer_id, "epoch": entry.epoch}
    for last in entry.batches:
        fields |= {"last_sequence": last.last_sequence, "last_batch": Span(last.first_offset, last.last_offset)}
    fields["time"] = time_of(entry.last_timestamp)
    if entry.coordinator_epoch >= 0:
        fields["coordinator_epoch"] = entry.coordinator_epoch
    if entry.transaction_first_offset is not None:
        fields["open_transaction_since"] = entry.transaction_first_offset
    return fields


def dump_checkpoint(source: Source, fields: tuple[str, ...]) -> Dump:
    """Dump a checkpoint: version, count, and entries with these fields."""
    lines = list(_lines(source))
    yield File(source.path, f"checkpoint, {count(max(0, len(lines) - 2), 'entry')}")
    if not lines:
        return
    at, version = lines[0]
    if version != _CHECKPOINT_VERSION:
        yield Damage(source.path, at, f"version {shown(version.encode())} is unknown")
    if len(lines) == 1:
        yield Damage(source.path, source.size, "the number of entries is missing")
        return
    at, announced = lines[1]
    if announced != str(len(lines) - 2):
        yield Damage(source.path, at, f"{shown(announced.encode())} entries are announced, {len(lines) - 2} are there")
    last_epoch: tuple[int, ...] = ()
    for at, line in lines[2:]:
        values = line.split()
        numbers = tuple(int(value) for value in values if value.isascii() and value.isdigit())
        if len(values) != len(fields) or len(numbers) < min(len(fields), 2):
            yield Damage(source.path, at, f"{shown(line.encode())} is not of the form {' '.join(fields)}")
            continue
        yield Part("entry", dict(map(_entry_field, fields, values)))
        if fields == EPOCH_FIELDS:
            if last_epoch and not all(now > before for now, before in zip(numbers, last_epoch, strict=True)):
                yield Damage(source.path, at, f"epoch {line} comes after {last_epoch[0]} {last_epoch[1]}")
            last_epoch = numbers


def _entry_field(name: str, value: str) -> tuple[str, object]:
    is_number = name != "topic" and value.isascii() and value.isdigit()
    return name, int(value) if is_number else value


def dump_key_values(source: Source, title: str, separator: str, required: tuple[str, ...]) -> Dump:
    """Dump lines of key, separator and value. The `required` keys must exist; `…id` keys have ids."""
    yield File(source.path, title)
    found = set()
    for at, line in _lines(source):
        if not line.strip() or line.lstrip().startswith(("#", "!")):
            continue
        key, separated, value = (part.strip() for part in line.partition(separator))
        if not separated:
            yield Damage(source.path, at, f"{shown(line.encode())} is not of the form key{separator} value")
            continue
        found.add(key)
        yield Part("setting", {key: value})
        if key in ("topic_id", "directory.id"):
            try:
                parse_uuid(value)
            except ValueError as error:
                yield Damage(source.path, at, str(error))
    for key in required:
        if key not in found:
            yield Damage(source.path, source.size, f"{key} is missing")


def dump_text(source: Source, title: str) -> Dump:
    """Dump a file whose existence is its meaning."""
    yield File(source.path, title)
    if source.size:
        yield Note(shown(source.read(0, source.size)))


def _lines(source: Source) -> Iterator[tuple[int, str]]:
    """Yield the lines of a text and where each begins; bytes that are no text come escaped."""
    position = 0
    for line in source.read(0, source.size).splitlines(keepends=True):
        yield position, line.rstrip(b"\r\n").decode("utf-8", "backslashreplace")
        position += len(line)
