"""The transaction coordinator: requests about transactional ids, with Kafka's order of checks (KIP-98, KIP-360).

`transaction_states.py` holds what depends on the state, as tables, `producer_epochs.py` what depends on the epoch and
what InitProducerId does, and `time_outs.py` what depends on the clock.
A change is stored before it takes effect and is answered; meanwhile other changes of the id are refused with
CONCURRENT_TRANSACTIONS.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Any, Protocol

from ...protocol.errors import (
    NONE,
    ConcurrentTransactions,
    CoordinatorLoadInProgress,
    CoordinatorNotAvailable,
    InvalidProducerIdMapping,
    InvalidTransactionTimeout,
    InvalidTxnState,
    KafkaError,
    TransactionAbortable,
    TransactionalIdNotFound,
)
from ...protocol.records.batch import NO_PRODUCER_EPOCH, NO_TIMESTAMP
from ...protocol.topics import CONSUMER_OFFSETS, TRANSACTION_STATE, TopicPartition
from ..coordinators.coordinator_topic import Producer
from .completion import Completion, MarkerPeer
from .producer_epochs import (
    EPOCH_PER_TRANSACTION,
    INIT,
    Init,
    check_owner,
    claim_of,
    fence,
    next_producer,
    producer_after,
    raised_by_end,
    repeats_end,
)
from .time_outs import TimeOuts
from .transaction import Transaction
from .transaction_records import Entry
from .transaction_states import (
    ADD,
    COMPLETED,
    DEAD,
    EMPTY,
    END,
    END_RAISING_EPOCH,
    ONGOING,
    PREPARE_ABORT,
    TransactionState,
)
from .transaction_store import TransactionStore

if TYPE_CHECKING:
    from ..clock import Clock
    from ..controller.controller import Controller
    from ..coordinators.loader import Steps
    from ..replication.partition import Partition
    from ..settings.dynamic_config import DynamicBrokerConfig


class TransactionPeer(MarkerPeer, Protocol):
    """A broker of the cluster, as transactions use it."""

    @property
    def transactions(self) -> TransactionCoordinator: ...


class TransactionCoordinator:
    """The transactional ids that this broker coordinates. Belongs to the broker's loop."""

    def __init__(
        self,
        config: DynamicBrokerConfig,
        clock: Clock,
        controller: Controller,
        store: TransactionStore,
        offsets_partition_of: Callable[[str], int],
        peer: Callable[[int], TransactionPeer | None],
        changed: Callable[[], None],
    ) -> None:
        """`offsets_partition_of` gives the number of the partition that stores a group's offsets; `peer` the live
        broker with a node id, which may be this one. `changed` is called when a transaction has changed."""
        self._changed = changed
        self._config = config
        self._clock = clock
        self._controller = controller
        self.store = store
        self._offsets_partition_of = offsets_partition_of
        self._peer = peer
        self.transactions: dict[str, Transaction] = {}
        self.completion = Completion(self, controller, clock, peer)
        self.time_outs = TimeOuts(self, config, clock)
        self._open: dict[str, Transaction] = {}
        self.watchers: list[Callable[[Transaction], None]] = []
        """Are called with every transaction whose entry has changed; they must be quick."""

    # --- life

    def load(self, partition: Partition) -> Steps:
        """Load the ids of a partition that this broker leads from now on, in steps, and resume the markers of decided
        transactions. An open transaction keeps the rest of its time-out."""
        ending: list[Transaction] = []

        def take(transactional_id: str, entry: Entry) -> None:
            transaction = self.transactions[transactional_id] = Transaction(transactional_id, entry)
            transaction.began_ms = self._clock.liveness_at(entry.start_ms)
            if entry.state is ONGOING:
                self._open[transactional_id] = transaction
            elif entry.state in COMPLETED:
                ending.append(transaction)

        return self._load(self.store.load(partition, take), ending)

    def _load(self, steps: Steps, ending: Iterable[Transaction]) -> Steps:
        yield from steps
        self._changed()
        for transaction in ending:
            if self.has(transaction):
                self.completion.start(transaction)
            yield

    def unload(self, number: int | None = None) -> None:
        """Unload all ids, or those of one partition, which this broker no longer leads."""
        self.store.topic.forget(number)
        for transactional_id in list(self.transactions):
            if number is None or self.store.topic.number_of(transactional_id) == number:
                del self.transactions[transactional_id]
                self._open.pop(transactional_id, None)

    async def stop(self) -> None:
        """Cancel all markers and unload all ids; the next start resumes."""
        await self.completion.stop()
        self.unload()

    def forget_topics(self, names: Collection[str]) -> None:
        """Unload all ids if `__transaction_state` is among these deleted topics."""
        if TRANSACTION_STATE in names:
            self.unload()

    def has(self, transaction: Transaction) -> bool:
        """Whether this broker still coordinates the transaction."""
        return self.transactions.get(transaction.transactional_id) is transaction

    def open_transactions(self) -> Collection[Transaction]:
        """The transactions that are neither committed nor aborted."""
        return self._open.values()

    # --- InitProducerId

    async def init_producer_id(self, transactional_id: str, timeout_ms: int, claimed: Producer) -> Producer:
        """Make a producer the owner of the id, and return its producer id and epoch. NO_PRODUCER as `claimed` fences
        the previous owner. Raises InvalidRequest, InvalidTransactionTimeout, ConcurrentTransactions, ProducerFenced,
        and what the store does."""
        if transactional_id:
            max_timeout_ms = self._config.current.transaction_max_timeout_ms
            if not 0 < timeout_ms <= max_timeout_ms:
                raise InvalidTransactionTimeout(f"a transaction time-out is between 1 and {max_timeout_ms} ms")
        self.store.check(transactional_id)
        transaction = self.transactions.get(transactional_id) or self._create(transactional_id, timeout_ms)
        transaction.check_nothing_pending()
        claim = claim_of(transaction, claimed)
        action = INIT[claim, transaction.entry.state]
        if not isinstance(action, Init):
            raise action(f"{transaction} is not producer {claimed.producer_id} epoch {claimed.epoch}")
        if action is Init.ABORT:
            await self.abort_and_fence(transaction)
            raise ConcurrentTransactions("the open transaction is being aborted")
        following, last_epoch = next_producer(transaction, claim, action, self._controller.next_producer_id)
        await self.move(
            transaction,
            EMPTY,
            producer_id=following.producer_id,
            producer_epoch=following.epoch,
            timeout_ms=timeout_ms,
            partitions=frozenset(),
            start_ms=NO_TIMESTAMP,
        )
        transaction.last_epoch = last_epoch
        return following

    def _create(self, transactional_id: str, timeout_ms: int) -> Transaction:
        """A new id. It is stored with its first epoch."""
        producer_id = self._controller.next_producer_id()
        entry = Entry(producer_id, NO_PRODUCER_EPOCH, timeout_ms, EMPTY, last_update_ms=self._clock.now_ms())
        transaction = self.transactions[transactional_id] = Transaction(transactional_id, entry)
        return transaction

    # --- the requests of a transaction

    async def add_partitions(
        self,
        transactional_id: str,
        producer: Producer,
        partitions: Collection[TopicPartition],
        *,
        client_version: int = 0,
    ) -> None:
        """Add partitions to the transaction, which begins if none is open. `client_version` is the level of
        `transaction.version` by whose rules the client works. Raises InvalidRequest, InvalidProducerIdMapping,
        ProducerFenced, ConcurrentTransactions, and what the store does."""
        transaction = self._find(transactional_id)
        transaction.check_nothing_pending()
        check_owner(transaction, producer)
        entry = transaction.entry
        refusal = ADD[entry.state]
        if refusal is not None:
            raise refusal("the last transaction is being ended")
        if entry.state is ONGOING and entry.partitions.issuperset(partitions):
            return
        start_ms = entry.start_ms if entry.state is ONGOING else self._clock.now_ms()
        await self.move(
            transaction,
            ONGOING,
            partitions=entry.partitions.union(partitions),
            start_ms=start_ms,
            client_version=client_version,
        )

    async def add_offsets(self, transactional_id: str, producer: Producer, group_id: str) -> None:
        """Add the partition that stores a group's offsets. Raises what `add_partitions` does."""
        number = self._offsets_partition_of(group_id)
        await self.add_partitions(transactional_id, producer, [TopicPartition(CONSUMER_OFFSETS, number)])

    def verify(
        self, transactional_id: str, producer: Producer, partitions: Collection[TopicPartition]
    ) -> Mapping[TopicPartition, int]:
        """Whether partitions are part of the transaction: NONE or TRANSACTION_ABORTABLE for each (KIP-890). Raises what
        `add_partitions` does.

        A change that is being stored does not count yet.
        """
        transaction = self._find(transactional_id)
        check_owner(transaction, producer)
        refusal = ADD[transaction.entry.state]
        if refusal is not None:
            raise refusal("the last transaction is being ended")
        known = transaction.entry.partitions
        return {one: NONE if one in known else TransactionAbortable.code for one in partitions}

    async def end(self, transactional_id: str, producer: Producer, *, is_commit: bool) -> None:
        """Commit or abort, without a new epoch. On return the decision is stored, and the markers are written, unless
        one has to wait. Raises what `add_partitions` does, and InvalidTxnState."""
        transaction = self._find(transactional_id)
        check_owner(transaction, producer)
        transaction.check_nothing_pending()
        outcome = END[transaction.entry.state, is_commit]
        if outcome is None:
            return
        if not isinstance(outcome, TransactionState):
            raise outcome(f"{transaction} cannot {'commit' if is_commit else 'abort'}")
        await self._decide(transaction, outcome)

    async def end_raising_epoch(self, transactional_id: str, producer: Producer, *, is_commit: bool) -> Producer:
        """Commit or abort as in the second version of transactions (KIP-890), and return the producer id and epoch to
        go on with. Where no transaction is open, an abort raises the epoch alone. Raises what `end` does."""
        transaction = self._find(transactional_id)
        transaction.check_nothing_pending()
        is_repeated = repeats_end(transaction, producer)
        outcome = END_RAISING_EPOCH[transaction.entry.state, is_commit, is_repeated]
        if outcome is None:
            return Producer(transaction.entry.producer_id, transaction.entry.producer_epoch)
        if not isinstance(outcome, TransactionState):
            raise outcome(f"{transaction} cannot {'commit' if is_commit else 'abort'}")
        return await self._decide_raising_epoch(transaction, outcome)

    async def _decide(self, transaction: Transaction, state: TransactionState) -> None:
        await self.move(transaction, state, client_version=0)
        self.completion.start(transaction)

    async def _decide_raising_epoch(self, transaction: Transaction, state: TransactionState) -> Producer:
        entry = transaction.entry
        changes = raised_by_end(entry, self._controller.next_producer_id)
        if entry.state is not ONGOING:
            changes["start_ms"] = self._clock.now_ms()
        await self.move(transaction, state, **changes)
        transaction.last_epoch = entry.producer_epoch
        following = producer_after(transaction.entry)
        self.completion.start(transaction)
        return following

    async def abort_and_fence(self, transaction: Transaction) -> None:
        """Raise the epoch, which fences the owner, and abort its open transaction. Raises what the store does. Below
        `transaction.version` 2 the owner is fenced even then."""
        if self.store.transaction_version >= EPOCH_PER_TRANSACTION:
            await self._decide_raising_epoch(transaction, PREPARE_ABORT)
            return
        fence(transaction)
        try:
            await self._decide(transaction, PREPARE_ABORT)
        except KafkaError:
            transaction.has_failed_fence = True
            raise

    async def abort(self, transactional_id: str) -> None:
        """Abort the open transaction of an id and fence its producer, as after its time-out. Raises
        TransactionalIdNotFound, InvalidTxnState if none is open, ConcurrentTransactions while another change is being
        stored, and what the store does."""
        transaction = self.find(transactional_id)
        transaction.check_nothing_pending()
        if transaction.entry.state is not ONGOING:
            raise InvalidTxnState(f"{transaction} is not open")
        await self.abort_and_fence(transaction)

    def _find(self, transactional_id: str) -> Transaction:
        """The transactional id of a producer's request. Raises InvalidRequest, NotCoordinator,
        CoordinatorLoadInProgress, InvalidProducerIdMapping."""
        self.store.check(transactional_id)
        transaction = self.transactions.get(transactional_id)
        if transaction is None:
            raise InvalidProducerIdMapping("no producer was given this transactional id")
        return transaction

    def has_settled(self, transactional_id: str) -> bool:
        """Whether every in-sync replica has what was loaded of an id, so that it cannot be lost. Raises
        NotCoordinator."""
        try:
            self.store.topic.partition_of(transactional_id)
        except CoordinatorLoadInProgress:
            return False
        return True

    async def move(self, transaction: Transaction, state: TransactionState, **changes: Any) -> None:
        """Store a change, then apply it. Raises what the store does, and then nothing has changed."""
        entry = transaction.entry
        following = entry._replace(
            state=state,
            last_update_ms=self._clock.now_ms(),
            previous_producer_id=entry.producer_id,
            **changes,
        )
        transaction.begin(state)
        try:
            await self.store.write(transaction.transactional_id, following)
        finally:
            transaction.pending = None
        transaction.entry = following
        self._track_open(transaction, was_open=entry.state is ONGOING)
        self._changed()
        for watcher in self.watchers:
            watcher(transaction)

    def _track_open(self, transaction: Transaction, *, was_open: bool) -> None:
        """Keep track of open transactions."""
        if transaction.entry.state is not ONGOING:
            self._open.pop(transaction.transactional_id, None)
        elif not was_open and self.has(transaction):
            transaction.began_ms = self._clock.liveness_ms()
            self._open[transaction.transactional_id] = transaction

    # --- verification

    @property
    def verifies_partitions(self) -> bool:
        """Whether transactional appends are verified (transaction.partition.verification.enable)."""
        return self._config.current.transaction_partition_verification_enable

    def coordinator_of(self, transactional_id: str) -> TransactionCoordinator:
        """The coordinator of an id, on whichever broker. Raises CoordinatorNotAvailable if there is none, or it cannot
        be reached."""
        node_id = self.store.topic.leader_of(transactional_id)
        broker = self._peer(node_id)
        if broker is None:
            raise CoordinatorNotAvailable(f"node {node_id}, the coordinator, cannot be reached")
        return broker.transactions

    # --- administration

    def find(self, transactional_id: str) -> Transaction:
        """The transactional id. Raises InvalidRequest, NotCoordinator, TransactionalIdNotFound."""
        self.store.check(transactional_id)
        transaction = self.transactions.get(transactional_id)
        if transaction is None or transaction.pending is DEAD:
            raise TransactionalIdNotFound("this transactional id does not exist")
        return transaction

    def listed(self) -> Iterator[Transaction]:
        """All transactional ids, except those that are being removed."""
        return (one for one in list(self.transactions.values()) if one.pending is not DEAD)
