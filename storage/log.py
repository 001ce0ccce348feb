"""One partition's log: its segments in a row, and the offsets that say which records may be read, kept and trusted.

    log start offset  <=  high watermark  <=  log end offset
          |                     |                   |
    ------+=====================+-------------------+------> offsets
     deleted   consumers read   not yet on every
                                in-sync replica

    last stable offset   at most the high watermark; every transaction below it is decided
    recovery point       at most the log end offset; every record below it survives a power loss

A log belongs to one thread, the broker's loop, which appends and reads through the page cache in microseconds. Work
that waits for the disk goes to `environment.background` (background_work.py says what it may touch).

Elsewhere: how a log comes back after a start (recovery.py), which segments are too old (retention.py), the order of a
deletion (deletion.py), offsets for timestamps (timestamp_search.py).
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Sequence

from ..protocol.errors import KafkaStorageError, OffsetOutOfRange, RecordListTooLarge
from ..protocol.records.batch import NO_TIMESTAMP, BatchHeader, assign_offsets, iter_batches
from ..protocol.topics import TopicPartition
from .append_info import AppendInfo
from .filesystem import Buffer
from .flush import DiskState, FlushWork
from .indexes.offset_index import MAX_RELATIVE_OFFSET
from .indexes.transaction_index import AbortedTransaction
from .leader_epochs import LeaderEpochs
from .log_config import LogConfig
from .log_environment import LogEnvironment
from .producers.producer_entry import ProducerEntry
from .producers.producer_replay import add_batch, prepare_append, replay, take_snapshot
from .producers.producer_state_manager import Origin, ProducerStateManager, ProducerUpdate
from .segment import Segment
from .segments import Segments
from .validation import ValidatedRecords, continuing_batches


class PartitionLog:
    """The log of one partition; see above. Made by `create_log` (log_manager.py) or by `load_log` (recovery.py)."""

    __slots__ = (
        "_disk",
        "config",
        "directory",
        "environment",
        "high_watermark",
        "leader_epochs",
        "log_end_offset",
        "log_start_offset",
        "producers",
        "segments",
        "topic_id",
        "topic_partition",
    )

    log_start_offset: int
    """The first offset a consumer may read. `raise_log_start_offset` alone raises it: for DeleteRecords, for retention,
    and on a follower for its leader's value. Only truncation below it lowers it. At most the high watermark. May lie
    within a batch, which readers still get whole. log-start-offset-checkpoint has a new value before DeleteRecords
    succeeds, and before a follower tells it to its leader; retention does not wait for that (deletion.py)."""

    high_watermark: int
    """The first offset that an in-sync replica may lack; consumers read only below it. The broker raises it
    (`update_high_watermark`), truncation lowers it. Lies between log start offset and log end offset. In
    replication-offset-checkpoint every few seconds; a loaded log begins with its log start offset."""

    log_end_offset: int
    """The offset of the next record. Appends raise it, truncation lowers it. No checkpoint stores it; loading takes it
    from the last whole batch."""

    leader_epochs: LeaderEpochs
    """Appends that carry a new epoch and `assign_leader_epoch` add to it; it is cut where the log is cut. The file
    leader-epoch-checkpoint follows with the next flush; recovery takes from the batches what the file lacks."""

    producers: ProducerStateManager
    """Follow each append that succeeds: `end_offset` is the log end offset. Rolls and `close` write snapshots."""

    topic_id: bytes
    """As in partition.metadata; all zeros where that file is missing."""

    config: LogConfig
    """The topic's settings. A change of settings puts another object here, which counts from the next call on."""

    def __init__(
        self,
        environment: LogEnvironment,
        directory: str,
        topic_partition: TopicPartition,
        topic_id: bytes,
        config: LogConfig,
        *,
        segments: Segments,
        leader_epochs: LeaderEpochs,
        producers: ProducerStateManager,
        log_start_offset: int,
        log_end_offset: int,
        disk: DiskState,
    ) -> None:
        """The active segment must be ready for appends, and `producers` must be at the log end offset."""
        self.environment = environment
        self.directory = directory
        self.topic_partition = topic_partition
        self.topic_id = topic_id
        self.config = config
        self.segments = segments
        self.leader_epochs = leader_epochs
        self.producers = producers
        self.log_start_offset = self.high_watermark = log_start_offset
        self.log_end_offset = log_end_offset
        self._disk = disk

    def __repr__(self) -> str:
        return f"PartitionLog({self.directory!r} {self.log_start_offset}..{self.high_watermark}..{self.log_end_offset})"

    @property
    def recovery_point(self) -> int:
        """The offset below which everything survives a power loss: batches, indexes of sealed segments, names. A flush
        that has finished raises it, and so does the log start offset; truncation lowers it. In
        recovery-point-offset-checkpoint from time to time: after an unclean shutdown the segment that holds it is
        recovered, and every later one."""
        return self._disk.recovery_point

    @property
    def storage_error(self) -> Exception | None:
        """The error after which the disk may have lost records that it had accepted; None until then. Never cleared:
        the log takes no more appends until a restart has looked at its files."""
        return self._disk.error

    @property
    def last_stable_offset(self) -> int:
        """The first offset whose transaction may be undecided: consumers with read_committed read below it. It moves
        with the high watermark and with the ends of transactions, between log start offset and high watermark."""
        producers = self.producers
        first_unstable = producers.first_unstable_offset if producers.ongoing or producers.unreplicated else None
        if first_unstable is None or first_unstable >= self.high_watermark:
            return self.high_watermark
        return max(first_unstable, self.log_start_offset)

    @property
    def size_bytes(self) -> int:
        """Bytes of batches on disk, including those below the log start offset."""
        return self.segments.size_bytes

    # Appending

    def append_as_leader(
        self, validated: ValidatedRecords, leader_epoch: int, now_ms: int, origin: Origin = Origin.CLIENT
    ) -> AppendInfo:
        """Assign the next offsets to one validated batch, in place, and write it.

        The order is Kafka's: roll if needed, check the producer, write, raise the log end offset, remember the
        producer. A batch that its producer has sent before is not written again; its first offsets are returned. Raises
        RecordListTooLarge for a batch that fits no segment, the errors of producers, and KafkaStorageError if the disk
        refuses. An error leaves the log as it was, except for a roll.
        """
        records, header, log_append_time_ms = validated
        first_offset = self.log_end_offset
        last_offset = first_offset + header.last_offset_delta
        max_timestamp, size = header.max_timestamp, len(records)
        segment = self.segments.active
        if segment.must_roll(size, last_offset, max_timestamp, self.config, now_ms) or self._disk.progress.error:
            segment = self._roll_unless_refused(first_offset, size, now_ms)  # refuses if the disk has failed
        producers, change = self.producers, None
        if header.producer_id >= 0:
            change, duplicate = prepare_append(producers, header, records, first_offset, origin)
            if duplicate is not None:
                return AppendInfo(duplicate.first_offset, duplicate.last_offset, duplicate.timestamp, True)
        assign_offsets(records, 0, first_offset, leader_epoch)
        try:
            segment.append(records, last_offset, max_timestamp)
        except OSError as error:
            raise self._refused(error) from error
        self.log_end_offset = producers.end_offset = last_offset + 1
        if leader_epoch > self.leader_epochs.latest_epoch:
            self.leader_epochs.assign(leader_epoch, first_offset)
        if change is not None:
            self._commit(change)
        return tuple.__new__(AppendInfo, (first_offset, last_offset, log_append_time_ms, False))  # cheap (COSTS.md)

    def append_as_follower(self, records: Buffer, *, now_ms: int, leader_epoch: int | None = None) -> AppendInfo | None:
        """Write batches as the leader sent them, with their offsets and epochs; return None if none is left to write.

        Leaves out an incomplete batch at the end, and everything from the first batch on whose leader epoch is above
        `leader_epoch`, the epoch that this replica knows. Only logs faults of a producer: the leader has accepted them.
        Raises CorruptMessage for a damaged batch, and UnexpectedAppendOffset for batches that do not continue this log.
        """
        batches = continuing_batches(records, self.log_end_offset, leader_epoch)
        if not batches:
            return None
        position, last = batches[-1]
        size = position + last.size
        if size < len(records):
            records = memoryview(records)[:size]
        first_offset, last_offset = batches[0][1].base_offset, last.last_offset
        max_timestamp = max(header.max_timestamp for _, header in batches) if position else last.max_timestamp
        segment = self.segments.active
        if segment.must_roll(size, last_offset, max_timestamp, self.config, now_ms) or self._disk.progress.error:
            # Where the last segment ends, even if the leader has compacted away what follows: recovery takes a gap
            # between segments that were not cleaned here for a loss. (The offsets of a segment fit into 31 bits.)
            is_near = last_offset - self.log_end_offset <= MAX_RELATIVE_OFFSET
            base_offset = self.log_end_offset if is_near else first_offset
            segment = self._roll_unless_refused(base_offset, size, now_ms)  # refuses if the disk has failed
        update = None
        for position, header in batches:
            if header.producer_id >= 0:
                update = update or self.producers.prepare(Origin.REPLICATION)
                add_batch(update, header, records[position : position + header.size], header.base_offset)
        try:
            if position:
                segment.append_all(records, batches)
            else:
                segment.append(records, last_offset, max_timestamp)
        except OSError as error:
            raise self._refused(error) from error
        self.log_end_offset = self.producers.end_offset = last_offset + 1
        for _, header in batches:
            if header.partition_leader_epoch > self.leader_epochs.latest_epoch:
                self.leader_epochs.assign(header.partition_leader_epoch, header.base_offset)
        if update is not None:
            self._commit(update)
        return tuple.__new__(AppendInfo, (first_offset, last_offset, NO_TIMESTAMP, False))  # cheap (COSTS.md)

    def assign_leader_epoch(self, epoch: int) -> None:
        """Let a new leader's epoch begin at the log end offset, before its first append."""
        self.leader_epochs.assign(epoch, self.log_end_offset)

    def _roll_unless_refused(self, base_offset: int, size: int, now_ms: int) -> Segment:
        """Raise KafkaStorageError on a failed disk, and RecordListTooLarge for more bytes than a segment may have; else
        roll, and return the new segment. An append calls this where the active segment is full or the disk has failed:
        bytes that fit no segment never fit the active one."""
        error = self._disk.progress.error  # as in the appends: `_disk.error` is a property, which each would pay for
        if error is not None:
            raise self._refused(error)  # first: the segment need not be full
        if size > self.config.segment_bytes:
            raise RecordListTooLarge(f"{size} bytes are more than segment.bytes={self.config.segment_bytes}")
        self.roll(now_ms, base_offset=base_offset)
        return self.segments.active

    def _commit(self, change: ProducerEntry | ProducerUpdate) -> None:
        for aborted in self.producers.commit(change):
            self.segments.active.transaction_index.append(aborted)

    def _refused(self, error: Exception) -> KafkaStorageError:
        return KafkaStorageError(f"{self.topic_partition}: {error}")

    @contextlib.contextmanager
    def disk_errors(self, *, needs_reload: bool = False) -> Iterator[None]:
        """Turn an OSError of the body into KafkaStorageError. With `needs_reload`, an error stops appends until a
        restart reloads the log. (`read` and the appends spell this out: the context manager costs a microsecond of the
        nine that either takes.)"""
        try:
            yield
        except OSError as error:
            if needs_reload:
                self._disk.error = error
            raise self._refused(error) from error

    # Reading

    def batches_between(
        self, offset: int, limit_offset: int, read_bytes: int
    ) -> Iterator[tuple[bytes, int, BatchHeader]]:
        """Yield the batches from the one with `offset` on, below `limit_offset`: the bytes that were read, the position
        of the batch in them, and its header. Reads `read_bytes` at a time. Records may be deleted, or cut off at the
        end, between two batches."""
        while (offset := max(offset, self.log_start_offset)) < min(limit_offset, self.log_end_offset):
            batches = self.read(offset, read_bytes, limit_offset)
            if not batches:
                return
            for position, header in iter_batches(batches):
                offset = header.next_offset
                yield batches, position, header

    def read(self, offset: int, max_bytes: int, limit_offset: int, min_one_batch: bool = True) -> bytes:
        """Return batches of one segment, from the one with `offset` on: up to `max_bytes`, below `limit_offset`.

        Empty at or beyond `limit_offset`. The last batch may be cut off; with `min_one_batch` the first one is whole,
        however large. It may begin below `offset`, even below the log start offset. Raises OffsetOutOfRange below the
        log start offset and beyond the log end offset.
        """
        if not self.log_start_offset <= offset <= self.log_end_offset:
            raise self._out_of_range(offset)
        if offset >= limit_offset:
            return b""
        try:
            return self.segments.read(offset, max_bytes, limit_offset, min_one_batch)
        except OSError as error:
            raise self._refused(error) from error

    def bytes_between(self, offset: int, limit_offset: int) -> int:
        """Return the number of bytes of batches from `offset` to below `limit_offset`, or
        `segments.ANOTHER_SEGMENT` if `limit_offset` lies in a later segment: a read ends with its segment, so waiting
        gains nothing. 0 if `offset` is not below `limit_offset`.

        Raises OffsetOutOfRange as `read` does.
        """
        if not self.log_start_offset <= offset <= self.log_end_offset:
            raise self._out_of_range(offset)
        if offset >= limit_offset:
            return 0
        with self.disk_errors():
            return self.segments.bytes_between(offset, limit_offset)

    def aborted_transactions(self, offset: int, end_offset: int) -> list[AbortedTransaction]:
        """Return the aborted transactions among the records from `offset` to below `end_offset`, in the order of their
        markers: a consumer with read_committed skips their records (KIP-98)."""
        with self.disk_errors():
            return self.segments.aborted_transactions(offset, end_offset)

    def _out_of_range(self, offset: int) -> OffsetOutOfRange:
        return OffsetOutOfRange(
            f"{self.topic_partition}: offset {offset} is outside {self.log_start_offset}..{self.log_end_offset}"
        )

    # Moving the offsets

    def update_high_watermark(self, offset: int) -> bool:
        """Raise the high watermark to `offset`, at most to the log end offset; return whether it moved."""
        if offset > self.log_end_offset:
            offset = self.log_end_offset
        if offset <= self.high_watermark:
            return False
        self.high_watermark = offset
        if self.producers.unreplicated:
            self.producers.on_high_watermark(offset)
        return True

    def raise_log_start_offset(self, offset: int) -> bool:
        """Hide the records below `offset` from readers for good; return whether there were any.

        Raises OffsetOutOfRange above the high watermark. Recovery point and leader epochs follow; producers stay
        known. Segments stay until `delete_segments_below_log_start`.
        """
        if offset > self.high_watermark:
            raise OffsetOutOfRange(f"{self.topic_partition}: {offset} is above high watermark {self.high_watermark}")
        if offset <= self.log_start_offset:
            return False
        self.log_start_offset = offset
        self._disk.recovery_point = max(self._disk.recovery_point, offset)
        self.leader_epochs.truncate_from_start(offset)
        self.producers.on_log_start_raised(offset)
        return True

    def lower_recovery_point(self, offset: int) -> bool:
        """Note that the log is to be truncated to `offset`; return whether its recovery point was above that."""
        is_above = self._disk.recovery_point > offset
        if is_above:
            self._disk.on_truncation(offset)
        return is_above

    def truncate_to(self, offset: int) -> bool:
        """Drop the records at or beyond `offset`, for a follower that diverged; return whether there were any.

        `offset` should begin a batch: a batch that contains it is removed whole, so the offsets before `offset` have a
        gap. KafkaStorageError if the disk refuses; the log then takes no more appends.
        """
        if offset >= self.log_end_offset:
            self.leader_epochs.truncate_from_end(offset)
            return False
        if offset < self.segments.oldest.base_offset:
            self.truncate_fully_and_start_at(offset)
            return True
        now_ms = self.environment.now_ms()
        with self.disk_errors(needs_reload=True):
            self.segments.truncate_to(offset, now_ms + self.config.file_delete_delay_ms)
            self._end_at(offset)
            self.leader_epochs.truncate_from_end(offset)
            self.producers.load(self.log_start_offset, offset, now_ms)
            replay(self.producers, self.segments, offset)
            # To the replay no marker is replicated: without this the last stable offset would stay at the first
            # transaction until the high watermark moves.
            self.producers.on_high_watermark(self.high_watermark)
        return True

    def truncate_fully_and_start_at(self, offset: int) -> None:
        """Drop all records and begin again at `offset`: the leader has deleted the records that continue this log."""
        now_ms = self.environment.now_ms()
        with self.disk_errors(needs_reload=True):
            self.segments.restart_at(offset, self.config, now_ms, now_ms + self.config.file_delete_delay_ms)
            self._end_at(offset)
            self.log_start_offset = self.high_watermark = offset
            self.leader_epochs.clear()
            self.producers.clear(offset)

    def _end_at(self, offset: int) -> None:
        self.log_end_offset = offset
        self.log_start_offset = min(self.log_start_offset, offset)
        self.high_watermark = min(self.high_watermark, offset)
        self._disk.on_truncation(offset)

    # Rolling and flushing

    def roll(self, now_ms: int, *, base_offset: int | None = None) -> None:
        """Seal the active segment and begin a new one at the log end offset, or at `base_offset` beyond it.

        An empty active segment that begins there stays. KafkaStorageError if the disk refuses; nothing has changed
        then. Flushing the sealed segment is left to the background.
        """
        base_offset = self.log_end_offset if base_offset is None else base_offset
        active = self.segments.active
        if active.size == 0 and active.base_offset == base_offset:
            return
        with self.disk_errors():
            self.segments.roll(base_offset, self.config, now_ms)
        self._disk.on_new_name()
        self.environment.background.append(self.flush_work(take_snapshot(self.producers)))

    def flush_is_due(self) -> bool:
        """Whether flush.messages or flush.ms ask for a flush; with flush.messages=1, before an append is answered."""
        return self._disk.flush_is_due(self.log_end_offset, self.config)

    def flush_work(self, snapshot: str | None = None, *, is_closing: bool = False) -> FlushWork:
        """A flush up to the present log end offset: `run` it in a thread, then `finish` it on the loop. `finish` raises
        the recovery point, or KafkaStorageError if the disk failed. Rolls and closes add a `snapshot` of producers."""
        upto, epochs = self.log_end_offset, self.leader_epochs.entries
        return self._disk.flush(self.segments, upto, epochs, snapshot=snapshot, is_closing=is_closing)

    def flush(self) -> None:
        """Flush here and now. Blocks; see `flush_work`."""
        work = self.flush_work()
        work.run()
        work.finish()

    # Replacing, deleting and closing

    def replace_segments(self, old: Sequence[Segment], new: Segment) -> None:
        """Put a cleaned segment in the place of the neighbouring sealed segments it was made from (Segments.replace).

        KafkaStorageError if the disk refuses; the log then takes no more appends.
        """
        due_ms = self.environment.now_ms() + self.config.file_delete_delay_ms
        with self.disk_errors(needs_reload=True):
            self.segments.replace(old, new, due_ms)
        self._disk.on_new_name()

    def delete_segments_below_log_start(self) -> int:
        """Take the segments whose offsets all lie below the log start out of the log; return how many (KIP-107).

        If no record is left that is all of them, and the log rolls first; KafkaStorageError if it cannot. Their files
        carry `.deleted` names from then on, and go after file.delete.delay.ms.
        """
        now_ms = self.environment.now_ms()
        if self.log_start_offset == self.log_end_offset and self.segments.active.size:
            self.roll(now_ms)
        count = self.segments.count_below(self.log_start_offset)
        if count:
            self.segments.delete_oldest(count, now_ms + self.config.file_delete_delay_ms)
        return count

    def close(self) -> None:
        """Flush everything, with the indexes of the active segment, and close the files. Blocks. Leaves the name of the
        log's directory to the caller. KafkaStorageError if the disk fails, or has failed: the shutdown is not a clean
        one then. A log that never held a record is not flushed.
        """
        try:
            if self._disk.error is not None:
                raise self._refused(self._disk.error)
            if self.log_end_offset:
                self.segments.active.seal()
                with self.disk_errors():
                    snapshot = self.producers.take_snapshot(at_log_end=True)
                work = self.flush_work(snapshot, is_closing=True)
                work.run()
                work.finish()
        finally:
            self.segments.close()

    def abandon(self) -> None:
        """The log is being deleted: flushes still under way count for nothing."""
        self._disk.is_abandoned = True
