"""Read from the checkpoint of a streaming query which records it has processed. This needs the files only, no Spark.

    offsets/N     written before micro-batch N runs: the offsets up to which it will read
    commits/N     written when the sink has taken all of batch N and its state is stored
    sources/I/0   for a Kafka source: the offsets at which it began; I is its number, or its name if it has one

A query that restarts runs the last batch of `offsets/` again if `commits/` lacks it, from the end of the batch before.
Let K be the highest id in `commits/`: records before the ends in `offsets/K` are never read again, and records after
them may be. `offsets/` alone says what was planned, not what was done.

Both files have a line with their version and a line of JSON about the batch. `commits/` has `v1`; `v2` says more about
state and `v3` more about the sink. In `offsets/` lines with one offset each follow, `-` for none. With `v1` there is
one line for every *use* of a source in the query's plan, so a DataFrame that is used twice has two lines and one folder
in `sources/`. The number of a line is therefore not the number of a source. With `v2` a source has one line, which
begins with a name or a number, and a colon. A Kafka offset names its topic itself: `{"topic":{"partition":offset}}`;
`sources/` tells which sources are Kafka's.

As written by Spark 4.0.0, 4.1.1 and 4.2.0. 4.2 writes v2 of `offsets/` if `spark.sql.streaming.offsetLog.formatVersion`
is 2. v2 of `commits/` comes with `spark.sql.streaming.stateStore.checkpointFormatVersion` 2, v3 with a named sink.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

OFFSET_VERSIONS = (b"v1", b"v2")
COMMIT_VERSIONS = (b"v1", b"v2", b"v3")
SOURCE_VERSIONS = (b"v1",)
NO_OFFSET = b"-"
SOURCE_KEY = re.compile(rb"\w+")
"""Matches the number of a source, or its name."""

Partitions = dict[tuple[str, int], int]
"""(topic, partition) -> offset."""


class CheckpointError(Exception):
    """A file of a checkpoint is missing or has an unknown format; the message names the file."""


class CheckpointFiles(Protocol):
    """The folder of a checkpoint on any file system."""

    def names(self, folder: str) -> Iterable[str]:
        """The names of the files in a folder; none if there is no folder."""

    def read(self, name: str) -> bytes:
        """The content of a file. Raises FileNotFoundError."""


class LocalFiles:
    """A checkpoint on this machine."""

    def __init__(self, path: str | Path) -> None:
        self.path = Path(path)

    def names(self, folder: str) -> list[str]:
        try:
            return [entry.name for entry in (self.path / folder).iterdir()]
        except (FileNotFoundError, NotADirectoryError):
            return []

    def read(self, name: str) -> bytes:
        return (self.path / name).read_bytes()

    def __str__(self) -> str:
        return str(self.path)


@dataclass(frozen=True)
class Processed:
    """The progress of a query at one batch."""

    batch_id: int
    """The highest committed batch; of `read_planned`, the highest planned one."""
    offsets: Mapping[tuple[str, int], int]
    """(topic, partition) -> the first offset that is not processed; the smallest one if several sources read it."""


def last_commit(files: CheckpointFiles) -> int | None:
    """The id of the last committed batch; None before the first commit."""
    return max(_batch_ids(files, "commits"), default=None)


def read_processed(files: CheckpointFiles) -> Processed | None:
    """The progress of the query at its last committed batch; None before the first commit.

    Raises `CheckpointError` for a file that Spark 4.0 to 4.2 do not write, and if `offsets/` lacks the batch.
    """
    batch_id = last_commit(files)
    if batch_id is None:
        return None
    _, commit = _lines(files, f"commits/{batch_id}", COMMIT_VERSIONS)
    _json(commit[0] if commit else b"", f"{files}/commits/{batch_id}")
    return _ends_of(files, batch_id)


def read_planned(files: CheckpointFiles) -> Processed | None:
    """The progress that the query will have after its last planned batch, committed or not; None without a batch.
    Purging must not use it. Raises `CheckpointError`."""
    batch_id = max(_batch_ids(files, "offsets"), default=None)
    return None if batch_id is None else _ends_of(files, batch_id)


def _ends_of(files: CheckpointFiles, batch_id: int) -> Processed:
    """The offsets up to which a batch reads, from `offsets/`.

    A topic is left out if no Kafka source began with it, or if more sources began with it than have an offset: then a
    line without an offset may belong to it.
    """
    name = f"offsets/{batch_id}"
    version, content = _lines(files, name, OFFSET_VERSIONS)
    metadata, *lines = content or [b""]
    _json(metadata, f"{files}/{name}")
    if version == b"v2":
        lines = [_after_key(line, f"{files}/{name}") for line in lines]
    uses = [found for line in lines if (found := kafka_offsets(line, f"{files}/{name}"))]
    sources = kafka_sources(files)
    offsets: Partitions = {}
    for (topic, partition), offset in (item for found in uses for item in found.items()):
        if 0 < _count_with(sources, topic) <= _count_with(uses, topic):
            offsets[topic, partition] = min(offset, offsets.get((topic, partition), offset))
    return Processed(batch_id, offsets)


def _after_key(line: bytes, name: str) -> bytes:
    """The offset in a line of `v2`, which begins with the source's key. Raises `CheckpointError` for one without."""
    key, colon, offset = line.partition(b":")
    if not SOURCE_KEY.fullmatch(key) or not colon:
        raise CheckpointError(f"{name} has a line without the name of a source: {line[:60]!r}")
    return offset


def _count_with(sources: Iterable[Partitions], topic: str) -> int:
    """Number of these sources that have a partition of the topic."""
    return sum(any(name == topic for name, _ in source) for source in sources)


def kafka_offsets(line: bytes, name: str) -> Partitions | None:
    """The offsets in one line of the file `name`; None for a line of another kind of source.

    Raises `CheckpointError` for a line of neither.
    """
    if line == NO_OFFSET:
        return None
    content = _json(line, name, is_object=False)
    if not isinstance(content, dict) or not content or not all(isinstance(value, dict) for value in content.values()):
        return None
    offsets: Partitions = {}
    for topic, partitions in content.items():
        for partition, offset in partitions.items():
            if not (partition.isascii() and partition.isdigit() and type(offset) is int):
                return None
            if offset < 0:  # "latest" and "earliest" are never in an offset log
                raise CheckpointError(f"{name}: {topic}-{partition} has offset {offset}")
            offsets[topic, int(partition)] = offset
    return offsets


def kafka_sources(files: CheckpointFiles) -> list[Partitions]:
    """The first offsets of each Kafka source of the query, in the order of the folders in `sources/`.

    Raises `CheckpointError` for a Kafka source that Spark 4.0 to 4.2 do not write.
    """
    found = []
    names = [name for name in files.names("sources") if SOURCE_KEY.fullmatch(name.encode())]
    for number in sorted(names, key=lambda name: (len(name), name)):
        name = f"sources/{number}/0"
        try:
            content = files.read(name)
        except (FileNotFoundError, NotADirectoryError):
            continue
        if not content.startswith(b"\0"):  # Kafka's source writes the byte for readers older than Spark 2.1
            continue
        version, _, line = content.lstrip(b"\0").partition(b"\n")
        _check_version(version, f"{files}/{name}", SOURCE_VERSIONS)
        found.append(kafka_offsets(line.strip(), f"{files}/{name}") or {})
    return found


def _batch_ids(files: CheckpointFiles, folder: str) -> list[int]:
    """The ids that are names of files. Unfinished files and checksums begin with a dot, and are no ids."""
    return [int(name) for name in files.names(folder) if name.isascii() and name.isdigit()]


def _lines(files: CheckpointFiles, name: str, versions: tuple[bytes, ...]) -> tuple[bytes, list[bytes]]:
    """The version of a file, and the lines after it."""
    try:
        version, *lines = files.read(name).splitlines() or [b""]
    except FileNotFoundError:
        raise CheckpointError(f"{files}/{name} is missing") from None
    _check_version(version, f"{files}/{name}", versions)
    return version, lines


def _check_version(version: bytes, name: str, known: tuple[bytes, ...]) -> None:
    if version not in known:
        said = " or ".join(one.decode() for one in known)
        raise CheckpointError(f"{name} begins with {version[:20]!r}, not with {said}")


def _json(line: bytes, name: str, *, is_object: bool = True) -> Any:
    try:
        content = json.loads(line)
    except ValueError:
        raise CheckpointError(f"{name} has a line that is no JSON: {line[:60]!r}") from None
    if is_object and not isinstance(content, dict):
        raise CheckpointError(f"{name} says nothing about its batch: {line[:60]!r}")
    return content
