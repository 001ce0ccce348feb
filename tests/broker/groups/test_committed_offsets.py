"""Committed offsets in memory: what is in the log, and what readers are shown of it."""

from __future__ import annotations

from kmini.broker.groups.committed_offsets import CommittedOffset, CommittedOffsets
from kmini.protocol.topics import TopicPartition

A, B = TopicPartition("t", 0), TopicPartition("u", 0)


def committed(offset: int) -> CommittedOffset:
    return CommittedOffset(offset, -1, "", 0)


def shown(offsets: CommittedOffsets) -> dict[TopicPartition, int]:
    found = {
        TopicPartition(topic, number): one.offset
        for topic, partitions in offsets.shown_by_topic().items()
        for number, one in partitions.items()
    }
    for partition in (A, B):
        one = offsets.shown(partition)
        assert (None if one is None else one.offset) == found.get(partition)
    return found


def change(offsets: CommittedOffsets, partition: TopicPartition, offset: int | None) -> None:
    """A change that is not replicated; None removes."""
    offsets.hold_back([partition])
    if offset is None:
        offsets.remove(partition)
    else:
        offsets.set(partition, committed(offset))


def test_readers_are_shown_one_change_after_the_other_as_they_are_replicated() -> None:
    offsets = CommittedOffsets()
    offsets.set(A, committed(1))
    changes: list[int | None] = [2, None, 4]
    for offset in changes:
        change(offsets, A, offset)
    assert shown(offsets) == {A: 1}
    assert offsets.get(A) == committed(4)
    seen = []
    for _ in changes:
        offsets.show_next([A])
        seen.append(shown(offsets).get(A))
    assert seen == changes
    assert offsets.shown_by_topic() is offsets.by_topic, "nothing is held back any more"


def test_what_is_new_is_not_shown_and_what_is_removed_still_is() -> None:
    offsets = CommittedOffsets()
    offsets.set(B, committed(5))
    change(offsets, A, 1)
    change(offsets, B, None)
    assert shown(offsets) == {B: 5}
    offsets.show_next([A, B])
    assert shown(offsets) == {A: 1}


def test_offsets_of_a_transaction_are_held_back_where_it_changes_any() -> None:
    offsets = CommittedOffsets()
    offsets.add_pending(7, A, committed(2), 10)
    offsets.add_pending(7, B, committed(3), 11)
    offsets.set(B, committed(9))  # written after what is pending, which no longer counts
    changed = offsets.pending_of(7)
    assert changed == [A]
    offsets.hold_back(changed)
    offsets.end_pending(7, is_commit=True)
    assert shown(offsets) == {B: 9}
    offsets.show_next(changed)
    assert shown(offsets) == {A: 2, B: 9}
