"""Dump the files of a data directory for people, with the damage in them (`kmini log dump`).

Reads, and never writes; a broker may run on the files. Every name of `filenames.py` is known. The files of a directory
come in the order in which one reads them. Damage is reported with file, byte and reason, and does not end the dump.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable

from .. import filenames
from ..filenames import SegmentFile, parse_segment_file, segment_path
from ..filesystem import FileSystem
from .dump_index import dump_offset_index, dump_time_index, dump_transaction_index
from .dump_log import dump_log, next_offset_of
from .dump_report import Damage, Dump, File, Note, Part, Source, Span, count
from .dump_small_files import (
    EPOCH_FIELDS,
    OFFSET_FIELDS,
    dump_checkpoint,
    dump_key_values,
    dump_snapshot,
    dump_text,
)

__all__ = ["Damage", "File", "Note", "Part", "Span", "dump"]

_OFFSET_CHECKPOINTS = (
    filenames.RECOVERY_POINT_CHECKPOINT,
    filenames.LOG_START_OFFSET_CHECKPOINT,
    filenames.LOG_BEGIN_OFFSET_CHECKPOINT,
    filenames.HIGH_WATERMARK_CHECKPOINT,
    filenames.CLEANER_CHECKPOINT,
)

_NAMED: dict[str, Callable[[Source], Dump]] = {
    **dict.fromkeys(_OFFSET_CHECKPOINTS, lambda source: dump_checkpoint(source, OFFSET_FIELDS)),
    filenames.LEADER_EPOCH_CHECKPOINT: lambda source: dump_checkpoint(source, EPOCH_FIELDS),
    filenames.PARTITION_METADATA: lambda source: dump_key_values(
        source, "whose log this is", ":", ("version", "topic_id")
    ),
    filenames.META_PROPERTIES: lambda source: dump_key_values(source, "whose directory this is", "=", ("version",)),
    filenames.CLEAN_SHUTDOWN: lambda source: dump_text(source, "the last shutdown was clean"),
    filenames.LOCK: lambda source: dump_text(source, "locked while a broker runs"),
}
"""Files with a fixed name, in the order of the dump."""

_INDEXES = {
    filenames.OFFSET_INDEX: dump_offset_index,
    filenames.TIME_INDEX: dump_time_index,
    filenames.TRANSACTION_INDEX: dump_transaction_index,
}
_KINDS = (*filenames.SEGMENT_KINDS, filenames.PRODUCER_SNAPSHOT)

_SUFFIXES = {
    filenames.DELETED: "has left the log and waits to be deleted",
    filenames.CLEANED: "was being written by the cleaner",
    filenames.SWAP: "is about to replace what it was made from",
    filenames.TEMPORARY: "was being written",
}


def dump(filesystem: FileSystem, path: str, *, records: bool = False) -> Dump:
    """Dump a file, the directory of a log, a log directory, or a data directory; with `records`, every record too."""
    if not filesystem.is_directory(path):
        yield from _dump_file(filesystem, path, records)
        return
    names = filesystem.list(path)
    files = [name for name in names if not filesystem.is_directory(os.path.join(path, name))]
    for name in [known for known in _NAMED if known in files]:
        yield from _dump_file(filesystem, os.path.join(path, name), records)
    yield from _dump_segments(filesystem, path, files, records)
    for name in files:
        if name not in _NAMED and parse_segment_file(name) is None:
            yield File(os.path.join(path, name), _what_it_is(name))
    for name in names:
        if name not in files:
            yield from dump(filesystem, os.path.join(path, name), records=records)


def _dump_segments(filesystem: FileSystem, directory: str, names: list[str], records: bool) -> Dump:
    """Dump the segments of a log in order, and report those that do not follow each other."""
    parsed = [file for file in map(parse_segment_file, names) if file is not None]
    in_use = sorted((file for file in parsed if not file.suffix), key=_reading_order)
    bases = [file.base_offset for file in in_use if file.kind == filenames.LOG]
    next_offset = 0
    for file in in_use:
        path = segment_path(directory, file.base_offset, file.kind)
        yield from _dump_file(filesystem, path, records)
        if file.kind == filenames.LOG:
            if file.base_offset < next_offset:
                yield Damage(path, 0, f"the segment before ends at offset {next_offset - 1}, where this one has begun")
            with contextlib.suppress(OSError), contextlib.closing(Source(filesystem, path)) as source:
                next_offset = next_offset_of(source, file.base_offset)
            index = segment_path(directory, file.base_offset, filenames.OFFSET_INDEX)
            if file.base_offset != bases[-1] and filesystem.exists(path) and not filesystem.exists(index):
                yield Damage(index, 0, "is missing; the next start rebuilds it")
        elif file.kind != filenames.PRODUCER_SNAPSHOT and file.base_offset not in bases:
            yield Note(f"there is no log beside {path}: the next start removes it")
    for file in parsed:
        if file.suffix:
            path = segment_path(directory, *file)
            with contextlib.suppress(FileNotFoundError):
                yield File(path, f"{_SUFFIXES[file.suffix]}, {count(filesystem.size(path), 'byte')}")


def _reading_order(file: SegmentFile) -> tuple[int, int]:
    return file.base_offset, _KINDS.index(file.kind)


def _dump_file(filesystem: FileSystem, path: str, records: bool) -> Dump:
    """Dump one file by its name. A suffix such as `.deleted` does not change the content."""
    name = os.path.basename(path)
    named = _NAMED.get(name.removesuffix(filenames.TEMPORARY))
    segment_file = parse_segment_file(name)
    if named is None and segment_file is None:
        yield File(path, _what_it_is(name))
        return
    try:
        with contextlib.closing(Source(filesystem, path)) as source:
            if named is not None:
                yield from named(source)
            elif segment_file is not None:
                yield from _dump_segment_file(filesystem, source, segment_file, records)
    except FileNotFoundError:
        yield File(path, "was removed meanwhile")
    except OSError as error:
        yield Damage(path, 0, f"cannot be read: {error.strerror or error}")


def _dump_segment_file(filesystem: FileSystem, source: Source, file: SegmentFile, records: bool) -> Dump:
    if file.kind == filenames.LOG:
        yield from dump_log(source, file.base_offset, records=records)
        return
    if file.kind == filenames.PRODUCER_SNAPSHOT:
        yield from dump_snapshot(source, file.base_offset)
        return
    log_path = segment_path(os.path.dirname(source.path), file.base_offset, filenames.LOG, file.suffix)
    if not filesystem.exists(log_path):
        yield from _INDEXES[file.kind](source, file.base_offset, None)
        return
    with contextlib.closing(Source(filesystem, log_path)) as log:
        yield from _INDEXES[file.kind](source, file.base_offset, log)


def _what_it_is(name: str) -> str:
    if name == filenames.DATABASE:
        return "topics, settings and producer ids of all brokers"
    for suffix, meaning in _SUFFIXES.items():
        if name.endswith(suffix):
            return meaning
    return "not a file of a log; not shown"
