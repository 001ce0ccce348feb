# cython: boundscheck=False, wraparound=False, initializedcheck=False
"""The table of compaction: for each key the offset of its newest record."""

from __future__ import annotations

from array import array

from ... import cython_words as cython
from ..layout import (
    BAD_COUNT,
    LAST_OFFSET_DELTA_AT,
    RECORD_COUNT_AT,
)
from .numbers import Bytes, int32_at, int64_at
from .scan import RecordScan, ScanPointer, new_scan, next_record
from .simple_batches import SimpleBatch
from .siphash import SipHash

GROUP = cython.declare(cython.Py_ssize_t, 64)
"""Records that are looked up together."""


@cython.final
@cython.cclass
class RecordGroup:
    """Up to GROUP records, one behind the other, and the hashes of their keys."""

    max_record_bytes: cython.longlong
    hasher: SipHash
    error: cython.int
    """0, or why what follows them is no record: a key of `layout.REASONS`."""
    end: cython.Py_ssize_t
    """Where the last of them ends."""
    is_last: cython.bint
    """Whether no whole record follows them."""
    starts: cython.longlong[::1]
    offset_deltas: cython.longlong[::1]
    timestamp_deltas: cython.longlong[::1]
    attributes: cython.uchar[::1]
    has_key: cython.uchar[::1]
    has_value: cython.uchar[::1]
    lows: cython.ulonglong[::1]
    highs: cython.ulonglong[::1]
    touched: cython.ulonglong

    def __init__(self, hasher: SipHash, max_record_bytes: int) -> None:
        self.max_record_bytes = max_record_bytes
        self.hasher = hasher
        self.starts = array("q", bytes(8 * GROUP))
        self.offset_deltas = array("q", bytes(8 * GROUP))
        self.timestamp_deltas = array("q", bytes(8 * GROUP))
        self.attributes = bytearray(GROUP)
        self.has_key = bytearray(GROUP)
        self.has_value = bytearray(GROUP)
        self.lows = array("Q", bytes(8 * GROUP))
        self.highs = array("Q", bytes(8 * GROUP))

    @cython.cfunc
    @cython.nogil
    @cython.exceptval(check=False)
    def fill(self, data: Bytes, position: cython.Py_ssize_t, size: cython.Py_ssize_t) -> cython.Py_ssize_t:
        """Take the records from `position` on; return how many they are. Ends early at an `error`."""
        count: cython.Py_ssize_t = 0
        low: cython.ulonglong
        high: cython.ulonglong
        found: RecordScan = new_scan()
        scan: ScanPointer = cython.address(found)
        self.is_last = False
        while count < GROUP:
            if not next_record(scan, data, position, size, self.max_record_bytes):
                self.is_last = True
                break
            self.starts[count] = position
            self.offset_deltas[count] = scan.offset_delta
            self.timestamp_deltas[count] = scan.timestamp_delta
            self.attributes[count] = data[scan.attributes_at]
            self.has_key[count] = scan.key_length >= 0
            self.has_value[count] = scan.value_length >= 0
            if scan.key_length >= 0:
                low, high = self.hasher.hash(data, scan.key_at, scan.key_length)
                self.lows[count] = low
                self.highs[count] = high
            else:
                self.lows[count] = 0
            position = scan.end
            count += 1
        self.end = position
        self.error = scan.error
        return count


@cython.final
@cython.cclass
class KeyTable:
    """Keys, by their hashes only, and an offset for each: open addressing in memory that the caller gives.

    A slot has three words: the two of a hash, and the offset plus one, so that a word of zero is a free slot. The first
    bits of a hash say which slot it would have; if that is taken, it has one of the next slots.
    """

    capacity = cython.declare(cython.longlong, visibility="readonly")
    """The number of keys that the table takes."""
    size = cython.declare(cython.longlong, visibility="readonly")
    """Keys in the table."""
    latest_offset = cython.declare(cython.longlong, visibility="public")
    """Every record up to here was put, so a record up to here is superseded by a key of the table or by none."""
    is_full = cython.declare(cython.bint, visibility="readonly")
    """Whether the table has refused a key."""
    error = cython.declare(cython.int, visibility="readonly")
    """0, or why the record at which the last call ended is none: a key of `layout.REASONS`."""

    slots: cython.ulonglong[::1]
    slot_count: cython.ulonglong
    group: RecordGroup
    batch: SimpleBatch

    def __init__(self, memory: object, secret: bytes, capacity: int, max_record_bytes: int = 1 << 31) -> None:
        """`memory`: a writable buffer of zeros, 24 bytes a slot, with more slots than `capacity`. `secret`: 16 bytes
        that no producer of keys knows."""
        self.slots = memoryview(memory).cast("B").cast("Q")
        self.slot_count = len(self.slots) // 3
        if self.slot_count >= 1 << 32:
            raise ValueError("the table has too many slots")
        self.capacity = capacity
        self.size = self.error = 0
        self.latest_offset = -1
        self.is_full = False
        self.group = RecordGroup(SipHash(secret), max_record_bytes)
        self.batch = SimpleBatch()

    def close(self) -> None:
        """Release the memory; the table holds nothing any more."""
        self.slots = memoryview(bytearray(48)).cast("Q")
        self.slot_count = 2
        self.size = self.capacity = 0

    def hash_of(self, key: bytes) -> tuple:
        """The lower and the higher half of the hash of a key."""
        data: cython.const[cython.uchar][::1] = key
        return self.group.hasher.hash(cython.address(data[0]) if cython.compiled else key, 0, len(key))

    def hash_column(
        self,
        data: cython.const[cython.uchar][::1],
        bounds: cython.const[cython.int][::1],
        lows: cython.ulonglong[::1],
        highs: cython.ulonglong[::1],
    ) -> None:
        """The hashes of keys that lie one behind the other, as in a column of Arrow: number n is what is from
        `bounds[n]` to `bounds[n + 1]`. Only between valid bounds; lets other threads run."""
        count: cython.Py_ssize_t = len(bounds) - 1
        number: cython.Py_ssize_t
        low: cython.ulonglong
        high: cython.ulonglong
        if not len(data):
            data = b"\0"  # all of them are empty
        start: Bytes = cython.address(data[0]) if cython.compiled else data
        if len(lows) < count or len(highs) < count:
            raise ValueError("there is no room for the hashes")
        with cython.nogil:
            for number in range(count):
                low, high = self.group.hasher.hash(start, bounds[number], bounds[number + 1] - bounds[number])
                lows[number] = low
                highs[number] = high

    def put(self, key: bytes, offset: int) -> bool:
        """Remember the key's offset instead of an earlier one; False if the table is full."""
        low, high = self.hash_of(key)
        return self._put(low, high, offset)

    def get(self, key: bytes) -> int:
        """The offset of the key; -1 if it is not there."""
        low, high = self.hash_of(key)
        return self.get_hash(low, high)

    def put_records(
        self, piece: cython.const[cython.uchar][::1], base_offset: cython.longlong, first_offset: cython.longlong
    ) -> int:
        """Take the keys of the records in `piece`, from `first_offset` on; return where the last whole record ends.

        Or where the record begins that found the table full, or was no record.
        """
        size: cython.Py_ssize_t = len(piece)
        data: Bytes = cython.address(piece[0]) if cython.compiled else memoryview(piece)
        position: cython.Py_ssize_t
        _count: cython.longlong
        with cython.nogil:
            position, _count = self._put_records(data, 0, size, base_offset, first_offset)
        return position

    def put_batches(
        self, chunk: object, position: cython.Py_ssize_t, first_offset: cython.longlong, codec: object = None
    ) -> int:
        """Take the keys of the simple batches from `position` on; return where they end.

        `codec`: a BlockCodec for compressed ones. Ends early if the table is full (the batch is taken in part then),
        and at an error.
        """
        view: cython.const[cython.uchar][::1] = chunk
        size: cython.Py_ssize_t = len(view)
        data: Bytes = cython.address(view[0]) if cython.compiled else memoryview(view)
        batch: SimpleBatch = self.batch
        is_taken: cython.bint
        batch.begin()
        self.error = 0
        while True:
            with cython.nogil:
                while batch.find_plain(data, position, size) and self._put_batch(data, position, batch, first_offset):
                    position += batch.size
            if self.is_full or self.error or not batch.decompress(chunk, data, position, size, codec):
                break
            with cython.nogil:
                is_taken = self._put_batch(data, position, batch, first_offset)
            if not is_taken:
                break
            position += batch.size
        self.error = self.error or batch.error
        return position

    @cython.cfunc
    @cython.nogil
    @cython.exceptval(check=False)
    def _put_batch(
        self, data: Bytes, position: cython.Py_ssize_t, batch: SimpleBatch, first_offset: cython.longlong
    ) -> cython.bint:
        """Take the keys of the batch at `position`; False if that ended early."""
        base: cython.longlong = int64_at(data, position)
        last: cython.longlong = base + int32_at(data, position + LAST_OFFSET_DELTA_AT)
        stop: cython.Py_ssize_t
        records: cython.longlong
        if last >= first_offset:
            stop, records = self._put_records(batch.block, batch.start, batch.end, base, first_offset)
            if self.is_full or self.error:
                return False
            if stop != batch.end or records != int32_at(data, position + RECORD_COUNT_AT):
                self.error = BAD_COUNT
                return False
            if last > self.latest_offset:
                self.latest_offset = last
        return True

    @cython.cfunc
    @cython.nogil
    @cython.exceptval(check=False)
    def _put_records(
        self,
        data: Bytes,
        position: cython.Py_ssize_t,
        size: cython.Py_ssize_t,
        base_offset: cython.longlong,
        first_offset: cython.longlong,
    ) -> tuple[cython.Py_ssize_t, cython.longlong]:
        """Returns where it ended, and how many records there were until then."""
        done: cython.longlong = 0
        offset: cython.longlong
        count: cython.Py_ssize_t
        number: cython.Py_ssize_t
        while True:
            count = self.group.fill(data, position, size)
            self.fetch(self.group, count)
            for number in range(count):
                offset = base_offset + self.group.offset_deltas[number]
                if (
                    offset >= first_offset
                    and offset >= 0
                    and self.group.has_key[number]
                    and not self._put(self.group.lows[number], self.group.highs[number], offset)
                ):
                    return self.group.starts[number], done + number
            done += count
            position = self.group.end
            if self.group.is_last:
                break
        self.error = self.group.error
        return position, done

    @cython.cfunc
    @cython.nogil
    @cython.exceptval(check=False)
    def fetch(self, group: RecordGroup, count: cython.Py_ssize_t) -> cython.void:
        """Have the slots of the first `count` hashes of the group fetched from memory, all at once: each look-up would
        wait for its own."""
        touched: cython.ulonglong = 0
        number: cython.Py_ssize_t
        if cython.compiled:
            for number in range(count):
                touched |= self.slots[3 * ((group.lows[number] >> 32) * self.slot_count >> 32) + 2]
            group.touched = touched

    @cython.cfunc
    @cython.nogil
    @cython.inline
    @cython.exceptval(check=False)
    def _put(self, low: cython.ulonglong, high: cython.ulonglong, offset: cython.longlong) -> cython.bint:
        at: cython.Py_ssize_t
        if self.size >= self.capacity:
            self.is_full = True
            return False
        at = self._find(low, high)
        if self.slots[at + 2] == 0:
            self.size += 1
            self.slots[at] = low
            self.slots[at + 1] = high
        self.slots[at + 2] = offset + 1
        if offset > self.latest_offset:
            self.latest_offset = offset
        return True

    @cython.cfunc
    @cython.nogil
    @cython.inline
    @cython.exceptval(check=False)
    def get_hash(self, low: cython.ulonglong, high: cython.ulonglong) -> cython.longlong:
        """The offset of the key with this hash; -1 if it is not there."""
        found: cython.longlong = self.slots[self._find(low, high) + 2]
        return found - 1

    @cython.cfunc
    @cython.nogil
    @cython.inline
    @cython.exceptval(check=False)
    def _find(self, low: cython.ulonglong, high: cython.ulonglong) -> cython.Py_ssize_t:
        """The slot of a hash, or the free one that it would get."""
        end: cython.Py_ssize_t = 3 * self.slot_count
        at: cython.Py_ssize_t = 3 * ((low >> 32) * self.slot_count >> 32)
        while self.slots[at + 2] != 0 and (self.slots[at] != low or self.slots[at + 1] != high):
            at += 3
            if at == end:
                at = 0
        return at
