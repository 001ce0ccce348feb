"""Shared by the tests of transactions: a broker, and what one does with it."""

from __future__ import annotations

import asyncio
from collections import deque

import pytest

from kmini.broker.broker import BrokerServer
from kmini.broker.clock import MovableClock
from kmini.broker.controller import topics
from kmini.broker.coordinators.coordinator_topic import NO_PRODUCER, Producer
from kmini.broker.coordinators.internal_records import stored_batches, stored_records
from kmini.broker.transactions.transaction import Transaction
from kmini.broker.transactions.transaction_coordinator import TransactionCoordinator
from kmini.broker.transactions.transaction_records import Entry, decode_entry, decode_key
from kmini.broker.transactions.transaction_states import (
    COMPLETE_ABORT,
    COMPLETE_COMMIT,
    COMPLETED,
    ONGOING,
    PREPARE_ABORT,
    PREPARE_COMMIT,
    TransactionState,
)
from kmini.protocol.records.batch import build_batch
from kmini.protocol.records.control import parse_end_transaction_marker
from kmini.protocol.records.record import Record
from kmini.protocol.topics import TRANSACTION_STATE, TopicPartition
from kmini.storage.validation import ValidatedRecords

ORDERS = TopicPartition("orders", 0)
PARTITIONS = [TopicPartition("orders", number) for number in range(3)]


class Bank:
    """A broker with a topic to write to, and a coordinator."""

    def __init__(self, broker: BrokerServer) -> None:
        self.broker = broker
        if broker.controller.topic("orders") is None:
            topics.create(broker, "orders", partitions=3)
        self.coordinator.store.topic.coordinator_of("")

    @property
    def coordinator(self) -> TransactionCoordinator:
        return self.broker.transactions

    @property
    def clock(self) -> MovableClock:
        assert isinstance(self.broker.clock, MovableClock)
        return self.broker.clock

    async def restart(self, *, after_ms: int = 0) -> None:
        """Stop, and start again over the same directory, at the same time, or as a new process after an outage."""
        await self.broker.stop()
        clock = MovableClock(self.clock.ahead_ms + after_ms) if after_ms else self.clock
        self.broker = await BrokerServer.start(self.broker.config.current, self.broker.data_dir, clock=clock)
        await self.a_few_turns()

    async def a_few_turns(self) -> None:
        """Let the markers that wait for nothing be written: on a slow machine they take more than one turn of the
        loop. Those that wait for something are left waiting."""
        for _ in range(50):
            if not len(self.coordinator.completion):
                return
            await asyncio.sleep(0)

    # --- what producers do

    async def init(self, name: str = "t", timeout_ms: int = 60_000, claimed: Producer = NO_PRODUCER) -> Producer:
        return await self.coordinator.init_producer_id(name, timeout_ms, claimed)

    async def begin(self, producer: Producer, *partitions: TopicPartition, name: str = "t") -> None:
        await self.coordinator.add_partitions(name, producer, partitions or (ORDERS,))

    async def join(self, producer: Producer, *partitions: TopicPartition, name: str = "t") -> None:
        """What `begin` does, as a leader does it in the second version of transactions."""
        await self.coordinator.add_partitions(name, producer, partitions or (ORDERS,), client_version=2)

    async def end(self, producer: Producer, *, is_commit: bool = True, name: str = "t") -> None:
        await self.coordinator.end(name, producer, is_commit=is_commit)
        await self.a_few_turns()

    async def end_raising_epoch(self, producer: Producer, *, is_commit: bool = True, name: str = "t") -> Producer:
        following = await self.coordinator.end_raising_epoch(name, producer, is_commit=is_commit)
        await self.a_few_turns()
        return following

    def lower_transaction_version(self) -> None:
        """To the level at which the end of a transaction raises no epoch."""
        self.broker.controller.set_feature_levels({"transaction.version": 1})

    def write(self, producer: Producer, value: bytes, partition: TopicPartition = ORDERS, *, sequence: int = 0) -> int:
        """Append a record in a transaction, as Produce would; its offset."""
        batch = build_batch(
            [Record(0, self.clock.now_ms(), None, value)],
            producer_id=producer.producer_id,
            producer_epoch=producer.epoch,
            base_sequence=sequence,
            transactional=True,
        )
        return (
            self.broker.replica_manager.partitions[partition]
            .append(ValidatedRecords.of(batch), self.clock.now_ms())
            .first_offset
        )

    # --- what is there

    def transaction(self, name: str = "t") -> Transaction:
        return self.coordinator.transactions[name]

    def state(self, name: str = "t") -> TransactionState:
        return self.transaction(name).entry.state

    def stored(self, name: str = "t") -> list[Entry | None]:
        """What the log has of an id, in order."""
        entries = []
        for number in range(self.coordinator.store.topic.partition_count):
            partition = self.broker.replica_manager.partitions[TopicPartition(TRANSACTION_STATE, number)]
            for header, batch in stored_batches(partition.log):
                for record in stored_records(header, batch):
                    assert record.key is not None
                    if decode_key(bytes(record.key)) == name:
                        entries.append(None if record.value is None else decode_entry(bytes(record.value)))
        return entries

    def stored_entries(self) -> dict[str, Entry]:
        """What a new coordinator finds, by id."""
        entries: dict[str, Entry] = {}
        store = self.coordinator.store
        for number in range(store.topic.partition_count):
            partition = self.broker.replica_manager.partitions[TopicPartition(TRANSACTION_STATE, number)]
            deque(store.load(partition, entries.__setitem__), maxlen=0)
        return entries

    def markers(self, partition: TopicPartition = ORDERS) -> list[tuple[str, Producer, int]]:
        """The markers of a partition: how, whose, and of which coordinator epoch."""
        found = []
        for header, batch in stored_batches(self.broker.replica_manager.partitions[partition].log):
            if header.is_control:
                marker = parse_end_transaction_marker(batch)
                assert marker is not None
                outcome = "abort" if marker.is_abort else "commit"
                found.append((outcome, Producer(header.producer_id, header.producer_epoch), marker.coordinator_epoch))
        return found

    def last_stable_offset(self, partition: TopicPartition = ORDERS) -> int:
        return self.broker.replica_manager.partitions[partition].log.last_stable_offset


DECIDED = pytest.mark.parametrize(
    ("state", "completed", "outcome"),
    [(PREPARE_COMMIT, COMPLETE_COMMIT, "commit"), (PREPARE_ABORT, COMPLETE_ABORT, "abort")],
)
"""Runs a test for a committed and for an aborted transaction."""


async def open_everywhere(bank: Bank) -> Producer:
    """Begin a transaction in every partition, and write a record in the first."""
    producer = await bank.init()
    await bank.begin(producer, *PARTITIONS)
    bank.write(producer, b"a")
    return producer


OWNER = Producer(4711, 5)
PRODUCERS = {
    "nobody": NO_PRODUCER,
    "owner": OWNER,
    "before": Producer(4711, 4),
    "long before": Producer(4711, 2),
    "after": Producer(4711, 6),
    "stranger": Producer(4712, 5),
}
"""Of the ids that `in_state` creates."""


def in_state(bank: Bank, state: TransactionState, name: str = "t") -> Transaction:
    """An id of OWNER in this state, with an epoch before that it may ask for again; its markers are not sent."""
    partitions = frozenset({ORDERS}) if state in (ONGOING, *COMPLETED) else frozenset()
    entry = Entry(*OWNER, 60_000, state, partitions, bank.clock.now_ms(), bank.clock.now_ms(), 4711)
    transaction = bank.coordinator.transactions[name] = Transaction(name, entry)
    transaction.last_epoch = 4
    return transaction
