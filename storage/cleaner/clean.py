"""One pass over one log: superseded records go, every other record keeps its offset.

    log start              first dirty    first uncleanable offset            log end
        |    clean            |       dirty          |      not cleanable        |
    ----+---------------------+----------------------+---------------------------+---->  offsets
                              |<-- keys are mapped ->|
        |<----------- segments are rewritten ------->|

1. *Map.* Put the newest offset of every key in the dirty part into a map, in order, until the dirty part ends or the
   map is full. Control batches and aborted data have no keys. A later pass takes the records beyond the map's reach.
2. *Group.* Combine neighbouring segments that fit into one, from the start of the log to where the map ends. A group
   has at most MAX_GROUP of them, because the loop renames the files of a group in one go.
3. *Rewrite.* Write one segment for each group, with the base offset of its first. Each batch becomes:

    | batch                                           | becomes                                                        |
    |-------------------------------------------------|----------------------------------------------------------------|
    | data of an aborted transaction                  | nothing                                                        |
    | a marker whose transaction has data left        | itself                                                         |
    | a marker without data, no delete horizon        | itself, with the horizon now + `delete.retention.ms`           |
    | a marker without data, its horizon has passed   | nothing                                                        |
    | data with records that stay                     | these records; with a horizon if the pass is the first one to  |
    |                                                 | keep a tombstone of the batch (delete_horizons.py)             |

    | record                                          | stays                                                          |
    |-------------------------------------------------|----------------------------------------------------------------|
    | beyond the reach of the map                     | yes                                                            |
    | without a key                                   | no                                                             |
    | superseded: the map has a later offset          | no                                                             |
    | with a value                                    | yes                                                            |
    | tombstone without a horizon, or before it       | yes                                                            |
    | tombstone whose horizon has passed              | no                                                             |
    | tombstone of magic 0 or 1                       | yes, if its segment was modified after (last clean segment's   |
    |                                                 | mtime - `delete.retention.ms`)                                 |

   Three kinds of batches keep their header when all their records go: the last batch of every active producer, for its
   sequence; the last marker of a producer that has written nothing else, for its epoch; and the batch that ends where
   the cleanable part ends, so that a replica that reads only the cleaned part knows where that is (KAFKA-17076). So a
   group of which nothing stays becomes a segment of 0 bytes, which keeps the base offset in its name.

Offsets never change. A pass writes `.cleaned` files only, so no reader sees a change; the caller of `Pass.run` swaps
each group in (`Segments.replace`) before it asks for the next. A pass reads sealed segments, which do not change, so it
may run in any thread.
"""

from __future__ import annotations

import contextlib
from array import array
from collections.abc import Iterator, Sequence
from concurrent.futures import Executor, ThreadPoolExecutor
from time import perf_counter

from ...protocol.errors import InvalidRecord
from ...protocol.records.batch import MAGIC, BatchHeader
from ...protocol.records.batch_records import decode_records
from ...protocol.records.layout import REASONS
from ..indexes.offset_index import MAX_RELATIVE_OFFSET
from ..segment import Segment
from .block import Block
from .chunk_filter import Chunk, ChunkSifting
from .cleanable_log import CleanableLog, Limits, Watch
from .cleaned_segment import CleanedGroup, CleanedSegment
from .cleaned_transactions import CleanedTransactions
from .delete_horizons import DeleteHorizons
from .key_mapper import KeyMapper
from .offset_map import OffsetMap
from .rewrite import KeptRecords, emptied, rebuilt, upgraded
from .segment_reader import SegmentReader
from .stats import PassReport

MAX_GROUP = 32
"""Segments of a group, at most. Renaming their files takes the loop 2 ms; a later pass combines the results further.
(Apache Kafka has no such bound, and no loop.)"""


class Pass:
    """A pass over `log` that begins at `now_ms`. Iterate over `run` once."""

    def __init__(self, log: CleanableLog, now_ms: int, limits: Limits, watch: Watch) -> None:
        self._log = log
        self._now_ms = now_ms
        self._limits = limits
        self._watch = watch
        self.report = PassReport(log.first_dirty_offset, log.first_dirty_offset, now_ms)

    def run(self) -> Iterator[CleanedGroup]:
        """Yield each group, complete and on the disk; the caller swaps it in before it goes on.

        Raises CorruptMessage, naming file and position, if a segment is damaged; MapTooSmall; OSError if the disk
        refuses; CleaningAborted. An error removes the group that was not swapped in.
        """
        log, report = self._log, self.report
        began = perf_counter()
        dirty = log.dirty_segments
        report.is_horizon_pass = not dirty  # schedule.py says when such a pass is due
        with contextlib.closing(self._map_for(dirty)) as offset_map, self._helper() as helper:
            offset_map.reach(log.first_dirty_offset - 1)
            self._map_keys(dirty, offset_map)
            report.end_offset = offset_map.latest_offset + 1
            report.keys, report.map_bytes = len(offset_map), offset_map.size_bytes
            report.map_utilization = offset_map.utilization
            rewriter = _Rewriter(log, self._now_ms, self._limits, self._watch, offset_map, report, helper)
            for sources in self._groups():
                yield rewriter.rewrite(sources)
            rewriter.report_counts()
        report.seconds = perf_counter() - began

    def _helper(self) -> contextlib.AbstractContextManager[Executor | None]:
        """Return the second thread, which has ended when the context is left; it begins with its first chunk."""
        return ThreadPoolExecutor(1, "kmini-cleaner-helper") if self._limits.sifts_ahead else contextlib.nullcontext()

    # 1. Map

    def _map_for(self, dirty: Sequence[Segment]) -> OffsetMap:
        """A map as large as the budget allows, or as the dirty records can need: one entry for each of their
        offsets."""
        offsets = self._log.end_offset - max(self._log.first_dirty_offset, dirty[0].base_offset) if dirty else 0
        return OffsetMap(offsets, budget_bytes=self._limits.map_bytes, load_factor=self._limits.load_factor)

    def _map_keys(self, dirty: Sequence[Segment], offset_map: OffsetMap) -> None:
        first_dirty = self._log.first_dirty_offset
        # The first segment is read from its middle on: the mapper does not meet markers before that.
        aborted = [each for each in self._log.aborted_transactions(dirty) if each.last_offset >= first_dirty]
        mapper = KeyMapper(offset_map, CleanedTransactions(aborted), first_dirty, self._limits, self._watch)
        ends = [*(segment.base_offset for segment in dirty[1:]), self._log.end_offset]
        for segment, end_offset in zip(dirty, ends, strict=False):
            self.report.mapped_bytes += mapper.map_segment(segment)
            if offset_map.is_full:
                return
            offset_map.reach(end_offset - 1)  # compaction may have taken the last offsets of the segment

    # 2. Group

    def _groups(self) -> Iterator[list[Segment]]:
        """The segments up to where the map ends, in groups that fit into one segment by bytes, index bytes and offsets.

        The sizes before cleaning count, so the result of a group never has to be split.
        """
        config = self._log.config
        rows = [segment for segment in self._log.segments if segment.base_offset < self.report.end_offset]
        group: list[Segment] = []
        size = offset_index_size = time_index_size = 0
        for number, segment in enumerate(rows):
            following = self._log.segments[number + 1 :]
            last_offset = (following[0].base_offset if following else self._log.end_offset) - 1
            fits = (
                len(group) < MAX_GROUP
                and size + segment.size <= config.segment_bytes
                and offset_index_size + segment.offset_index.size_bytes <= config.segment_index_bytes
                and time_index_size + segment.time_index.size_bytes <= config.segment_index_bytes
                and (segment.size == 0 or not group or last_offset - group[0].base_offset <= MAX_RELATIVE_OFFSET)
            )
            if group and not fits:
                yield group
                group = []
                size = offset_index_size = time_index_size = 0
            group.append(segment)
            size += segment.size
            offset_index_size += segment.offset_index.size_bytes
            time_index_size += segment.time_index.size_bytes
        if group:
            yield group


class _Rewriter:
    """Writes the cleaned segment of each group, one group after the other, in the order of the log."""

    def __init__(
        self,
        log: CleanableLog,
        now_ms: int,
        limits: Limits,
        watch: Watch,
        offset_map: OffsetMap,
        report: PassReport,
        helper: Executor | None,
    ) -> None:
        self._log = log
        self._now_ms = now_ms
        self._limits = limits
        self._watch = watch
        self._map = offset_map
        self._report = report
        self._transactions = CleanedTransactions(log.aborted_transactions(log.segments))
        self._sifting = ChunkSifting(offset_map, now_ms, log.tombstone_bit, limits, helper)
        self._sieve = offset_map.sieve.Sieve(offset_map.table, now_ms, log.tombstone_bit, limits.record_bytes)
        """For batches that are not simple, in pieces."""
        self._horizons = DeleteHorizons(log, now_ms)
        self._last_cleanable_offset = log.end_offset - 1
        self._kept_headers = array("q", sorted({*self._last_data_offsets(), self._last_cleanable_offset}))
        """Last offsets of batches whose header stays when their records go, in order."""

    def _last_data_offsets(self) -> Iterator[int]:
        """The last offset of the last batch with data of each active producer that has written any."""
        return (tail.last_data_offset for tail in self._log.producers.values() if tail.last_data_offset is not None)

    def rewrite(self, sources: Sequence[Segment]) -> CleanedGroup:
        log, report = self._log, self._report
        modified_ms = sources[-1].modified_ms
        cleaned = CleanedSegment(
            log.filesystem, log.directory, sources[0].base_offset, log.config, self._now_ms, self._limits.buffer_bytes
        )
        try:
            for segment in sources:
                self._rewrite_segment(segment, cleaned)
            written = cleaned.finish(modified_ms)
        except BaseException:
            cleaned.discard()
            raise
        report.segments_before += len(sources)
        report.segments_after += 1
        report.bytes_read += sum(segment.size for segment in sources)
        report.bytes_written += written.size
        return CleanedGroup(sources, written)

    def report_counts(self) -> None:
        """Add the counts of the sieves to the report."""
        report = self._report
        for sieve in (self._sieve, *self._sifting.sieves):
            report.records_read += sieve.records
            report.superseded += sieve.superseded
            report.expired_tombstones += sieve.expired
            report.keyless_records += sieve.keyless
            report.tombstones_waiting += sieve.tombstones
            report.note_horizon(sieve.earliest_horizon)

    def _rewrite_segment(self, segment: Segment, cleaned: CleanedSegment) -> None:
        reader = SegmentReader(segment, self._limits.buffer_bytes, self._watch.on_bytes, drops_behind=True)
        keeps_legacy_tombstones = self._horizons.keeps_legacy_tombstones(segment)
        for chunk in self._sifting.chunks(reader, segment.size, self._kept_headers):
            before = cleaned.size
            self._rewrite_chunk(reader, chunk, cleaned, keeps_legacy_tombstones)
            self._watch.on_bytes(cleaned.size - before)

    def _rewrite_chunk(self, reader: SegmentReader, chunk: Chunk, cleaned: CleanedSegment, keeps_legacy: bool) -> None:
        """Rewrite the whole batches at the start of the chunk."""
        data, sifter, sifted = chunk.data, chunk.sifter, chunk.sifted
        while True:
            at = sifted.end
            if sifted.used:
                cleaned.append_sifted(sifter.out[: sifted.used], sifter.notes, sifted.noted)
            header = reader.batch_at(data, at, chunk.position)
            if header is None:
                assert at == chunk.end, "a chunk ends where its batches do"
                return
            if sifter.sieve.error:
                reason = REASONS[sifter.sieve.error]
                raise reader.damage(chunk.position + at, f"a batch with a malformed record: {reason}")
            if sifted.noted < sifter.most_noted:
                with reader.naming(chunk.position + at):
                    self._rewrite_batch(header, data[at : at + header.size], cleaned, keeps_legacy)
                at += header.size
            sifted = sifter.sift(data, at, self._kept_headers)

    # 3. Rewrite: batches that are not simple, or that need more than leaving records out

    def _rewrite_batch(self, header: BatchHeader, batch: bytes, cleaned: CleanedSegment, keeps_legacy: bool) -> None:
        if header.is_control:
            self._rewrite_marker(header, batch, cleaned)
        elif self._transactions.is_aborted(header):
            self._report.records_read += header.record_count
            self._report.aborted_records += header.record_count
            self._drop(header, cleaned)
        elif header.magic < MAGIC:
            self._rewrite_messages(header, batch, cleaned, keeps_legacy)
        else:
            self._rewrite_records(header, batch, cleaned)

    def _rewrite_marker(self, header: BatchHeader, batch: bytes, cleaned: CleanedSegment) -> None:
        is_spent = self._transactions.is_spent(header, batch)
        cleaned.add_aborted(self._transactions.still_indexed)
        self._transactions.still_indexed.clear()
        has_expired = is_spent and self._horizons.has_passed(header)
        if has_expired or header.record_count == 0:
            self._report.removed_markers += has_expired
            self._drop(header, cleaned)
        elif is_spent and not header.has_delete_horizon:
            self._report.note_horizon(self._horizons.new_ms)
            block = Block(batch, header, self._limits.record_bytes)
            verdicts = bytearray(header.record_count)  # all of them stay
            everything = KeptRecords([(header.size, verdicts)], header.record_count, header.max_timestamp)
            changed = rebuilt(self._map.sieve, block, header, everything, delete_horizon_ms=self._horizons.new_ms)
            cleaned.append(changed.batch, changed.header)
        else:
            if is_spent:
                self._report.note_horizon(header.base_timestamp)
            cleaned.append(batch, header)

    def _rewrite_records(self, header: BatchHeader, batch: bytes, cleaned: CleanedSegment) -> None:
        sieve = self._sieve
        block = Block(batch, header, self._limits.record_bytes)
        horizon_ms = header.base_timestamp if header.has_delete_horizon else None
        sieve.begin(header.base_offset, header.base_timestamp, -1 if horizon_ms is None else horizon_ms)
        pieces = []
        for piece in block.pieces():
            block.taken, verdicts = sieve.select(piece)
            if sieve.error:
                raise InvalidRecord(f"record {sieve.walked} is malformed: {REASONS[sieve.error]}")
            pieces.append((block.taken, verdicts))
        if sieve.walked != header.record_count:
            raise InvalidRecord(f"the batch claims {header.record_count} records and holds {sieve.walked}")
        if not sieve.kept:
            self._drop(header, cleaned)
            return
        new_horizon_ms = None
        if sieve.kept_tombstones:
            self._report.tombstones_waiting += sieve.kept_tombstones
            new_horizon_ms = self._horizons.given_to(header, self._map.latest_offset)
            if horizon_ms is None:
                horizon_ms = new_horizon_ms
            if horizon_ms is not None:
                self._report.note_horizon(horizon_ms)
        if sieve.kept == sieve.walked and new_horizon_ms is None:
            cleaned.append(batch, header)
            return
        kept_records = KeptRecords(pieces, sieve.kept, sieve.max_timestamp)
        changed = rebuilt(self._map.sieve, block, header, kept_records, delete_horizon_ms=new_horizon_ms)
        cleaned.append(changed.batch, changed.header)

    def _rewrite_messages(self, header: BatchHeader, batch: bytes, cleaned: CleanedSegment, keeps_legacy: bool) -> None:
        report = self._report
        kept = []
        for record in decode_records(batch, 0, header, limit=self._limits.record_bytes):
            report.records_read += 1
            if record.offset > self._map.latest_offset:
                kept.append(record)
            elif record.key is None:
                report.keyless_records += 1
            elif record.offset < self._map.get(record.key):
                report.superseded += 1
            elif record.value is None and not keeps_legacy:
                report.expired_tombstones += 1
            else:
                report.tombstones_waiting += record.value is None
                kept.append(record)
        if kept:
            has_tombstones = any(record.value is None for record in kept)
            horizon_ms = self._horizons.given_to(header, self._map.latest_offset) if has_tombstones else None
            if horizon_ms is not None:
                report.note_horizon(horizon_ms)
            changed = upgraded(header, kept, delete_horizon_ms=horizon_ms)
            cleaned.append(changed.batch, changed.header)
        else:
            self._drop(header, cleaned)

    def _drop(self, header: BatchHeader, cleaned: CleanedSegment) -> None:
        """Drop the records of the batch, and its header unless it is one of those that stay."""
        if header.last_offset == self._last_cleanable_offset or self._tells_of_its_producer(header):
            kept = emptied(header)
            cleaned.append(kept.batch, kept.header)

    def _tells_of_its_producer(self, header: BatchHeader) -> bool:
        """Whether a restart needs this header to know the sequence or the epoch of an active producer."""
        tail = self._log.producers.get(header.producer_id)
        if tail is None:
            return False
        if tail.last_data_offset is not None:
            return header.last_offset == tail.last_data_offset
        return header.is_control and header.producer_epoch == tail.epoch
