"""Write one partition of an archive to a topic: the part of a replay that runs in an executor. Needs no Spark.

**The rule.** An idempotent producer that leaves no gaps writes the rows in the order of their offsets, into a partition
without other writers. So at any moment, whatever was killed, the partition holds a prefix of the rows: row n of the
archive is at offset n. Every run (the first, one after a kill, Spark's second attempt) begins by reading the end offset
E, checks that the record at E-1 is row E-1, and continues with row E. If the check fails, it writes nothing. At the
end, the end offset must be the number of rows.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import islice
from typing import Any, NamedTuple, Protocol

from confluent_kafka import Consumer, KafkaException, Producer, TopicPartition

from ...protocol.records.record import TOMBSTONE_HEADER
from ..admin import describe_error
from .archive_files import ArchiveError, FilePart, Row, read_rows

OFFSET_HEADER = "kmini.offset"
"""Header that carries the original offset as decimal digits, if requested."""

CHECK_EVERY = 1_000_000
"""Rows after which the end offset is compared with the number of written rows."""

QUEUED_KBYTES = 128 << 10
QUEUED_MESSAGES = 100_000
POLL_EVERY = 1_000

LOG_APPEND_TIME = 1

QUIET: dict[str, Any] = {"log_level": 0, "log.connection.close": False}
"""Settings of a librdkafka client that logs nothing on stderr: its errors are raised."""

_LOG = logging.getLogger("kmini.pipeline.replay")
_LOG.addHandler(logging.NullHandler())  # what librdkafka says is raised as well

_NO = (b"0", b"false", b"\0")


class ReplayError(ArchiveError):
    """A replay cannot continue; the message gives the reason on one line."""


@dataclass(frozen=True)
class Conversion:
    """Changes to records on their way."""

    with_offsets: bool = False
    """Add the header `kmini.offset`."""
    null_tombstones: bool = False
    """Give flagged tombstones (KIP-87) a null value; their headers stay."""


@dataclass(frozen=True)
class Plan:
    """The work of a task."""

    topic: str
    partition: int
    parts: tuple[FilePart, ...]
    conversion: Conversion
    librdkafka: dict[str, str] = field(repr=False)  # there are passwords in it
    compression: str = "lz4"
    batch_bytes: int = 1_000_000
    stall_ms: int = 60_000
    """Milliseconds without an acknowledgement after which the task fails."""

    @property
    def rows(self) -> int:
        return sum(part.rows for part in self.parts)


class Outcome(NamedTuple):
    """The result for one partition."""

    partition: int
    found: int
    """Rows that an earlier run had written."""
    written: int
    flagged: int
    """Written records that have the tombstone header and a value."""
    log_append_time: int
    """Written records whose broker had given them their timestamp."""
    problem: str | None = None
    needs_exact_writer: bool = False
    """Whether librdkafka cannot write the next row."""


class TopicRecord(NamedTuple):
    """A record of the topic."""

    offset: int
    timestamp_ms: int
    key: bytes | None
    value: bytes | None
    headers: list[tuple[str, bytes | None]]


class Target(Protocol):
    """A partition to write to."""

    def end_offset(self) -> int: ...

    def record_at(self, offset: int) -> TopicRecord | None:
        """The record at an offset; None without one."""

    def write(self, rows: Iterable[Row]) -> int:
        """Write rows in this order; return their number when all are acknowledged. After an error, the written rows are
        a prefix without a gap."""


class ExactWriter(Protocol):
    """Writes records that librdkafka cannot write to the same partition, one by one."""

    def write(self, row: Row) -> None:
        """Write a row; return when it is acknowledged."""


# --- the rule


def rows_there(parts: Sequence[FilePart], conversion: Conversion, target: Target) -> int:
    """The number of rows in the target. ReplayError if its records are not a prefix of these rows."""
    rows = sum(part.rows for part in parts)
    end = target.end_offset()
    if end == 0:
        return 0
    if end > rows:
        raise ReplayError(
            f"it has {end} records, and the archive {rows}: it is not a replay of it, or another producer wrote to it"
        )
    found = target.record_at(end - 1)
    if found is None:
        raise ReplayError(
            f"its last record, at offset {end - 1}, is gone or is no record (deleted, compacted, the end of a"
            " transaction): whether this is a replay of the archive cannot be told"
        )
    expected = convert(next(read_rows(parts, end - 1)), conversion)
    if difference := _difference(expected, found):
        raise ReplayError(
            f"its last record, at offset {end - 1}, has not the {difference} of row {end - 1} of the archive"
            f" (offset {expected.offset}): it is not a replay of it"
        )
    return end


def convert(row: Row, conversion: Conversion) -> Row:
    """Convert a row to the record that is written."""
    if conversion.null_tombstones and row.value is not None and is_flagged(row):
        row = row._replace(value=None)
    if conversion.with_offsets:
        row = row._replace(headers=[*(row.headers or ()), (OFFSET_HEADER, str(row.offset).encode())])
    return row


def is_flagged(row: Row) -> bool:
    """Whether a row has the tombstone header (KIP-87), with a value that does not mean no."""
    return row.headers is not None and any(
        name == TOMBSTONE_HEADER and (value is None or value.lower() not in _NO) for name, value in row.headers
    )


def needs_exact_writer(row: Row) -> bool:
    """Whether librdkafka would write another record: it takes timestamp 0 for none, and ends header names at a NUL."""
    return row.timestamp_ms == 0 or (row.headers is not None and any("\0" in name for name, _ in row.headers))


def _difference(row: Row, found: TopicRecord) -> str:
    """The first part of a record that differs from its row; empty if none does."""
    written = [(name.split("\0")[0], value) for name, value in found.headers]
    expected = [(name.split("\0")[0], value) for name, value in row.headers or ()]
    if row.value is None and len(written) == len(expected) + 1:  # the broker flags null values itself
        written = [header for header in written if header != (TOMBSTONE_HEADER, b"")]
    pairs = {
        "key": (row.key, found.key),
        "value": (row.value, found.value),
        "timestamp": (row.timestamp_ms, found.timestamp_ms),
        "headers": (expected, written),
    }
    return next((name for name, (ours, theirs) in pairs.items() if ours != theirs), "")


def replay_partition(
    plan: Plan, target: Target, exact: ExactWriter | None = None, *, check_every: int = CHECK_EVERY
) -> Outcome:
    """Write the missing rows of a partition. Problems are returned in the outcome, not raised.

    Without `exact` the replay ends before the first row that only an ExactWriter can write.
    """
    found = done = 0
    feed = _Feed(plan)
    try:
        found = done = rows_there(plan.parts, plan.conversion, target)
        feed.begin(done)
        next_check = done + 1  # the first row alone: if another producer writes too, only that one is spoiled
        while done < plan.rows:
            done += target.write(feed.take(next_check - done))
            if feed.held is not None:
                if exact is None:
                    return Outcome(plan.partition, found, done - found, feed.flagged, feed.appended, None, True)
                exact.write(feed.pop())
                done += 1
            if done >= min(next_check, plan.rows):
                _check_end(target, done)
                next_check = done + check_every
    except ArchiveError as error:
        return Outcome(plan.partition, found, done - found, feed.flagged, feed.appended, str(error))
    return Outcome(plan.partition, found, done - found, feed.flagged, feed.appended)


def _check_end(target: Target, done: int) -> None:
    if (end := target.end_offset()) != done:
        raise ReplayError(
            f"it ends at offset {end} after {done} rows: another producer writes to it (another replay?);"
            " delete the topic and start again"
        )


class _Feed:
    """The converted rows of a partition, in portions."""

    def __init__(self, plan: Plan) -> None:
        self._plan = plan
        self._rows: Iterator[Row] = iter(())
        self.held: Row | None = None
        """The next row, if librdkafka cannot write it."""
        self.flagged = 0
        self.appended = 0

    def begin(self, skip: int) -> None:
        self._rows = read_rows(self._plan.parts, skip)

    def take(self, limit: int) -> Iterator[Row]:
        """Yield the next rows, up to one that is held."""
        conversion = self._plan.conversion
        converts = conversion.with_offsets or conversion.null_tombstones
        rows_read = 0
        for row in islice(self._rows, limit):
            rows_read += 1
            if row.headers is not None and row.value is not None and is_flagged(row):
                self.flagged += 1
            if row.timestamp_type == LOG_APPEND_TIME:
                self.appended += 1
            if converts:
                row = convert(row, conversion)
            if needs_exact_writer(row):
                self.held = row
                return
            yield row
        if not rows_read:
            raise ReplayError("the archive has fewer rows than its files say")

    def pop(self) -> Row:
        row, self.held = self.held, None
        assert row is not None
        return row


# --- Kafka


class KafkaPartition:
    """A partition of a topic, written with librdkafka."""

    def __init__(self, plan: Plan) -> None:
        self._plan = plan
        self._place = TopicPartition(plan.topic, plan.partition)
        self._failure: ReplayError | None = None
        consumer_settings = {"group.id": "kmini-replay", "enable.auto.commit": False, "enable.partition.eof": True}
        self._consumer = Consumer(plan.librdkafka | consumer_settings | QUIET | {"isolation.level": "read_uncommitted"})
        self._producer: Producer | None = None

    def close(self) -> None:
        self._consumer.close()

    def end_offset(self) -> int:
        try:
            _, end = self._consumer.get_watermark_offsets(self._place, timeout=self._plan.stall_ms / 1000, cached=False)
        except KafkaException as error:
            raise ReplayError(f"no broker tells its end offset: {describe_error(error.args[0])}") from error
        return int(end)

    def record_at(self, offset: int) -> TopicRecord | None:
        self._consumer.assign([TopicPartition(self._plan.topic, self._plan.partition, offset)])
        message = self._consumer.poll(self._plan.stall_ms / 1000)
        self._consumer.unassign()
        if message is None:
            raise ReplayError(f"no broker gives the record at offset {offset} in {self._plan.stall_ms} ms")
        if (error := message.error()) is not None:
            if error.name() in ("_PARTITION_EOF", "_AUTO_OFFSET_RESET", "OFFSET_OUT_OF_RANGE"):
                return None
            raise ReplayError(f"the record at offset {offset} cannot be read: {describe_error(error)}")
        if message.offset() != offset:
            return None
        return TopicRecord(offset, message.timestamp()[1], message.key(), message.value(), _headers(message.headers()))

    def write(self, rows: Iterable[Row]) -> int:
        producer = self._producer = self._producer or self._new_producer()
        produce, topic, partition = producer.produce, self._plan.topic, self._plan.partition
        count = 0
        for _, timestamp_ms, _, key, value, headers in rows:
            while True:
                try:
                    produce(topic, value, key, partition, timestamp=timestamp_ms, headers=headers)  # type: ignore[arg-type]
                    break
                except BufferError:
                    self._wait(producer)
                except KafkaException as error:
                    raise self._stop(describe_error(error.args[0])) from error
            count += 1
            if count % POLL_EVERY == 0:
                self._poll(producer, 0)
        while len(producer):
            self._wait(producer)
        self._poll(producer, 0)
        return count

    def _new_producer(self) -> Producer:
        plan = self._plan
        writing = {
            "acks": "all",
            "enable.idempotence": True,
            "enable.gapless.guarantee": True,  # nothing after a refused batch is written
            "message.timeout.ms": 0,  # an expired record would be a gap; `_wait` gives up on all records
            "message.max.bytes": 1_000_000_000,  # the topic's limit applies
            "batch.size": plan.batch_bytes,
            "compression.type": plan.compression,
            "linger.ms": 20,
            "queue.buffering.max.kbytes": QUEUED_KBYTES,
            "queue.buffering.max.messages": QUEUED_MESSAGES,
            "delivery.report.only.error": True,
            "on_delivery": self._delivered,
            "logger": _LOG,
        }
        return Producer(plan.librdkafka | writing | QUIET)

    def _delivered(self, error: Any, message: Any) -> None:
        if error is not None and self._failure is None:
            self._failure = ReplayError(f"a record is refused: {describe_error(error)}")

    def _poll(self, producer: Producer, timeout_s: float) -> None:
        try:
            producer.poll(timeout_s)
        except KafkaException as error:  # a fatal error of the producer
            raise self._stop(f"the producer cannot go on: {describe_error(error.args[0])}") from error
        if self._failure is not None:
            raise self._stop()

    def _wait(self, producer: Producer) -> None:
        """Wait until a record is acknowledged."""
        before, deadline = len(producer), time.monotonic() + self._plan.stall_ms / 1000
        while len(producer) == before:
            self._poll(producer, 0.05)
            if time.monotonic() > deadline:
                raise self._stop(f"nothing was acknowledged for {self._plan.stall_ms} ms")

    def _stop(self, reason: str = "") -> ReplayError:
        """Discard all unsent records; return the error to raise."""
        if self._producer is not None:
            self._producer.purge(in_queue=True, in_flight=True)
        return self._failure or ReplayError(reason)


def _headers(headers: Any) -> list[tuple[str, bytes | None]]:
    """A message's headers; librdkafka returns None for no headers."""
    return list(headers or ())


def run_plan(plan: Plan) -> Outcome:
    """Run a plan in an executor."""
    target = KafkaPartition(plan)
    try:
        return replay_partition(plan, target)
    finally:
        target.close()
