"""Sifting the chunks of a segment: most batches are simple (kernels/simple_batches.py), and go many at a time. Which
records and batches stay: the table in `clean.py`.

The records that stay of a chunk do not depend on the other chunks, because the offset map is complete by then. So two
chunks whose batches take long to compress are sifted at a time, each with a sieve, codec and buffers of its own:

| thread of the pass              | helper       |
|---------------------------------|--------------|
| read chunks 0 and 1             |              |
| sift chunk 0                    | sift chunk 1 |
| write what stays of chunk 0     |              |
| write what stays of chunk 1     |              |
| read chunks 2 and 3             |              |

The kernel and the codecs release the interpreter's lock. The thread of the pass does all else: it reads and writes,
counts bytes for the throttle, sees whether the pass is to end, and decides about batches that are not simple.

Only zstd takes long enough: threads that hand each other the lock after every 10 µs, as with lz4, are slower than one.
So is a helper that reads the next chunk, for any codec: a pass over uncompressed records took 1.6 times as long with it
on two free cores, because to hand a chunk over takes longer than to copy it from the page cache.
"""

from __future__ import annotations

import os
from array import array
from collections.abc import Iterator
from concurrent.futures import Executor
from typing import Any, NamedTuple

from ...protocol.errors import CorruptMessage
from ...protocol.records.batch import ATTRIBUTES_AT, CODEC_MASK, HEADER_SIZE, MAGIC, MAGIC_AT
from ...protocol.records.compression import BlockCodec, Codec
from ...protocol.records.record import BATCH_FACTOR
from .cleanable_log import Limits
from .cleaned_segment import NOTE
from .offset_map import OffsetMap
from .segment_reader import SegmentReader


class Sifted(NamedTuple):
    """The result of a sift: until the next one of its sifter it also has `out` and `notes`."""

    end: int
    """Where in the chunk the simple batches end that were sifted."""
    used: int
    """Bytes that stay."""
    noted: int
    """Batches that stay."""


class Sifter:
    """A sieve for simple batches with its codec and its buffers. For one thread at a time."""

    def __init__(self, offset_map: OffsetMap, now_ms: int, tombstone_bit: int, limits: Limits) -> None:
        self.sieve = offset_map.sieve.Sieve(offset_map.table, now_ms, tombstone_bit)
        self._codec = BlockCodec(limits.record_bytes * BATCH_FACTOR, os.urandom(16))
        self.out = memoryview(bytearray(0))
        self.most_noted = limits.buffer_bytes // HEADER_SIZE + 1
        """Batches that a sift takes at most."""
        self.notes = array("q", bytes(8 * NOTE * self.most_noted))

    def sift(self, chunk: bytes, at: int, kept_headers: array[int]) -> Sifted:
        """Sift the simple batches of the chunk from `at` on. `kept_headers`: last offsets, in order, of batches that
        the caller decides about if none of their records stays."""
        if len(self.out) < len(chunk):
            self.out = memoryview(bytearray(len(chunk)))
        return Sifted(*self.sieve.sift_batches(chunk, at, kept_headers, self.out, self.notes, self._codec))


class Chunk(NamedTuple):
    """A chunk whose first simple batches are sifted."""

    data: bytes
    position: int
    """Where in the segment it begins."""
    end: int
    """Where in the chunk its whole batches end."""
    sifter: Sifter
    """Sifts the rest, until the next chunk is asked for."""
    sifted: Sifted


class ChunkSifting:
    """Reads and sifts one segment after the other, each in order."""

    def __init__(
        self, offset_map: OffsetMap, now_ms: int, tombstone_bit: int, limits: Limits, helper: Executor | None
    ) -> None:
        """`helper`: a thread for every second chunk."""
        self._end_of_batches = offset_map.sieve.end_of_batches
        self._buffer_bytes = limits.buffer_bytes
        self._helper = helper
        self._at_a_time = 2 if helper else 1
        """Chunks that share the buffers: 2 if batches like the last ones take long."""
        self._here = Sifter(offset_map, now_ms, tombstone_bit, limits)
        self._there = Sifter(offset_map, now_ms, tombstone_bit, limits) if helper else self._here

    @property
    def sieves(self) -> set[Any]:
        """All sieves, for their counts. Complete once no chunk is left to ask for."""
        return {self._here.sieve, self._there.sieve}

    def chunks(self, reader: SegmentReader, size: int, kept_headers: array[int]) -> Iterator[Chunk]:
        """Yield the chunks of a segment of `size` bytes. `kept_headers`: as for `Sifter.sift`.

        Raises as `SegmentReader.chunk_at` does.
        """
        position = 0
        while position < size:
            reader.buffer_bytes = self._buffer_bytes // self._at_a_time
            data = reader.chunk_at(position)
            end = self._end_of_batches(data)
            helper = self._helper if _takes_long(data) else None
            self._at_a_time = 2 if helper else 1
            ahead, under_way = b"", None
            if helper and position + end < size and len(data) <= reader.buffer_bytes:
                try:
                    ahead = reader.chunk_at(position + end)
                    under_way = helper.submit(self._there.sift, ahead, 0, kept_headers)
                except CorruptMessage:  # damage there shows once this chunk, which may be damaged too, is written
                    pass
            yield Chunk(data, position, end, self._here, self._here.sift(data, 0, kept_headers))
            position += end
            if under_way is not None:
                has_begun = not under_way.cancel()  # else no core was free
                sifted = under_way.result() if has_begun else self._there.sift(ahead, 0, kept_headers)
                end = self._end_of_batches(ahead)
                yield Chunk(ahead, position, end, self._there, sifted)
                position += end


def _takes_long(chunk: bytes) -> bool:
    """Whether the batches, if they are all like the first one, take long to compress."""
    has_codec = len(chunk) >= HEADER_SIZE and chunk[MAGIC_AT] == MAGIC
    return has_codec and chunk[ATTRIBUTES_AT] & CODEC_MASK == Codec.ZSTD
