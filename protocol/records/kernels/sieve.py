# cython: boundscheck=False, wraparound=False, initializedcheck=False
"""The kernel of compaction: the newest record of every key passes the sieve.

The first cleaning of a log loads it. Compiled it takes about 0.1 µs for a record and lets other threads run meanwhile.

A cleaning takes *simple* batches many at a time, as they stand in the file: `KeyTable.put_batches`,
`Sieve.sift_batches`. Both end before the first batch that is not simple, or that needs a decision of the caller. The
caller decompresses such a batch and passes its records piece by piece: `put_records`, `select`, `rewrite`.

A simple batch has its checksum verified before its records are read, and one that changes gets a new checksum; the
caller verifies those of the other batches. Bytes that are no record are an error, never an access beyond the piece.
"""

from __future__ import annotations

from ... import cython_words as cython
from ..layout import (
    ATTRIBUTES_AT,
    BAD_COUNT,
    BASE_TIMESTAMP_AT,
    CHECKED_FROM,
    CRC_AT,
    DELETE_HORIZON,
    HEADER_SIZE,
    LAST_OFFSET_DELTA_AT,
    LENGTH_AT,
    LOG_APPEND_TIME,
    LOG_OVERHEAD,
    MAX_TIMESTAMP_AT,
    REASONS,
    RECORD_COUNT_AT,
    SMALLEST_STORED_RECORD,
)
from .checksum import checksum_of
from .key_table import KeyTable, RecordGroup
from .numbers import LARGEST, Bytes, Room, copy, int32_at, int64_at, is_among, put_int32, put_int64, wrapping_sum
from .rewrite import rewrite
from .scan import RecordScan, ScanPointer, new_scan, next_record
from .simple_batches import SimpleBatch, end_of_batches
from .siphash import sip_hash_128

__all__ = ["NOTE", "REASONS", "KeyTable", "Sieve", "checksum", "end_of_batches", "rewrite", "sip_hash_128"]

# The verdict on a record.
KEPT = cython.declare(cython.uchar, 0)
SUPERSEDED = cython.declare(cython.uchar, 1)
EXPIRED = cython.declare(cython.uchar, 2)
KEYLESS = cython.declare(cython.uchar, 3)

# The fate of a batch.
CALLER_DECIDES = cython.declare(cython.int, 0)
GOES = cython.declare(cython.int, 1)
STAYS = cython.declare(cython.int, 2)
CHANGES = cython.declare(cython.int, 3)

NOTE = 4
"""Numbers in a note about a batch: where it begins, its size, its last offset, its largest timestamp."""


@cython.final
@cython.cclass
class Sieve:
    """Decides which records stay, by a table of keys, and copies those that do.

    A record stays if its offset is beyond those that the table has seen, or if it has a key that no later record in the
    table has, and is no tombstone whose delete horizon has passed. All counts grow from batch to batch.
    """

    records = cython.declare(cython.longlong, visibility="readonly")
    """All records that the sieve has met."""
    superseded = cython.declare(cython.longlong, visibility="readonly")
    expired = cython.declare(cython.longlong, visibility="readonly")
    """Tombstones whose delete horizon has passed."""
    keyless = cython.declare(cython.longlong, visibility="readonly")
    tombstones = cython.declare(cython.longlong, visibility="readonly")
    """Tombstones of simple batches that stay."""
    earliest_horizon = cython.declare(cython.longlong, visibility="readonly")
    """Of the simple batches with tombstones that stay, in ms; 2^63 - 1 without one."""

    # Of the batch that `begin` has begun.
    kept = cython.declare(cython.longlong, visibility="readonly")
    kept_tombstones = cython.declare(cython.longlong, visibility="readonly")
    walked = cython.declare(cython.longlong, visibility="readonly")
    """Records met."""
    max_timestamp = cython.declare(cython.longlong, visibility="readonly")
    """Of the records that stay."""
    error = cython.declare(cython.int, visibility="readonly")
    """0, or why record number `walked` is none: a key of `layout.REASONS`."""

    table: KeyTable
    group: RecordGroup
    batch: SimpleBatch
    now_ms: cython.longlong
    tombstone_bit: cython.int
    base_offset: cython.longlong
    base_timestamp: cython.longlong
    keeps_tombstones: cython.bint
    verdicts: cython.uchar[::1]
    scratch: object
    """A bytearray for the records that stay of a decompressed batch, if some of them go."""
    scratch_used: cython.Py_ssize_t
    new_superseded: cython.longlong
    new_expired: cython.longlong
    new_keyless: cython.longlong

    def __init__(self, table: KeyTable, now_ms: int, tombstone_bit: int, max_record_bytes: int = 1 << 31) -> None:
        """`tombstone_bit`: attributes that make a record a tombstone although it may have a value (KIP-87); or 0."""
        self.table = table
        self.group = RecordGroup(table.group.hasher, max_record_bytes)
        self.batch = SimpleBatch()
        self.now_ms = now_ms
        self.tombstone_bit = tombstone_bit
        self.records = self.superseded = self.expired = self.keyless = self.tombstones = 0
        self.earliest_horizon = LARGEST
        self.verdicts = bytearray(0)
        self.scratch = bytearray(1)
        self.begin(0, 0, -1)

    def begin(self, base_offset: int, base_timestamp: int, horizon_ms: int) -> None:
        """Begin a batch whose records come in pieces. `horizon_ms` is negative if it has no delete horizon."""
        self._begin(base_offset, base_timestamp, horizon_ms)

    def select(self, piece: cython.const[cython.uchar][::1]) -> tuple[int, bytearray]:
        """Decide on the records in `piece`; return where the last whole one ends, and KEPT or why not for each."""
        size: cython.Py_ssize_t = len(piece)
        data: Bytes = cython.address(piece[0]) if cython.compiled else memoryview(piece)
        verdicts = bytearray(size // SMALLEST_STORED_RECORD)
        before: cython.longlong = self.walked
        position: cython.Py_ssize_t
        self.verdicts = verdicts
        with cython.nogil:
            position = self._select(data, 0, size)
        self._count()
        self.records += self.walked - before
        self.verdicts = bytearray(0)
        del verdicts[self.walked - before :]
        return position, verdicts

    def sift_batches(
        self,
        chunk: object,
        position: cython.Py_ssize_t,
        precious: cython.longlong[::1],
        out: cython.uchar[::1],
        notes: cython.longlong[::1],
        codec: object = None,
    ) -> tuple[int, int, int]:
        """Copy what stays of the simple batches from `position` on to `out`, which has room for what `chunk` has.

        Returns where the batches end, how many bytes were copied, and how many batches these are: a NOTE about each is
        in `notes`. `codec` is a BlockCodec for compressed batches. Ends before a batch of which no record stays but
        whose last offset is in `precious`, before one that needs a delete horizon, where `notes` are full, and at an
        error.
        """
        view: cython.const[cython.uchar][::1] = chunk
        size: cython.Py_ssize_t = len(view)
        data: Bytes = cython.address(view[0]) if cython.compiled else memoryview(view)
        room: Room = cython.address(out[0]) if cython.compiled else memoryview(out)
        most: cython.Py_ssize_t = len(notes) // NOTE
        used: cython.Py_ssize_t = 0
        end: cython.Py_ssize_t
        count: cython.Py_ssize_t = 0
        fate: cython.int = GOES
        batch: SimpleBatch = self.batch
        batch.begin()
        self._make_room(size)
        self.error = 0
        while True:
            with cython.nogil:
                while count < most and batch.find_plain(data, position, size):
                    fate = self._judge(data, position, batch, precious)
                    if fate == CALLER_DECIDES:
                        break
                    if fate != GOES:
                        end = self._copy_plain(data, position, batch, fate, room, used)
                        _note(notes, count, room, used, end)
                        used = end
                        count += 1
                    self._account(data, position)
                    position += batch.size
            if count == most or fate == CALLER_DECIDES or not batch.decompress(chunk, data, position, size, codec):
                break
            fate = self._judge_compressed(data, position, batch, precious)
            if fate == CALLER_DECIDES:
                break
            if fate != GOES:
                end = self._copy_compressed(data, position, batch, fate, room, used, len(out), codec)
                if end < 0:
                    break
                _note(notes, count, room, used, end)
                used = end
                count += 1
            self._account(data, position)
            position += batch.size
        self.error = self.error or batch.error
        return position, used, count

    @cython.cfunc
    def _make_room(self, size: cython.Py_ssize_t) -> object:
        """For verdicts on the records of a block of `size` bytes."""
        if len(self.verdicts) < size // SMALLEST_STORED_RECORD:
            self.verdicts = bytearray(size // SMALLEST_STORED_RECORD)

    @cython.cfunc
    @cython.nogil
    @cython.exceptval(check=False)
    def _judge(
        self, data: Bytes, position: cython.Py_ssize_t, batch: SimpleBatch, precious: cython.longlong[::1]
    ) -> cython.int:
        """The fate of the batch at `position`; CALLER_DECIDES at an error, too."""
        last: cython.longlong = int64_at(data, position) + int32_at(data, position + LAST_OFFSET_DELTA_AT)
        base_timestamp: cython.longlong = int64_at(data, position + BASE_TIMESTAMP_AT)
        horizon: cython.longlong = base_timestamp if data[position + ATTRIBUTES_AT] & DELETE_HORIZON else -1
        stop: cython.Py_ssize_t
        self._begin(int64_at(data, position), base_timestamp, horizon)
        stop = self._select(batch.block, batch.start, batch.end)
        if self.error == 0 and (stop != batch.end or self.walked != int32_at(data, position + RECORD_COUNT_AT)):
            self.error = BAD_COUNT
        if self.error or (self.kept_tombstones and horizon < 0 and last <= self.table.latest_offset):
            return CALLER_DECIDES
        if self.kept == 0:
            return CALLER_DECIDES if is_among(precious, last) else GOES
        return STAYS if self.kept == self.walked else CHANGES

    @cython.cfunc
    @cython.exceptval(-1)
    def _judge_compressed(
        self, data: Bytes, position: cython.Py_ssize_t, batch: SimpleBatch, precious: cython.longlong[::1]
    ) -> cython.int:
        """The fate of a batch that was decompressed. If it CHANGES, what stays is in `scratch`."""
        size: cython.Py_ssize_t = batch.end - batch.start
        fate: cython.int
        self._make_room(size)
        if len(self.scratch) < size:
            self.scratch = bytearray(size)
        scratch: cython.uchar[::1] = self.scratch
        kept: Room = cython.address(scratch[0]) if cython.compiled else memoryview(self.scratch)
        with cython.nogil:
            fate = self._judge(data, position, batch, precious)
            if fate == CHANGES:
                self.scratch_used = self._copy_kept(batch.block, batch.start, batch.end, kept, 0)
        return fate

    @cython.cfunc
    @cython.nogil
    @cython.exceptval(check=False)
    def _account(self, data: Bytes, position: cython.Py_ssize_t) -> cython.void:
        """Count the batch at `position`, which was judged."""
        horizon: cython.longlong = int64_at(data, position + BASE_TIMESTAMP_AT)
        self._count()
        self.records += self.walked
        if self.kept_tombstones:
            self.tombstones += self.kept_tombstones
            if data[position + ATTRIBUTES_AT] & DELETE_HORIZON and horizon < self.earliest_horizon:
                self.earliest_horizon = horizon

    @cython.cfunc
    @cython.nogil
    @cython.exceptval(check=False)
    def _copy_plain(
        self,
        data: Bytes,
        position: cython.Py_ssize_t,
        batch: SimpleBatch,
        fate: cython.int,
        out: Room,
        used: cython.Py_ssize_t,
    ) -> cython.Py_ssize_t:
        """Copy what stays of an uncompressed batch; return where it ends in `out`."""
        end: cython.Py_ssize_t
        if fate == STAYS:
            return copy(data, position, position + batch.size, out, used)
        end = copy(data, position, position + HEADER_SIZE, out, used)
        end = self._copy_kept(batch.block, batch.start, batch.end, out, end)
        self._finish(out, used, end)
        return end

    @cython.cfunc
    def _copy_compressed(
        self,
        data: Bytes,
        position: cython.Py_ssize_t,
        batch: SimpleBatch,
        fate: cython.int,
        out: Room,
        used: cython.Py_ssize_t,
        room_size: cython.Py_ssize_t,
        codec: object,
    ) -> cython.Py_ssize_t:
        """Copy what stays of a compressed batch: itself, or what is in `scratch` of it, compressed.

        Returns where it ends in `out`, -1 if it does not fit.
        """
        end: cython.Py_ssize_t
        block: Bytes
        if fate == STAYS:
            if used + batch.size > room_size:
                return -1
            return copy(data, position, position + batch.size, out, used)
        packed: bytes = codec.compress(batch.codec, memoryview(self.scratch)[: self.scratch_used])
        if used + HEADER_SIZE + len(packed) > room_size:
            return -1
        block = packed
        end = copy(data, position, position + HEADER_SIZE, out, used)
        end = copy(block, 0, len(packed), out, end)
        self._finish(out, used, end)
        return end

    @cython.cfunc
    @cython.nogil
    @cython.exceptval(check=False)
    def _copy_kept(
        self, block: Bytes, at: cython.Py_ssize_t, end: cython.Py_ssize_t, out: Room, used: cython.Py_ssize_t
    ) -> cython.Py_ssize_t:
        """Copy the records that stay, as `_select` has found; return where they end in `out`."""
        number: cython.Py_ssize_t = 0
        run: cython.Py_ssize_t = at
        found: RecordScan = new_scan()
        scan: ScanPointer = cython.address(found)
        while at < end:
            next_record(scan, block, at, end, self.group.max_record_bytes)
            if self.verdicts[number] != KEPT:
                used = copy(block, run, at, out, used)
                run = scan.end
            at = scan.end
            number += 1
        return copy(block, run, end, out, used)

    @cython.cfunc
    @cython.nogil
    @cython.exceptval(check=False)
    def _finish(self, out: Room, start: cython.Py_ssize_t, end: cython.Py_ssize_t) -> cython.void:
        """Make the header of the batch at `start`, a copy of the old one, true of the records left."""
        put_int32(out, start + LENGTH_AT, end - start - LOG_OVERHEAD)
        if not out[start + ATTRIBUTES_AT] & LOG_APPEND_TIME:
            put_int64(out, start + MAX_TIMESTAMP_AT, self.max_timestamp)
        put_int32(out, start + RECORD_COUNT_AT, self.kept)
        put_int32(out, start + CRC_AT, checksum_of(out, start + CHECKED_FROM, end))

    @cython.cfunc
    @cython.nogil
    @cython.inline
    @cython.exceptval(check=False)
    def _begin(
        self, base_offset: cython.longlong, base_timestamp: cython.longlong, horizon_ms: cython.longlong
    ) -> cython.void:
        self.base_offset = base_offset
        self.base_timestamp = base_timestamp
        self.keeps_tombstones = horizon_ms < 0 or self.now_ms < horizon_ms
        self.kept = self.kept_tombstones = self.walked = 0
        self.new_superseded = self.new_expired = self.new_keyless = 0
        self.max_timestamp = -1
        self.error = 0

    @cython.cfunc
    @cython.nogil
    @cython.exceptval(check=False)
    def _select(self, data: Bytes, position: cython.Py_ssize_t, size: cython.Py_ssize_t) -> cython.Py_ssize_t:
        """Write a verdict on each record to `verdicts`; return where the last whole record ends."""
        done: cython.Py_ssize_t = 0
        count: cython.Py_ssize_t
        number: cython.Py_ssize_t
        while True:
            count = self.group.fill(data, position, size)
            self.table.fetch(self.group, count)
            for number in range(count):
                self.verdicts[done + number] = self._verdict(number)
            done += count
            position = self.group.end
            if self.group.is_last:
                break
        self.walked += done
        self.error = self.group.error
        return position

    @cython.cfunc
    @cython.nogil
    @cython.inline
    @cython.exceptval(check=False)
    def _verdict(self, number: cython.Py_ssize_t) -> cython.uchar:
        """On a record of the group, counted."""
        offset: cython.longlong = self.base_offset + self.group.offset_deltas[number]
        timestamp: cython.longlong
        is_tombstone: cython.bint = (
            not self.group.has_value[number] or self.group.attributes[number] & self.tombstone_bit != 0
        )
        if offset <= self.table.latest_offset:
            if not self.group.has_key[number]:
                self.new_keyless += 1
                return KEYLESS
            if offset < self.table.get_hash(self.group.lows[number], self.group.highs[number]):
                self.new_superseded += 1
                return SUPERSEDED
            if is_tombstone and not self.keeps_tombstones:
                self.new_expired += 1
                return EXPIRED
        timestamp = wrapping_sum(self.base_timestamp, self.group.timestamp_deltas[number])
        if self.kept == 0 or timestamp > self.max_timestamp:
            self.max_timestamp = timestamp
        self.kept += 1
        if is_tombstone:
            self.kept_tombstones += 1
        return KEPT

    @cython.cfunc
    @cython.nogil
    @cython.inline
    @cython.exceptval(check=False)
    def _count(self) -> cython.void:
        """Add a batch, or a piece of one, to the counts."""
        self.superseded += self.new_superseded
        self.expired += self.new_expired
        self.keyless += self.new_keyless
        self.new_superseded = self.new_expired = self.new_keyless = 0


def checksum(data: cython.const[cython.uchar][::1]) -> int:
    """CRC-32C of at least one byte, as this kernel computes it."""
    begin: Bytes = cython.address(data[0]) if cython.compiled else memoryview(data)
    return checksum_of(begin, 0, len(data))


@cython.cfunc
@cython.nogil
@cython.inline
@cython.exceptval(check=False)
def _note(
    notes: cython.longlong[::1],
    number: cython.Py_ssize_t,
    out: Room,
    start: cython.Py_ssize_t,
    end: cython.Py_ssize_t,
) -> cython.void:
    """Write note `number`, about the batch from `start` to `end` in `out`."""
    notes[4 * number] = start
    notes[4 * number + 1] = end - start
    notes[4 * number + 2] = int64_at(out, start) + int32_at(out, start + LAST_OFFSET_DELTA_AT)
    notes[4 * number + 3] = int64_at(out, start + MAX_TIMESTAMP_AT)
