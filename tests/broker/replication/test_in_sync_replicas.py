"""The rules of the in-sync replicas, and what a leader reads off the fetches of its followers."""

from __future__ import annotations

import pytest

from kmini.broker.replication.in_sync_replicas import Replica, Replicas

LAG_MS = 100


def test_a_follower_that_has_everything_is_caught_up_however_long_ago_it_fetched() -> None:
    replica = Replica(2, caught_up_ms=0)
    replica.fetched(10, 0, leader_end_offset=10, now_ms=1_000)
    assert replica.is_caught_up(10, now_ms=1_000_000, max_lag_ms=LAG_MS)


def test_one_that_has_less_is_caught_up_for_as_long_as_it_may_lag() -> None:
    replica = Replica(2, caught_up_ms=0)
    replica.fetched(10, 0, leader_end_offset=10, now_ms=1_000)
    assert replica.is_caught_up(11, now_ms=1_000 + LAG_MS, max_lag_ms=LAG_MS)
    assert not replica.is_caught_up(11, now_ms=1_001 + LAG_MS, max_lag_ms=LAG_MS)


def test_one_that_always_fetches_up_to_where_the_leader_was_keeps_up() -> None:
    replica = Replica(2, caught_up_ms=0)
    for turn in range(1, 50):  # the leader grows by ten between two fetches, so it never has everything
        replica.fetched(10 * turn, 0, leader_end_offset=10 * turn + 10, now_ms=1_000 + 60 * turn)
    assert replica.is_caught_up(1_000_000, now_ms=1_000 + 60 * 49, max_lag_ms=LAG_MS)


def test_one_that_falls_further_back_with_every_fetch_does_not() -> None:
    replica = Replica(2, caught_up_ms=0)
    for turn in range(1, 50):
        replica.fetched(turn, 0, leader_end_offset=10 * turn, now_ms=1_000 + 60 * turn)
    assert not replica.is_caught_up(1_000_000, now_ms=1_000 + 60 * 49, max_lag_ms=LAG_MS)


def test_a_follower_begins_to_lag_when_the_leader_appends_and_not_with_its_last_fetch() -> None:
    replicas = Replicas([2, 3], in_sync=[2, 3], now_ms=0)
    second, third = replicas
    second.fetched(10, 0, leader_end_offset=10, now_ms=0)
    third.fetched(9, 0, leader_end_offset=10, now_ms=0)
    replicas.leader_moves_on(10, now_ms=60_000)
    assert second.is_caught_up(11, now_ms=60_000 + LAG_MS, max_lag_ms=LAG_MS)
    assert not third.is_caught_up(11, now_ms=60_000 + LAG_MS, max_lag_ms=LAG_MS)


def test_followers_in_sync_leave_once_they_lag_and_others_are_not_asked() -> None:
    replicas = Replicas([2, 3, 4], in_sync=[2, 3], now_ms=0)
    second, third, fourth = replicas
    second.fetched(10, 0, leader_end_offset=10, now_ms=0)
    third.fetched(9, 0, leader_end_offset=10, now_ms=0)
    fourth.fetched(1, 0, leader_end_offset=10, now_ms=0)
    assert replicas.lagging([1, 2, 3], 10, now_ms=LAG_MS, max_lag_ms=LAG_MS) == set()
    assert replicas.lagging([1, 2, 3], 10, now_ms=LAG_MS + 1, max_lag_ms=LAG_MS) == {3}


@pytest.mark.parametrize(
    ("offset", "log_start_offset", "expected"),
    [(20, 5, True), (20, 6, True), (20, -1, True), (20, 4, False), (19, 5, False), (21, 5, True)],
    ids=["all", "later start", "tells no start", "deleted records", "not replicated", "more"],
)
def test_a_follower_may_join_with_all_that_it_needs_to_lead(offset: int, log_start_offset: int, expected: bool) -> None:
    replica = Replica(2, caught_up_ms=0)
    replica.fetched(offset, log_start_offset, leader_end_offset=30, now_ms=0)
    assert replica.may_join(high_watermark=15, epoch_start_offset=20, leader_log_start_offset=5) is expected
    assert replica.may_join(high_watermark=20, epoch_start_offset=15, leader_log_start_offset=5) is expected


def test_who_died_is_known_no_more_and_who_stays_is() -> None:
    replicas = Replicas([2, 3], in_sync=[2, 3], now_ms=0)
    for replica in replicas:
        replica.fetched(10, 5, leader_end_offset=10, now_ms=7)
    replicas.assign([2, 3, 4], died=[3])
    assert {replica.node_id: replica.log_end_offset for replica in replicas} == {2: 10, 3: -1, 4: -1}
    assert replicas.get(5) is None
