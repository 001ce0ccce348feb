"""One partition of an archive, written to a topic: the part of a replay that runs in an executor. Needs no Spark.

**The rule.** Rows are written in the order of their offsets, into a partition in which nobody else writes, by an
idempotent producer that leaves no gaps. So at any moment, whatever was killed, the partition holds a prefix of the
rows: row n of the archive is at offset n. Who begins (a first run, one after a kill, Spark's second attempt) asks for
the end offset E, makes sure that the record at E-1 is row E-1, and goes on with row E. Where that does not hold, it
writes nothing. In the end the end offset must be the number of rows.
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
"""Carries the original offset as decimal digits, where that is asked for."""

CHECK_EVERY = 1_000_000
"""Rows after which the end offset is compared with what was written."""

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
    """A replay cannot go on; the message says why, on one line."""


@dataclass(frozen=True)
class Conversion:
    """What is done to records on their way."""

    with_offsets: bool = False
    """Add the header `kmini.offset`."""
    null_tombstones: bool = False
    """Give flagged tombstones (KIP-87) a null value; their headers stay."""


@dataclass(frozen=True)
class Plan:
    """What a task writes, and how."""

    topic: str
    partition: int
    parts: tuple[FilePart, ...]
    conversion: Conversion
    librdkafka: dict[str, str] = field(repr=False)  # there are passwords in it
    compression: str = "lz4"
    batch_bytes: int = 1_000_000
    stall_ms: int = 60_000
    """Without an acknowledgement for so long the task fails."""

    @property
    def rows(self) -> int:
        return sum(part.rows for part in self.parts)


class Outcome(NamedTuple):
    """What became of a partition."""

    partition: int
    found: int
    """Rows that were there already."""
    written: int
    flagged: int
    """How many of those written bear the header of a tombstone and a value."""
    log_append_time: int
    """How many of those written had been given their timestamp by their broker."""
    problem: str | None = None
    is_out_of_reach: bool = False
    """The next row is one that librdkafka cannot write."""


class Seen(NamedTuple):
    """A record as it stands in the topic."""

    offset: int
    timestamp_ms: int
    key: bytes | None
    value: bytes | None
    headers: list[tuple[str, bytes | None]]


class Target(Protocol):
    """A partition to write to."""

    def end_offset(self) -> int: ...

    def record_at(self, offset: int) -> Seen | None:
        """None if there is none at this offset."""

    def write(self, rows: Iterable[Row]) -> int:
        """Write rows in this order and return how many, when all are acknowledged. Where it fails, what is written is
        the first of them, without a gap."""


class ExactWriter(Protocol):
    """Writes to the same partition, one by one, what librdkafka cannot."""

    def write(self, row: Row) -> None:
        """Return when it is acknowledged."""


# --- the rule


def rows_there(parts: Sequence[FilePart], conversion: Conversion, target: Target) -> int:
    """How many rows are in the target; ReplayError if what is there is not the beginning of these rows."""
    rows = sum(part.rows for part in parts)
    end = target.end_offset()
    if end == 0:
        return 0
    if end > rows:
        raise ReplayError(
            f"it has {end} records, and the archive {rows}: it is not a replay of it, or somebody else wrote to it"
        )
    seen = target.record_at(end - 1)
    if seen is None:
        raise ReplayError(
            f"its last record, at offset {end - 1}, is gone or is no record (deleted, compacted, the end of a"
            " transaction): whether this is a replay of the archive cannot be told"
        )
    expected = convert(next(read_rows(parts, end - 1)), conversion)
    if difference := _difference(expected, seen):
        raise ReplayError(
            f"its last record, at offset {end - 1}, has not the {difference} of row {end - 1} of the archive"
            f" (offset {expected.offset}): it is not a replay of it"
        )
    return end


def convert(row: Row, conversion: Conversion) -> Row:
    """The record that is written for this row."""
    if conversion.null_tombstones and row.value is not None and is_flagged(row):
        row = row._replace(value=None)
    if conversion.with_offsets:
        row = row._replace(headers=[*(row.headers or ()), (OFFSET_HEADER, str(row.offset).encode())])
    return row


def is_flagged(row: Row) -> bool:
    """Whether it has the header of a tombstone (KIP-87), which does not say no."""
    return row.headers is not None and any(
        name == TOMBSTONE_HEADER and (value is None or value.lower() not in _NO) for name, value in row.headers
    )


def is_out_of_reach(row: Row) -> bool:
    """Whether librdkafka would write something else: it takes timestamp 0 for none, and ends names at a NUL."""
    return row.timestamp_ms == 0 or (row.headers is not None and any("\0" in name for name, _ in row.headers))


def _difference(row: Row, seen: Seen) -> str:
    """What distinguishes a record from the one that was written for the row; nothing if nothing does."""
    there = [(name.split("\0")[0], value) for name, value in seen.headers]
    meant = [(name.split("\0")[0], value) for name, value in row.headers or ()]
    if row.value is None and len(there) == len(meant) + 1:  # with the flag, the broker adds the header to null values
        there = [header for header in there if header != (TOMBSTONE_HEADER, b"")]
    pairs = {
        "key": (row.key, seen.key),
        "value": (row.value, seen.value),
        "timestamp": (row.timestamp_ms, seen.timestamp_ms),
        "headers": (meant, there),
    }
    return next((name for name, (ours, theirs) in pairs.items() if ours != theirs), "")


def replay_partition(
    plan: Plan, target: Target, exact: ExactWriter | None = None, *, check_every: int = CHECK_EVERY
) -> Outcome:
    """Write what is missing of a partition. A problem is a part of the outcome, and not raised.

    Without `exact` it ends before the first row that only such a writer can write.
    """
    found = done = 0
    feed = _Feed(plan)
    try:
        found = done = rows_there(plan.parts, plan.conversion, target)
        feed.begin(done)
        next_check = done + 1  # the first one alone: if somebody else writes as well, no more than that is spoiled
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
            f"it ends at offset {end} after {done} rows: somebody else writes to it (another replay?);"
            " delete the topic and start again"
        )


class _Feed:
    """The rows of a partition as they are to be written, in portions."""

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
        """The next rows, up to one that is held."""
        conversion = self._plan.conversion
        converts = conversion.with_offsets or conversion.null_tombstones
        taken = 0
        for row in islice(self._rows, limit):
            taken += 1
            if row.headers is not None and row.value is not None and is_flagged(row):
                self.flagged += 1
            if row.timestamp_type == LOG_APPEND_TIME:
                self.appended += 1
            if converts:
                row = convert(row, conversion)
            if is_out_of_reach(row):
                self.held = row
                return
            yield row
        if not taken:
            raise ReplayError("the archive has fewer rows than its files say")

    def pop(self) -> Row:
        row, self.held = self.held, None
        assert row is not None
        return row


# --- Kafka


class KafkaPartition:
    """A partition of a topic, by librdkafka."""

    def __init__(self, plan: Plan) -> None:
        self._plan = plan
        self._place = TopicPartition(plan.topic, plan.partition)
        self._failure: ReplayError | None = None
        reading = {"group.id": "kmini-replay", "enable.auto.commit": False, "enable.partition.eof": True}
        self._consumer = Consumer(plan.librdkafka | reading | QUIET | {"isolation.level": "read_uncommitted"})
        self._producer: Producer | None = None

    def close(self) -> None:
        self._consumer.close()

    def end_offset(self) -> int:
        try:
            _, end = self._consumer.get_watermark_offsets(self._place, timeout=self._plan.stall_ms / 1000, cached=False)
        except KafkaException as error:
            raise ReplayError(f"no broker tells where it ends: {describe_error(error.args[0])}") from error
        return int(end)

    def record_at(self, offset: int) -> Seen | None:
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
        return Seen(offset, message.timestamp()[1], message.key(), message.value(), _headers(message.headers()))

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
            "enable.gapless.guarantee": True,  # what follows a batch that is refused is not written either
            "message.timeout.ms": 0,  # a record that is given up on would be a gap; `_wait` gives up on all of them
            "message.max.bytes": 1_000_000_000,  # the topic says what is too large
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
        except KafkaException as error:  # so it tells of what is fatal
            raise self._stop(f"the producer cannot go on: {describe_error(error.args[0])}") from error
        if self._failure is not None:
            raise self._stop()

    def _wait(self, producer: Producer) -> None:
        """Until something was acknowledged."""
        before, deadline = len(producer), time.monotonic() + self._plan.stall_ms / 1000
        while len(producer) == before:
            self._poll(producer, 0.05)
            if time.monotonic() > deadline:
                raise self._stop(f"nothing was acknowledged for {self._plan.stall_ms} ms")

    def _stop(self, reason: str = "") -> ReplayError:
        """Write nothing more."""
        if self._producer is not None:
            self._producer.purge(in_queue=True, in_flight=True)
        return self._failure or ReplayError(reason)


def _headers(headers: Any) -> list[tuple[str, bytes | None]]:
    """librdkafka's None stands for no headers."""
    return list(headers or ())


def run_plan(plan: Plan) -> Outcome:
    """What an executor does."""
    target = KafkaPartition(plan)
    try:
        return replay_partition(plan, target)
    finally:
        target.close()
