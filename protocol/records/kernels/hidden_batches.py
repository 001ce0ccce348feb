# cython: boundscheck=False, wraparound=False, initializedcheck=False
"""Batches that a consumer does not see: control batches, and those of aborted transactions."""

from __future__ import annotations

from ... import cython_words as cython
from ..layout import CONTROL, TRANSACTIONAL


@cython.final
@cython.cclass
class HiddenBatches:
    """Control batches, if `control`, and the batches of aborted transactions.

    Each aborted transaction is all of a producer's transactional batches from a first offset to a last one. They are
    sorted by producer id, then by offset; those of one producer do not overlap.
    """

    control: cython.bint
    producer_ids: cython.longlong[::1]
    first_offsets: cython.longlong[::1]
    last_offsets: cython.longlong[::1]
    count: cython.Py_ssize_t

    def __init__(
        self,
        control: bool,
        producer_ids: cython.longlong[::1],
        first_offsets: cython.longlong[::1],
        last_offsets: cython.longlong[::1],
    ) -> None:
        if not len(producer_ids) == len(first_offsets) == len(last_offsets):
            raise ValueError("as many ids as offsets are needed")
        self.control = control
        self.producer_ids = producer_ids
        self.first_offsets = first_offsets
        self.last_offsets = last_offsets
        self.count = len(producer_ids)

    @cython.cfunc
    @cython.nogil
    @cython.exceptval(check=False)
    def has(self, attributes: cython.int, producer_id: cython.longlong, base_offset: cython.longlong) -> cython.bint:
        """Whether a batch with these fields is one of them."""
        low: cython.Py_ssize_t = 0
        high: cython.Py_ssize_t = self.count
        middle: cython.Py_ssize_t
        if attributes & CONTROL:
            return self.control
        if not attributes & TRANSACTIONAL:
            return False
        while low < high:  # to the first transaction that begins behind the batch
            middle = (low + high) >> 1
            if self.producer_ids[middle] < producer_id or (
                self.producer_ids[middle] == producer_id and self.first_offsets[middle] <= base_offset
            ):
                low = middle + 1
            else:
                high = middle
        return low > 0 and self.producer_ids[low - 1] == producer_id and base_offset <= self.last_offsets[low - 1]
