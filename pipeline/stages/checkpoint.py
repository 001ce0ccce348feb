"""What the checkpoint of a streaming query says was processed: from its files alone, without Spark.

    offsets/N     written before micro-batch N runs: up to where it is going to read
    commits/N     written when the sink has taken all of batch N, and its state is stored
    sources/I/0   of a Kafka source: the offsets at which it began

A query that starts again runs the last batch of `offsets/` once more if it is not in `commits/`, from where the one
before it ended. So what lies before the ends in `offsets/K`, K being the highest id in `commits/`, is never asked for
again, and what lies behind them may be: `offsets/` alone says what was planned, not what was done.

Both files have a line with their version, `v1` (of a commit also `v2`, which tells more about state), and a line of
JSON about the batch. In `offsets/` lines follow with an offset each, `-` for none: one for every *use* of a source in
the query's plan, so that a DataFrame that is used twice has two lines and one folder in `sources/`. The number of a
line is therefore not that of a source. A Kafka offset needs none, it says what it is about:
`{"topic":{"partition":offset}}`; which sources are Kafka's is in `sources/`. (Seen in Spark 4.0.0.)
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

OFFSET_VERSIONS = (b"v1",)
COMMIT_VERSIONS = (b"v1", b"v2")
NO_OFFSET = b"-"

Partitions = dict[tuple[str, int], int]
"""(topic, partition) -> offset."""


class CheckpointError(Exception):
    """A file of a checkpoint that is not understood, or is missing; the message names it."""


class CheckpointFiles(Protocol):
    """The folder of a checkpoint, wherever it lies."""

    def names(self, folder: str) -> Iterable[str]:
        """Of the files in a folder; none if there is no folder."""

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
    """How far a query has come, for good."""

    batch_id: int
    """The highest that is committed."""
    offsets: Mapping[tuple[str, int], int]
    """Of each partition, the first offset that was not processed; of several sources that read it the smallest."""


def last_commit(files: CheckpointFiles) -> int | None:
    """The id of the last batch that is committed; None if none is."""
    return max(_batch_ids(files, "commits"), default=None)


def read_processed(files: CheckpointFiles) -> Processed | None:
    """How far the query has come; None if it has not committed a batch.

    Raises `CheckpointError` for files that this release of Spark does not write, and where `offsets/` lacks the batch.
    """
    batch_id = last_commit(files)
    if batch_id is None:
        return None
    commit = _lines(files, f"commits/{batch_id}", COMMIT_VERSIONS)
    _json(commit[0] if commit else b"", f"{files}/commits/{batch_id}")
    return _ends_of(files, batch_id)


def read_planned(files: CheckpointFiles) -> Processed | None:
    """How far the last batch was going to read that was planned, done or not; None if none was. Nothing may be purged
    by this. Raises `CheckpointError`."""
    batch_id = max(_batch_ids(files, "offsets"), default=None)
    return None if batch_id is None else _ends_of(files, batch_id)


def _ends_of(files: CheckpointFiles, batch_id: int) -> Processed:
    """Up to where a batch reads, by `offsets/`.

    A topic is left out if no Kafka source began with it, or if more of them did than have an offset: then one of the
    lines without offsets may be about it.
    """
    name = f"offsets/{batch_id}"
    metadata, *lines = _lines(files, name, OFFSET_VERSIONS) or [b""]
    _json(metadata, f"{files}/{name}")
    uses = [found for line in lines if (found := kafka_offsets(line, f"{files}/{name}"))]
    sources = kafka_sources(files)
    offsets: Partitions = {}
    for (topic, partition), offset in (item for found in uses for item in found.items()):
        if 0 < _how_many(sources, topic) <= _how_many(uses, topic):
            offsets[topic, partition] = min(offset, offsets.get((topic, partition), offset))
    return Processed(batch_id, offsets)


def _how_many(sources: Iterable[Partitions], topic: str) -> int:
    return sum(any(name == topic for name, _ in source) for source in sources)


def kafka_offsets(line: bytes, name: str) -> Partitions | None:
    """The offsets in one line, of the file `name`; None for that of another kind of source.

    Raises `CheckpointError` for what is neither.
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
    """Where each Kafka source of the query began, in the order of the folders in `sources/`."""
    found = []
    for number in sorted(_batch_ids(files, "sources")):
        try:
            content = files.read(f"sources/{number}/0")
        except (FileNotFoundError, NotADirectoryError):
            continue
        version, _, line = content.lstrip(b"\0").partition(b"\n")  # a zero byte is for readers of before Spark 2.1
        if content.startswith(b"\0") and version == b"v1":
            found.append(kafka_offsets(line.strip(), f"{files}/sources/{number}/0") or {})
    return found


def _batch_ids(files: CheckpointFiles, folder: str) -> list[int]:
    """Of files in the making, and of their checksums, the names begin with a dot."""
    return [int(name) for name in files.names(folder) if name.isascii() and name.isdigit()]


def _lines(files: CheckpointFiles, name: str, versions: tuple[bytes, ...]) -> list[bytes]:
    """The lines after that of the version."""
    try:
        version, *lines = files.read(name).splitlines() or [b""]
    except FileNotFoundError:
        raise CheckpointError(f"{files}/{name} is missing") from None
    if version not in versions:
        known = " or ".join(one.decode() for one in versions)
        raise CheckpointError(f"{files}/{name} begins with {version[:20]!r}, not with {known}")
    return lines


def _json(line: bytes, name: str, *, is_object: bool = True) -> Any:
    try:
        content = json.loads(line)
    except ValueError:
        raise CheckpointError(f"{name} has a line that is no JSON: {line[:60]!r}") from None
    if is_object and not isinstance(content, dict):
        raise CheckpointError(f"{name} says nothing about its batch: {line[:60]!r}")
    return content
