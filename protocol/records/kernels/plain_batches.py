# cython: boundscheck=False, wraparound=False, initializedcheck=False
"""What producers claim in the headers of their batches, and the batches that a log stores as they are.

What decides on the claims is here. Three of them are looked at before, where a batch is taken out of its request: the
length, the magic and the codec (`_check_batch` in broker/handlers/produce.py, `_first_header` in
storage/validation.py). Nearly every batch is plain: it needs no decompression and no correction,
and no rule refuses it. One look finds that out and reads the header; `storage/validation.py` settles the others.
"""

from __future__ import annotations

from ... import cython_words as cython
from ..layout import (
    ATTRIBUTES_AT,
    BASE_SEQUENCE_AT,
    BASE_TIMESTAMP_AT,
    CODEC_MASK,
    CONTROL,
    CRC_AT,
    FOR_BROKERS_ONLY,
    HEADER_SIZE,
    LAST_CODEC,
    LAST_OFFSET_DELTA_AT,
    LEADER_EPOCH_AT,
    LENGTH_AT,
    LOG_OVERHEAD,
    MAGIC,
    MAGIC_AT,
    MAX_TIMESTAMP_AT,
    NOT_FROM_ZERO,
    OVERSIZED,
    PRODUCER_EPOCH_AT,
    PRODUCER_ID_AT,
    RECORD_COUNT_AT,
    TRANSACTIONAL,
    UNKNOWN_CODEC,
    WITHOUT_SEQUENCE,
    WRONG_CHECKSUM,
    WRONG_COUNT,
    BatchHeader,
)
from .checksum import batch_size, is_sound
from .numbers import MASK_32, Bytes, Room, int16_at, int32_at, int64_at, put_int32, put_int64
from .walker import RecordWalker

if cython.compiled:
    from cython.cimports.cpython.buffer import PyBUF_SIMPLE, PyBUF_WRITABLE, PyBuffer_Release, PyObject_GetBuffer


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
def _fault(data: Bytes, size: cython.Py_ssize_t, max_message_bytes: cython.longlong) -> cython.int:
    """The first fault, in Kafka's order, in the claims of a batch of magic 2 that has `size` bytes, as it says itself;
    0 if there is none."""
    count: cython.longlong
    if int64_at(data, 0) != 0:
        return NOT_FROM_ZERO
    if size > max_message_bytes:
        return OVERSIZED
    if not is_sound(data, 0, size):
        return WRONG_CHECKSUM
    if data[ATTRIBUTES_AT] & CODEC_MASK > LAST_CODEC:
        return UNKNOWN_CODEC
    count = int32_at(data, RECORD_COUNT_AT)
    if count <= 0 or int32_at(data, LAST_OFFSET_DELTA_AT) + 1 != count:
        return WRONG_COUNT
    if data[ATTRIBUTES_AT] & CONTROL:
        return FOR_BROKERS_ONLY
    if int64_at(data, PRODUCER_ID_AT) >= 0 and int32_at(data, BASE_SEQUENCE_AT) < 0:
        return WITHOUT_SEQUENCE
    return 0


def fault_of_claims(batch: cython.const[cython.uchar][::1], max_message_bytes: cython.longlong) -> int:
    """Which claim in the header of a producer's batch, whole and of magic 2, is at fault: NOT_FROM_ZERO, …; 0 if none
    is."""
    data: Bytes = cython.address(batch[0]) if cython.compiled else memoryview(batch)
    return _fault(data, len(batch), max_message_bytes)


def transactional_batches(topics: list) -> list:
    """The records of a produce request's partitions that begin with the header of a transactional batch."""
    found: list = []
    for topic in topics:
        for partition in topic.partition_data:
            if is_transactional(partition.records):
                found.append(partition.records)
    return found


@cython.ccall
def is_transactional(records: object) -> cython.bint:
    """Whether these bytes, if any, begin with the header of a transactional batch. None has no bytes."""
    view = cython.declare(cython.Py_buffer)
    if records is None:
        return False
    if not cython.compiled:
        return _is_transactional(records, len(records))
    PyObject_GetBuffer(records, cython.address(view), PyBUF_SIMPLE)
    try:
        return _is_transactional(cython.cast(Bytes, view.buf), view.len)
    finally:
        PyBuffer_Release(cython.address(view))


@cython.cfunc
@cython.nogil
@cython.inline
@cython.exceptval(check=False)
def _is_transactional(data: Bytes, size: cython.Py_ssize_t) -> cython.bint:
    return size >= HEADER_SIZE and data[MAGIC_AT] == MAGIC and data[ATTRIBUTES_AT] & TRANSACTIONAL != 0


def assign_offsets(batch: object, position: cython.Py_ssize_t, base_offset: int, leader_epoch: int) -> None:
    """Write the base offset and the leader epoch, which the leader assigns, into the batch at `position`."""
    view = cython.declare(cython.Py_buffer)
    if not cython.compiled:
        if not 0 <= position <= len(batch) - HEADER_SIZE:
            raise ValueError(f"there is no batch at {position}")
        batch[position : position + LENGTH_AT] = base_offset.to_bytes(8, "big", signed=True)
        batch[position + LEADER_EPOCH_AT : position + MAGIC_AT] = leader_epoch.to_bytes(4, "big", signed=True)
        return
    PyObject_GetBuffer(batch, cython.address(view), PyBUF_WRITABLE)
    try:
        if not 0 <= position <= view.len - HEADER_SIZE:
            raise ValueError(f"there is no batch at {position}")
        put_int64(cython.cast(Room, view.buf) + position, 0, base_offset)
        put_int32(cython.cast(Room, view.buf) + position, LEADER_EPOCH_AT, leader_epoch)
    finally:
        PyBuffer_Release(cython.address(view))


@cython.final
@cython.cclass
class PlainBatches:
    """The batches that a topic stores as they were sent: no fault, uncompressed, no attributes, the offset deltas 0, 1,
    2, …, and the right maximum of timestamps that the topic accepts."""

    max_message_bytes: cython.longlong
    needs_keys: cython.bint
    before_max_ms: cython.longlong
    after_max_ms: cython.longlong

    def __init__(self, max_message_bytes: int, needs_keys: bool, before_max_ms: int, after_max_ms: int) -> None:
        self.max_message_bytes = max_message_bytes
        self.needs_keys = needs_keys
        self.before_max_ms = before_max_ms
        self.after_max_ms = after_max_ms

    def header_of(self, records: object, now_ms: cython.longlong) -> BatchHeader | None:
        """The header of a plain batch; None for all else: the general validation then finds out what it is."""
        view = cython.declare(cython.Py_buffer)
        if not cython.compiled:
            return self._header_of(memoryview(records), len(records), now_ms)
        PyObject_GetBuffer(records, cython.address(view), PyBUF_SIMPLE)
        try:
            return self._header_of(cython.cast(Bytes, view.buf), view.len, now_ms)
        finally:
            PyBuffer_Release(cython.address(view))

    @cython.cfunc
    def _header_of(self, data: Bytes, size: cython.Py_ssize_t, now_ms: cython.longlong) -> object:
        walker: RecordWalker
        block: cython.Py_ssize_t = size - HEADER_SIZE
        if block < 0 or batch_size(data, 0, size) != size:
            return None
        if int16_at(data, ATTRIBUTES_AT - 1) != 0 or _fault(data, size, self.max_message_bytes) != 0:
            return None
        walker = RecordWalker.__new__(RecordWalker)
        walker.begin(int32_at(data, RECORD_COUNT_AT), int64_at(data, BASE_TIMESTAMP_AT), block)
        if walker.walk(data + HEADER_SIZE if cython.compiled else data[HEADER_SIZE:], block) != block:
            return None
        if walker.walked != walker.record_count or not walker.is_sequential:
            return None
        if walker.null_keys != 0 and self.needs_keys:
            return None
        if walker.max_timestamp != int64_at(data, MAX_TIMESTAMP_AT):
            return None
        if not walker.is_timely(now_ms, self.before_max_ms, self.after_max_ms):
            return None
        fields = (  # in the order of BatchHeader
            0,
            size - LOG_OVERHEAD,
            int32_at(data, LEADER_EPOCH_AT),
            MAGIC,
            int32_at(data, CRC_AT) & MASK_32,
            0,
            int32_at(data, LAST_OFFSET_DELTA_AT),
            int64_at(data, BASE_TIMESTAMP_AT),
            walker.max_timestamp,
            int64_at(data, PRODUCER_ID_AT),
            int16_at(data, PRODUCER_EPOCH_AT),
            int32_at(data, BASE_SEQUENCE_AT),
            walker.record_count,
        )
        return tuple.__new__(BatchHeader, fields)
