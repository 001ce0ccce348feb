"""The table of `elections`, row by row, and everything that may happen to three brokers in five steps."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from pathlib import Path

import pytest

from kmini.broker.controller import elections
from kmini.broker.controller.controller import Controller
from kmini.broker.controller.topology import NO_LEADER, BrokerRegistration, PartitionState, Topic
from kmini.protocol.errors import (
    ElectionNotNeeded,
    EligibleLeadersNotAvailable,
    FencedLeaderEpoch,
    PreferredLeaderNotAvailable,
    UnknownTopicOrPartition,
)
from kmini.protocol.topics import TopicPartition
from kmini.storage.filesystem import OsFileSystem

P = TopicPartition("t", 0)


def always(_: Topic) -> bool:
    return True


@pytest.fixture
def controller(tmp_path: Path) -> Iterator[Controller]:
    controller = Controller.open(str(tmp_path), node_ids=[1, 2, 3], filesystem=OsFileSystem(synced=False))
    for node_id in (1, 2, 3):
        controller.register(BrokerRegistration(node_id))
    controller.create_topics([controller.new_topic("t", [(1, 2, 3)], {})])
    yield controller
    controller.close()


def state(controller: Controller) -> PartitionState:
    return controller.topics["t"].partitions[0]


def test_the_first_live_replica_in_sync_follows_a_leader_that_dies(controller: Controller) -> None:
    elections.alter_isr(controller, P, 0, (1, 3))
    elections.leave(controller, 1)
    assert (state(controller).leader, state(controller).isr, state(controller).leader_epoch) == (3, (3,), 1)


def test_a_follower_that_dies_leaves_the_isr_and_changes_no_leader(controller: Controller) -> None:
    elections.leave(controller, 2)
    assert (state(controller).leader, state(controller).isr, state(controller).leader_epoch) == (1, (1, 3), 0)


def test_the_last_one_in_sync_stays_so_and_leads_again_when_it_comes_back(controller: Controller) -> None:
    for node_id in (2, 3, 1):
        elections.leave(controller, node_id)
    assert (state(controller).leader, state(controller).isr) == (NO_LEADER, (1,))
    elections.join(controller, BrokerRegistration(2))
    assert state(controller).leader == NO_LEADER
    elections.join(controller, BrokerRegistration(1))
    assert (state(controller).leader, state(controller).isr) == (1, (1,))


def test_an_unclean_election_takes_a_live_replica_that_is_in_sync_with_nobody(controller: Controller) -> None:
    elections.alter_isr(controller, P, 0, (1,))
    elections.leave(controller, 1, always)
    assert (state(controller).leader, state(controller).isr) == (2, (2,))


def test_epochs_count_elections_and_all_changes(controller: Controller) -> None:
    elections.alter_isr(controller, P, 0, (1, 2))
    assert (state(controller).leader_epoch, state(controller).partition_epoch) == (0, 1)
    elections.leave(controller, 1)
    assert (state(controller).leader_epoch, state(controller).partition_epoch) == (1, 2)


def test_a_leader_whose_epoch_is_over_changes_nothing(controller: Controller) -> None:
    elections.leave(controller, 1)
    with pytest.raises(FencedLeaderEpoch):
        elections.alter_isr(controller, P, 0, (1,))
    with pytest.raises(UnknownTopicOrPartition):
        elections.alter_isr(controller, TopicPartition("t", 1), 0, (1,))


def test_leadership_goes_to_the_preferred_replica_or_to_whom_one_names(controller: Controller) -> None:
    elections.elect(controller, P, 3)
    assert state(controller).leader == 3
    elections.elect(controller, P)
    assert (state(controller).leader, state(controller).leader_epoch) == (1, 2)
    with pytest.raises(ElectionNotNeeded):
        elections.elect(controller, P)


def test_leadership_returns_to_first_replicas_that_are_in_sync(controller: Controller) -> None:
    controller.create_topics([controller.new_topic("u", [(2, 1, 3), (3, 1, 2)], {})])
    for partition in (P, TopicPartition("u", 0), TopicPartition("u", 1)):
        elections.elect(controller, partition, 1 if partition != P else 2)
    elections.alter_isr(controller, TopicPartition("u", 0), 1, (1, 3))
    elections.prefer_first(controller)
    assert state(controller).leader == 1
    assert [one.leader for one in controller.topics["u"].partitions] == [1, 3]


def test_who_is_dead_or_behind_is_not_elected(controller: Controller) -> None:
    elections.alter_isr(controller, P, 0, (1, 3))
    elections.leave(controller, 3)
    for node_id in (2, 3, 4):
        with pytest.raises(PreferredLeaderNotAvailable):
            elections.elect(controller, P, node_id)


def test_an_unclean_election_by_hand_is_for_partitions_that_nobody_leads(controller: Controller) -> None:
    with pytest.raises(ElectionNotNeeded):
        elections.elect(controller, P, is_unclean=True)
    for node_id in (2, 3, 1):
        elections.leave(controller, node_id)
    with pytest.raises(EligibleLeadersNotAvailable):
        elections.elect(controller, P, is_unclean=True)
    elections.join(controller, BrokerRegistration(3))
    elections.elect(controller, P, is_unclean=True)
    assert (state(controller).leader, state(controller).isr) == (3, (3,))


def test_whoever_comes_and_goes_the_leader_is_live_and_in_sync_or_there_is_none(controller: Controller) -> None:
    """A step takes a broker out, or brings it back. Each of these histories has a topic of its own."""
    failures = []
    for number, steps in enumerate(itertools.product((1, 2, 3), repeat=5)):
        for node_id in {1, 2, 3} - {one.node_id for one in controller.brokers}:
            elections.join(controller, BrokerRegistration(node_id))
        name = f"history-{number}"
        controller.create_topics([controller.new_topic(name, [(1, 2, 3)], {})])
        broken = [rule for node_id in steps for rule in broken_rules(controller, name, node_id)]
        failures += [f"{steps}: {rule}" for rule in broken]
        controller.delete_topics([controller.topics[name]])
    assert failures == []


def broken_rules(controller: Controller, topic: str, node_id: int) -> list[str]:
    """The rules of elections that a change of a broker's life breaks."""
    before = controller.topics[topic].partitions[0]
    if controller.is_live(node_id):
        elections.leave(controller, node_id)
    else:
        elections.join(controller, BrokerRegistration(node_id))
    after = controller.topics[topic].partitions[0]
    live = {one.node_id for one in controller.brokers}
    rules = {
        "some replica is in sync": bool(after.isr),
        "the leader is live and in sync": after.leader in (live & {*after.isr} or {NO_LEADER}),
        "an epoch is of one leader": (after.leader_epoch == before.leader_epoch) == (after.leader == before.leader),
        "nobody is in sync because it came back": {*after.isr} <= {*before.isr},
    }
    return [rule for rule, is_kept in rules.items() if not is_kept]
