"""Where replicas go."""

from __future__ import annotations

from collections import Counter

import pytest

from kmini.broker.controller.placement import place, racks_of


def test_without_racks_each_partition_begins_one_broker_further() -> None:
    racks = racks_of([(3, None), (1, None), (2, None)])
    assert [place(racks, turn, 2) for turn in range(4)] == [(1, 2), (2, 3), (3, 1), (1, 2)]


@pytest.mark.parametrize("racks", [[[1, 2], [3, 4]], [[1, 2, 3], [4]], [[1], [2, 3], [4, 5, 6]], [[1, 2, 3]]], ids=str)
@pytest.mark.parametrize("count", [1, 2, 3])
def test_no_rack_has_two_replicas_while_another_has_none(racks: list[list[int]], count: int) -> None:
    for turn in range(60):
        replicas = place(racks, turn, count)
        assert len({*replicas}) == count
        held = [len({*rack} & {*replicas}) for rack in racks]
        assert max(held) <= 1 or min(held) >= 1


def test_leaders_are_spread_evenly_over_equal_racks() -> None:
    racks = racks_of([(node_id, f"rack-{node_id % 3}") for node_id in range(6)])
    leaders = Counter(place(racks, turn, 3)[0] for turn in range(60))
    assert leaders == dict.fromkeys(range(6), 10)
