"""Checkpoint files: small texts, rewritten whole and atomically.

A version line, a count line, then one entry a line. An empty file has no entries (Kafka creates it so), a missing one
has none either. Anything else that does not read is CorruptCheckpoint: half a checkpoint is never believed.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from functools import lru_cache

from ..protocol.topics import TopicPartition
from .filenames import LOG_BEGIN_OFFSET_CHECKPOINT, LOG_START_OFFSET_CHECKPOINT
from .filesystem import FileSystem, write_atomically

_VERSION = 0


class CorruptCheckpoint(Exception):
    """The file is not a checkpoint of the version we know, whole. The message names the file and the line."""


def read_offsets(filesystem: FileSystem, path: str) -> dict[TopicPartition, int]:
    """The `topic partition offset` entries of a checkpoint of a log directory."""
    try:
        data = filesystem.read(path)
    except FileNotFoundError:
        return {}
    try:
        return {
            TopicPartition(topic, _integer(number, partition)): _integer(number, offset)
            for number, (topic, partition, offset) in enumerate(_parse(data, 3), start=3)
        }
    except CorruptCheckpoint as error:
        raise CorruptCheckpoint(f"{path}: {error}") from error


def write_offsets(filesystem: FileSystem, path: str, offsets: Mapping[TopicPartition, int]) -> None:
    """Replace the file by these entries, on the disk when it returns. Blocks: call it off the loop."""
    write_atomically(filesystem, path, encode_offsets(offsets))


def encode_offsets(offsets: Mapping[TopicPartition, int]) -> bytes:
    return _encode(f"{topic} {partition} {offset}" for (topic, partition), offset in offsets.items())


def read_log_start_offsets(filesystem: FileSystem, log_directory: str) -> dict[TopicPartition, int]:
    """From Kafka's file, or from the one named as in KIP-107 where Kafka's is missing."""
    path = os.path.join(log_directory, LOG_START_OFFSET_CHECKPOINT)
    if not filesystem.exists(path):
        path = os.path.join(log_directory, LOG_BEGIN_OFFSET_CHECKPOINT)
    return read_offsets(filesystem, path)


def write_log_start_offsets(filesystem: FileSystem, log_directory: str, offsets: Mapping[TopicPartition, int]) -> None:
    """The same bytes under Kafka's name and under the KIP's. Kafka's, which decides, is complete first."""
    data = encode_offsets(offsets)
    for name in (LOG_START_OFFSET_CHECKPOINT, LOG_BEGIN_OFFSET_CHECKPOINT):
        write_atomically(filesystem, os.path.join(log_directory, name), data)


def read_epochs(filesystem: FileSystem, path: str) -> list[tuple[int, int]]:
    """The (epoch, start offset) entries of a partition's `leader-epoch-checkpoint`."""
    try:
        data = filesystem.read(path)
    except FileNotFoundError:
        return []
    try:
        return list(_epochs_in(data))
    except CorruptCheckpoint as error:
        raise CorruptCheckpoint(f"{path}: {error}") from error


@lru_cache(maxsize=16)  # partitions that were created together are loaded one after the other, and have equal files
def _epochs_in(data: bytes) -> tuple[tuple[int, int], ...]:
    return tuple(
        (_integer(number, epoch), _integer(number, start_offset))
        for number, (epoch, start_offset) in enumerate(_parse(data, 2), start=3)
    )


def write_epochs(
    filesystem: FileSystem, path: str, entries: Iterable[tuple[int, int]], *, sync_name: bool = True
) -> None:
    """Replace the file by these entries, on the disk when it returns. Without `sync_name` the caller syncs the
    directory later. Blocks."""
    data = _encode(f"{epoch} {start_offset}" for epoch, start_offset in entries)
    write_atomically(filesystem, path, data, sync_name=sync_name)


def _encode(entries: Iterable[str]) -> bytes:
    lines = list(entries)
    return "".join(f"{line}\n" for line in (_VERSION, len(lines), *lines)).encode()


def _parse(data: bytes, fields_per_entry: int) -> list[list[str]]:
    """The fields of each entry. CorruptCheckpoint names the line and not the file."""
    if not data:
        return []
    try:
        lines = data.decode().splitlines()
    except UnicodeDecodeError as error:
        raise CorruptCheckpoint("not text") from error
    if _integer(1, lines[0]) != _VERSION:
        raise CorruptCheckpoint(f"version {lines[0]} is unknown")
    count = _integer(2, lines[1] if len(lines) > 1 else "")
    if count != len(lines) - 2:
        raise CorruptCheckpoint(f"{count} entries announced, {len(lines) - 2} there")
    entries = [line.split() for line in lines[2:]]
    for number, entry in enumerate(entries, start=3):
        if len(entry) != fields_per_entry:
            raise CorruptCheckpoint(f"line {number} has {len(entry)} fields instead of {fields_per_entry}")
    return entries


def _integer(line: int, text: str) -> int:
    """A number that is not negative, in ASCII digits (int() alone would take more)."""
    if not (text.isascii() and text.isdigit() and len(text) <= 19):
        raise CorruptCheckpoint(f"line {line}: {text[:40]!r} is not a number")
    return int(text)
