"""Markers: how the partitions of a transaction learn that it was committed or aborted.

Nothing can change the outcome any more when this begins, so it goes on until every partition has its marker, over
restarts too. What a partition answers says what to do:

| answer                                                       | then                                           |
|--------------------------------------------------------------|------------------------------------------------|
| none                                                         | it is done                                     |
| its log is too old for transactions; it is deleted           | it is done: nothing there waits for a marker   |
| no leader just now, replicas missing, disk trouble, time-out | again, after a pause                           |
| a newer coordinator or producer epoch was there              | no more markers: somebody else is in charge    |

With all done, Complete… is stored, again until it is.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Collection, Mapping
from typing import TYPE_CHECKING, NamedTuple

from ...protocol.errors import (
    NONE,
    InvalidProducerEpoch,
    KafkaError,
    KafkaStorageError,
    NotEnoughReplicas,
    NotEnoughReplicasAfterAppend,
    NotLeaderOrFollower,
    RequestTimedOut,
    UnknownTopicOrPartition,
    UnsupportedForMessageFormat,
    UnsupportedVersion,
    error_name,
)
from ...protocol.topics import CONSUMER_OFFSETS, TopicPartition
from ...storage.producers.producer_state import Origin
from ...storage.validation import ValidatedRecords
from ..api.error_mapping import kafka_error
from ..appending import settled
from ..coordinators.coordinator_topic import Producer, Written
from ..network.peer_log import PeerLog
from ..scheduler import Turn, run_now
from .transaction_states import COMPLETED, PREPARE_COMMIT

if TYPE_CHECKING:
    from ..broker import Broker
    from ..replication.partition import Partition
    from .transaction import Transaction
    from .transaction_coordinator import TransactionCoordinator

log = logging.getLogger("kmini.transactions")
peer_log = PeerLog(log)

RETRY_PAUSE_MS = 100

DONE = frozenset({NONE, UnsupportedForMessageFormat.code, UnsupportedVersion.code})
AGAIN = frozenset(
    error.code
    for error in (
        UnknownTopicOrPartition,
        NotLeaderOrFollower,
        NotEnoughReplicas,
        NotEnoughReplicasAfterAppend,
        RequestTimedOut,
        KafkaStorageError,
    )
)

EPOCH_PER_TRANSACTION = 2
"""The level of `transaction.version` from which on every transaction has an epoch of its own, which its marker ends."""


class Marker(NamedTuple):
    """How a transaction ended, and who says so."""

    producer: Producer
    is_commit: bool
    coordinator_epoch: int
    transaction_version: int = 0


async def write_markers(
    broker: Broker, marker: Marker, partitions: Collection[TopicPartition]
) -> dict[TopicPartition, int]:
    """Write a marker into partitions that this broker leads; the error code of each, as WriteTxnMarkers answers it."""
    codes: dict[TopicPartition, int] = {}
    written: list[tuple[Partition, int]] = []
    turn = Turn()
    for topic_partition in partitions:
        if turn.is_over:
            await turn.next()
        try:
            partition = broker.leader_of(topic_partition)
            written.append((partition, _append(broker, partition, marker)))
            codes[topic_partition] = NONE
        except Exception as error:
            codes[topic_partition] = kafka_error(error, f"the marker for {topic_partition}").code
    for partition, offset in written:
        try:
            await settled(broker, partition, offset, broker.config.request_timeout_ms)
        except Exception as error:
            failure = kafka_error(error, f"the marker for {partition.topic_partition}")
            codes[partition.topic_partition] = failure.code
    return codes


def _append(broker: Broker, partition: Partition, marker: Marker) -> int:
    """Append a marker; in `__consumer_offsets` what the transaction commits counts, or is dropped, with it."""
    from ...protocol.records.control import EndTransactionMarker, build_end_transaction_marker  # start-up time counts

    _check_loaded(broker, partition)
    _check_epoch(partition, marker)
    partition.check_min_isr()
    now_ms = broker.clock.now_ms()
    batch = build_end_transaction_marker(
        EndTransactionMarker(not marker.is_commit, marker.coordinator_epoch),
        producer_id=marker.producer.producer_id,
        producer_epoch=marker.producer.epoch,
        timestamp=now_ms,
    )
    appended = partition.append(ValidatedRecords.of(batch), now_ms, Origin.COORDINATOR)
    topic, number = partition.topic_partition
    if topic == CONSUMER_OFFSETS:
        written = Written(partition, appended.first_offset, appended.last_offset)
        broker.transactional_offsets.end(number, marker.producer.producer_id, written, is_commit=marker.is_commit)
    return appended.last_offset


def _check_loaded(broker: Broker, partition: Partition) -> None:
    """A partition of groups takes no marker while it is being loaded; as in Kafka, the coordinator sends it again."""
    topic, number = partition.topic_partition
    if topic == CONSUMER_OFFSETS and broker.groups.store.topic.is_loading(number):
        raise NotLeaderOrFollower(f"{partition.topic_partition} is being loaded")


def _check_epoch(partition: Partition, marker: Marker) -> None:
    """Where every transaction has its own epoch, the marker of an older one comes too late (KIP-1228); a repeated one
    finds nothing open, and does nothing."""
    if marker.transaction_version < EPOCH_PER_TRANSACTION:
        return
    known = partition.log.producers.get(marker.producer.producer_id)
    if known is None or marker.producer.epoch > known.epoch:
        return
    if marker.producer.epoch < known.epoch or known.transaction_first_offset is not None:
        raise InvalidProducerEpoch(f"epoch {marker.producer.epoch} is not above {known.epoch}")


class Markers:
    """The transactions that are being ended. Belongs to the broker's loop."""

    def __init__(self, broker: Broker, coordinator: TransactionCoordinator) -> None:
        self._broker = broker
        self._coordinator = coordinator
        self._working: set[asyncio.Future[None]] = set()

    def __len__(self) -> int:
        """How many transactions wait for a partition."""
        return len(self._working)

    def send(self, transaction: Transaction) -> None:
        """End a prepared transaction. It has ended on return, unless something has to be waited for."""
        work = run_now(self._end(transaction))
        if not work.done():
            self._working.add(work)
            work.add_done_callback(self._working.discard)

    async def stop(self) -> None:
        """Leave what is not done to the next start."""
        while self._working:
            for work in self._working:
                work.cancel()
            await asyncio.wait(self._working)

    async def _end(self, transaction: Transaction) -> None:
        try:
            if await self._write_all(transaction):
                await self._complete(transaction)
        except Exception:
            log.exception("ending a transaction failed; the next start tries again")

    async def _write_all(self, transaction: Transaction) -> bool:
        """Write the marker to every partition; False if the transaction is somebody else's now."""
        while self._coordinator.has(transaction) and not self._coordinator.has_settled(transaction.transactional_id):
            await self._pause()  # the decision was loaded, and may be lost again: nobody must learn of it yet
        if not self._coordinator.has(transaction):
            return False
        entry = transaction.entry
        marker = Marker(
            Producer(entry.producer_id, entry.producer_epoch),
            entry.state is PREPARE_COMMIT,
            self._coordinator.store.epoch_of(transaction.transactional_id),
        )
        missing = set(entry.partitions)
        while missing:
            codes = await self._write(marker, sorted(missing))
            missing -= {topic_partition for topic_partition, code in codes.items() if code in DONE}
            refusals = {code for code in codes.values() if code not in DONE and code not in AGAIN}
            if refusals:
                names = ", ".join(sorted(map(error_name, refusals)))
                peer_log.warning("no more markers for %s: %s", transaction, names)
                return False
            if missing:
                await self._pause()
            if not self._coordinator.has(transaction):
                return False
        return True

    async def _write(self, marker: Marker, partitions: Collection[TopicPartition]) -> Mapping[TopicPartition, int]:
        """Have the leader of each partition write the marker. All of them are in this process."""
        codes: dict[TopicPartition, int] = {}
        by_leader: dict[int, list[TopicPartition]] = {}
        for topic_partition in partitions:
            topic = self._broker.controller.topic(topic_partition.topic)
            if topic is None or topic_partition.partition >= len(topic.partitions):
                codes[topic_partition] = NONE  # it was deleted
            else:
                leader = topic.partitions[topic_partition.partition].leader
                by_leader.setdefault(leader, []).append(topic_partition)
        for node_id, led in by_leader.items():
            broker = self._broker.peer(node_id)
            if broker is None:
                codes.update(dict.fromkeys(led, NotLeaderOrFollower.code))
            else:
                codes.update(await write_markers(broker, marker, led))
        return codes

    async def _complete(self, transaction: Transaction) -> None:
        """Keep that it is done."""
        while self._coordinator.has(transaction):
            try:
                await self._coordinator.move(transaction, COMPLETED[transaction.entry.state], partitions=frozenset())
            except KafkaError as error:
                if not error.retriable:
                    raise
                peer_log.warning("that %s has ended cannot be stored yet: %s", transaction, error)
                await self._pause()
            else:
                transaction.has_failed_fence = False
                return

    async def _pause(self) -> None:
        over: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        timer = self._broker.clock.call_later(RETRY_PAUSE_MS, lambda: _settle(over), liveness=True)
        try:
            await over
        finally:
            timer.cancel()


def _settle(future: asyncio.Future[None]) -> None:
    if not future.done():
        future.set_result(None)
