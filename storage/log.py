"""One partition's log: a row of segments, and the offsets that say what of it may be read, kept and trusted.

    log start offset  <=  high watermark  <=  log end offset
          |                     |                   |
    ------+=====================+-------------------+------> offsets
     gone     readers may have       not yet on all
                                     replicas in sync

    last stable offset   at most the high watermark; below it every transaction is decided
    recovery point       at most the log end offset; below it everything is on the disk, not only with the system

A log belongs to one thread, the broker's loop. It reads and writes there, through the page cache, in microseconds; what
waits for the disk it leaves in `environment.background` (background_work.py says which thread may touch what).
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Sequence
from itertools import islice
from typing import NamedTuple

from ..protocol.errors import KafkaStorageError, OffsetOutOfRange, RecordListTooLarge
from ..protocol.records.batch import assign_offsets
from ..protocol.topics import TopicPartition
from . import retention, timestamp_search
from .background_work import BackgroundWork, Deletions
from .config_key import MAX_LONG
from .deletion import delete_records_below, without_checkpoint
from .filesystem import Buffer, FileSystem
from .flush import DiskState, FlushWork
from .indexes.time_index import NO_TIMESTAMP
from .indexes.transaction_index import AbortedTransaction
from .leader_epochs import LeaderEpochs
from .log_config import LogConfig
from .producers.producer_replay import add_batch, replay, take_snapshot
from .producers.producer_state import DEFAULT_EXPIRATION_MS, Origin, ProducerStates, ProducerUpdate
from .segment import Segment
from .segments import Segments
from .timestamp_search import StoredBatch
from .validation import ValidatedRecords, continuing_batches


class LogEnvironment(NamedTuple):
    """What all logs of a log directory share."""

    filesystem: FileSystem
    background: list[BackgroundWork]
    """Where logs leave what must not run on the loop; whoever owns the logs takes it from here."""
    deletions: Deletions
    now_ms: Callable[[], int]
    """The broker's clock, for what is not told the time."""
    producer_expiration_ms: int = DEFAULT_EXPIRATION_MS


class AppendInfo(NamedTuple):
    """Where records went; for a duplicate, where they went the first time."""

    first_offset: int
    last_offset: int
    log_append_time_ms: int
    """-1 unless the topic uses LogAppendTime. For a duplicate the timestamp of the batch, as in Kafka."""
    is_duplicate: bool = False


class PartitionLog:
    """See the module's text. Made by `create` for a new partition, by recovery.load_log for one that is on disk."""

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
    """The first offset readers may have. Raised by DeleteRecords, by retention, and on a follower by its leader's value
    (all by `raise_log_start_offset`); lowered by truncation to an offset below it, and by nothing else. At most the
    high watermark. May lie within a batch, which readers still get whole. Whoever tells a client of a new value has
    put it into log-start-offset-checkpoint first."""

    high_watermark: int
    """The first offset that is not known to be on every replica in sync: consumers see what is below. Raised by the
    broker's policy (`update_high_watermark`), lowered by truncation. From the log start offset to the log end offset.
    In replication-offset-checkpoint every few seconds; a log that is loaded begins with its log start offset."""

    log_end_offset: int
    """The offset the next record will get. Raised by appends, lowered by truncation. In no checkpoint: when a log is
    loaded, it is where the last whole batch ends."""

    leader_epochs: LeaderEpochs
    """Raised by appends that carry a new epoch and by `assign_leader_epoch`, clipped wherever the log is. The file
    leader-epoch-checkpoint follows with the next flush; recovery finds in the batches what it lacks."""

    producers: ProducerStates
    """Changed by an append once it has succeeded, so that its `end_offset` is the log end offset. Snapshots are written
    at rolls and at close."""

    topic_id: bytes
    """As in partition.metadata; all zeros where that file is missing."""

    config: LogConfig
    """The topic's settings. Whoever changes them puts another object here; it counts from the next call on."""

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
        producers: ProducerStates,
        log_start_offset: int,
        log_end_offset: int,
        disk: DiskState,
    ) -> None:
        """The active segment is ready to be appended to, and `producers` are at the log end offset."""
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

    @classmethod
    def create(
        cls,
        environment: LogEnvironment,
        directory: str,
        topic_partition: TopicPartition,
        topic_id: bytes,
        config: LogConfig,
    ) -> PartitionLog:
        """The log of a new partition, in its directory, which is there. OSError if the disk refuses."""
        filesystem, now_ms = environment.filesystem, environment.now_ms
        segment = Segment(filesystem, directory, 0, config, now_ms(), create=True)
        return cls(
            environment,
            directory,
            topic_partition,
            topic_id,
            config,
            segments=Segments(filesystem, environment.deletions, directory, [segment]),
            leader_epochs=LeaderEpochs(),
            producers=ProducerStates(filesystem, directory, expiration_ms=environment.producer_expiration_ms),
            log_start_offset=0,
            log_end_offset=0,
            disk=DiskState(filesystem, directory, now_ms),
        )

    def __repr__(self) -> str:
        offsets = f"{self.log_start_offset}..{self.high_watermark}..{self.log_end_offset}"
        return f"PartitionLog({self.directory!r}, {offsets})"

    @property
    def recovery_point(self) -> int:
        """What is below survives power loss: batches, indexes of sealed segments, names. Raised when a flush has
        finished, and with the log start offset; lowered by truncation. In recovery-point-offset-checkpoint from time to
        time: the segment that holds it, and those after it, are recovered unless the shutdown was clean."""
        return self._disk.recovery_point

    @property
    def storage_error(self) -> Exception | None:
        """Set when the disk may have lost what it had accepted, never cleared. What was appended since the recovery
        point may be there or not: nothing is appended any more until a restart has looked."""
        return self._disk.error

    @property
    def last_stable_offset(self) -> int:
        """The first offset whose transaction may still be undecided: readers at read_committed see what is below. Moves
        with the high watermark and with the ends of transactions, from the log start offset to the high watermark."""
        first_unstable = self.producers.first_unstable_offset
        if first_unstable is None or first_unstable >= self.high_watermark:
            return self.high_watermark
        return max(first_unstable, self.log_start_offset)

    @property
    def size_bytes(self) -> int:
        """Bytes of batches on disk, those below the log start offset included."""
        return self.segments.size_bytes

    # Appending

    def append_as_leader(
        self, validated: ValidatedRecords, *, leader_epoch: int, now_ms: int, origin: Origin = Origin.CLIENT
    ) -> AppendInfo:
        """Give one validated batch the next offsets, in place, and write it.

        The order is Kafka's: roll if needed, check the producer, write, move the log end, remember the producer. A
        batch that its producer repeats is not written, and answered as the first time. RecordListTooLarge if it fits
        no segment; the producer's errors; KafkaStorageError if the disk refuses. After an error all is as it was, but
        for a roll.
        """
        header, records = validated.header, validated.records
        first_offset = self.log_end_offset
        last_offset = first_offset + header.last_offset_delta
        segment = self._segment_for(first_offset, last_offset, len(records), header.max_timestamp, now_ms)
        update = None
        if header.producer_id >= 0:
            if origin is Origin.CLIENT:
                duplicate = self.producers.find_duplicate(header)
                if duplicate is not None:
                    return AppendInfo(duplicate.first_offset, duplicate.last_offset, duplicate.timestamp, True)
            update = self.producers.prepare(origin)
            add_batch(update, header, records, first_offset)
        assign_offsets(records, 0, first_offset, leader_epoch)
        try:
            segment.append(records, last_offset, header.max_timestamp)
        except OSError as error:
            raise self._refused(error) from error
        self.log_end_offset = self.producers.end_offset = last_offset + 1
        if leader_epoch > self.leader_epochs.latest_epoch:
            self.leader_epochs.assign(leader_epoch, first_offset)
        if update is not None:
            self._commit(update)
        return AppendInfo(first_offset, last_offset, validated.log_append_time_ms)

    def append_as_follower(self, records: Buffer, *, now_ms: int, leader_epoch: int | None = None) -> AppendInfo | None:
        """Write batches as the leader sent them, offsets and epochs included; None if nothing is left to write.

        Left out are an incomplete batch at the end, and everything from the first batch on whose leader epoch is above
        `leader_epoch`, the one this replica knows. CorruptMessage for a damaged batch, UnexpectedAppendOffset if the
        batches do not continue this log. What a producer did wrong is only logged: the leader has accepted it.
        """
        batches = continuing_batches(records, self.log_end_offset, leader_epoch)
        if not batches:
            return None
        position, last = batches[-1]
        records = memoryview(records)[: position + last.size]
        first_offset, last_offset = batches[0][1].base_offset, last.last_offset
        max_timestamp = max(header.max_timestamp for _, header in batches)
        segment = self._segment_for(first_offset, last_offset, len(records), max_timestamp, now_ms)
        update = self.producers.prepare(Origin.REPLICATION)
        for position, header in batches:
            add_batch(update, header, records[position : position + header.size], header.base_offset)
        with self._disk_errors():
            segment.append_all(records, batches)
        self.log_end_offset = self.producers.end_offset = last_offset + 1
        for _, header in batches:
            if header.partition_leader_epoch > self.leader_epochs.latest_epoch:
                self.leader_epochs.assign(header.partition_leader_epoch, header.base_offset)
        self._commit(update)
        return AppendInfo(first_offset, last_offset, NO_TIMESTAMP)

    def assign_leader_epoch(self, epoch: int) -> None:
        """What is appended from now on belongs to this epoch: for a new leader, before its first append."""
        self.leader_epochs.assign(epoch, self.log_end_offset)

    def _segment_for(self, first_offset: int, last_offset: int, size: int, max_timestamp: int, now_ms: int) -> Segment:
        """The active segment, after a roll if these records must not go into the one there is."""
        if size > self.config.segment_bytes:
            raise RecordListTooLarge(f"{size} bytes are more than segment.bytes={self.config.segment_bytes}")
        if self._disk.error is not None:
            raise self._refused(self._disk.error)
        if self.segments.active.must_roll(size, last_offset, max_timestamp, self.config, now_ms):
            self.roll(now_ms, base_offset=first_offset)
        return self.segments.active

    def _commit(self, update: ProducerUpdate) -> None:
        for aborted in update.commit():
            self.segments.active.transaction_index.append(aborted)

    def _refused(self, error: Exception) -> KafkaStorageError:
        return KafkaStorageError(f"{self.topic_partition}: {error}")

    @contextlib.contextmanager
    def _disk_errors(self, *, leave_a_wreck: bool = False) -> Iterator[None]:
        """Turn them into KafkaStorageError; with `leave_a_wreck`, only loading the log again puts it right. (`read` and
        `append_as_leader` do it by hand: this costs a microsecond, of the nine that either takes.)"""
        try:
            yield
        except OSError as error:
            if leave_a_wreck:
                self._disk.error = error
            raise self._refused(error) from error

    # Reading

    def read(self, offset: int, max_bytes: int, *, limit_offset: int, min_one_batch: bool = True) -> bytes:
        """Batches from the one that contains `offset` on: up to `max_bytes`, below `limit_offset`, of one segment.

        Empty at or beyond `limit_offset`. The last batch may be cut off; the first is whole, however large, if
        `min_one_batch`. It may begin below `offset`, even below the log start. OffsetOutOfRange below the log start
        offset and beyond the log end offset.
        """
        if not self.log_start_offset <= offset <= self.log_end_offset:
            raise self._out_of_range(offset)
        if offset >= limit_offset:
            return b""
        try:
            return self.segments.read(offset, max_bytes, limit_offset, min_one_batch=min_one_batch)
        except OSError as error:
            raise self._refused(error) from error

    def aborted_transactions(self, offset: int, end_offset: int) -> list[AbortedTransaction]:
        """What a reader at read_committed must know to skip what was undone of the records from `offset` to below
        `end_offset` (KIP-98), in the order of the markers."""
        with self._disk_errors():
            return self.segments.aborted_transactions(offset, end_offset)

    def bytes_between(self, offset: int, limit_offset: int) -> int:
        """How many bytes a reader at `offset` would find below `limit_offset`; 0 if it is not below it.

        ANOTHER_SEGMENT, a very large number, if `limit_offset` lies in a later segment: reads end with a segment, so
        there is no more to wait for. OffsetOutOfRange as for `read`.
        """
        if not self.log_start_offset <= offset <= self.log_end_offset:
            raise self._out_of_range(offset)
        if offset >= limit_offset:
            return 0
        with self._disk_errors():
            return self.segments.bytes_between(offset, limit_offset)

    def _out_of_range(self, offset: int) -> OffsetOutOfRange:
        return OffsetOutOfRange(
            f"{self.topic_partition}: offset {offset} is outside {self.log_start_offset}..{self.log_end_offset}"
        )

    def batches_since(self, timestamp: int) -> Iterator[StoredBatch]:
        """The batches that may hold the first record at or after `timestamp`, in order, each read when asked for.

        `StoredBatch.first_since` looks into them, in any thread: it may have to decompress.
        """
        with self._disk_errors():
            yield from timestamp_search.batches_since(self.segments, timestamp, self.log_start_offset)

    def newest_batch(self) -> StoredBatch | None:
        """The first batch with the largest timestamp; None if none has one. As in Kafka it may lie below the start."""
        with self._disk_errors():
            return timestamp_search.newest_batch(self.segments)

    def segment_starts_before(self, timestamp: int, now_ms: int) -> list[int]:
        """Where segments begin that were last written to at or before `timestamp`, as the first ListOffsets asks; the
        newest first. From the log start offset to the log end offset."""
        with self._disk_errors():
            return timestamp_search.segment_starts_before(
                self.segments, timestamp, self.log_start_offset, self.log_end_offset, now_ms
            )

    # Moving the offsets

    def update_high_watermark(self, offset: int) -> bool:
        """Raise the high watermark to `offset`, at most to the log end; says whether it moved. Never lowers it."""
        if offset > self.log_end_offset:
            offset = self.log_end_offset
        if offset <= self.high_watermark:
            return False
        self.high_watermark = offset
        self.producers.on_high_watermark(offset)
        return True

    def raise_log_start_offset(self, offset: int) -> bool:
        """Hide what is below `offset` from readers, for good; says whether anything was. Never lowers it.

        OffsetOutOfRange above the high watermark. The recovery point and the leader epochs follow; producers are not
        forgotten. Segments stay until they are deleted.
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

    def truncate_to(self, offset: int) -> bool:
        """Drop what is at or beyond `offset`, as a follower that parted from its leader does; says whether it had any.

        `offset` should begin a batch: one that contains it goes whole, and leaves a gap. KafkaStorageError if the disk
        refuses; the log then takes no more appends.
        """
        if offset >= self.log_end_offset:
            self.leader_epochs.truncate_from_end(offset)
            return False
        if offset < self.segments.oldest.base_offset:
            self.truncate_fully_and_start_at(offset)
            return True
        now_ms = self.environment.now_ms()
        with self._disk_errors(leave_a_wreck=True):
            self.segments.truncate_to(offset, now_ms + self.config.file_delete_delay_ms)
            self._end_at(offset)
            self.leader_epochs.truncate_from_end(offset)
            self.producers.load(self.log_start_offset, offset, now_ms)
            replay(self.producers, self.segments, offset)
        return True

    def truncate_fully_and_start_at(self, offset: int) -> None:
        """Drop everything and go on at `offset`: the leader no longer has what would continue this log."""
        now_ms = self.environment.now_ms()
        with self._disk_errors(leave_a_wreck=True):
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

        An empty active segment that begins there stays. KafkaStorageError if the disk refuses: then nothing has
        changed. To put the sealed one on the disk is left to the background.
        """
        base_offset = self.log_end_offset if base_offset is None else base_offset
        active = self.segments.active
        if active.size == 0 and active.base_offset == base_offset:
            return
        with self._disk_errors():
            self.segments.roll(base_offset, self.config, now_ms)
        self._disk.on_new_name()
        self.environment.background.append(self._flush_work(take_snapshot(self.producers)))

    @property
    def flush_is_due(self) -> bool:
        """Whether flush.messages or flush.ms ask for a flush; with flush.messages=1, before an append is answered."""
        unflushed = self.log_end_offset - self._disk.recovery_point
        if unflushed >= self.config.flush_messages:
            return True
        flush_ms = self.config.flush_ms
        return (
            flush_ms < MAX_LONG and unflushed > 0 and self.environment.now_ms() - self._disk.last_flush_ms >= flush_ms
        )

    def flush_work(self) -> FlushWork:
        """A flush up to the log end offset as it is now: `run` it off the loop, then `finish` it on the loop.

        After that the recovery point is there. `finish` raises KafkaStorageError if the disk fails, and if that may
        have cost data, the log takes no more appends.
        """
        return self._flush_work()

    def flush(self) -> None:
        """Flush here and now. Blocks; see `flush_work`."""
        work = self._flush_work()
        work.run()
        work.finish()

    def _flush_work(self, snapshot: str | None = None, *, is_closing: bool = False) -> FlushWork:
        return self._disk.flush(
            self.segments, self.log_end_offset, self.leader_epochs.entries, snapshot=snapshot, is_closing=is_closing
        )

    # Deleting and closing

    def delete_segments_below_log_start(self) -> int:
        """Take the segments whose offsets all lie below the log start out of the log; return how many (KIP-107).

        If nothing lies at or beyond the log start that is all of them, and the log rolls first; KafkaStorageError if it
        cannot. Files carry `.deleted` names from then on, and go after `file.delete.delay.ms`.
        """
        now_ms = self.environment.now_ms()
        if self.log_start_offset == self.log_end_offset and self.segments.active.size:
            self.roll(now_ms)
        count = retention.below_start_offset(self.segments, self.log_start_offset)
        if count:
            self.segments.delete_oldest(count, now_ms + self.config.file_delete_delay_ms)
        return count

    def apply_retention(self, now_ms: int) -> int:
        """Take the segments whose retention is over out of the log; return how many. KafkaStorageError if the disk
        refuses to roll."""
        with self._disk_errors():  # a segment without timestamps is as old as its file
            count = retention.expired_segments(
                self.segments, self.config, self.log_start_offset, self.high_watermark, now_ms
            )
        if count == len(self.segments):
            self.roll(now_ms)
        if count:
            first_kept = next(islice(self.segments, count, None))
            delete_records_below(self, first_kept.base_offset, without_checkpoint)
        return count

    def next_retention_ms(self) -> int | None:
        """When `apply_retention` will next have an effect, if nothing changes but the time; None for never."""
        with self._disk_errors():
            return retention.next_expiry_ms(self.segments, self.config, self.log_start_offset, self.high_watermark)

    def replace_segments(self, old: Sequence[Segment], new: Segment) -> None:
        """Put what neighbouring sealed segments were compacted to in their place (Segments.replace).

        KafkaStorageError if the disk refuses; the log then takes no more appends.
        """
        due_ms = self.environment.now_ms() + self.config.file_delete_delay_ms
        with self._disk_errors(leave_a_wreck=True):
            self.segments.replace(old, new, due_ms)
        self._disk.on_new_name()

    def close(self) -> None:
        """Put everything on the disk, the indexes of the active segment included, and let go of the files. Blocks.

        KafkaStorageError if the disk fails, or has failed: then the shutdown is not a clean one. A log that never held
        anything costs nothing.
        """
        try:
            if self._disk.error is not None:
                raise self._refused(self._disk.error)
            if self.log_end_offset:
                self.segments.active.seal()
                with self._disk_errors():
                    snapshot = self.producers.take_snapshot()
                work = self._flush_work(snapshot, is_closing=True)
                work.run()
                work.finish()
        finally:
            self.segments.close()

    def abandon(self) -> None:
        """The log is being deleted: flushes still under way count for nothing."""
        self._disk.is_abandoned = True
