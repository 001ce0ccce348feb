# cython: boundscheck=False, wraparound=False, initializedcheck=False
"""The loops of compaction: keys into a table, and records through a sieve that lets the newest of every key stay.

A second kernel (see kernel.py, which says what a block of records is), loaded by the first cleaning of a log. Compiled
it takes about 0.1 µs for a record and lets other threads run meanwhile; the same source runs interpreted.

Two ways lead through a log. *Simple* batches of magic 2 (not transactional, no control batches; compressed ones if they
are small, and only with a BlockCodec) are taken many at a time, as they stand in the file: `put_batches`,
`sift_batches`. They end before the first batch that is not simple, or that asks for a decision which is not theirs.
Such a batch is somebody else's: he takes it apart and passes on its records in pieces: `put_records`, `select`,
`rewrite`.

The checksum of a simple batch is verified before it is looked at, and computed for one that has changed; those of the
others are the caller's affair. What is no record nevertheless is an error, never an access beyond the piece. (The
checksum is in C, in crc_in_c.pxd: the one of the package crc32c holds the interpreter's lock, and a broker's loop waits
for that while batch after batch is cleaned.)
"""

from __future__ import annotations

from array import array

import cython

if cython.compiled:
    from cython.cimports.crc_in_c import kmini_crc32c, kmini_crc_begin
    from cython.cimports.varints import append_number, int32_at, int64_at, number, wrapping_sum
else:
    from .crc import crc32c
    from .varints import append_number, int32_at, int64_at, number, wrapping_sum

Bytes = cython.typedef(cython.pointer[cython.const[cython.uchar]])
Room = cython.typedef(cython.pointer[cython.uchar])
"""Bytes to read, bytes to write: in C pointers, which know no sizes; interpreted memoryviews."""

# Why something is no record.
_BAD_NUMBER = cython.declare(cython.int, 1)
_BAD_LENGTH = cython.declare(cython.int, 2)
_TOO_LARGE = cython.declare(cython.int, 3)
_BAD_KEY = cython.declare(cython.int, 4)
_BAD_VALUE = cython.declare(cython.int, 5)
_BAD_COUNT = cython.declare(cython.int, 6)
_BAD_CHECKSUM = cython.declare(cython.int, 7)

REASONS = {
    _BAD_NUMBER: "one of its numbers has too many bytes",
    _BAD_LENGTH: "its length is negative or too short for a record",
    _TOO_LARGE: "it is larger than a record may be",
    _BAD_KEY: "its key is longer than the record",
    _BAD_VALUE: "its value is longer than the record",
    _BAD_COUNT: "there are not as many records as the batch says",
    _BAD_CHECKSUM: "the checksum of its batch is wrong",
}

# What becomes of a record.
_KEPT = cython.declare(cython.uchar, 0)
_SUPERSEDED = cython.declare(cython.uchar, 1)
_EXPIRED = cython.declare(cython.uchar, 2)
_KEYLESS = cython.declare(cython.uchar, 3)

# What becomes of a batch.
_OTHERS_DECIDE = cython.declare(cython.int, 0)
_GOES = cython.declare(cython.int, 1)
_STAYS = cython.declare(cython.int, 2)
_CHANGES = cython.declare(cython.int, 3)

_SMALLEST_RECORD = cython.declare(cython.longlong, 6)
_SMALLEST_STORED = cython.declare(cython.Py_ssize_t, 7)
"""With its length."""

_HEADER = cython.declare(cython.Py_ssize_t, 61)
_OVERHEAD = cython.declare(cython.longlong, 12)
_CHECKSUM = cython.declare(cython.Py_ssize_t, 17)
_CHECKED = cython.declare(cython.Py_ssize_t, 21)
"""Where in a batch its checksum is, and what it is of begins."""
_CODEC = cython.declare(cython.int, 0x07)
_NOT_SIMPLE = cython.declare(cython.int, 0x30)
"""Of the attributes of a batch: transactional, control."""
_LOG_APPEND_TIME = cython.declare(cython.int, 0x08)
_HORIZON = cython.declare(cython.int, 0x40)

NOTE = 4
"""Numbers in a note about a batch: where it begins, its size, its last offset, its largest timestamp."""

_GROUP = cython.declare(cython.Py_ssize_t, 64)
"""Records looked up together."""

_32_BITS = cython.declare(cython.longlong, 0xFFFFFFFF)
_64_BITS = cython.declare(cython.ulonglong, 0xFFFFFFFFFFFFFFFF)
_NEVER = cython.declare(cython.longlong, 0x7FFFFFFFFFFFFFFF)


def sip_hash_128(secret: bytes, data: bytes) -> bytes:
    """SipHash-2-4 with a result of 128 bits. `secret` has 16 bytes."""
    low, high = KeyTable(bytearray(24), secret, 1).hash_of(data)
    return low.to_bytes(8, "little") + high.to_bytes(8, "little")


@cython.final
@cython.cclass
class RecordScan:
    """What is needed of one record, and where in the bytes it is."""

    end: cython.Py_ssize_t
    attributes: cython.int
    timestamp_delta: cython.longlong
    after_timestamp: cython.Py_ssize_t
    offset_delta: cython.longlong
    key_at: cython.Py_ssize_t
    key_length: cython.longlong
    value_length: cython.longlong
    error: cython.int
    max_record_bytes: cython.longlong

    def __init__(self, max_record_bytes: int) -> None:
        self.max_record_bytes = max_record_bytes
        self.error = 0

    @cython.cfunc
    @cython.nogil
    @cython.exceptval(check=False)
    def _next(self, data: Bytes, position: cython.Py_ssize_t, size: cython.Py_ssize_t) -> cython.bint:
        """Look at the record at `position`; False if it is not all there, or is none: then there is an `error`."""
        at: cython.Py_ssize_t
        end: cython.Py_ssize_t
        length: cython.longlong
        self.error = 0
        length, at = number(data, position, size, 35)
        if at > size:
            if size - position >= 5:
                self.error = _BAD_NUMBER
            return False
        if length < _SMALLEST_RECORD:
            self.error = _BAD_LENGTH
            return False
        if length > self.max_record_bytes:
            self.error = _TOO_LARGE
            return False
        if length > size - at:
            return False
        end = at + length
        self.end = end
        self.attributes = data[at]
        self.timestamp_delta, at = number(data, at + 1, end, 70)
        self.after_timestamp = at
        self.offset_delta, at = number(data, at, end, 35)
        self.key_length, at = number(data, at, end, 35)
        if at > end:
            self.error = _BAD_NUMBER
            return False
        self.key_at = at
        if self.key_length > 0:
            if self.key_length > end - at:
                self.error = _BAD_KEY
                return False
            at += self.key_length
        self.value_length, at = number(data, at, end, 35)
        if at > end or self.value_length > end - at:
            self.error = _BAD_VALUE
            return False
        return True


@cython.final
@cython.cclass
class KeyTable:
    """Keys, by their hashes only, and an offset for each: open addressing in memory that the caller gives.

    A slot has three words: the two of a hash, and the offset plus one, so that a word of zero is a free slot. Where a
    hash would like to be is where its first bits say; otherwise it is in one of the next slots that are not free.
    """

    capacity = cython.declare(cython.longlong, visibility="readonly")
    """Beyond so many keys no key is taken."""
    size = cython.declare(cython.longlong, visibility="readonly")
    """Keys in the table."""
    latest_offset = cython.declare(cython.longlong, visibility="public")
    """Everything up to here has been looked at: what no key in the table supersedes up to here, nothing does."""
    is_full = cython.declare(cython.bint, visibility="readonly")
    """A key was turned away."""
    error = cython.declare(cython.int, visibility="readonly")
    """0, or why the record at which the last call ended is none: a key of REASONS."""

    slots: cython.ulonglong[::1]
    slot_count: cython.ulonglong
    scan: RecordScan
    low: cython.ulonglong
    high: cython.ulonglong
    v0: cython.ulonglong
    v1: cython.ulonglong
    v2: cython.ulonglong
    v3: cython.ulonglong
    # Of a group of records that are looked up together.
    lows: cython.ulonglong[::1]
    highs: cython.ulonglong[::1]
    offsets: cython.longlong[::1]
    starts: cython.longlong[::1]
    seen: cython.ulonglong

    def __init__(self, memory: object, secret: bytes, capacity: int, max_record_bytes: int = 1 << 31) -> None:
        """`memory`: a writable buffer of zeros, 24 bytes a slot, with more slots than `capacity`. `secret`: 16 bytes
        that nobody knows who chooses keys."""
        self.slots = memoryview(memory).cast("B").cast("Q")
        self.slot_count = len(self.slots) // 3
        if self.slot_count >= 1 << 32:
            raise ValueError("the table has too many slots")
        self.capacity = capacity
        self.size = self.error = 0
        self.latest_offset = -1
        self.is_full = False
        self.scan = RecordScan(max_record_bytes)
        k0 = int.from_bytes(secret[:8], "little")
        k1 = int.from_bytes(secret[8:16], "little")
        self.lows = array("Q", bytes(8 * 64))
        self.highs = array("Q", bytes(8 * 64))
        self.offsets = array("q", bytes(8 * 64))
        self.starts = array("q", bytes(8 * 64))
        self.v0 = k0 ^ 0x736F6D6570736575
        self.v1 = k1 ^ 0x646F72616E646F6D ^ 0xEE
        self.v2 = k0 ^ 0x6C7967656E657261
        self.v3 = k1 ^ 0x7465646279746573

    def close(self) -> None:
        """Let go of the memory: the table holds nothing any more."""
        self.slots = memoryview(bytearray(48)).cast("Q")
        self.slot_count = 2
        self.size = self.capacity = 0

    def hash_of(self, key: bytes) -> tuple:
        data: cython.const[cython.uchar][::1] = key
        self._hash(cython.address(data[0]) if cython.compiled else key, 0, len(key))
        return self.low, self.high

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
        if not len(data):
            data = b"\0"  # all of them are empty
        start: Bytes = cython.address(data[0]) if cython.compiled else data
        if len(lows) < count or len(highs) < count:
            raise ValueError("there is no room for the hashes")
        with cython.nogil:
            for number in range(count):
                self._hash(start, bounds[number], bounds[number + 1] - bounds[number])
                lows[number] = self.low
                highs[number] = self.high

    def put(self, key: bytes, offset: int) -> bool:
        """Remember the key's offset instead of an earlier one; False if the table is full."""
        self.hash_of(key)
        return self._put(offset)

    def get(self, key: bytes) -> int:
        """The offset of the key; -1 if it is not there."""
        self.hash_of(key)
        return self._get()

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
        batch: cython.Py_ssize_t
        block: Bytes
        self.error = 0
        while True:
            with cython.nogil:
                while True:
                    batch = _simple_batch(data, position, size)
                    if batch == 0 or data[position + 22] & _CODEC:
                        break
                    if not _is_sound(data, position, batch):
                        self.error = _BAD_CHECKSUM
                    elif self._put_batch(data, position, data, position + _HEADER, position + batch, first_offset):
                        position += batch
                        continue
                    break
            if batch == 0 or codec is None or self.error or self.is_full:
                break
            if not _is_sound(data, position, batch):
                self.error = _BAD_CHECKSUM
                break
            piece: bytes = codec.decompress(data[position + 22] & _CODEC, chunk[position + _HEADER : position + batch])
            if piece is None:
                break
            block = piece
            if not self._put_batch(data, position, block, 0, len(piece), first_offset):
                break
            position += batch
        return position

    @cython.cfunc
    @cython.nogil
    @cython.exceptval(check=False)
    def _put_batch(
        self,
        data: Bytes,
        position: cython.Py_ssize_t,
        block: Bytes,
        start: cython.Py_ssize_t,
        end: cython.Py_ssize_t,
        first_offset: cython.longlong,
    ) -> cython.bint:
        """Take the keys of the batch at `position`, whose records are in `block`; False if that ended early."""
        base: cython.longlong = int64_at(data, position)
        last: cython.longlong = base + int32_at(data, position + 23)
        stop: cython.Py_ssize_t
        records: cython.longlong
        if last >= first_offset:
            stop, records = self._put_records(block, start, end, base, first_offset)
            if self.is_full or self.error:
                return False
            if stop != end or records != int32_at(data, position + 57):
                self.error = _BAD_COUNT
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
        goes_on: cython.bint = True
        while goes_on:
            count = 0
            while count < _GROUP:
                goes_on = self.scan._next(data, position, size)
                if not goes_on:
                    break
                offset = base_offset + self.scan.offset_delta
                self.offsets[count] = offset if offset >= first_offset and self.scan.key_length >= 0 else -1
                self.starts[count] = position
                self._hash_for(count, data, self.scan.key_at, self.scan.key_length)
                position = self.scan.end
                count += 1
            self._touch(count)
            for number in range(count):
                if self.offsets[number] >= 0:
                    self.low = self.lows[number]
                    self.high = self.highs[number]
                    if not self._put(self.offsets[number]):
                        return self.starts[number], done + number
            done += count
        self.error = self.scan.error
        return position, done

    @cython.cfunc
    @cython.nogil
    @cython.inline
    @cython.exceptval(check=False)
    def _hash_for(
        self, number: cython.Py_ssize_t, data: Bytes, key_at: cython.Py_ssize_t, key_length: cython.longlong
    ) -> cython.void:
        """Put down the hash of a record's key, if it has one, as that of record `number` of a group."""
        if key_length >= 0:
            self._hash(data, key_at, key_length)
            self.lows[number] = self.low
            self.highs[number] = self.high
        else:
            self.lows[number] = 0

    @cython.cfunc
    @cython.nogil
    @cython.exceptval(check=False)
    def _touch(self, count: cython.Py_ssize_t) -> cython.void:
        """Have the memory of the first `count` hashes fetched, all at once: it is far away, and would be waited for
        once for each."""
        seen: cython.ulonglong = 0
        number: cython.Py_ssize_t
        if cython.compiled:
            for number in range(count):
                seen |= self.slots[3 * ((self.lows[number] >> 32) * self.slot_count >> 32) + 2]
            self.seen = seen

    @cython.cfunc
    @cython.nogil
    @cython.inline
    @cython.exceptval(check=False)
    def _put(self, offset: cython.longlong) -> cython.bint:
        if self.size >= self.capacity:
            self.is_full = True
            return False
        at: cython.Py_ssize_t = self._find()
        if self.slots[at + 2] == 0:
            self.size += 1
            self.slots[at] = self.low
            self.slots[at + 1] = self.high
        self.slots[at + 2] = offset + 1
        if offset > self.latest_offset:
            self.latest_offset = offset
        return True

    @cython.cfunc
    @cython.nogil
    @cython.inline
    @cython.exceptval(check=False)
    def _get(self) -> cython.longlong:
        found: cython.longlong = self.slots[self._find() + 2]
        return found - 1

    @cython.cfunc
    @cython.nogil
    @cython.inline
    @cython.exceptval(check=False)
    def _find(self) -> cython.Py_ssize_t:
        """The slot of the hash at hand, or the free one that it would get."""
        low: cython.ulonglong = self.low
        high: cython.ulonglong = self.high
        end: cython.Py_ssize_t = 3 * self.slot_count
        at: cython.Py_ssize_t = 3 * ((low >> 32) * self.slot_count >> 32)
        while self.slots[at + 2] != 0 and (self.slots[at] != low or self.slots[at + 1] != high):
            at += 3
            if at == end:
                at = 0
        return at

    @cython.cfunc
    @cython.nogil
    @cython.exceptval(check=False)
    def _hash(self, data: Bytes, at: cython.Py_ssize_t, length: cython.longlong) -> cython.void:
        """Put the hash of these bytes into `low` and `high`."""
        v0: cython.ulonglong = self.v0
        v1: cython.ulonglong = self.v1
        v2: cython.ulonglong = self.v2
        v3: cython.ulonglong = self.v3
        word: cython.ulonglong
        left: cython.longlong = length
        while left >= 8:
            word = _word(data, at)
            v3 ^= word
            v0, v1, v2, v3 = _sip_round(v0, v1, v2, v3)
            v0, v1, v2, v3 = _sip_round(v0, v1, v2, v3)
            v0 ^= word
            at += 8
            left -= 8
        word = length & 0xFF
        for _ in range(7 - left):
            word <<= 8
        while left > 0:
            left -= 1
            word = word << 8 | data[at + left]
        v3 ^= word
        v0, v1, v2, v3 = _sip_round(v0, v1, v2, v3)
        v0, v1, v2, v3 = _sip_round(v0, v1, v2, v3)
        v0 ^= word
        v2 ^= 0xEE
        for _ in range(4):
            v0, v1, v2, v3 = _sip_round(v0, v1, v2, v3)
        self.low = v0 ^ v1 ^ v2 ^ v3
        v1 ^= 0xDD
        for _ in range(4):
            v0, v1, v2, v3 = _sip_round(v0, v1, v2, v3)
        self.high = v0 ^ v1 ^ v2 ^ v3


@cython.final
@cython.cclass
class Sieve:
    """Decides which records stay, by a table of keys, and copies those that do.

    A record stays if it lies beyond the offsets that the table knows, or if it has a key that no later record in the
    table has, and is no tombstone whose time is over. All counts grow from batch to batch.
    """

    records = cython.declare(cython.longlong, visibility="readonly")
    """Met in all."""
    superseded = cython.declare(cython.longlong, visibility="readonly")
    expired = cython.declare(cython.longlong, visibility="readonly")
    """Tombstones whose delete horizon has passed."""
    keyless = cython.declare(cython.longlong, visibility="readonly")
    tombstones = cython.declare(cython.longlong, visibility="readonly")
    """That stay, of simple batches."""
    earliest_horizon = cython.declare(cython.longlong, visibility="readonly")
    """Of the simple batches with tombstones that stay; 2^63 - 1 if there was none."""

    # Of the batch that `begin` has begun.
    kept = cython.declare(cython.longlong, visibility="readonly")
    kept_tombstones = cython.declare(cython.longlong, visibility="readonly")
    walked = cython.declare(cython.longlong, visibility="readonly")
    """Records met."""
    max_timestamp = cython.declare(cython.longlong, visibility="readonly")
    """Of the records that stay."""
    error = cython.declare(cython.int, visibility="readonly")
    """0, or why record number `walked` is none: a key of REASONS."""

    table: KeyTable
    scan: RecordScan
    now_ms: cython.longlong
    tombstone_bit: cython.int
    base_offset: cython.longlong
    base_timestamp: cython.longlong
    keeps_tombstones: cython.bint
    verdicts: cython.uchar[::1]
    scratch: object
    """What is left of a decompressed batch: a bytearray."""
    timestamps: cython.longlong[::1]
    kinds: cython.uchar[::1]
    """Of a group of records: 1 is a tombstone, 2 has no key."""
    new_superseded: cython.longlong
    new_expired: cython.longlong
    new_keyless: cython.longlong

    def __init__(self, table: KeyTable, now_ms: int, tombstone_bit: int, max_record_bytes: int = 1 << 31) -> None:
        """`tombstone_bit`: attributes that make a record a tombstone although it may have a value (KIP-87); or 0."""
        self.table = table
        self.scan = RecordScan(max_record_bytes)
        self.now_ms = now_ms
        self.tombstone_bit = tombstone_bit
        self.records = self.superseded = self.expired = self.keyless = self.tombstones = 0
        self.earliest_horizon = _NEVER
        self.verdicts = bytearray(0)
        self.scratch = bytearray(1)
        self.timestamps = array("q", bytes(8 * 64))
        self.kinds = bytearray(64)
        self.begin(0, 0, -1)

    def begin(self, base_offset: int, base_timestamp: int, horizon_ms: int) -> None:
        """A batch begins whose records come in pieces. `horizon_ms` is negative if it has no delete horizon."""
        self._begin(base_offset, base_timestamp, horizon_ms)

    def select(self, piece: cython.const[cython.uchar][::1]) -> tuple[int, bytearray]:
        """Decide on the records in `piece`; return where the last whole one ends, and _KEPT or why not for each."""
        size: cython.Py_ssize_t = len(piece)
        data: Bytes = cython.address(piece[0]) if cython.compiled else memoryview(piece)
        verdicts = bytearray(size // _SMALLEST_STORED)
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
        room_size: cython.Py_ssize_t = len(out)
        data: Bytes = cython.address(view[0]) if cython.compiled else memoryview(view)
        room: Room = cython.address(out[0]) if cython.compiled else memoryview(out)
        most: cython.Py_ssize_t = len(notes) // NOTE
        used: cython.Py_ssize_t = 0
        start: cython.Py_ssize_t
        count: cython.Py_ssize_t = 0
        batch: cython.Py_ssize_t = 0
        fate: cython.int = _GOES
        block: Bytes
        scratch: cython.uchar[::1]
        self._make_room(size)
        self.error = 0
        while True:
            with cython.nogil:
                while count < most:
                    batch = _simple_batch(data, position, size)
                    if batch == 0 or data[position + 22] & _CODEC:
                        break
                    if not _is_sound(data, position, batch):
                        self.error = _BAD_CHECKSUM
                        break
                    fate = self._judge(data, position, data, position + _HEADER, position + batch, precious)
                    if fate == _OTHERS_DECIDE:
                        break
                    if fate != _GOES:
                        start = used
                        if fate == _STAYS:
                            used = _copy(data, position, position + batch, room, used)
                        else:
                            used = _copy(data, position, position + _HEADER, room, used)
                            used = self._copy_kept(data, position + _HEADER, position + batch, room, used)
                            self._finish(room, start, used)
                        _note(notes, count, room, start, used)
                        count += 1
                    self._account(data, position)
                    position += batch
            if count == most or batch == 0 or codec is None or self.error or fate == _OTHERS_DECIDE:
                break
            if not _is_sound(data, position, batch):
                self.error = _BAD_CHECKSUM
                break
            piece: bytes = codec.decompress(data[position + 22] & _CODEC, chunk[position + _HEADER : position + batch])
            if piece is None:
                break
            block = piece
            self._make_room(len(piece))
            fate = self._judge(data, position, block, 0, len(piece), precious)
            if fate == _OTHERS_DECIDE:
                break
            if fate != _GOES:
                start = used
                if fate == _STAYS:
                    if used + batch > room_size:
                        break
                    used = _copy(data, position, position + batch, room, used)
                else:
                    if len(self.scratch) < len(piece):
                        self.scratch = bytearray(len(piece))
                    scratch = self.scratch
                    left: cython.Py_ssize_t = self._copy_kept(
                        block, 0, len(piece), cython.address(scratch[0]) if cython.compiled else self.scratch, 0
                    )
                    packed: bytes = codec.compress(data[position + 22] & _CODEC, memoryview(self.scratch)[:left])
                    if used + _HEADER + len(packed) > room_size:
                        break
                    block = packed
                    used = _copy(data, position, position + _HEADER, room, used)
                    used = _copy(block, 0, len(packed), room, used)
                    self._finish(room, start, used)
                _note(notes, count, room, start, used)
                count += 1
            self._account(data, position)
            position += batch
        return position, used, count

    @cython.cfunc
    def _make_room(self, size: cython.Py_ssize_t) -> object:
        """For verdicts on the records of a block of `size` bytes."""
        if len(self.verdicts) < size // _SMALLEST_STORED:
            self.verdicts = bytearray(size // _SMALLEST_STORED)

    @cython.cfunc
    @cython.nogil
    @cython.exceptval(check=False)
    def _judge(
        self,
        data: Bytes,
        position: cython.Py_ssize_t,
        block: Bytes,
        start: cython.Py_ssize_t,
        end: cython.Py_ssize_t,
        precious: cython.longlong[::1],
    ) -> cython.int:
        """What becomes of the batch at `position`, whose records are in `block`. Others decide at an error, too."""
        last: cython.longlong = int64_at(data, position) + int32_at(data, position + 23)
        horizon: cython.longlong = int64_at(data, position + 27) if data[position + 22] & _HORIZON else -1
        stop: cython.Py_ssize_t
        self._begin(int64_at(data, position), int64_at(data, position + 27), horizon)
        stop = self._select(block, start, end)
        if self.error == 0 and (stop != end or self.walked != int32_at(data, position + 57)):
            self.error = _BAD_COUNT
        if self.error or (self.kept_tombstones and horizon < 0 and last <= self.table.latest_offset):
            return _OTHERS_DECIDE
        if self.kept == 0:
            return _OTHERS_DECIDE if _is_among(precious, last) else _GOES
        return _STAYS if self.kept == self.walked else _CHANGES

    @cython.cfunc
    @cython.nogil
    @cython.exceptval(check=False)
    def _account(self, data: Bytes, position: cython.Py_ssize_t) -> cython.void:
        """Count the batch at `position`, which was judged."""
        horizon: cython.longlong = int64_at(data, position + 27)
        self._count()
        self.records += self.walked
        if self.kept_tombstones:
            self.tombstones += self.kept_tombstones
            if data[position + 22] & _HORIZON and horizon < self.earliest_horizon:
                self.earliest_horizon = horizon

    @cython.cfunc
    @cython.nogil
    @cython.exceptval(check=False)
    def _copy_kept(
        self, block: Bytes, at: cython.Py_ssize_t, end: cython.Py_ssize_t, out: Room, used: cython.Py_ssize_t
    ) -> cython.Py_ssize_t:
        """Copy the records that stay, as `_select` has found; return where they end in `out`."""
        number: cython.Py_ssize_t = 0
        run: cython.Py_ssize_t = at
        while at < end:
            self.scan._next(block, at, end)
            if self.verdicts[number] != _KEPT:
                used = _copy(block, run, at, out, used)
                run = self.scan.end
            at = self.scan.end
            number += 1
        return _copy(block, run, end, out, used)

    @cython.cfunc
    @cython.nogil
    @cython.exceptval(check=False)
    def _finish(self, out: Room, start: cython.Py_ssize_t, end: cython.Py_ssize_t) -> cython.void:
        """Make the header of the batch at `start`, still that of the one it was made from, true of the records left."""
        _put_int32(out, start + 8, end - start - _OVERHEAD)
        if not out[start + 22] & _LOG_APPEND_TIME:
            _put_int32(out, start + 35, self.max_timestamp >> 32)
            _put_int32(out, start + 39, self.max_timestamp)
        _put_int32(out, start + 57, self.kept)
        _put_int32(out, start + _CHECKSUM, _checksum(out, start + _CHECKED, end))

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
        goes_on: cython.bint = True
        while goes_on:
            count = 0
            while count < _GROUP:
                goes_on = self.scan._next(data, position, size)
                if not goes_on:
                    break
                self.table._hash_for(count, data, self.scan.key_at, self.scan.key_length)
                self.table.offsets[count] = self.base_offset + self.scan.offset_delta
                self.timestamps[count] = wrapping_sum(self.base_timestamp, self.scan.timestamp_delta)
                self.kinds[count] = (self.scan.key_length < 0) << 1 | (
                    self.scan.value_length < 0 or self.scan.attributes & self.tombstone_bit != 0
                )
                position = self.scan.end
                count += 1
            self.table._touch(count)
            for number in range(count):
                self.verdicts[done + number] = self._verdict(number)
            done += count
        self.walked += done
        self.error = self.scan.error
        return position

    @cython.cfunc
    @cython.nogil
    @cython.inline
    @cython.exceptval(check=False)
    def _verdict(self, number: cython.Py_ssize_t) -> cython.uchar:
        """On a record of the group, counted."""
        offset: cython.longlong = self.table.offsets[number]
        is_tombstone: cython.bint = self.kinds[number] & 1
        if offset <= self.table.latest_offset:
            if self.kinds[number] & 2:
                self.new_keyless += 1
                return _KEYLESS
            self.table.low = self.table.lows[number]
            self.table.high = self.table.highs[number]
            if offset < self.table._get():
                self.new_superseded += 1
                return _SUPERSEDED
            if is_tombstone and not self.keeps_tombstones:
                self.new_expired += 1
                return _EXPIRED
        if self.kept == 0 or self.timestamps[number] > self.max_timestamp:
            self.max_timestamp = self.timestamps[number]
        self.kept += 1
        self.kept_tombstones += is_tombstone
        return _KEPT

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


def rewrite(
    piece: cython.const[cython.uchar][::1], verdicts: bytearray, shift: cython.longlong, fixed_delta: int | None
) -> bytearray:
    """The records of `piece` that stay, with `shift` added to their timestamp deltas, or with one delta for all.

    `piece` and `verdicts` are as `select` has seen and given them.
    """
    size: cython.Py_ssize_t = len(piece)
    data: Bytes = cython.address(piece[0]) if cython.compiled else memoryview(piece)
    scan = RecordScan(_NEVER)
    out: bytearray = bytearray()
    head: bytearray = bytearray()
    position: cython.Py_ssize_t = 0
    delta: cython.longlong
    for verdict in verdicts:
        scan._next(data, position, size)
        if verdict == _KEPT:
            if shift == 0 and fixed_delta is None:
                out += data[position : scan.end]
            else:
                delta = wrapping_sum(scan.timestamp_delta, shift) if fixed_delta is None else fixed_delta
                head.clear()
                head.append(scan.attributes)
                append_number(head, delta)
                append_number(out, len(head) + scan.end - scan.after_timestamp)
                out += head
                out += data[scan.after_timestamp : scan.end]
        position = scan.end
    return out


@cython.cfunc
@cython.nogil
@cython.inline
@cython.exceptval(check=False)
def _simple_batch(data: Bytes, position: cython.Py_ssize_t, size: cython.Py_ssize_t) -> cython.Py_ssize_t:
    """The size of the batch at `position`; 0 if it is not simple, or not all there."""
    length: cython.longlong
    if size - position < _HEADER or data[position + 16] != 2 or data[position + 22] & _NOT_SIMPLE:
        return 0
    length = int32_at(data, position + 8) + _OVERHEAD
    if length < _HEADER or length > size - position or int32_at(data, position + 57) <= 0:
        return 0
    return length


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
    """Write note `number`, about the batch that was written to `out`."""
    notes[4 * number] = start
    notes[4 * number + 1] = end - start
    notes[4 * number + 2] = int64_at(out, start) + int32_at(out, start + 23)
    notes[4 * number + 3] = int64_at(out, start + 35)


@cython.cfunc
@cython.nogil
@cython.inline
@cython.exceptval(check=False)
def _is_sound(data: Bytes, position: cython.Py_ssize_t, size: cython.Py_ssize_t) -> cython.bint:
    """Whether the checksum of this batch is right."""
    stored: cython.longlong = int32_at(data, position + _CHECKSUM) & _32_BITS
    return _checksum(data, position + _CHECKED, position + size) == stored


@cython.cfunc
@cython.nogil
@cython.inline
@cython.exceptval(check=False)
def _checksum(data: Bytes, start: cython.Py_ssize_t, end: cython.Py_ssize_t) -> cython.longlong:
    if cython.compiled:
        return kmini_crc32c(data + start, end - start)
    else:
        return crc32c(data[start:end])


def checksum(data: cython.const[cython.uchar][::1]) -> int:
    """CRC-32C, as batches are checked here, of at least one byte."""
    begin: Bytes = cython.address(data[0]) if cython.compiled else memoryview(data)
    return _checksum(begin, 0, len(data))


@cython.cfunc
@cython.nogil
@cython.inline
@cython.exceptval(check=False)
def _is_among(numbers: cython.longlong[::1], number: cython.longlong) -> cython.bint:
    low: cython.Py_ssize_t = 0
    high: cython.Py_ssize_t = len(numbers) if not cython.compiled else numbers.shape[0]
    middle: cython.Py_ssize_t
    while low < high:
        middle = (low + high) >> 1
        if numbers[middle] < number:
            low = middle + 1
        elif numbers[middle] > number:
            high = middle
        else:
            return True
    return False


@cython.cfunc
@cython.nogil
@cython.inline
@cython.exceptval(check=False)
def _put_int32(out: Room, at: cython.Py_ssize_t, value: cython.longlong) -> cython.void:
    out[at] = value >> 24 & 0xFF
    out[at + 1] = value >> 16 & 0xFF
    out[at + 2] = value >> 8 & 0xFF
    out[at + 3] = value & 0xFF


@cython.cfunc
@cython.nogil
@cython.inline
@cython.exceptval(check=False)
def _copy(
    data: Bytes, start: cython.Py_ssize_t, end: cython.Py_ssize_t, out: Room, at: cython.Py_ssize_t
) -> cython.Py_ssize_t:
    """Copy bytes to `out`; return where they end there."""
    count: cython.Py_ssize_t = end - start
    number: cython.Py_ssize_t
    if cython.compiled:
        for number in range(count):
            out[at + number] = data[start + number]
    else:
        out[at : at + count] = data[start:end]
    return at + count


@cython.cfunc
@cython.nogil
@cython.inline
@cython.exceptval(check=False)
def _word(data: Bytes, at: cython.Py_ssize_t) -> cython.ulonglong:
    """Eight bytes, the lowest first."""
    word: cython.ulonglong = data[at + 7]
    word = word << 8 | data[at + 6]
    word = word << 8 | data[at + 5]
    word = word << 8 | data[at + 4]
    word = word << 8 | data[at + 3]
    word = word << 8 | data[at + 2]
    word = word << 8 | data[at + 1]
    return word << 8 | data[at]


@cython.cfunc
@cython.nogil
@cython.inline
@cython.exceptval(check=False)
def _sip_round(
    v0: cython.ulonglong, v1: cython.ulonglong, v2: cython.ulonglong, v3: cython.ulonglong
) -> tuple[cython.ulonglong, cython.ulonglong, cython.ulonglong, cython.ulonglong]:
    v0 = _wrapped(v0 + v1)
    v1 = _rotated(v1, 13) ^ v0
    v0 = _rotated(v0, 32)
    v2 = _wrapped(v2 + v3)
    v3 = _rotated(v3, 16) ^ v2
    v0 = _wrapped(v0 + v3)
    v3 = _rotated(v3, 21) ^ v0
    v2 = _wrapped(v2 + v1)
    v1 = _rotated(v1, 17) ^ v2
    return v0, v1, _rotated(v2, 32), v3


@cython.cfunc
@cython.nogil
@cython.inline
@cython.exceptval(check=False)
def _wrapped(word: cython.ulonglong) -> cython.ulonglong:
    return word if cython.compiled else word & _64_BITS


@cython.cfunc
@cython.nogil
@cython.inline
@cython.exceptval(check=False)
def _rotated(word: cython.ulonglong, bits: cython.int) -> cython.ulonglong:
    return _wrapped(word << bits | word >> (64 - bits))


if cython.compiled:
    kmini_crc_begin()
