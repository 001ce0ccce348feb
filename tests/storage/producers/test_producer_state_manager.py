"""Sequences, epochs and transactions of producers: what a partition accepts, remembers and forgets."""

from __future__ import annotations

import logging
import random

import pytest

from kmini.protocol.errors import (
    InvalidProducerEpoch,
    InvalidTxnState,
    KafkaError,
    OutOfOrderSequenceNumber,
    TransactionCoordinatorFenced,
)
from kmini.storage.filesystem.memory_filesystem import MemoryFileSystem
from kmini.storage.indexes.transaction_index import AbortedTransaction
from kmini.storage.producers.producer_entry import CachedBatch
from kmini.storage.producers.producer_state_manager import CompletedTransaction, Origin
from support.for_each import for_each
from support.producers import Partition, batch

LAST_SEQUENCE = 2**31 - 1


# Sequences


def test_sequences_follow_each_other(partition: Partition) -> None:
    partition.append(0, count=3)
    partition.append(3, count=2)
    partition.append(5)
    entry = partition.states.get(7)
    assert entry is not None
    assert entry.last_sequence == 5
    assert entry.batches == (CachedBatch(2, 2, 2, 1000), CachedBatch(4, 4, 1, 1000), CachedBatch(5, 5, 0, 1000))


@pytest.mark.parametrize("sequence", [0, 1, 4, 100])
def test_a_gap_or_a_step_back_is_out_of_order(partition: Partition, sequence: int) -> None:
    partition.append(0, count=3)
    with pytest.raises(OutOfOrderSequenceNumber, match="instead of 3"):
        partition.append(sequence, count=2)


def test_a_partition_that_does_not_know_the_producer_takes_any_sequence(partition: Partition) -> None:
    partition.append(1234)
    partition.append(1235)
    with pytest.raises(OutOfOrderSequenceNumber):
        partition.append(1234, count=2)


def test_after_the_largest_sequence_comes_zero(partition: Partition) -> None:
    partition.append(LAST_SEQUENCE)
    partition.append(0)
    partition.append(1)


def test_a_batch_may_cross_the_largest_sequence(partition: Partition) -> None:
    partition.append(LAST_SEQUENCE - 1, count=4)
    entry = partition.states.get(7)
    assert entry is not None
    assert entry.last_sequence == 1
    assert entry.batches[0].first_sequence == LAST_SEQUENCE - 1
    assert partition.append(LAST_SEQUENCE - 1, count=4) == entry.batches[0]
    partition.append(2)


def test_a_new_epoch_begins_at_zero(partition: Partition) -> None:
    partition.append(0, count=3)
    with pytest.raises(OutOfOrderSequenceNumber, match="instead of 0"):
        partition.append(3, epoch=1)
    partition.append(0, epoch=1)
    partition.append(1, epoch=1)


def test_an_older_epoch_is_fenced(partition: Partition) -> None:
    partition.append(0, epoch=2)
    with pytest.raises(InvalidProducerEpoch):
        partition.append(1, epoch=1)


def test_batches_without_a_producer_id_leave_no_trace(partition: Partition) -> None:
    partition.append(-1, producer_id=-1, epoch=-1)
    assert len(partition.states) == 0


def test_producers_do_not_disturb_each_other(partition: Partition) -> None:
    partition.append(0, producer_id=1)
    partition.append(5, producer_id=2)
    partition.append(1, producer_id=1)
    partition.append(6, producer_id=2)


def test_a_coordinators_batches_have_epochs_but_no_sequences(partition: Partition) -> None:
    for _ in range(3):
        partition.append(-1, origin=Origin.COORDINATOR, epoch=1, transactional=True)
    with pytest.raises(InvalidProducerEpoch):
        partition.append(-1, origin=Origin.COORDINATOR, epoch=0, transactional=True)


def test_from_a_leader_everything_is_taken_and_violations_are_logged(
    partition: Partition, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.INFO, "kmini.storage"):
        partition.append(0, epoch=2)
        partition.append(17, epoch=2, origin=Origin.REPLICATION)
        partition.append(3, epoch=1, origin=Origin.REPLICATION)
    assert partition.offset == 3
    assert "epoch 1 of producer 7 is older than 2" in caplog.text


# One append, two steps


def test_nothing_has_changed_until_the_commit(partition: Partition) -> None:
    partition.append(0)
    update = partition.states.prepare()
    update.add(batch(1, 1, transactional=True))
    before = partition.states.get(7)
    assert before is not None
    assert before.last_sequence == 0
    assert partition.states.first_unstable_offset is None
    update.commit()
    after = partition.states.get(7)
    assert after is not None
    assert (before.last_sequence, after.last_sequence) == (0, 1)
    assert partition.states.first_unstable_offset == 1


def test_later_batches_of_an_append_are_checked_against_the_earlier_ones(partition: Partition) -> None:
    partition.append(0)
    update = partition.states.prepare()
    update.add(batch(1, 1))
    update.add(batch(2, 2, count=2))
    with pytest.raises(OutOfOrderSequenceNumber, match="instead of 4"):
        update.add(batch(4, 2))
    entry = partition.states.get(7)
    assert entry is not None
    assert entry.last_sequence == 0


def test_the_offset_may_be_given_before_it_is_in_the_header(partition: Partition) -> None:
    update = partition.states.prepare()
    update.add(batch(0, 0, count=3, transactional=True), base_offset=100)
    update.commit()
    entry = partition.states.get(7)
    assert entry is not None
    assert entry.batches[0].first_offset == 100
    assert entry.transaction_first_offset == 100


# Transactions


def test_an_open_transaction_holds_back_the_stable_offset(partition: Partition) -> None:
    partition.append(0, producer_id=1)
    assert partition.states.first_unstable_offset is None
    partition.append(0, producer_id=2, transactional=True)
    partition.append(0, producer_id=3, transactional=True)
    partition.append(1, producer_id=2, transactional=True)
    assert partition.states.first_unstable_offset == 1


def test_a_batch_outside_the_open_transaction_is_refused(partition: Partition) -> None:
    partition.append(0, transactional=True)
    with pytest.raises(InvalidTxnState):
        partition.append(1)
    partition.append(1, transactional=True)


def test_a_completed_transaction_is_stable_once_its_marker_is_below_the_high_watermark(partition: Partition) -> None:
    partition.append(0, producer_id=1, transactional=True)
    partition.append(0, producer_id=2, transactional=True)
    partition.append(0, producer_id=3, transactional=True)
    assert partition.end_transaction(producer_id=2) == []
    assert partition.end_transaction(producer_id=1) == []
    for high_watermark, unstable in ((3, 0), (4, 0), (5, 2)):
        partition.states.on_high_watermark(high_watermark)
        assert partition.states.first_unstable_offset == unstable
    partition.end_transaction(producer_id=3)
    partition.states.on_high_watermark(6)
    assert partition.states.first_unstable_offset is None


def test_a_high_watermark_below_the_marker_leaves_the_first_unstable_offset(partition: Partition) -> None:
    partition.append(0, producer_id=1, transactional=True)
    partition.append(0, producer_id=2, transactional=True)
    partition.end_transaction(producer_id=2)
    partition.end_transaction(producer_id=1)
    partition.states.on_high_watermark(3)
    assert partition.states.first_unstable_offset == 0


def test_an_abort_is_due_to_the_transaction_index_with_the_stable_offset_after_it(partition: Partition) -> None:
    partition.append(0, producer_id=1, transactional=True)
    partition.append(0, producer_id=2, count=2, transactional=True)
    assert partition.end_transaction(producer_id=2, is_abort=True) == [AbortedTransaction(2, 1, 3, 0)]
    assert partition.end_transaction(producer_id=1, is_abort=True) == [AbortedTransaction(1, 0, 4, 5)]


def test_the_transactions_of_one_append_complete_in_order(partition: Partition) -> None:
    update = partition.states.prepare(Origin.REPLICATION)
    update.add(batch(0, 0, producer_id=1, transactional=True))
    update.add(batch(1, 0, producer_id=2, transactional=True))
    update.add_marker(batch(2, -1, producer_id=1, control=True), is_abort=True, coordinator_epoch=0)
    update.add(batch(3, 1, producer_id=1, transactional=True))
    update.add_marker(batch(4, -1, producer_id=2, control=True), is_abort=False, coordinator_epoch=0)
    assert update.completed == [CompletedTransaction(1, 0, 2, True), CompletedTransaction(2, 1, 4, False)]
    assert update.commit() == [AbortedTransaction(1, 0, 2, 1)]
    partition.states.on_high_watermark(5)
    assert partition.states.first_unstable_offset == 3


def test_a_transaction_that_began_after_an_abort_of_the_same_append_does_not_bound_what_was_stable_then(
    partition: Partition,
) -> None:
    """A reader of a follower looks for aborted transactions up to the first whose last stable offset is beyond what it
    reads: at 4 the first one would hide the second."""
    update = partition.states.prepare(Origin.REPLICATION)
    for first in (0, 2):
        update.add(batch(first, first // 2, producer_id=1, transactional=True))
        update.add_marker(batch(first + 1, -1, producer_id=1, control=True), is_abort=True, coordinator_epoch=0)
    update.add(batch(4, 0, producer_id=2, transactional=True))
    assert update.commit() == [AbortedTransaction(1, 0, 1, 2), AbortedTransaction(1, 2, 3, 4)]


def test_a_marker_without_a_transaction_completes_nothing(partition: Partition) -> None:
    partition.append(0, producer_id=1)
    assert partition.end_transaction(producer_id=1, is_abort=True) == []
    assert partition.end_transaction(producer_id=2, is_abort=True, coordinator_epoch=5) == []
    entry = partition.states.get(2)
    assert entry is not None
    assert (entry.epoch, entry.coordinator_epoch, entry.batches) == (0, 5, ())


def test_a_marker_of_the_same_epoch_lets_the_sequence_go_on(partition: Partition) -> None:
    partition.append(0, count=3, transactional=True)
    partition.end_transaction()
    assert partition.append(0, count=3, transactional=True) is not None
    partition.append(3, transactional=True)


def test_a_marker_with_the_next_epoch_lets_the_sequence_begin_again(partition: Partition) -> None:
    partition.append(0, count=3, transactional=True)
    partition.end_transaction(epoch=1)
    with pytest.raises(InvalidProducerEpoch):
        partition.append(3, transactional=True)
    with pytest.raises(OutOfOrderSequenceNumber):
        partition.append(3, epoch=1, transactional=True)
    partition.append(0, epoch=1, transactional=True)


@pytest.mark.parametrize(
    ("epoch", "coordinator_epoch", "error"),
    [(2, 9, InvalidProducerEpoch), (3, 4, TransactionCoordinatorFenced)],
)
def test_a_marker_of_an_older_epoch_is_refused_unless_a_leader_sends_it(
    partition: Partition, epoch: int, coordinator_epoch: int, error: type[KafkaError]
) -> None:
    partition.append(0, epoch=3, transactional=True)
    partition.end_transaction(epoch=3, coordinator_epoch=5)
    partition.append(1, epoch=3, transactional=True)
    with pytest.raises(error):
        partition.end_transaction(epoch=epoch, coordinator_epoch=coordinator_epoch)
    assert partition.states.entries()[0].transaction_first_offset == 2
    partition.end_transaction(epoch=epoch, coordinator_epoch=coordinator_epoch, origin=Origin.REPLICATION)
    assert partition.states.entries()[0].transaction_first_offset is None


def test_raising_the_log_start_forgets_transactions_that_ended_below_it_but_no_producer(partition: Partition) -> None:
    partition.append(0, transactional=True)
    partition.end_transaction()
    partition.append(1, transactional=True)
    partition.states.on_log_start_raised(10)
    assert partition.states.first_unstable_offset == 2
    assert partition.states.end_offset == 10
    assert len(partition.states) == 1


# Expiry


def test_a_producer_is_forgotten_a_day_after_its_last_record(partition: Partition) -> None:
    partition.append(0, producer_id=1, timestamp=1000)
    partition.append(0, producer_id=2, timestamp=9000)
    day = 86_400_000
    assert partition.states.expire(999 + day) == 0
    assert partition.states.expire(1000 + day) == 1
    assert partition.states.get(1) is None
    assert partition.states.get(2) is not None


def test_the_next_expiry_is_that_of_the_oldest_producer_without_a_transaction(partition: Partition) -> None:
    day = 86_400_000
    assert partition.states.next_expiry_ms() is None
    partition.append(0, producer_id=1, timestamp=1000, transactional=True)
    assert partition.states.next_expiry_ms() is None
    partition.append(0, producer_id=2, timestamp=9000)
    partition.append(0, producer_id=3, timestamp=8000)
    assert partition.states.next_expiry_ms() == 8000 + day


def test_a_producer_with_an_open_transaction_is_not_forgotten(partition: Partition) -> None:
    partition.append(0, transactional=True)
    assert partition.states.expire(10**15) == 0
    partition.end_transaction()
    assert partition.states.expire(10**15) == 1


# The next batch of a producer, settled at once


def outcome(partition: Partition, sequence: int, count: int, epoch: int, transactional: bool) -> object:
    """The duplicate or None, or the error, of an append that every check has seen."""
    try:
        return partition.append(sequence, count=count, epoch=epoch, transactional=transactional)
    except KafkaError as error:
        return type(error), error.message


@for_each("seed", range(20))
def test_what_is_settled_at_once_is_what_all_checks_come_to(seed: int) -> None:
    dice = random.Random(seed)
    partition = Partition(MemoryFileSystem())
    sequence, epoch, settled = dice.choice([0, 5, LAST_SEQUENCE - 3]), 0, 0
    for _ in range(200):
        count = dice.choice([1, 1, 2, 3])
        sent = (sequence + dice.choice([0] * 8 + [1, -1, -count])) % (LAST_SEQUENCE + 1)
        epoch += dice.choice([0] * 20 + [1])
        transactional = dice.random() < 0.03
        header = batch(0, sent, count=count, epoch=epoch, transactional=transactional)
        entry, at = partition.states.entry_after(header, partition.offset), partition.offset
        found = outcome(partition, sent, count, epoch, transactional)
        if entry is not None:
            settled += 1
            assert found is None
            assert partition.states.get(7) == entry
        if partition.offset > at:
            known = partition.states.get(7)
            assert known is not None
            sequence = (known.last_sequence + 1) % (LAST_SEQUENCE + 1)
        elif isinstance(found, tuple) and found[0] is InvalidTxnState:
            partition.end_transaction(epoch=epoch)
        elif dice.random() < 0.2:
            sequence = 0
    assert settled > 20


def test_a_control_batch_is_not_settled_at_once(partition: Partition) -> None:
    partition.append(0)
    assert partition.states.entry_after(batch(1, 1), 1) is not None
    assert partition.states.entry_after(batch(1, 1, control=True), 1) is None
    assert partition.states.entry_after(batch(1, 1, producer_id=8), 1) is None
    assert len(partition.states) == 1


def test_what_is_settled_at_once_counts_when_it_is_applied(partition: Partition) -> None:
    partition.append(0)
    entry = partition.states.entry_after(batch(1, 1), 1)
    assert entry is not None
    assert partition.states.get(7) != entry
    assert partition.states.commit(entry) == ()
    assert partition.states.get(7) == entry
