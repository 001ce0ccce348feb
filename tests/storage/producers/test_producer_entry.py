"""A batch that a producer sends again: the last five are recognised. A gap in the sequence numbers:
`test_producer_state_manager.py`."""

from __future__ import annotations

import pytest

from kmini.protocol.errors import (
    InvalidProducerEpoch,
    OutOfOrderSequenceNumber,
)
from support.producers import Partition


def test_a_repeated_batch_is_answered_as_the_first_time(partition: Partition) -> None:
    partition.append(0, producer_id=1)
    partition.append(0, count=3, timestamp=5555)
    duplicate = partition.append(0, count=3)
    assert duplicate is not None
    assert (duplicate.first_offset, duplicate.last_offset, duplicate.timestamp) == (1, 3, 5555)
    assert partition.offset == 4


def test_the_last_five_batches_are_remembered(partition: Partition) -> None:
    for sequence in range(7):
        partition.append(sequence)
    for sequence in range(2, 7):
        duplicate = partition.append(sequence)
        assert duplicate is not None
        assert duplicate.first_offset == sequence
    for sequence in range(2):
        with pytest.raises(OutOfOrderSequenceNumber):
            partition.append(sequence)


def test_a_batch_that_only_begins_or_ends_like_a_remembered_one_is_no_repetition(partition: Partition) -> None:
    partition.append(0, count=3)
    for sequence, count in ((0, 2), (0, 4), (1, 2)):
        with pytest.raises(OutOfOrderSequenceNumber):
            partition.append(sequence, count=count)


def test_a_new_epoch_forgets_the_batches_of_the_old_one(partition: Partition) -> None:
    partition.append(0)
    partition.append(0, epoch=1)
    entry = partition.states.get(7)
    assert entry is not None
    assert len(entry.batches) == 1
    with pytest.raises(InvalidProducerEpoch):
        partition.append(0, epoch=0)
