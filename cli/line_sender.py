"""Send lines to partitions: a batch fills while the batch before it is in flight.

A partition has one request in flight at a time, which keeps the order without sequence numbers. Lines that arrive
meanwhile are collected in the partition's block, so that a fast input makes large batches and a slow one is sent line
by line.
"""

from __future__ import annotations

import asyncio
import random
import time
from array import array
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from kmini.protocol.errors import KafkaError, MessageTooLarge, RecordsRefused

if TYPE_CHECKING:
    from kmini.client import Client
    from kmini.protocol.records.compression import Codec
    from kmini.protocol.records.record import Record

BATCH_BYTES = 512 * 1024
"""Bytes of records in a batch before compression: half of the brokers' default limit (`message.max.bytes`)."""
FIRST_BLOCK_BYTES = 32 * 1024
"""Bytes of a new block, which doubles up to BATCH_BYTES: a topic may have many partitions."""
MOST_GATHERED_BYTES = 16 * 1024 * 1024
"""Bytes in the blocks of all partitions above which reading stops until all are sent."""


class Shape(NamedTuple):
    """The format of a line."""

    key_separator: bytes | None
    null_marker: bytes | None
    headers: tuple[tuple[str, bytes | None], ...]


class LineRefused(Exception):
    """A line is no record, or the broker refuses its record."""

    def __init__(self, line: int, reason: str, *, by_broker: bool) -> None:
        super().__init__(reason)
        self.line = line
        """Counted from 1."""
        self.reason = reason
        """The problem of the line: "has no key: …"."""
        self.by_broker = by_broker


class _Part(NamedTuple):
    """The source of some records of a batch: rows of an index of lines (`kmini.protocol.records.kernels.lines`)."""

    rows: array[int]
    first: int
    end: int
    lines_before: int
    """Lines of the input before the first row."""


class _Batch(NamedTuple):
    """Records of one partition, encoded."""

    block: memoryview
    record_count: int
    base_timestamp: int
    max_timestamp: int
    parts: list[_Part]


class _Numbered(NamedTuple):
    """A record and its line number."""

    line: int
    record: Record


class _Lane:
    """A partition: the block that is being filled, and the task that sends."""

    def __init__(self, partition: int) -> None:
        self.partition = partition
        self.sending: asyncio.Task[None] | None = None
        self.emptied = asyncio.Event()
        """Set when the block is empty again, and when sending has ended."""
        self._reset()

    def _reset(self) -> None:
        self.block = bytearray(FIRST_BLOCK_BYTES)
        self.position = 0
        self.count = 0
        self.base_timestamp = self.max_timestamp = 0
        self.parts: list[_Part] = []

    def take(self) -> _Batch:
        """Take the collected records; the block is empty afterwards."""
        block = memoryview(self.block)[: self.position]
        batch = _Batch(block, self.count, self.base_timestamp, self.max_timestamp, self.parts)
        self._reset()
        self.emptied.set()
        return batch

    def make_room(self, more_bytes: int) -> bool:
        """Make room for another record; False if the block must be sent first."""
        needed = self.position + more_bytes
        if self.count and needed > BATCH_BYTES:
            return False
        self.block += bytes(max(min(len(self.block), BATCH_BYTES - len(self.block)), needed - len(self.block), 0))
        return True


class LineSender:
    """Sends the lines of a text to a topic. `stored` records are acknowledged; `unsure` ones may be in the topic or
    not."""

    def __init__(
        self,
        client: Client,
        topic: str,
        partition: int | None,
        shape: Shape,
        *,
        acks: int,
        codec: Codec,
        on_refused: Callable[[LineRefused], None] | None = None,
    ) -> None:
        """`on_refused` is called with each refused line; without it the first one ends the sending."""
        from kmini.protocol.records.load_kernel import load_lines

        self.stored = 0
        self.unsure = 0
        self._kernel: Any = load_lines()
        self._client = client
        self._topic = topic
        self._partition = partition
        self._shape = shape
        self._acks = acks
        self._codec = codec
        self._on_refused = on_refused
        self._headers = _encoded(shape.headers)
        self._partitions = 0
        """Number of partitions of the topic, once known."""
        self._turn = random.randrange(1 << 16)
        self.lines = 0
        """Number of lines so far."""
        self._lanes: dict[int, _Lane] = {}
        self._failure: Exception | None = None

    async def send(self, text: bytes) -> None:
        """Collect the lines of a text, which ends with a newline. Returns when there is room for more.

        Raises LineRefused and KafkaError; `finish` must be called even then.
        """
        self._raise_failure()
        if self._partition is None and not self._partitions:
            self._partitions = len(await self._client.partitions(self._topic, create_missing=True))
        self._turn += 1
        keyless = self._partition if self._partition is not None else self._turn % self._partitions
        rows = array("q", bytes(8 * self._kernel.ROW * text.count(b"\n")))
        separator = self._shape.key_separator or b""
        count = self._kernel.index_lines(text, separator, self._shape.null_marker, self._partitions, keyless, rows)
        partitions = rows[self._kernel.ROW - 1 :: self._kernel.ROW]
        refusal = None
        if separator and self._kernel.NO_RECORD in partitions:
            refusal, count = self._refuse_keyless(partitions, count)
        for partition in sorted(set(partitions) - {self._kernel.NO_RECORD}):
            await self._gather(self._lanes.setdefault(partition, _Lane(partition)), text, rows, count)
        self.lines += count
        if refusal is not None:
            raise refusal
        if sum(lane.position for lane in self._lanes.values()) > MOST_GATHERED_BYTES:
            await self._drain()

    async def finish(self) -> None:
        """Return when no request is in flight: `stored` is final then. Raises the error that ended the sending."""
        await self._drain()
        self._raise_failure()

    def _refuse_keyless(self, partitions: Sequence[int], count: int) -> tuple[LineRefused | None, int]:
        """Refuse the lines without a separator. Returns the refusal that ends the sending, if any, and the number of
        lines to send."""
        expected = (self._shape.key_separator or b"").decode()
        reason = f"has no key: {expected!r} was expected between key and value"
        for number, partition in enumerate(partitions):
            if partition == self._kernel.NO_RECORD:
                refusal = LineRefused(self.lines + number + 1, reason, by_broker=False)
                if self._on_refused is None:
                    return refusal, number
                self._on_refused(refusal)
        return None, count

    # --- gathering

    async def _gather(self, lane: _Lane, text: bytes, rows: array[int], count: int) -> None:
        """Encode the lines of a partition, and start its sending."""
        now = time.time_ns() // 1_000_000
        row = 0
        while row < count:
            if not lane.count:
                lane.base_timestamp = now
            lane.max_timestamp = max(lane.max_timestamp, now)
            first = row
            row, lane.position, lane.count = self._kernel.encode_lines(
                text,
                rows,
                first,
                count,
                lane.partition,
                lane.block,
                lane.position,
                lane.count,
                now - lane.base_timestamp,
                self._headers,
            )
            lane.parts.append(_Part(rows, first, row, self.lines))
            if row < count and not lane.make_room(self._kernel.room_for(rows, row, self._headers)):
                lane.emptied.clear()
                self._start(lane)
                await lane.emptied.wait()
                self._raise_failure()
        self._start(lane)

    def _start(self, lane: _Lane) -> None:
        if lane.sending is None or lane.sending.done():
            lane.sending = asyncio.ensure_future(self._send_all(lane))

    async def _drain(self) -> None:
        """Return when all collected records are sent, or cannot be."""
        for lane in self._lanes.values():
            if lane.sending is not None:
                await asyncio.wait([lane.sending])

    def _raise_failure(self) -> None:
        if self._failure is not None:
            raise self._failure

    # --- sending

    async def _send_all(self, lane: _Lane) -> None:
        """Send collected records, and those collected meanwhile, until none are left or sending fails."""
        try:
            while lane.count and self._failure is None:
                await self._send(lane.partition, lane.take())
        except Exception as error:  # raised by the next call of `send` or `finish`
            self._failure = self._failure or error
        finally:
            lane.emptied.set()

    async def _send(self, partition: int, batch: _Batch) -> None:
        from kmini.protocol.records.batch import batch_of_block

        encoded = batch_of_block(
            batch.block,
            record_count=batch.record_count,
            base_timestamp=batch.base_timestamp,
            max_timestamp=batch.max_timestamp,
            codec=self._codec,
        )
        try:
            await self._produce(partition, encoded, batch.record_count)
        except (RecordsRefused, MessageTooLarge) as error:
            from kmini.protocol.records.batch_records import decode_all

            lines = _line_numbers(batch.parts, partition, self._kernel.ROW)
            decoded = (record._replace(offset=0) for record in decode_all(encoded))
            records = [_Numbered(line, record) for line, record in zip(lines, decoded, strict=True)]
            await self._send_acceptable(partition, records, error)

    async def _produce(self, partition: int, batch: bytearray, count: int) -> None:
        from kmini.client import Disconnected
        from kmini.protocol.errors import NotEnoughReplicasAfterAppend, RequestTimedOut

        try:
            await self._client.produce_batch(self._topic, partition, batch, acks=self._acks)
        except (Disconnected, NotEnoughReplicasAfterAppend, RequestTimedOut):
            self.unsure += count
            raise
        self.stored += count

    async def _send_acceptable(self, partition: int, records: list[_Numbered], error: KafkaError) -> None:
        """Send records again without those that the broker refuses; `error` is its answer about all of them."""
        refused: dict[int, str] = dict(getattr(error, "record_errors", ()))
        if not refused and len(records) > 1:  # the broker does not name the refused records
            half = len(records) // 2
            await self._send_again(partition, records[:half])
            await self._send_again(partition, records[half:])
            return
        reasons = refused or {0: ""}
        if self._on_refused is None:
            await self._send_again(partition, records[: min(reasons)])
        else:
            await self._send_again(partition, [one for number, one in enumerate(records) if number not in reasons])
        for number in sorted(reasons):
            reason = f"is refused: {error.kafka_name}: {reasons[number] or error.message or type(error).__doc__}"
            self._refuse(LineRefused(records[number].line, reason, by_broker=True))

    async def _send_again(self, partition: int, records: list[_Numbered]) -> None:
        from kmini.protocol.records.batch import build_batch

        if not records:
            return
        encoded = build_batch([one.record for one in records], codec=self._codec)
        try:
            await self._produce(partition, encoded, len(records))
        except (RecordsRefused, MessageTooLarge) as error:
            await self._send_acceptable(partition, records, error)

    def _refuse(self, refusal: LineRefused) -> None:
        if self._on_refused is None:
            raise refusal
        self._on_refused(refusal)


def _line_numbers(parts: Sequence[_Part], partition: int, row_size: int) -> list[int]:
    """The line numbers of the records of a batch."""
    return [
        part.lines_before + row + 1
        for part in parts
        for row in range(part.first, part.end)
        if part.rows[row * row_size + row_size - 1] == partition
    ]


def _encoded(headers: Sequence[tuple[str, bytes | None]]) -> bytes:
    """The encoded headers, which end every record: their number and the headers."""
    from kmini.protocol.records.kernels.numbers import append_number

    encoded = bytearray()
    append_number(encoded, len(headers))
    for name, value in headers:
        for content in (name.encode(), value):
            append_number(encoded, -1 if content is None else len(content))
            encoded += content or b""
    return bytes(encoded)
