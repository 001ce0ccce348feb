"""Records from files: lines, Parquet archives, and copies of log directories. `broker.load` puts them into topics."""

from __future__ import annotations

import json
import os
from collections.abc import Collection, Iterable, Iterator, Mapping
from functools import partial
from itertools import count, islice
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

from kmini.broker.appending import until_replicated
from kmini.broker.controller import topics
from kmini.broker.controller.config_changes import set_topic_configs
from kmini.broker.purgatory import Unattended
from kmini.broker.replication.startup_reconciliation import reconcile
from kmini.broker.scheduler import in_thread
from kmini.protocol.errors import InvalidArgument, InvalidTopic, UnknownTopicOrPartition
from kmini.protocol.records.batch import build_batch
from kmini.protocol.records.record import Record
from kmini.protocol.topics import TopicPartition, validate_topic_name
from kmini.testkit.phrases import there_is_no_partition
from kmini.web.json_data import data_from_json

if TYPE_CHECKING:
    from kmini.testkit.operations import Operations

_BATCH_BYTES = 500_000
"""Bytes of keys and values that are appended together."""
_BATCH_RECORDS = 2_000


class SeedError(InvalidArgument):
    """A file holds no records that can be loaded; the message says where and why."""


class _Row(NamedTuple):
    """A record for a topic."""

    topic: str
    partition: int | None
    record: Record


class Target(Protocol):
    """The broker or cluster whose topics are filled. Its methods raise KafkaError."""

    def now_ms(self) -> int:
        """The time of records without a timestamp."""

    async def partitions_of(self, topic: str) -> int:
        """The number of partitions of a topic, which is created as for a client if it is missing."""

    async def append(self, place: TopicPartition, records: list[Record]) -> None:
        """Append records as one batch, as a producer with acks=all does."""

    async def topics_among(self, names: Collection[str]) -> list[str]:
        """Those of these topics that exist, sorted."""

    async def create(self, topic: str, partitions: int, configs: Mapping[str, str]) -> None:
        """Create a topic."""

    async def configure(self, topic: str, configs: Mapping[str, str]) -> None:
        """Replace the settings of a topic, but for a `min.insync.replicas` above its replication factor."""

    async def take_in_logs(self, path: str) -> dict[str, int]:
        """Take in the partitions of a log directory; return the number of records by topic."""


async def load(target: Target, path: str, topic: str | None) -> dict[str, int]:
    """Load what is at `path`; return the number of records by topic."""
    names = await in_thread(_names_in, path)
    if names is None:
        return await _load_lines(target, path, topic)
    if topic is not None:
        raise SeedError(f"topic={topic!r} is for the lines of a file, and {path} is a directory")
    if any(name.startswith("topic=") for name in names):
        return await _load_archive(target, path)
    return await target.take_in_logs(path)


def _names_in(path: str) -> list[str] | None:
    """The names in a directory; None for a file. FileNotFoundError."""
    return os.listdir(path) if os.path.isdir(path) or not os.path.exists(path) else None


# --- lines


async def _load_lines(target: Target, path: str, topic: str | None) -> dict[str, int]:
    filler = _Filler(target)
    file = await in_thread(open, path, "rb")
    with file:
        lines = enumerate(file, start=1)
        while chunk := await in_thread(_some, lines):
            now_ms = target.now_ms()
            for number, line in chunk:
                if topic is not None:
                    await filler.add(_Row(topic, None, Record(0, now_ms, None, line.rstrip(b"\n"))))
                elif line.strip():
                    await filler.add(_row_of(line, f"{path}, line {number}", now_ms))
    return await filler.finish()


async def check_lines(target: Target, path: str) -> None:
    """Check all lines of a file that `load` is to load. Creates missing topics, as `load` does, once all lines are
    right, and appends nothing. Raises SeedError, which names the line, and KafkaError."""
    last_places: dict[str, tuple[int, str]] = {}
    """The largest partition that a line names, and that line, by topic; -1 if none does."""
    file = await in_thread(open, path, "rb")
    with file:
        lines = enumerate(file, start=1)
        while chunk := await in_thread(_some, lines):
            for number, line in chunk:
                if line.strip():
                    where = f"{path}, line {number}"
                    row = _row_of(line, where, 0)
                    partition = -1 if row.partition is None else row.partition
                    if row.topic not in last_places:
                        _check_name(row.topic, where)
                    last_places[row.topic] = max(last_places.get(row.topic, (-1, where)), (partition, where))
    for topic, (partition, where) in last_places.items():
        count = await target.partitions_of(topic)
        if partition >= count:
            raise SeedError(f"{where}: {there_is_no_partition(topic, partition, count)}")


def _check_name(topic: str, where: str) -> None:
    try:
        validate_topic_name(topic)
    except InvalidTopic as error:
        raise SeedError(f"{where}: topic {topic!r}: {error.message}") from None


async def load_entries(target: Target, entries: Iterable[object]) -> dict[str, int]:
    """Load records, each as the object that a line has; return the number of records by topic. Raises SeedError."""
    filler, now_ms = _Filler(target), target.now_ms()
    for number, entry in enumerate(entries):
        await filler.add(_row(entry, f"record {number}", now_ms))
    return await filler.finish()


def _row_of(line: bytes, where: str, now_ms: int) -> _Row:
    """A line as `kmini consume --format json` prints it. Without a timestamp it is of now. Raises SeedError."""
    try:
        entry = json.loads(line)
    except ValueError as error:
        raise SeedError(f"{where} is no JSON: {error}") from None
    return _row(entry, where, now_ms)


def _row(entry: object, where: str, now_ms: int) -> _Row:
    if not isinstance(entry, dict) or not isinstance(entry.get("topic"), str) or "value" not in entry:
        raise SeedError(
            f'{where}: a JSON object with "topic" and "value" was expected, as kmini consume --format json '
            "prints it; for lines that are values, name the topic: load(path, topic=...)"
        )
    partition, timestamp = entry.get("partition"), entry.get("timestamp", now_ms)
    if not (partition is None or _is_number(partition, 0)) or not _is_number(timestamp, -1):
        raise SeedError(f"{where}: partition and timestamp are whole numbers")
    headers = entry.get("headers") or []
    pairs = headers.items() if isinstance(headers, Mapping) else headers
    try:
        parsed = tuple((str(name), data_from_json(value)) for name, value in pairs)
    except (TypeError, ValueError):
        raise SeedError(f"{where}: headers are pairs of a name and a value") from None
    key, value = data_from_json(entry.get("key")), data_from_json(entry["value"])
    return _Row(entry["topic"], partition, Record(0, timestamp, key, value, parsed))


def _is_number(value: object, smallest: int) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value >= smallest


class _Filler:
    """Appends records in batches, as a producer with acks=all does."""

    def __init__(self, target: Target) -> None:
        self._target = target
        self._turns = count()
        self._partitions: dict[str, int] = {}
        """The number of partitions of each topic that has been filled."""
        self._waiting: dict[TopicPartition, list[Record]] = {}
        self._bytes: dict[TopicPartition, int] = {}
        self._loaded: dict[str, int] = {}

    async def add(self, row: _Row) -> None:
        """Take a record; append the batch of its partition if it is full. Raises KafkaError."""
        record, partitions = row.record, self._partitions.get(row.topic)
        if partitions is None:
            partitions = self._partitions[row.topic] = await self._target.partitions_of(row.topic)
        if row.partition is not None and row.partition >= partitions:
            raise UnknownTopicOrPartition(there_is_no_partition(row.topic, row.partition, partitions))
        place = TopicPartition(row.topic, self._partition_of(row, partitions))
        batch = self._waiting.setdefault(place, [])
        batch.append(record._replace(offset=len(batch)))
        self._bytes[place] = self._bytes.get(place, 0) + len(record.key or b"") + len(record.value or b"")
        if len(batch) >= _BATCH_RECORDS or self._bytes[place] >= _BATCH_BYTES:
            await self._append(place)

    def _partition_of(self, row: _Row, partitions: int) -> int:
        if row.partition is not None:
            return row.partition
        from kmini.protocol.records.partitioner import partition_for_key

        key = row.record.key
        return next(self._turns) % partitions if key is None else partition_for_key(key, partitions)

    async def _append(self, place: TopicPartition) -> None:
        records = self._waiting.pop(place)
        self._bytes.pop(place)
        await self._target.append(place, records)
        self._loaded[place.topic] = self._loaded.get(place.topic, 0) + len(records)

    async def finish(self) -> dict[str, int]:
        """Append what is left; return the number of records by topic."""
        for place in list(self._waiting):
            await self._append(place)
        return self._loaded


# --- archives


async def _load_archive(target: Target, path: str) -> dict[str, int]:
    """Load every topic of an archive that `kmini archive` has written, with its partitions and settings."""
    from kmini.pipeline.archives import archive_files

    loaded = {}
    for name in archive_files.archived_topics(path):
        description = archive_files.get_description(path, name)
        await check_absent(target, [name])
        await target.create(name, description.partitions, archive_files.HELD)
        filler = _Filler(target)
        for partition, parts in archive_files.archived_parts(path, description).items():
            rows: Iterator[archive_files.Row] = archive_files.read_rows(parts)
            while chunk := await in_thread(_some, rows):
                for row in chunk:
                    headers = tuple(row.headers or ())
                    await filler.add(_Row(name, partition, Record(0, row.timestamp_ms, row.key, row.value, headers)))
        loaded[name] = (await filler.finish()).get(name, 0)
        configs = {
            key: value for key, value in (description.configs or {}).items() if key not in archive_files.BROKER_SETTINGS
        }
        await target.configure(name, configs)
    return loaded


def _some(rows: Iterator[Any]) -> list[Any]:
    """The next rows, as many as a batch has. Blocks."""
    return [*islice(rows, _BATCH_RECORDS)]


async def check_absent(target: Target, names: Collection[str]) -> None:
    """Raise SeedError if there is one of these topics."""
    if present := await target.topics_among(names):
        raise SeedError(f"there is a topic {present[0]} already: delete it, or reset, before it is loaded")


# --- a broker or a cluster of kmini


class Here:
    """Fills the topics of a broker or a cluster in this process."""

    def __init__(self, operations: Operations) -> None:
        self._operations = operations

    def now_ms(self) -> int:
        return self._operations.clock.now_ms()

    async def partitions_of(self, topic: str) -> int:
        if not self._operations.has_topic(topic):
            topics.create_missing(self._operations.any_broker(), topic)
        return len(self._operations.known_topic(topic).partitions)

    async def append(self, place: TopicPartition, records: list[Record]) -> None:
        broker, led = self._operations.leader_of(*place)
        batch = build_batch(records)
        appended = await broker.services.appender.validate_and_append(led, memoryview(batch), Unattended())
        timeout_ms = broker.config.current.request_timeout_ms
        await until_replicated(broker.replica_manager, led, appended.last_offset, timeout_ms)

    async def topics_among(self, names: Collection[str]) -> list[str]:
        return sorted(filter(self._operations.has_topic, names))

    async def create(self, topic: str, partitions: int, configs: Mapping[str, str]) -> None:
        topics.create(self._operations.any_broker(), topic, partitions=partitions, configs={**configs})

    async def configure(self, topic: str, configs: Mapping[str, str]) -> None:
        known = self._operations.known_topic(topic)
        fitting = fitting_configs(configs, known.replication_factor)
        set_topic_configs(self._operations._controller, known, fitting)

    async def take_in_logs(self, path: str) -> dict[str, int]:
        from kmini.storage import partition_import

        broker = min(self._operations.running, key=lambda one: one.node_id)
        partitions = partition_import.partitions_in(broker.logs.filesystem, path)
        if not partitions:
            raise SeedError(
                f"{path} holds no records: it is no file of lines, no archive (topic=NAME), and no log directory, "
                "which has folders like orders-0"
            )
        names = {place.topic for place in partitions}
        await check_absent(self, names)
        logs = await in_thread(partial(partition_import.take_in, broker.logs, path, partitions, broker.log_config_of))
        broker.logs.logs.update(logs)
        reconcile(broker.replica_manager)
        await broker.coordination.loading.idle()
        return {
            name: sum(log.log_end_offset - log.log_start_offset for place, log in logs.items() if place.topic == name)
            for name in sorted(names)
        }


def fitting_configs(configs: Mapping[str, str], replication_factor: int) -> dict[str, str]:
    """The settings of an archived topic that a topic with this replication factor can have."""
    return {
        key: value
        for key, value in configs.items()
        if not (key == "min.insync.replicas" and int(value) > replication_factor)
    }
