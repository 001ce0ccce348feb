"""Where replicas go."""

from __future__ import annotations

from collections import Counter

import pytest

from kmini.broker.controller.placement import check_replication, place, racks_of
from kmini.protocol.errors import InvalidPartitions, InvalidReplicationFactor


def test_a_replication_factor_above_the_number_of_brokers_is_refused() -> None:
    check_replication(1, 3, 3)
    for replication_factor in (0, 4):
        with pytest.raises(InvalidReplicationFactor):
            check_replication(1, replication_factor, 3)


def test_a_topic_without_partitions_is_refused() -> None:
    with pytest.raises(InvalidPartitions):
        check_replication(0, 1, 3)


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


def test_dead_brokers_get_replicas_last_in_their_rack_and_lead_nothing() -> None:
    assert [place([[1, 2, 3]], turn, 2, dead={2}) for turn in range(3)] == [(1, 3), (3, 1), (1, 3)]
    assert [place([[1, 2, 3]], turn, 3, dead={1}) for turn in range(2)] == [(2, 3, 1), (3, 2, 1)]
    assert [place([[1], [2, 3]], turn, 2, dead={1}) for turn in range(2)] == [(2, 1), (2, 1)]


def test_leaders_are_spread_evenly_over_equal_racks() -> None:
    racks = racks_of([(node_id, f"rack-{node_id % 3}") for node_id in range(6)])
    leaders = Counter(place(racks, turn, 3)[0] for turn in range(60))
    assert leaders == dict.fromkeys(range(6), 10)
