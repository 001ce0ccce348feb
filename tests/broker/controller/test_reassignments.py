"""Reassignments of a partition's replicas (KIP-455), as the controller's metadata shows them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest

from kmini.broker.controller import elections
from kmini.broker.controller.controller import Controller
from kmini.broker.controller.reassignments import reassign, under_way
from kmini.broker.controller.topology import BrokerRegistration, PartitionState
from kmini.protocol.errors import (
    InvalidReplicaAssignment,
    InvalidReplicationFactor,
    NoReassignmentInProgress,
    UnknownTopicOrPartition,
)
from kmini.protocol.topics import TopicPartition
from kmini.storage.filesystem import OsFileSystem

P = TopicPartition("t", 0)


@pytest.fixture
def controller(tmp_path: Path) -> Iterator[Controller]:
    """Four live brokers; partition 0 of topic t has the replicas 1 and 2."""
    controller = Controller.open(str(tmp_path), node_ids=[1, 2, 3, 4], filesystem=OsFileSystem(synced=False))
    for node_id in (1, 2, 3, 4):
        controller.register(BrokerRegistration(node_id))
    controller.create_topics([controller.new_topic("t", [(1, 2)], {})])
    yield controller
    controller.close()


def state(controller: Controller) -> PartitionState:
    return controller.topics["t"].partitions[0]


def catch_up(controller: Controller, *node_ids: int) -> None:
    """Have the replicas join the ISR, as their leader asks for it."""
    before = state(controller)
    elections.alter_isr(controller, P, before.leader_epoch, (*before.isr, *node_ids))


def test_new_replicas_come_before_old_ones_go(controller: Controller) -> None:
    reassign(controller, P, (3, 4))
    begun = state(controller)
    assert (begun.replicas, begun.adding, begun.removing) == ((3, 4, 1, 2), (3, 4), (1, 2))
    assert (begun.isr, begun.leader) == ((1, 2), 1)
    assert under_way(controller) == [(P, begun)]


def test_it_is_complete_when_all_new_replicas_are_in_sync(controller: Controller) -> None:
    reassign(controller, P, (3, 4))
    catch_up(controller, 3)
    assert state(controller).is_reassigned
    catch_up(controller, 4)
    done = state(controller)
    assert (done.replicas, done.adding, done.removing) == ((3, 4), (), ())
    assert sorted(done.isr) == [3, 4]
    assert under_way(controller) == []


def test_a_new_replica_leads_where_the_old_leader_goes(controller: Controller) -> None:
    reassign(controller, P, (3, 2))
    catch_up(controller, 3)
    assert (state(controller).replicas, state(controller).leader, state(controller).leader_epoch) == ((3, 2), 3, 1)


def test_the_leader_stays_where_it_keeps_its_replica(controller: Controller) -> None:
    reassign(controller, P, (3, 1))
    catch_up(controller, 3)
    assert (state(controller).replicas, state(controller).leader) == ((3, 1), 1)


def test_fewer_replicas_are_in_force_at_once(controller: Controller) -> None:
    reassign(controller, P, (2,))
    assert (state(controller).replicas, state(controller).isr, state(controller).leader) == ((2,), (2,), 2)


def test_a_cancelled_reassignment_leaves_all_as_it_was(controller: Controller) -> None:
    before = state(controller)
    reassign(controller, P, (3, 4))
    catch_up(controller, 3)
    reassign(controller, P, None)
    after = state(controller)
    assert (after.replicas, after.adding, after.removing) == (before.replicas, (), ())
    assert (after.isr, after.leader) == (before.isr, before.leader)


def test_another_reassignment_replaces_the_one_under_way(controller: Controller) -> None:
    reassign(controller, P, (3, 2))
    reassign(controller, P, (4, 2))
    assert (state(controller).adding, state(controller).removing) == ((4,), (1,))
    assert 3 not in state(controller).replicas


def test_nothing_can_be_cancelled_where_nothing_is_under_way(controller: Controller) -> None:
    with pytest.raises(NoReassignmentInProgress):
        reassign(controller, P, None)


@pytest.mark.parametrize("target", [(), (3, 3), (1, 9)], ids=["none", "twice", "unknown"])
def test_an_assignment_names_registered_brokers_once(controller: Controller, target: Sequence[int]) -> None:
    before = state(controller)
    with pytest.raises(InvalidReplicaAssignment):
        reassign(controller, P, target)
    assert state(controller) == before


def test_a_broker_that_is_dead_gets_its_replica_when_it_comes_back(controller: Controller) -> None:
    controller.fence(3)
    reassign(controller, P, (1, 3))
    assert (state(controller).adding, state(controller).removing) == ((3,), (2,))


def test_the_number_of_replicas_changes_only_where_it_may(controller: Controller) -> None:
    with pytest.raises(InvalidReplicationFactor):
        reassign(controller, P, (1, 2, 3), may_change_count=False)
    reassign(controller, P, (1, 2, 3))
    assert state(controller).adding == (3,)


def test_a_partition_that_does_not_exist_is_refused(controller: Controller) -> None:
    with pytest.raises(UnknownTopicOrPartition):
        reassign(controller, TopicPartition("t", 1), (3,))
