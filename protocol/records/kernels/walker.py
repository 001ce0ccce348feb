# cython: boundscheck=False, wraparound=False, initializedcheck=False
"""The walk over a block that checks its records and gathers what a broker must know of them."""

from __future__ import annotations

from ... import cython_words as cython
from .cut_record import CutRecord, feed_cut, new_cut
from .numbers import LARGEST, SMALLEST, WORTH_RELEASING, Bytes, capped_sum, wrapping_sum
from .scan import RecordScan, ScanPointer, check_headers, new_scan, next_record


@cython.final
@cython.cclass
class RecordWalker:
    """Checks the records of one batch, as the producer sent them, and gathers facts.

    `feed` it the block in pieces, cut anywhere. It keeps nothing of a piece, so a check takes no memory however large a
    record is. The facts are complete once `walked` is `record_count`, and mean nothing once there is an `error`.
    """

    record_count = cython.declare(cython.longlong, visibility="readonly")
    """The number of records that the header claims."""
    walked = cython.declare(cython.longlong, visibility="readonly")
    """The number of records that have ended."""
    error = cython.declare(cython.int, visibility="readonly")
    """0, or why record number `walked` is none: a key of `layout.REASONS`."""
    null_keys = cython.declare(cython.longlong, visibility="readonly")
    is_sequential = cython.declare(cython.bint, visibility="readonly")
    """Whether the offset deltas are 0, 1, 2, …"""
    min_timestamp = cython.declare(cython.longlong, visibility="readonly")
    """Of the records that have one; -1 if none has."""
    max_timestamp = cython.declare(cython.longlong, visibility="readonly")
    max_timestamp_delta = cython.declare(cython.longlong, visibility="readonly")
    """The offset delta of the first record with the largest timestamp."""

    has_stopped = cython.declare(cython.bint, visibility="readonly")
    """Whether the last `feed` ended behind a record that `stop_at` asks for. That record is:"""
    timestamp = cython.declare(cython.longlong, visibility="readonly")
    offset_delta = cython.declare(cython.longlong, visibility="readonly")
    key_is_null = cython.declare(cython.bint, visibility="readonly")

    max_record_bytes: cython.longlong
    cut: CutRecord
    """The record at which the last piece has ended."""
    base_timestamp: cython.longlong
    stops: cython.bint
    stop_before: cython.longlong
    stop_since: cython.longlong
    stop_at_null_keys: cython.bint
    stop_from: cython.longlong

    def __init__(self, record_count: int, base_timestamp: int, max_record_bytes: int) -> None:
        self.begin(record_count, base_timestamp, max_record_bytes)

    @cython.cfunc
    @cython.exceptval(check=False)
    def begin(
        self, record_count: cython.longlong, base_timestamp: cython.longlong, max_record_bytes: cython.longlong
    ) -> cython.void:
        self.record_count = record_count
        self.base_timestamp = base_timestamp
        self.max_record_bytes = max_record_bytes
        self.cut = new_cut(False)
        self.walked = self.error = self.null_keys = 0
        self.is_sequential = True
        self.min_timestamp = self.max_timestamp = self.max_timestamp_delta = -1
        self.has_stopped = self.stops = self.key_is_null = False
        self.timestamp = self.offset_delta = -1

    def stop_at(
        self, *, before: int = SMALLEST, since: int = LARGEST, null_keys: bool = False, from_delta: int = SMALLEST
    ) -> None:
        """Let `feed` end at every record with a timestamp < `before` or >= `since`, or without a key if `null_keys`.

        It passes records below an offset delta of `from_delta` by.
        """
        self.stops = True
        self.stop_before = before
        self.stop_since = since
        self.stop_at_null_keys = null_keys
        self.stop_from = from_delta

    def feed(self, piece: cython.const[cython.uchar][::1]) -> int:
        """Walk the next bytes of the block; return how many of them were walked.

        All of them, unless there is an error, a record to stop at, or something behind the last record.
        """
        if not cython.compiled:
            return self.walk(memoryview(piece), len(piece))
        return self.walk(cython.address(piece[0]), len(piece))

    @cython.ccall
    def is_timely(
        self, now_ms: cython.longlong, before_max_ms: cython.longlong, after_max_ms: cython.longlong
    ) -> cython.bint:
        """Whether each timestamp so far, where a record has one, is at most so long before `now_ms` or after it."""
        if self.max_timestamp > capped_sum(now_ms, after_max_ms):
            return False
        return self.min_timestamp == -1 or self.min_timestamp >= capped_sum(now_ms, -before_max_ms)

    @cython.cfunc
    def walk(self, data: Bytes, size: cython.Py_ssize_t) -> cython.Py_ssize_t:
        """What `feed` does, with the address of the bytes."""
        walked: cython.Py_ssize_t
        if size < WORTH_RELEASING:
            return self._walk(data, size)
        with cython.nogil:
            walked = self._walk(data, size)
        return walked

    @cython.cfunc
    @cython.nogil
    @cython.exceptval(check=False)
    def _walk(self, data: Bytes, size: cython.Py_ssize_t) -> cython.Py_ssize_t:
        position: cython.Py_ssize_t = 0
        goes_on: cython.bint = self.walked < self.record_count and self.error == 0
        found: RecordScan = new_scan()
        scan: ScanPointer = cython.address(found)
        self.has_stopped = False
        while goes_on:
            if self.cut.is_open:
                position = feed_cut(cython.address(self.cut), data, position, size, self.max_record_bytes)
                self.error = self.cut.error
                if self.error or self.cut.is_open:
                    break
                goes_on = self._note(self.cut.timestamp_delta, self.cut.offset_delta, self.cut.key_length)
            elif next_record(scan, data, position, size, self.max_record_bytes) and check_headers(scan, data):
                position = scan.end
                goes_on = self._note(scan.timestamp_delta, scan.offset_delta, scan.key_length)
            elif scan.error:
                self.error = scan.error
                break
            elif position < size:
                self.cut = new_cut(True)
            else:
                break
        return position

    @cython.cfunc
    @cython.nogil
    @cython.inline
    @cython.exceptval(check=False)
    def _note(
        self, timestamp_delta: cython.longlong, offset_delta: cython.longlong, key_length: cython.longlong
    ) -> cython.bint:
        """Add the record that has just ended to the facts; return whether to go on behind it."""
        timestamp: cython.longlong = wrapping_sum(self.base_timestamp, timestamp_delta)
        self.timestamp = timestamp
        self.offset_delta = offset_delta
        self.key_is_null = key_length < 0
        if self.walked == 0 or timestamp > self.max_timestamp:
            self.max_timestamp = timestamp
            self.max_timestamp_delta = offset_delta
        if timestamp != -1 and (timestamp < self.min_timestamp or self.min_timestamp == -1):
            self.min_timestamp = timestamp
        if offset_delta != self.walked:
            self.is_sequential = False
        if key_length < 0:
            self.null_keys += 1
        self.walked += 1
        if self.stops and offset_delta >= self.stop_from:
            self.has_stopped = (
                timestamp < self.stop_before
                or timestamp >= self.stop_since
                or (self.stop_at_null_keys and key_length < 0)
            )
        return self.walked < self.record_count and not self.has_stopped
