"""The files of an archive, and its records in order. Needs no Spark.

    ARCHIVE/topic=orders/_topic.json                the topic's properties: `Description`
    ARCHIVE/topic=orders/partition=0/*.parquet      its records, columns as in `COLUMNS`
    ARCHIVE/topic=orders/_spark_metadata/           the list of files that count (Spark's file sink writes it)
    ARCHIVE/_checkpoints/topic=orders/              the progress of archiving

ARCHIVE is a path, or a URI of a file system that Arrow knows.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, field
from itertools import pairwise
from typing import Any, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from pyarrow import fs

FORMAT = 1
DESCRIPTION_FILE = "_topic.json"
SINK_LOG = "_spark_metadata"
TOPIC_FOLDER = "topic="

COLUMNS = ("offset", "timestamp_ms", "timestamp_type", "key", "value", "headers")
"""BIGINT, BIGINT (ms since the epoch, -1 without one), INT (0 create time, 1 log append time, -1 none), BINARY, BINARY,
ARRAY<STRUCT<key: STRING, value: BINARY>> (null without headers); the folder names the partition."""

SCHEMA_DDL = (
    "offset BIGINT, timestamp_ms BIGINT, timestamp_type INT, key BINARY, value BINARY,"
    " headers ARRAY<STRUCT<key: STRING, value: BINARY>>, partition INT"
)

MAX_ROWS = 8192
TARGET_BATCH_BYTES = 4 << 20
BUFFER_BYTES = 1 << 20


_PARTITION = re.compile(r"/partition=(\d+)/[^/]+$")
_ENDLESS = str(2**63 - 1)

HELD = {
    "cleanup.policy": "delete",
    "retention.ms": "-1",
    "retention.bytes": "-1",
    "message.timestamp.type": "CreateTime",
    "message.timestamp.before.max.ms": _ENDLESS,
    "message.timestamp.after.max.ms": _ENDLESS,
    "max.message.bytes": str(2**31 - 1),
}
"""Settings of a topic while it is filled: no record is refused, removed, or given another timestamp. A later run
recognizes an unfinished replay by these settings."""

BROKER_SETTINGS = ("leader.replication.throttled.replicas", "follower.replication.throttled.replicas")
"""Settings that name brokers of the archived cluster."""


class ArchiveError(Exception):
    """An archive or a replay cannot continue; the message gives the reason on one line."""


class NotAnArchive(ArchiveError):
    """The path is no archive, or has no archive of this topic."""


@dataclass(frozen=True)
class Description:
    """The properties of a topic at the time of its archiving that its records do not show."""

    topic: str
    partitions: int
    configs: dict[str, str] | None = field(default_factory=dict)
    """The topic's own settings, without those of its brokers. None: unknown."""
    topic_id: str | None = None
    source: str = "kafka"
    """"kafka", or "log-dir" for an archive of files."""
    isolation_level: str = "read_committed"
    is_complete: bool = False
    """False until the first run has ended."""
    archived_at_ms: int = 0
    """Time of the end of the last run, in ms since the epoch."""


class Row(NamedTuple):
    """An archived record."""

    offset: int
    timestamp_ms: int
    timestamp_type: int
    key: bytes | None
    value: bytes | None
    headers: list[tuple[str, bytes | None]] | None
    """None without headers."""


class FilePart(NamedTuple):
    """A file with records of one partition."""

    uri: str
    first_offset: int
    last_offset: int
    rows: int


# --- locations


def topic_folder(archive: str, topic: str) -> str:
    return f"{_absolute(archive)}/{TOPIC_FOLDER}{topic}"


def checkpoint_folder(archive: str, topic: str) -> str:
    return f"{_absolute(archive)}/_checkpoints/{TOPIC_FOLDER}{topic}"


def _absolute(place: str) -> str:
    """An absolute path, because the JVM and the executors have working directories of their own."""
    return place.rstrip("/") if _is_uri(place) else os.path.abspath(place).rstrip("/")


def for_spark(place: str) -> str:
    """A location as Spark takes it. A path is on this machine's file system, whatever Spark's default is."""
    return place if _is_uri(place) else f"file://{place}"


def _is_uri(place: str) -> bool:
    return "://" in place or place.startswith("file:")


def file_system(uri: str) -> tuple[fs.FileSystem, str]:
    """Arrow's file system for a URI or path, and the path in it."""
    if not _is_uri(uri):
        return fs.LocalFileSystem(), uri
    if uri.startswith("s3a://"):
        uri = "s3" + uri[3:]  # Hadoop's name for S3
    filesystem, path = fs.FileSystem.from_uri(uri)
    return filesystem, path


def archived_topics(archive: str) -> list[str]:
    """The topics of an archive, sorted. NotAnArchive without any."""
    filesystem, path = file_system(archive)
    try:
        entries = filesystem.get_file_info(fs.FileSelector(path))
    except OSError as error:
        raise NotAnArchive(f"{archive} cannot be read: {_reason(error)}") from error
    names = [entry.base_name for entry in entries if entry.base_name.startswith(TOPIC_FOLDER)]
    topics = sorted(name.removeprefix(TOPIC_FOLDER) for name in names)
    if not topics:
        raise NotAnArchive(f"{archive} is no archive: it has no folder {TOPIC_FOLDER}…")
    return topics


def read_description(archive: str, topic: str) -> Description | None:
    """Read a topic's description; None without one. ArchiveError if it is malformed."""
    filesystem, folder = file_system(topic_folder(archive, topic))
    path = f"{folder}/{DESCRIPTION_FILE}"
    try:
        with filesystem.open_input_stream(path) as file:
            content = json.loads(file.read())
        if content.pop("format") != FORMAT:
            raise ValueError("it is of another format")
        return Description(**content)
    except FileNotFoundError:
        return None
    except (ValueError, TypeError, KeyError, AttributeError) as error:
        raise ArchiveError(f"{path} cannot be understood: {error}") from error


def write_description(archive: str, description: Description) -> None:
    """Write a description, all of it or nothing."""
    filesystem, folder = file_system(topic_folder(archive, description.topic))
    filesystem.create_dir(folder, recursive=True)
    new = f"{folder}/{DESCRIPTION_FILE}.new"
    with filesystem.open_output_stream(new) as file:
        file.write(json.dumps({"format": FORMAT, **asdict(description)}, indent=2).encode())
    filesystem.move(new, f"{folder}/{DESCRIPTION_FILE}")


def check_free(archive: str, topic: str) -> None:
    """Raise ArchiveError if files of another origin lie where a topic's archive is to begin."""
    filesystem, folder = file_system(topic_folder(archive, topic))
    if filesystem.get_file_info(fs.FileSelector(folder, allow_not_found=True)):
        raise ArchiveError(f"{topic}: {folder} is there, and is no archive: give another directory")


def remove_files(archive: str, topic: str) -> None:
    """Remove the files of a run that did not end."""
    for uri in counted_files(archive, topic):
        filesystem, path = file_system(uri)
        filesystem.delete_file(path)


def _reason(error: OSError) -> str:
    return os.strerror(error.errno) if error.errno else str(error).split("\n")[0]


# --- files


def counted_files(archive: str, topic: str) -> list[str]:
    """List the Parquet files that count: those in the log of Spark's file sink; without such a log, all.

    Spark itself follows the absolute paths in the log. Here the files are looked up in the topic's current folder, so
    an archive may be moved. ArchiveError for a malformed log.
    """
    folder = topic_folder(archive, topic)
    filesystem, path = file_system(folder)
    log = filesystem.get_file_info(fs.FileSelector(f"{path}/{SINK_LOG}", allow_not_found=True))
    if filesystem.get_file_info(f"{path}/{SINK_LOG}").type == fs.FileType.NotFound:
        found = filesystem.get_file_info(fs.FileSelector(path, recursive=True, allow_not_found=True))
        places = [entry.path for entry in found if entry.is_file and entry.extension == "parquet"]
    else:
        places = _listed(filesystem, log)
    names = ["/".join(place.split("/")[-2:]) for place in places]
    return [f"{folder}/{name}" for name in names if not name.split("/")[-1].startswith((".", "_"))]


def _listed(filesystem: fs.FileSystem, log: Sequence[fs.FileInfo]) -> list[str]:
    """Read the sink's log: one file for each batch, named by its number; N.compact replaces those up to N. After the
    version line, each line is an added or deleted file."""
    batches = {int(entry.base_name): entry.path for entry in log if entry.base_name.isdigit()}
    compacted = [entry for entry in log if re.fullmatch(r"\d+\.compact", entry.base_name)]
    last = max(compacted, key=lambda entry: int(entry.base_name.partition(".")[0]), default=None)
    since = -1 if last is None else int(last.base_name.partition(".")[0])
    paths = [] if last is None else [last.path]
    paths += [batches[number] for number in sorted(batches) if number > since]
    files: dict[str, None] = {}
    for path in paths:
        with filesystem.open_input_stream(path) as file:
            version, *lines = file.read().decode().splitlines()
        if version != "v1":
            raise ArchiveError(f"{path} is of version {version} of Spark's sink, and v1 is known")
        for entry in map(json.loads, lines):
            if entry["action"] == "add":
                files[entry["path"]] = None
            else:
                files.pop(entry["path"], None)
    return list(files)


def parts_in_order(uris: Sequence[str]) -> list[FilePart]:
    """Order the files of one partition by their offsets, read from their footers.

    ArchiveError for files with overlapping offsets, which were written again, or twice.
    """
    parts = sorted((part for part in map(_part, uris) if part.rows), key=lambda part: part.first_offset)
    for one, next_one in pairwise(parts):
        if next_one.first_offset <= one.last_offset:
            raise ArchiveError(
                f"{one.uri} and {next_one.uri} both have offset {next_one.first_offset}:"
                " these are not files as the archive was written"
            )
    return parts


def count_rows(uri: str) -> int:
    """The number of records in a file, from its footer."""
    count: int = _footer(uri).num_rows
    return count


def _footer(uri: str) -> pq.FileMetaData:
    filesystem, path = file_system(uri)
    try:
        return pq.read_metadata(path, filesystem=filesystem)
    except (OSError, pa.ArrowException) as error:
        raise ArchiveError(f"{uri} cannot be read: {str(error).splitlines()[0]}") from error


def _part(uri: str) -> FilePart:
    metadata = _footer(uri)
    lowest, highest = [], []
    for number in range(metadata.num_row_groups):
        group = metadata.row_group(number)
        columns = (group.column(at) for at in range(group.num_columns))
        offsets = next((column for column in columns if column.path_in_schema == "offset"), None)
        if offsets is None or offsets.statistics is None or not offsets.statistics.has_min_max:
            raise ArchiveError(f"{uri} is not a file of an archive: it does not say which offsets it has")
        lowest.append(offsets.statistics.min)
        highest.append(offsets.statistics.max)
    return FilePart(uri, min(lowest, default=0), max(highest, default=-1), metadata.num_rows)


def read_rows(parts: Sequence[FilePart], skip: int = 0) -> Iterator[Row]:
    """Yield the records of a partition in the order of their offsets, without the first `skip`.

    Holds at most one row group of a file. ArchiveError for a damaged file, and for offsets that do not ascend.
    """
    last = -1
    for part in parts:
        if skip >= part.rows:
            skip -= part.rows
            continue
        for batch in _batches(part, skip):
            last = _check_order(batch.column("offset"), last, part.uri)
            columns = [batch.column(name).to_pylist() for name in COLUMNS[:-1]]
            yield from map(Row, *columns, _headers(batch.column("headers")))
        skip = 0


def _batches(part: FilePart, skip: int) -> Iterator[pa.RecordBatch]:
    filesystem, path = file_system(part.uri)
    try:
        # Column chunks are read piece by piece: whole ones of large values would take much memory.
        with pq.ParquetFile(path, filesystem=filesystem, pre_buffer=False, buffer_size=BUFFER_BYTES) as file:
            for number in range(file.metadata.num_row_groups):
                group = file.metadata.row_group(number)
                if skip >= group.num_rows:
                    skip -= group.num_rows
                    continue
                rows = max(1, min(MAX_ROWS, TARGET_BATCH_BYTES * group.num_rows // max(1, group.total_byte_size)))
                for batch in file.iter_batches(rows, row_groups=[number], columns=COLUMNS, use_threads=False):
                    if skip >= batch.num_rows:
                        skip -= batch.num_rows
                        continue
                    yield batch.slice(skip)
                    skip = 0
    except (OSError, pa.ArrowException) as error:
        raise ArchiveError(f"{part.uri} cannot be read: {str(error).splitlines()[0]}") from error


def _check_order(offsets: pa.Int64Array, last: int, uri: str) -> int:
    ascends = len(offsets) < 2 or pc.all(pc.less(offsets[:-1], offsets[1:])).as_py()
    if not ascends or offsets[0].as_py() <= last:
        raise ArchiveError(f"{uri} does not have its offsets in order: it is not as the archive was written")
    final: int = offsets[-1].as_py()
    return final


def _headers(column: pa.ListArray) -> list[list[tuple[str, bytes | None]] | None]:
    if column.null_count == len(column):
        return [None] * len(column)
    flat = column.flatten()
    pairs = list(zip(flat.field("key").to_pylist(), flat.field("value").to_pylist(), strict=True))
    lists: list[list[tuple[str, bytes | None]] | None] = []
    at = 0
    length: Any
    for length in column.value_lengths().to_pylist():
        lists.append(pairs[at : at + length] if length else None)
        at += length or 0
    return lists


def get_description(archive: str, topic: str) -> Description:
    """The description of an archived topic. Raises NotAnArchive if it was not archived, ArchiveError if its first run
    did not finish."""
    description = read_description(archive, topic)
    if description is None:
        topics = ", ".join(archived_topics(archive))
        raise NotAnArchive(f"{archive} has no archive of {topic}, only of {topics}")
    if not description.is_complete:
        raise ArchiveError(f"{topic}: its first archiving did not come to its end: run it again")
    return description


def archived_parts(archive: str, description: Description) -> dict[int, list[FilePart]]:
    """The files of each partition that has any, in the order of offsets."""
    by_partition: dict[int, list[str]] = {}
    for uri in counted_files(archive, description.topic):
        if (match := _PARTITION.search(uri)) is None or int(match[1]) >= description.partitions:
            raise ArchiveError(f"{uri} is in no folder of a partition of {description.topic}: this is no archive of it")
        by_partition.setdefault(int(match[1]), []).append(uri)
    return {partition: parts_in_order(uris) for partition, uris in sorted(by_partition.items())}
