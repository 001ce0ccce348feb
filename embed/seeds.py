"""Records from files: lines, Parquet archives, and copies of log directories. `broker.load` puts them into topics."""

from __future__ import annotations

import json
import os
from base64 import b64decode
from collections.abc import Iterable, Iterator, Mapping
from functools import partial
from itertools import count, islice
from typing import TYPE_CHECKING, Any, NamedTuple

from kmini.broker.appending import until_replicated
from kmini.broker.controller import topics
from kmini.broker.controller.config_changes import set_topic_configs
from kmini.broker.purgatory import Unattended
from kmini.broker.replication.reconciliation import reconcile
from kmini.broker.scheduler import in_thread
from kmini.protocol.records.batch import build_batch
from kmini.protocol.records.record import Record
from kmini.protocol.topics import TopicPartition

if TYPE_CHECKING:
    from kmini.shared_operations import SharedOperations

_BATCH_BYTES = 500_000
"""Bytes of keys and values that are appended together."""
_BATCH_RECORDS = 2_000


class SeedError(ValueError):
    """A file holds no records that can be loaded; the message says where and why."""


class _Row(NamedTuple):
    """A record for a topic."""

    topic: str
    partition: int | None
    record: Record


async def load(operations: SharedOperations, path: str, topic: str | None) -> dict[str, int]:
    """Load what is at `path`; return the number of records by topic."""
    names = await in_thread(_names_in, path)
    if names is None:
        return await _load_lines(operations, path, topic)
    if topic is not None:
        raise SeedError(f"topic={topic!r} is for the lines of a file, and {path} is a directory")
    if any(name.startswith("topic=") for name in names):
        return await _load_archive(operations, path)
    return await _load_logs(operations, path)


def _names_in(path: str) -> list[str] | None:
    """The names in a directory; None for a file. FileNotFoundError."""
    return os.listdir(path) if os.path.isdir(path) or not os.path.exists(path) else None


# --- lines


async def _load_lines(operations: SharedOperations, path: str, topic: str | None) -> dict[str, int]:
    filler = _Filler(operations)
    file = await in_thread(open, path, "rb")
    with file:
        lines = enumerate(file, start=1)
        while chunk := await in_thread(_some, lines):
            now_ms = operations.clock.now_ms()
            for number, line in chunk:
                if topic is not None:
                    await filler.add(_Row(topic, None, Record(0, now_ms, None, line.rstrip(b"\n"))))
                elif line.strip():
                    await filler.add(_row_of(line, f"{path}, line {number}", now_ms))
    return await filler.finish()


def _row_of(line: bytes, where: str, now_ms: int) -> _Row:
    """A line as `kmini consume --format json` prints it. Without a timestamp it is of now. Raises SeedError."""
    try:
        entry = json.loads(line)
    except ValueError as error:
        raise SeedError(f"{where} is no JSON: {error}") from None
    if not isinstance(entry, dict) or not isinstance(entry.get("topic"), str) or "value" not in entry:
        raise SeedError(
            f'{where}: a JSON object with "topic" and "value" was expected, as kmini consume --format json '
            "prints it; for lines that are values, name the topic: load(path, topic=...)"
        )
    partition, timestamp = entry.get("partition"), entry.get("timestamp", now_ms)
    if not (partition is None or _is_number(partition)) or not _is_number(timestamp):
        raise SeedError(f"{where}: partition and timestamp are whole numbers")
    headers = entry.get("headers") or []
    pairs = headers.items() if isinstance(headers, Mapping) else headers
    try:
        parsed = tuple((str(name), _bytes_of(value)) for name, value in pairs)
    except (TypeError, ValueError):
        raise SeedError(f"{where}: headers are pairs of a name and a value") from None
    return _Row(
        entry["topic"], partition, Record(0, timestamp, _bytes_of(entry.get("key")), _bytes_of(entry["value"]), parsed)
    )


def _is_number(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value >= -1


def _bytes_of(value: Any) -> bytes | None:
    """A text, {"base64": ...}, null, or any other JSON, which becomes its text."""
    if value is None:
        return None
    if isinstance(value, str):
        return value.encode()
    if isinstance(value, dict) and value.keys() == {"base64"}:
        return b64decode(value["base64"])
    return json.dumps(value, separators=(",", ":"), ensure_ascii=False).encode()


class _Filler:
    """Appends records in batches, as a producer with acks=all does."""

    def __init__(self, operations: SharedOperations) -> None:
        self._operations = operations
        self._turns = count()
        self._waiting: dict[TopicPartition, list[Record]] = {}
        self._bytes: dict[TopicPartition, int] = {}
        self._loaded: dict[str, int] = {}

    async def add(self, row: _Row) -> None:
        """Take a record; append the batch of its partition if it is full. Raises KafkaError."""
        operations, record = self._operations, row.record
        if not operations.has_topic(row.topic):
            topics.create_missing(operations.any_broker(), row.topic)
        place = operations.check_partition(row.topic, self._partition_of(row))
        batch = self._waiting.setdefault(place, [])
        batch.append(record._replace(offset=len(batch)))
        self._bytes[place] = self._bytes.get(place, 0) + len(record.key or b"") + len(record.value or b"")
        if len(batch) >= _BATCH_RECORDS or self._bytes[place] >= _BATCH_BYTES:
            await self._append(place)

    def _partition_of(self, row: _Row) -> int:
        if row.partition is not None:
            return row.partition
        from kmini.client.partitioner import partition_for_key

        partitions = len(self._operations.known_topic(row.topic).partitions)
        key = row.record.key
        return next(self._turns) % partitions if key is None else partition_for_key(key, partitions)

    async def _append(self, place: TopicPartition) -> None:
        records = self._waiting.pop(place)
        self._bytes.pop(place)
        broker, led = self._operations.leader_of(*place)
        batch = build_batch(records)
        appended = await broker.services.appender.validate_and_append(led, memoryview(batch), Unattended())
        timeout_ms = broker.config.current.request_timeout_ms
        await until_replicated(broker.replica_manager, led, appended.last_offset, timeout_ms)
        self._loaded[place.topic] = self._loaded.get(place.topic, 0) + len(records)

    async def finish(self) -> dict[str, int]:
        """Append what is left; return the number of records by topic."""
        for place in list(self._waiting):
            await self._append(place)
        return self._loaded


# --- archives


async def _load_archive(operations: SharedOperations, path: str) -> dict[str, int]:
    """Load every topic of an archive that `kmini archive` has written, with its partitions and settings."""
    from kmini.pipeline.archives import archive_files

    loaded = {}
    for name in archive_files.archived_topics(path):
        description = archive_files.get_description(path, name)
        _check_absent(operations, [name])
        topic = topics.create(
            operations.any_broker(), name, partitions=description.partitions, configs={**archive_files.HELD}
        )
        filler = _Filler(operations)
        for partition, parts in archive_files.archived_parts(path, description).items():
            rows: Iterator[archive_files.Row] = archive_files.read_rows(parts)
            while chunk := await in_thread(_some, rows):
                for row in chunk:
                    headers = tuple(row.headers or ())
                    await filler.add(_Row(name, partition, Record(0, row.timestamp_ms, row.key, row.value, headers)))
        loaded[name] = (await filler.finish()).get(name, 0)
        configs = {
            key: value
            for key, value in (description.configs or {}).items()
            if key not in archive_files.BROKER_SETTINGS
            and not (key == "min.insync.replicas" and int(value) > topic.replication_factor)
        }
        set_topic_configs(operations._controller, operations.known_topic(name), configs)
    return loaded


def _some(rows: Iterator[Any]) -> list[Any]:
    """The next rows, as many as a batch has. Blocks."""
    return [*islice(rows, _BATCH_RECORDS)]


def _check_absent(operations: SharedOperations, names: Iterable[str]) -> None:
    present = sorted(name for name in names if operations.has_topic(name))
    if present:
        raise SeedError(f"there is a topic {present[0]} already: delete it, or reset, before it is loaded")


# --- log directories


async def _load_logs(operations: SharedOperations, path: str) -> dict[str, int]:
    """Take in the partitions of a log directory: topics, groups and transactions, with the offsets they have."""
    from kmini.storage import adoption

    broker = min(operations.running, key=lambda one: one.node_id)
    filesystem = broker.logs.filesystem
    partitions = adoption.partitions_in(filesystem, path)
    if not partitions:
        raise SeedError(
            f"{path} holds no records: it is no file of lines, no archive (topic=NAME), and no log directory, which "
            "has folders like orders-0"
        )
    names = {place.topic for place in partitions}
    _check_absent(operations, names)
    logs = await in_thread(partial(adoption.take_in, broker.logs, path, partitions, broker.log_config_of))
    broker.logs.logs.update(logs)
    reconcile(broker.replica_manager)
    await broker.coordination.loading.idle()
    return {
        name: sum(log.log_end_offset - log.log_start_offset for place, log in logs.items() if place.topic == name)
        for name in sorted(names)
    }
