"""The producers of a partition: sequences, epochs, open transactions (KIP-98).

Idempotence: a log remembers the last five batches of each producer. A batch that repeats one of them is not written,
and its answer is that of the first time; a batch that is neither the next one nor a repetition is refused.
Transactions: a log remembers the offset at which each open one began; the first of these ends what read_committed may
read.

A change has two steps. `prepare` returns a `ProducerUpdate`, which checks batch after batch, later ones against the
state that earlier ones would leave; `commit` applies them once the write has succeeded. A failed append drops the
update, and nothing has changed. Most batches are a client's, and the next ones of their producers: of these
`entry_after` has the whole change at once, a `ProducerEntry`.

Checks of a data batch, in order (the origin decides which apply):

    | check                                                            | client | coordinator | replication |
    |------------------------------------------------------------------|--------|-------------|-------------|
    | repeats a remembered batch: not appended (`find_duplicate`)      | yes    |             |             |
    | epoch below the known one: INVALID_PRODUCER_EPOCH                | yes    | yes         | logged      |
    | not the first one that was verified (`Verifications`)            | yes    |             |             |
    | new epoch, sequence not 0: OUT_OF_ORDER_SEQUENCE_NUMBER          | yes    |             |             |
    | known epoch, not the next sequence: OUT_OF_ORDER_SEQUENCE_NUMBER | yes    |             |             |
    | producer unknown: any sequence is accepted                       | yes    | yes         | yes         |
    | transaction open, batch not in it: INVALID_TXN_STATE             | yes    | yes         | logged      |

An end-transaction marker: epoch below the known one is INVALID_PRODUCER_EPOCH, coordinator epoch below the known one
TRANSACTION_COORDINATOR_FENCED; from replication both are logged and the marker counts.
"""

from __future__ import annotations

import enum
import logging
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, NamedTuple

from ...protocol.errors import (
    InvalidProducerEpoch,
    InvalidTxnState,
    KafkaError,
    OutOfOrderSequenceNumber,
    TransactionCoordinatorFenced,
)
from ...protocol.records.batch import (
    CONTROL,
    MAX_SEQUENCE,
    NO_PRODUCER_EPOCH,
    TRANSACTIONAL,
    BatchHeader,
    increment_sequence,
)
from ..filenames import PRODUCER_SNAPSHOT, segment_path
from ..filesystem import FileSystem
from ..indexes.transaction_index import AbortedTransaction
from .producer_entry import CachedBatch, ProducerEntry
from .producer_snapshot import (
    SnapshotCorrupt,
    decode_snapshot,
    list_snapshots,
    write_snapshot,
)

if TYPE_CHECKING:
    from .verifications import Verifications

DEFAULT_EXPIRATION_MS = 86_400_000

_logger = logging.getLogger("kmini.storage.producer_state_manager")


class Origin(enum.Enum):
    """The origin of an append, which decides how much is checked."""

    CLIENT = "client"
    COORDINATOR = "coordinator"
    """This broker's group or transaction coordinator: its batches have producer ids, but no sequences."""
    REPLICATION = "replication"
    """A leader, or the replay of this log: the batches were checked when they were first written."""


class CompletedTransaction(NamedTuple):
    producer_id: int
    first_offset: int
    last_offset: int
    """The offset of the marker."""
    is_aborted: bool


_NO_PRODUCERS: dict[int, ProducerEntry] = {}
_NO_TRANSACTIONS: dict[int, int] = {}
"""The idempotent producers and the transactions of a log without any; never changed. Most logs have none, and an empty
dict takes 64 bytes."""


class ProducerStateManager:
    """The producers of one partition, with their snapshots in the partition's directory.

    For the thread of the log. (Apache Kafka: ProducerStateManager.)
    """

    def __init__(self, filesystem: FileSystem, directory: str, *, expiration_ms: int = DEFAULT_EXPIRATION_MS) -> None:
        self._filesystem = filesystem
        self.directory = directory
        """The directory of the snapshots."""
        self.expiration_ms = expiration_ms
        """`producer.id.expiration.ms`."""
        self.end_offset = 0
        """The state reflects the log below this offset. An append raises it together with the log end offset; `load`
        and `clear` set it. The name of the next snapshot."""
        self.last_snapshot_offset = 0
        """The offset of the newest snapshot that is not known to be damaged; the log start offset if there is none."""
        self._has_snapshot = False
        """Whether the directory has a snapshot, as far as this process has written or loaded one."""
        self._entries = _NO_PRODUCERS
        self.ongoing = _NO_TRANSACTIONS
        """Open transactions: first offset -> producer id, ascending (they begin in the order of the log)."""
        self.unreplicated = _NO_TRANSACTIONS
        """Completed transactions whose marker is not below the high watermark: first offset -> offset of the marker."""
        self.verifications: Verifications | None = None
        """Transactions that are being verified; None until the first one."""

    def __len__(self) -> int:
        return len(self._entries)

    def get(self, producer_id: int) -> ProducerEntry | None:
        return self._entries.get(producer_id)

    def entries(self) -> list[ProducerEntry]:
        """All producers, for DescribeProducers."""
        return list(self._entries.values())

    def has_transaction_since(self, timestamp: int) -> bool:
        """Whether a transaction is open whose last record is older than `timestamp`, in record time."""
        return any(self._entries[producer_id].last_timestamp < timestamp for producer_id in self.ongoing.values())

    def find_duplicate(self, header: BatchHeader) -> CachedBatch | None:
        """Return the remembered batch that this one, from a client, repeats. Its offsets and timestamp are the
        answer."""
        entry = self._entries.get(header.producer_id)
        return None if entry is None else entry.find_duplicate(header)

    def begin_verification(
        self, producer_id: int, epoch: int, sequence: int, now_ms: int, *, raises_epoch: bool
    ) -> None:
        """Remember that the coordinator is asked about a transaction that a batch with this first sequence would begin.
        `raises_epoch` says that it came by the second version of transactions (KIP-890)."""
        if self.verifications is None:
            from .verifications import Verifications  # transactions are rare

            self.verifications = Verifications()
        self.verifications.begin(producer_id, epoch, sequence, now_ms, raises_epoch=raises_epoch)

    def entry_after(self, header: BatchHeader, base_offset: int) -> ProducerEntry | None:
        """Return the state after a batch of a client that plainly is the next one of a known producer, in its epoch and
        outside transactions: `commit` applies it once the write has succeeded. None for every other batch, which
        `find_duplicate` and `prepare` settle."""
        known = self._entries.get(header.producer_id)
        if known is None or known.transaction_first_offset is not None or not known.batches:
            return None
        # In the order of BatchHeader; this is the hot path.
        _, _, _, _, _, attributes, delta, _, timestamp, _, epoch, sequence, _ = header
        if epoch != known.epoch or sequence != known.batches[-1].last_sequence + 1:
            return None
        if attributes & (TRANSACTIONAL | CONTROL) or sequence > MAX_SEQUENCE - delta:
            return None
        return known.with_batch(epoch, sequence + delta, base_offset + delta, delta, timestamp, None)

    def prepare(self, origin: Origin = Origin.CLIENT) -> ProducerUpdate:
        return ProducerUpdate(self, origin)

    def commit(self, change: ProducerEntry | ProducerUpdate) -> Sequence[AbortedTransaction]:
        """Apply what `entry_after` or `prepare` returned: call it once, after the write. Return the new entries of the
        transaction index."""
        if isinstance(change, ProducerEntry):
            self._entries[change.producer_id] = change
            return ()
        return change.commit()

    # Transactions

    @property
    def first_unstable_offset(self) -> int | None:
        """The smallest first offset of a transaction that is open, or whose marker is not below the high watermark.

        The last stable offset is this one, or the high watermark if that is lower or no transaction is unstable.
        """
        if not self.ongoing and not self.unreplicated:
            return None
        first = next(iter(self.ongoing), None)
        if self.unreplicated:
            unreplicated = min(self.unreplicated)
            return unreplicated if first is None else min(first, unreplicated)
        return first

    def on_high_watermark(self, high_watermark: int) -> None:
        """Forget completed transactions whose marker is now below the high watermark (or the log start offset)."""
        if self.unreplicated:
            self.unreplicated = {
                first: marker for first, marker in self.unreplicated.items() if marker >= high_watermark
            }

    def on_log_start_raised(self, log_start_offset: int) -> None:
        """Follow the log start offset. Producers stay known: they may go on where they were."""
        self.on_high_watermark(log_start_offset)
        self.end_offset = max(self.end_offset, log_start_offset)

    def last_stable_offset_after(self, transaction: CompletedTransaction) -> int:
        """Return the last stable offset after this transaction: the start of the oldest other one that was open then.

        A follower appends several transactions at once. One that began after the marker was not open: it would hide
        those that were aborted in between from readers.
        """
        for first_offset, producer_id in self.ongoing.items():
            if first_offset > transaction.last_offset:
                break
            if producer_id != transaction.producer_id:
                return first_offset
        return transaction.last_offset + 1

    # Expiry

    def expire(self, now_ms: int) -> int:
        """Forget producers without a record for `expiration_ms` (by record time) and without an open transaction;
        return how many."""
        if self.verifications is not None:
            self.verifications.expire(now_ms - self.expiration_ms)
        expired = [entry.producer_id for entry in self._entries.values() if self._is_expired(entry, now_ms)]
        for producer_id in expired:
            del self._entries[producer_id]
        return len(expired)

    def next_expiry_ms(self) -> int | None:
        """Return when `expire` next has an effect; None if there is no producer to expire."""
        idle = [entry.last_timestamp for entry in self._entries.values() if entry.transaction_first_offset is None]
        oldest_ms = None if self.verifications is None else self.verifications.oldest_ms()
        if oldest_ms is not None:
            idle.append(oldest_ms)
        return min(idle) + self.expiration_ms if idle else None

    def _is_expired(self, entry: ProducerEntry, now_ms: int) -> bool:
        return entry.transaction_first_offset is None and now_ms - entry.last_timestamp >= self.expiration_ms

    # Snapshots

    def load(
        self, log_start_offset: int, log_end_offset: int, now_ms: int, snapshots: Sequence[int] | None = None
    ) -> None:
        """Load the newest good snapshot. The caller then replays the log from `end_offset` on.

        Removes snapshots beyond the log end offset or not beyond the log start offset, and damaged ones, for which the
        next older one is taken. Leaves out producers that have expired. `snapshots`, ascending, are the offsets of the
        snapshots to consider, by default of all in the directory.
        """
        self._set((), log_start_offset)
        for offset in reversed(list_snapshots(self._filesystem, self.directory) if snapshots is None else snapshots):
            path = segment_path(self.directory, offset, PRODUCER_SNAPSHOT)
            if not log_start_offset < offset <= log_end_offset:
                self._filesystem.remove(path)
            elif self.end_offset == log_start_offset:
                try:
                    entries = decode_snapshot(self._filesystem.read(path))
                except SnapshotCorrupt as error:
                    _logger.warning("%s: %s; falling back to an older snapshot", path, error)
                    self._filesystem.remove(path)
                else:
                    self._set((entry for entry in entries if not self._is_expired(entry, now_ms)), offset)
                    self._has_snapshot = True

    def take_snapshot(self, *, at_log_end: bool = False) -> str | None:
        """Write the state at `end_offset` unless the last snapshot is as new; return the path to sync if one was
        written.

        `at_log_end` says that no segment begins here: the log is closed, or was recovered. If it has neither producers
        nor an older snapshot, none is written: it is loaded as a log without producers, and a start with thousands of
        partitions reads no empty snapshots.
        """
        if self.end_offset <= self.last_snapshot_offset:
            return None
        if at_log_end and not self._entries and not self._has_snapshot:
            return None
        path = write_snapshot(self._filesystem, self.directory, self.end_offset, self._entries.values())
        self.last_snapshot_offset = self.end_offset
        self._has_snapshot = True
        return path

    def clear(self, offset: int) -> None:
        """Forget all producers and remove all snapshots: the log was emptied and begins again at `offset`."""
        self._set((), offset)
        for snapshot in list_snapshots(self._filesystem, self.directory):
            self._filesystem.remove(segment_path(self.directory, snapshot, PRODUCER_SNAPSHOT))

    def _set(self, entries: Iterable[ProducerEntry], offset: int) -> None:
        self._entries = {entry.producer_id: entry for entry in entries} or _NO_PRODUCERS
        open_transactions = [
            (entry.transaction_first_offset, entry.producer_id)
            for entry in self._entries.values()
            if entry.transaction_first_offset is not None
        ]
        self.ongoing = dict(sorted(open_transactions)) if open_transactions else _NO_TRANSACTIONS
        self.unreplicated = _NO_TRANSACTIONS
        self.end_offset = offset
        self.last_snapshot_offset = offset


class ProducerUpdate:
    """The effect of one append on the producers: checked batch by batch, in force after `commit`."""

    __slots__ = ("_completed", "_entries", "_is_strict", "_origin", "_started", "_states", "_transactional")

    def __init__(self, states: ProducerStateManager, origin: Origin) -> None:
        self._states = states
        self._origin = origin
        self._is_strict = origin is not Origin.REPLICATION
        self._entries: dict[int, ProducerEntry] = {}
        self._started: list[tuple[int, int]] = []
        self._completed: list[CompletedTransaction] = []
        self._transactional: list[BatchHeader] = []

    @property
    def completed(self) -> list[CompletedTransaction]:
        return self._completed

    def add(self, header: BatchHeader, base_offset: int | None = None) -> None:
        """Add a data batch, with the offset it will get (by default the offset in its header). A batch without a
        producer id has no effect.

        Raises InvalidProducerEpoch, OutOfOrderSequenceNumber or InvalidTxnState, as in the table above; drop the update
        then.
        """
        producer_id = header.producer_id
        if producer_id < 0:
            return
        if base_offset is None:
            base_offset = header.base_offset
        known = self._entry(producer_id)
        epoch = header.producer_epoch
        self._check_epoch(known, epoch, base_offset)
        if self._origin is Origin.CLIENT:
            self._check_sequence(known, header, base_offset)
        transaction_first_offset = known.transaction_first_offset
        if header.is_transactional:
            self._transactional.append(header)
            if transaction_first_offset is None:
                transaction_first_offset = base_offset
                self._started.append((base_offset, producer_id))
        elif transaction_first_offset is not None:
            self._refuse(
                InvalidTxnState,
                f"producer {producer_id} wrote outside its transaction of offset {transaction_first_offset}",
                base_offset,
            )
        delta = header.last_offset_delta
        self._entries[producer_id] = known.with_batch(
            epoch, header.last_sequence, base_offset + delta, delta, header.max_timestamp, transaction_first_offset
        )

    def add_marker(
        self, header: BatchHeader, *, is_abort: bool, coordinator_epoch: int, base_offset: int | None = None
    ) -> None:
        """Add an end-transaction marker, with the fields of its record. It completes the open transaction, if any.

        Raises InvalidProducerEpoch or TransactionCoordinatorFenced unless it comes from replication.
        """
        if base_offset is None:
            base_offset = header.base_offset
        self._transactional.append(header)
        known = self._entry(header.producer_id)
        epoch = header.producer_epoch
        self._check_epoch(known, epoch, base_offset)
        if coordinator_epoch < known.coordinator_epoch:
            self._refuse(
                TransactionCoordinatorFenced,
                f"coordinator epoch {coordinator_epoch} of producer {known.producer_id} is older than"
                f" {known.coordinator_epoch}",
                base_offset,
            )
        if known.transaction_first_offset is not None:
            self._completed.append(
                CompletedTransaction(known.producer_id, known.transaction_first_offset, base_offset, is_abort)
            )
        self._entries[known.producer_id] = ProducerEntry(
            known.producer_id,
            epoch,
            coordinator_epoch,
            header.max_timestamp,
            None,
            known.batches if epoch == known.epoch else (),
        )

    def commit(self) -> list[AbortedTransaction]:
        """Apply the update: call it once, after the write. Return the new entries of the transaction index."""
        states = self._states
        if self._entries:
            producers = states._entries = states._entries or {}
            producers.update(self._entries)
        if states.verifications is not None:
            for header in self._transactional:
                states.verifications.appended(header.producer_id, header.producer_epoch, is_marker=header.is_control)
        aborted: list[AbortedTransaction] = []
        if not (self._started or self._completed):
            return aborted
        ongoing = states.ongoing = states.ongoing or {}
        unreplicated = states.unreplicated = states.unreplicated or {}
        ongoing.update(self._started)
        for transaction in self._completed:
            if transaction.is_aborted:
                last_stable_offset = states.last_stable_offset_after(transaction)
                aborted.append(AbortedTransaction(*transaction[:3], last_stable_offset))
            ongoing.pop(transaction.first_offset, None)
            unreplicated[transaction.first_offset] = transaction.last_offset
        return aborted

    def _entry(self, producer_id: int) -> ProducerEntry:
        return self._entries.get(producer_id) or self._states._entries.get(producer_id) or ProducerEntry(producer_id)

    def _check_epoch(self, known: ProducerEntry, epoch: int, offset: int) -> None:
        if epoch < known.epoch:
            self._refuse(
                InvalidProducerEpoch,
                f"epoch {epoch} of producer {known.producer_id} is older than {known.epoch}",
                offset,
            )

    def _check_sequence(self, known: ProducerEntry, header: BatchHeader, offset: int) -> None:
        """Require the next sequence in the known epoch, and 0 in a new one. An unknown producer may begin anywhere,
        unless its transaction was verified."""
        verifications = self._states.verifications
        if verifications is not None:
            stored = self._states._entries.get(known.producer_id)
            verifications.check_sequence(header, is_known=stored is not None and bool(stored.batches))
        sequence = header.base_sequence
        if header.producer_epoch != known.epoch:
            expected = sequence if known.epoch == NO_PRODUCER_EPOCH else 0
        elif self._states._entries.get(known.producer_id) is None:
            return  # unknown before this append: as in Kafka, its earlier batches do not bind it either
        else:
            expected = increment_sequence(known.last_sequence, 1)
        if sequence != expected:
            self._refuse(
                OutOfOrderSequenceNumber,
                f"producer {known.producer_id} epoch {header.producer_epoch} sent sequence {sequence}"
                f" instead of {expected}",
                offset,
            )

    def _refuse(self, error: type[KafkaError], message: str, offset: int) -> None:
        if self._is_strict:
            raise error(message)
        _logger.info("%s, offset %d: %s; kept, as its leader kept it", self._states.directory, offset, message)
