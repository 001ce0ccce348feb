"""The groups in memory: by id, and by partition."""

from __future__ import annotations

from kmini.broker.groups.classic.classic_group import ClassicGroup
from kmini.broker.groups.committed_offsets import CommittedOffset
from kmini.broker.groups.groups_by_partition import Shards, discard
from kmini.protocol.topics import TopicPartition


def group(group_id: str) -> ClassicGroup:
    return ClassicGroup(group_id, 0)


def test_the_groups_of_one_partition_are_removed_together() -> None:
    shards = Shards(len)
    for group_id in ("a", "b", "cc"):
        shards.put(group(group_id))
    assert sorted(shards) == ["a", "b", "cc"]
    assert (len(shards), "b" in shards, "c" in shards, shards.get("c")) == (3, True, False, None)
    assert [sorted(shard) for shard in shards.pop(1)] == [["a", "b"]]
    assert [each.group_id for each in shards.values()] == ["cc"]
    assert shards.pop(1) == []
    assert [sorted(shard) for shard in shards.pop()] == [["cc"]]
    assert len(shards) == 0


def test_a_group_is_dropped_unless_another_one_of_its_id_has_replaced_it() -> None:
    shards = Shards(len)
    first, second = group("a"), group("a")
    shards.put(first)
    shards.put(second)
    shards.drop(first)
    assert shards["a"] is second
    shards.drop(second)
    assert "a" not in shards


def test_unloaded_groups_are_freed_with_their_offsets_in_steps() -> None:
    unloaded = group("a")
    for number in range(3):
        unloaded.offsets.set(TopicPartition("t", number), CommittedOffset(number, -1, "", 0))
    shards = [{"a": unloaded, "b": group("b")}]
    assert sum(1 for _ in discard([*shards])) >= 2
    assert shards == [{}]
    assert len(unloaded.offsets) == 0
