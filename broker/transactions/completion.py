"""From PrepareCommit to CompleteCommit, and from PrepareAbort to CompleteAbort: the end of a decided transaction.

The outcome is stored before the first marker, so markers are retried until every partition has one, also after a
restart. `transaction_coordinator.py` decides, and `time_outs.py` to abort one whose time is over. The outcome for a
partition decides what is next:

| outcome                                                      | then                                           |
|--------------------------------------------------------------|------------------------------------------------|
| no error                                                     | done                                           |
| the log is too old for transactions, or was deleted          | done: no reader waits for a marker             |
| no leader, too few replicas, an I/O error, a time-out        | retried after a pause                          |
| a newer coordinator or producer epoch                        | no more markers: another coordinator is active |

Once all markers are written (markers.py), Complete… is stored, with retries.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Collection, Mapping
from typing import TYPE_CHECKING, Any, Protocol

from ...protocol.errors import (
    NONE,
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
from ...protocol.records.batch import NO_PRODUCER_ID
from ...protocol.topics import TopicPartition
from ..coordinators.coordinator_topic import Producer
from ..network.peer_log import PeerLog
from ..scheduler import run_now
from .markers import Marker
from .producer_epochs import producer_after
from .transaction_states import COMPLETED, PREPARE_COMMIT

if TYPE_CHECKING:
    from ..clock import Clock
    from ..controller.controller import Controller
    from .markers import MarkerWriter
    from .transaction import Transaction
    from .transaction_states import TransactionState
    from .transaction_store import TransactionStore

log = logging.getLogger("kmini.transactions")
peer_log = PeerLog(log)

RETRY_PAUSE_MS = 100
"""Milliseconds before a marker, or the end of a transaction, is written again."""

DONE = frozenset({NONE, UnsupportedForMessageFormat.code, UnsupportedVersion.code})
RETRIABLE = frozenset(
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


class MarkerPeer(Protocol):
    """A broker that leads partitions, as a coordinator uses it."""

    @property
    def marker_writer(self) -> MarkerWriter: ...


class TransactionOwner(Protocol):
    """The transaction coordinator, as the sender of markers uses it."""

    store: TransactionStore

    def has(self, transaction: Transaction) -> bool: ...

    def has_settled(self, transactional_id: str) -> bool: ...

    async def move(self, transaction: Transaction, state: TransactionState, **changes: Any) -> None: ...


class Completion:
    """Ends prepared transactions. Belongs to the broker's loop."""

    def __init__(
        self,
        coordinator: TransactionOwner,
        controller: Controller,
        clock: Clock,
        peer: Callable[[int], MarkerPeer | None],
    ) -> None:
        """`peer` gives the live broker with a node id, which may be this one."""
        self._coordinator = coordinator
        self._controller = controller
        self._clock = clock
        self._peer = peer
        self._ending: set[asyncio.Future[None]] = set()

    def __len__(self) -> int:
        """The number of transactions whose end waits for a partition."""
        return len(self._ending)

    def start(self, transaction: Transaction) -> None:
        """End a prepared transaction. On return it has ended, unless a marker has to wait."""
        work = run_now(self._end(transaction))
        if not work.done():
            self._ending.add(work)
            work.add_done_callback(self._ending.discard)

    async def stop(self) -> None:
        """Cancel all retries; the next start resumes them."""
        while self._ending:
            for work in self._ending:
                work.cancel()
            await asyncio.wait(self._ending)

    async def _end(self, transaction: Transaction) -> None:
        try:
            if await self._write_all(transaction):
                await self._complete(transaction)
        except Exception:
            log.exception("ending a transaction failed; the next start tries again")

    async def _write_all(self, transaction: Transaction) -> bool:
        """Write the marker to every partition; False if this broker no longer coordinates the transaction."""
        while self._coordinator.has(transaction) and not self._coordinator.has_settled(transaction.transactional_id):
            await self._pause()  # the decision was loaded, and may be lost again
        if not self._coordinator.has(transaction):
            return False
        entry = transaction.entry
        marker = Marker(
            Producer(entry.producer_id, entry.producer_epoch),
            entry.state is PREPARE_COMMIT,
            self._coordinator.store.epoch_of(transaction.transactional_id),
            entry.client_version,
        )
        missing = set(entry.partitions)
        while missing:
            codes = await self._write(marker, sorted(missing))
            missing -= {topic_partition for topic_partition, code in codes.items() if code in DONE}
            refusals = {code for code in codes.values() if code not in DONE and code not in RETRIABLE}
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
        """Write the marker through the leader of each partition. All leaders are in this process."""
        codes: dict[TopicPartition, int] = {}
        by_leader: dict[int, list[TopicPartition]] = {}
        for topic_partition in partitions:
            topic = self._controller.topic(topic_partition.topic)
            if topic is None or topic_partition.partition >= len(topic.partitions):
                codes[topic_partition] = NONE  # it was deleted
            else:
                leader = topic.partitions[topic_partition.partition].leader
                by_leader.setdefault(leader, []).append(topic_partition)
        for node_id, led in by_leader.items():
            leader_broker = self._peer(node_id)
            if leader_broker is None:
                codes.update(dict.fromkeys(led, NotLeaderOrFollower.code))
            else:
                codes.update(await leader_broker.marker_writer.write(marker, led))
        return codes

    async def _complete(self, transaction: Transaction) -> None:
        """Store the end of the transaction."""
        entry = transaction.entry
        following = producer_after(entry)
        while self._coordinator.has(transaction):
            try:
                await self._coordinator.move(
                    transaction,
                    COMPLETED[entry.state],
                    producer_id=following.producer_id,
                    producer_epoch=following.epoch,
                    next_producer_id=NO_PRODUCER_ID,
                    partitions=frozenset(),
                )
            except KafkaError as error:
                if not error.retriable:
                    raise
                peer_log.warning("the end of %s cannot be stored yet: %s", transaction, error)
                await self._pause()
            else:
                transaction.has_failed_fence = False
                return

    async def _pause(self) -> None:
        over: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        timer = self._clock.call_later(RETRY_PAUSE_MS, lambda: _settle(over), liveness=True)
        try:
            await over
        finally:
            timer.cancel()


def _settle(future: asyncio.Future[None]) -> None:
    if not future.done():
        future.set_result(None)
