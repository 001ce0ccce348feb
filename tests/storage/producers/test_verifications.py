"""The beginnings of transactions that were verified: with which sequence they may be appended, and when they are
forgotten."""

from __future__ import annotations

import pytest

from kmini.protocol.errors import OutOfOrderSequenceNumber
from kmini.storage.producers.verifications import Verifications
from support.producers import Partition, batch

NOW_MS = 1_000_000
PRODUCER = 7


def begun(epoch: int = 0, sequence: int = 0, *, raises_epoch: bool = False) -> Verifications:
    verifications = Verifications()
    verifications.begin(PRODUCER, epoch, sequence, NOW_MS, raises_epoch=raises_epoch)
    return verifications


def check(verifications: Verifications, sequence: int, *, is_known: bool = False) -> None:
    verifications.check_sequence(batch(0, sequence), is_known=is_known)


def test_a_transaction_begins_with_the_lowest_sequence_that_was_verified() -> None:
    verifications = begun(sequence=5)
    verifications.begin(PRODUCER, 0, 3, NOW_MS, raises_epoch=False)
    verifications.begin(PRODUCER, 0, 4, NOW_MS, raises_epoch=False)
    check(verifications, 3)
    with pytest.raises(OutOfOrderSequenceNumber, match="sequence 4 instead of 3"):
        check(verifications, 4)


def test_a_new_epoch_has_its_own_lowest_sequence_and_an_old_one_counts_no_more() -> None:
    verifications = begun(epoch=1, sequence=3)
    verifications.begin(PRODUCER, 2, 9, NOW_MS, raises_epoch=False)
    verifications.begin(PRODUCER, 1, 0, NOW_MS, raises_epoch=False)
    check(verifications, 9)


def test_other_producers_are_not_concerned() -> None:
    verifications = Verifications()
    verifications.begin(PRODUCER + 1, 0, 0, NOW_MS, raises_epoch=True)
    check(verifications, 9)


def test_in_the_second_version_an_unknown_producer_begins_with_0() -> None:
    verifications = begun(sequence=5, raises_epoch=True)
    check(verifications, 5, is_known=True)
    with pytest.raises(OutOfOrderSequenceNumber, match="sequence 5 instead of 0"):
        check(verifications, 5)
    check(verifications, 0)


def test_the_first_batch_and_the_end_of_a_transaction_are_the_end_of_its_verification() -> None:
    for is_marker in (False, True):
        verifications = begun()
        verifications.appended(PRODUCER + 1, 0, is_marker=is_marker)
        assert len(verifications) == 1
        verifications.appended(PRODUCER, 0, is_marker=is_marker)
        assert len(verifications) == 0


def test_the_marker_of_the_last_transaction_leaves_the_next_one_verified() -> None:
    verifications = begun(epoch=3, raises_epoch=True)
    verifications.appended(PRODUCER, 3, is_marker=True)
    assert len(verifications) == 1
    verifications.appended(PRODUCER, 3, is_marker=False)
    assert len(verifications) == 0


def test_they_expire() -> None:
    verifications = begun()
    assert verifications.oldest_ms() == NOW_MS
    verifications.expire(NOW_MS - 1)
    assert len(verifications) == 1
    verifications.expire(NOW_MS)
    assert (len(verifications), verifications.oldest_ms()) == (0, None)


# --- in a partition


def test_a_partition_forgets_a_verification_with_the_first_batch(partition: Partition) -> None:
    states = partition.states
    states.begin_verification(PRODUCER, 0, 3, NOW_MS, raises_epoch=False)
    with pytest.raises(OutOfOrderSequenceNumber):
        partition.append(4, transactional=True)
    assert states.verifications is not None
    assert len(states.verifications) == 1, "nothing was appended"
    partition.append(3, transactional=True)
    assert len(states.verifications) == 0


def test_a_partition_expires_verifications_with_its_producers(partition: Partition) -> None:
    states = partition.states
    states.begin_verification(PRODUCER, 0, 3, NOW_MS, raises_epoch=False)
    assert states.next_expiry_ms() == NOW_MS + states.expiration_ms
    states.expire(NOW_MS + states.expiration_ms)
    assert states.next_expiry_ms() is None
