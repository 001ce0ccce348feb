"""A streams group as data: its states, and which process has which task."""

from __future__ import annotations

import pytest

from kmini.broker.groups.streams.streams_group import StreamsGroup
from kmini.broker.groups.streams.task_members import CurrentTasks, TaskMembership, TaskState
from kmini.broker.groups.streams.topology import InternalTopic, Subtopology, topology_from

TOPOLOGY = topology_from(2, [Subtopology("0", ("t",), (), (InternalTopic("c"),), (), (InternalTopic("r"),), ())])


def member(member_id: str, process_id: str) -> TaskMembership:
    return TaskMembership(member_id, None, None, "", "", 0, 2, process_id, None, ())


def group_of(**processes: str) -> StreamsGroup:
    """A group whose members are at the target epoch 1, with their processes."""
    group = StreamsGroup("g")
    group.topology, group.validated_topology_epoch = TOPOLOGY, 2
    for member_id, process_id in processes.items():
        group.put_membership(member_id, member(member_id, process_id))
        group.put_current(member_id, CurrentTasks(1))
    return group


def test_the_state_follows_from_members_topology_epochs_and_tasks() -> None:
    group = StreamsGroup("g")
    assert group.state_name == "Empty"
    group.put_membership("m", member("m", "p"))
    assert group.state_name == "NotReady"
    group.topology = TOPOLOGY
    assert group.state_name == "NotReady"
    group.validated_topology_epoch = 2
    assert group.state_name == "Reconciling"
    group.epoch = 3
    assert group.state_name == "Assigning"
    group.assignment_epoch = 3
    for state in TaskState:
        group.put_current("m", CurrentTasks(3, 2, state))
        assert group.state_name == ("Stable" if state is TaskState.STABLE else "Reconciling")
        assert group.is_stable == (state is TaskState.STABLE)
    group.mark_removed()
    assert (group.state_name, group.shown_state.value) == ("Dead", "Empty")


def test_a_task_is_active_in_one_process_and_copied_in_others() -> None:
    group = group_of(m="p1", n="p2")
    group.put_current("m", CurrentTasks(1, 0, TaskState.STABLE, {"0": {3: 1}}))
    group.put_current("n", CurrentTasks(1, 0, TaskState.STABLE, {}, {"0": frozenset({4})}))
    assert not group.may_be_active("p1", "0", 3)
    assert not group.may_be_active("p2", "0", 3)
    assert not group.may_be_copied("p1", "0", 3)
    assert group.may_be_copied("p2", "0", 3)
    assert group.may_be_active("p1", "0", 4)
    assert not group.may_be_active("p2", "0", 4)
    assert group.may_be_copied("p1", "0", 4)
    assert not group.may_be_copied("p2", "0", 4)


def test_a_process_has_what_it_is_to_give_up_until_it_has() -> None:
    group = group_of(m="p1")
    revoking = CurrentTasks(
        1, 1, TaskState.UNREVOKED_TASKS, revoking_active={"0": {3: 1}}, revoking_standby={"0": frozenset({4})}
    )
    group.put_current("m", revoking)
    assert not group.may_be_active("p2", "0", 3)
    assert not group.may_be_copied("p1", "0", 4)
    group.put_current("m", CurrentTasks(2, 1))
    assert group.may_be_active("p2", "0", 3)
    assert group.may_be_copied("p1", "0", 4)


def test_two_members_of_a_process_have_a_copy_until_both_have_given_it_up() -> None:
    group = group_of(m="p1", n="p1")
    for member_id in ("m", "n"):
        group.put_current(member_id, CurrentTasks(1, 0, TaskState.STABLE, {}, {"0": frozenset({4})}))
    group.put_current("m", None)
    assert not group.may_be_copied("p1", "0", 4)
    group.put_current("n", None)
    assert group.may_be_copied("p1", "0", 4)


@pytest.mark.parametrize("successor", [None, "p2"])
def test_the_tasks_of_a_member_go_with_it_and_move_with_its_process(successor: str | None) -> None:
    group = group_of(m="p1")
    group.put_current("m", CurrentTasks(1, 0, TaskState.STABLE, {"0": {3: 1}}, {"0": frozenset({4})}))
    group.put_membership("m", None if successor is None else member("m", successor))
    assert group.may_be_copied("p1", "0", 3)
    assert group.may_be_copied("p1", "0", 4)
    assert group.may_be_copied("p2", "0", 4) == (successor is None)
    assert group.may_be_active("p3", "0", 3) == (successor is None)


def test_a_group_subscribes_to_what_its_topology_reads_while_it_has_members() -> None:
    group = group_of(m="p")
    assert group.subscribed_topics() == {"t", "r"}
    assert [group.is_subscribed_to(name) for name in ("t", "r", "c", "x")] == [True, True, False, False]
    assert group.topics_of(()) == {"t", "r", "c"}
    assert (group.protocol, group.shown_protocol_type) == ("sticky", "streams")
    group.put_membership("m", None)
    assert (group.subscribed_topics(), group.is_subscribed_to("t"), group.protocol) == (set(), False, None)


def test_a_shutdown_that_was_asked_for_is_over_when_the_group_is_empty() -> None:
    group = group_of(m="p", n="p")
    group.shutdown_requested_by = "m"
    group.put_membership("m", None)
    assert group.shutdown_requested_by == "m"
    group.put_membership("n", None)
    assert group.shutdown_requested_by is None


def test_readers_are_shown_the_group_before_a_change_that_is_not_replicated() -> None:
    group = group_of(m="p")
    group.hold_back()
    group.epoch = 9
    group.put_membership("n", member("n", "p2"))
    assert ([*group.shown.memberships], group.shown.epoch, group.shown.state_name) == (["m"], 1, "Stable")
    assert group.shown.topology is TOPOLOGY
    group.show_next()
    assert ([*group.shown.memberships], group.shown.epoch) == (["m", "n"], 9)
