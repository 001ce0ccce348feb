"""The records of one batch that is not simple (`simple_batches`), decompressed a piece at a time."""

from __future__ import annotations

from collections.abc import Iterator

from ...protocol.errors import InvalidRecord
from ...protocol.records.batch import BatchHeader, records_of
from ...protocol.records.compression import CHUNK_BYTES, decompress_at_once, decompress_chunks
from ...protocol.records.record import BATCH_FACTOR
from ..filesystem import Buffer

_KEPT_BYTES = 4 * 1024 * 1024
"""Bytes of a decompressed block that are kept for a second iteration; a larger block is decompressed again."""


class Block:
    """The records of a batch of magic 2. `pieces` may be iterated over more than once, and yields the same pieces."""

    def __init__(self, batch: Buffer, header: BatchHeader, record_limit: int) -> None:
        self._stored = records_of(batch, 0, header)
        self._header = header
        self._limit = record_limit * BATCH_FACTOR
        small = decompress_at_once(header.codec, self._stored, self._limit)
        self._decompressed: list[Buffer] | None = None if small is None else [small]
        self.taken = 0
        """Where the last whole record of the piece ends; the consumer of `pieces` sets it for each piece."""

    def pieces(self) -> Iterator[Buffer]:
        """Yield bytes that begin with a record. The bytes of a piece beyond `taken` begin the next one.

        Raises CorruptMessage or InvalidRecord if they cannot be decompressed, InvalidRecord if bytes are left at the
        end.
        """
        if self._decompressed is not None and len(self._decompressed) == 1:
            yield self._decompressed[0]
            if self.taken < len(self._decompressed[0]):
                raise self._incomplete()
            return
        rest = bytearray()
        for chunk in self._chunks():
            if rest:
                rest += chunk
                yield rest
                del rest[: self.taken]
            else:
                yield chunk
                if self.taken < len(chunk):
                    rest += memoryview(chunk)[self.taken :]
        if rest:
            raise self._incomplete()

    def _incomplete(self) -> InvalidRecord:
        return InvalidRecord(f"the batch of offset {self._header.base_offset} ends within a record")

    def _chunks(self) -> Iterator[Buffer]:
        if self._decompressed is not None:
            yield from self._decompressed
            return
        kept: list[Buffer] | None = []
        for chunk in decompress_chunks(self._header.codec, self._stored, self._limit):
            if kept is not None:
                kept.append(chunk)
                if len(kept) * CHUNK_BYTES > _KEPT_BYTES:
                    kept = None
            yield chunk
        self._decompressed = kept
