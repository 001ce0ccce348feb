"""Filling the offset map with the keys of the dirty part of a log."""

from __future__ import annotations

import os

from ...protocol.errors import InvalidRecord
from ...protocol.records.batch import MAGIC, BatchHeader
from ...protocol.records.batch_records import decode_records
from ...protocol.records.compression import BlockCodec
from ...protocol.records.layout import REASONS
from ...protocol.records.record import BATCH_FACTOR
from ..segment import Segment
from .block import Block
from .cleanable_log import Limits, Watch
from .cleaned_transactions import CleanedTransactions
from .offset_map import OffsetMap
from .segment_reader import SegmentReader, position_before


class KeyMapper:
    """Puts the keys of segments and their newest offsets into a map."""

    def __init__(
        self,
        offset_map: OffsetMap,
        transactions: CleanedTransactions,
        first_dirty_offset: int,
        limits: Limits,
        watch: Watch,
    ) -> None:
        self._map = offset_map
        self._transactions = transactions
        self._first_dirty_offset = first_dirty_offset
        self._limits = limits
        self._watch = watch
        self._codec = BlockCodec(limits.record_bytes * BATCH_FACTOR, os.urandom(16))

    def map_segment(self, segment: Segment) -> int:
        """Map the keys of a segment until its end, or until the map is full; return how many bytes were read."""
        reader = SegmentReader(segment, self._limits.buffer_bytes, self._watch.on_bytes)
        start = position = position_before(segment, self._first_dirty_offset)
        while position < segment.size and not self._map.is_full:
            position += self._map_chunk(reader, reader.chunk_at(position), position)
        return position - start

    def _map_chunk(self, reader: SegmentReader, chunk: bytes, position: int) -> int:
        """Map the whole batches at the start of the chunk; return how many bytes they have."""
        table, at = self._map.table, 0
        while not self._map.is_full:
            at = table.put_batches(chunk, at, self._first_dirty_offset, self._codec)
            header = reader.batch_at(chunk, at, position)
            if header is None or self._map.is_full:
                break
            if table.error:
                raise reader.damage(position + at, f"a batch with a malformed record: {REASONS[table.error]}")
            with reader.naming(position + at):
                self._map_batch(header, chunk[at : at + header.size])
            at += header.size
        return at

    def _map_batch(self, header: BatchHeader, batch: bytes) -> None:
        """Map the keys of a batch that is not simple."""
        if header.is_control:
            self._transactions.is_spent(header, batch)
        elif not self._transactions.is_aborted(header) and header.last_offset >= self._first_dirty_offset:
            if header.magic < MAGIC:
                self._map_messages(header, batch)
            else:
                self._map_block(Block(batch, header, self._limits.record_bytes), header)
        if header.last_offset >= self._first_dirty_offset and not self._map.is_full:
            self._map.reach(header.last_offset)

    def _map_messages(self, header: BatchHeader, batch: bytes) -> None:
        for record in decode_records(batch, 0, header, limit=self._limits.record_bytes):
            if (
                record.key is not None
                and record.offset >= self._first_dirty_offset
                and not self._map.put(record.key, record.offset)
            ):
                return

    def _map_block(self, block: Block, header: BatchHeader) -> None:
        table = self._map.table
        for piece in block.pieces():
            block.taken = table.put_records(piece, header.base_offset, self._first_dirty_offset)
            if table.error:
                raise InvalidRecord(f"a record is malformed: {REASONS[table.error]}")
            if self._map.is_full:
                return
