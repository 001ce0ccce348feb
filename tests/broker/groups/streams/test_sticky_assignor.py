"""`sticky`: balanced, with as little movement as that allows, and standbys beside the active tasks.

`tests/oracle/test_streams_decisions.py` compares it with Kafka's own class.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kmini.broker.groups.streams.sticky_assignor import STEP, Size, TaskMember, assign_tasks
from kmini.broker.groups.streams.tasks import Duties, Task, Tasks, each_task
from support.draining import returned


def member(process: str, active: Tasks | None = None, standby: Tasks | None = None) -> TaskMember:
    return TaskMember(process, Duties(active or {}, standby or {}))


def assign(members: Mapping[str, TaskMember], standbys: int = 0, **task_counts: int) -> dict[str, Duties]:
    """The target over subtopologies that all keep state, unless their name begins with an x."""
    subtopologies = {name: Size(count, not name.startswith("x")) for name, count in task_counts.items()}
    return returned(assign_tasks(members, subtopologies, standbys))


def active(target: Mapping[str, Duties]) -> dict[str, set[Task]]:
    return {name: set(each_task(duties.active)) for name, duties in target.items()}


def standby(target: Mapping[str, Duties]) -> dict[str, set[Task]]:
    return {name: set(each_task(duties.standby)) for name, duties in target.items()}


def test_a_new_group_is_divided_evenly() -> None:
    target = active(assign({"m1": member("p1"), "m2": member("p2"), "m3": member("p3")}, a=4, b=4))
    assert sorted(len(tasks) for tasks in target.values()) == [2, 3, 3]


def test_tasks_stay_where_they_are_and_a_newcomer_gets_its_share() -> None:
    members = {"m1": member("p1", {"a": (0, 1, 2)}), "m2": member("p2", {"a": (3, 4, 5)}), "m3": member("p3")}
    target = active(assign(members, a=6))
    assert {name: len(tasks) for name, tasks in target.items()} == {"m1": 2, "m2": 2, "m3": 2}
    assert target["m1"] < {("a", 0), ("a", 1), ("a", 2)}
    assert target["m2"] < {("a", 3), ("a", 4), ("a", 5)}


def test_the_task_of_a_member_that_has_gone_goes_to_its_standby() -> None:
    members = {"m1": member("p1", {"a": (0,)}), "m2": member("p2", {"a": (1,)}, {"a": (2,)}), "m3": member("p3")}
    assert ("a", 2) in active(assign(members, a=6))["m2"]


def test_a_task_that_is_new_goes_to_the_process_with_the_fewest_tasks_by_member() -> None:
    """Two members of one process share its load: the process with one member is full first."""
    members = {"m1": member("p1", {"a": (0,)}), "m2": member("p1"), "m3": member("p2", {"a": (1,)})}
    assert active(assign(members, a=3))["m2"] == {("a", 2)}


def test_a_standby_is_in_another_process_than_its_task() -> None:
    target = assign({"m1": member("p1"), "m2": member("p1"), "m3": member("p2")}, 1, a=4)
    of_process = {"m1": "p1", "m2": "p1", "m3": "p2"}
    for name, tasks in active(target).items():
        for task in tasks:
            copies = [other for other, held in standby(target).items() if task in held]
            assert [of_process[other] for other in copies] == ["p2" if of_process[name] == "p1" else "p1"]


def test_a_single_process_has_no_standbys() -> None:
    target = assign({"m1": member("p1"), "m2": member("p1")}, 1, a=4)
    assert not any(standby(target).values())


def test_tasks_without_state_have_no_standbys() -> None:
    target = assign({"m1": member("p1"), "m2": member("p2")}, 1, x=4)
    assert not any(standby(target).values())


def test_there_are_as_many_standbys_as_there_are_other_processes_at_most() -> None:
    target = assign({f"m{number}": member(f"p{number}") for number in range(3)}, 5, a=2)
    assert Counter(task for tasks in standby(target).values() for task in tasks) == {("a", 0): 2, ("a", 1): 2}


def test_a_standby_stays_where_it_is() -> None:
    members = {
        "m1": member("p1", {"a": (0,)}, {"a": (1,)}),
        "m2": member("p2", {"a": (1,)}, {"a": (2,)}),
        "m3": member("p3", {"a": (2,)}, {"a": (0,)}),
    }
    target = assign(members, 1, a=3)
    assert {name: duties.as_sets() for name, duties in target.items()} == {
        name: each.target.as_sets() for name, each in members.items()
    }


@st.composite
def groups(draw: st.DrawFn) -> tuple[dict[str, TaskMember], dict[str, int], int]:
    """Members with tasks of an earlier target, in which no task is active twice."""
    counts = {name: draw(st.integers(1, 8)) for name in draw(st.sampled_from([("a",), ("a", "b"), ("a", "b", "xc")]))}
    names = [f"m{number}" for number in range(draw(st.integers(1, 6)))]
    process_of = {name: f"p{draw(st.integers(0, 3))}" for name in names}
    had: dict[str, tuple[dict[str, list[int]], dict[str, list[int]]]] = {name: ({}, {}) for name in names}
    for topic, count in counts.items():
        for number in range(count + 2):
            holder, copy = draw(st.sampled_from(names)), draw(st.sampled_from(names))
            if draw(st.booleans()):
                had[holder][0].setdefault(topic, []).append(number)
            if process_of[copy] != process_of[holder] and draw(st.booleans()):
                had[copy][1].setdefault(topic, []).append(number)
    return {name: member(process_of[name], *had[name]) for name in names}, counts, draw(st.integers(0, 2))


@given(groups())
def test_every_task_is_active_once_and_copied_in_other_processes(
    given: tuple[dict[str, TaskMember], dict[str, int], int],
) -> None:
    members, counts, standbys = given
    target = assign(members, standbys, **counts)
    assert target.keys() == members.keys()
    wanted = {(name, number) for name, count in counts.items() for number in range(count)}
    assert Counter(task for tasks in active(target).values() for task in tasks) == Counter(wanted)
    processes = {each.process_id for each in members.values()}
    in_process = Counter(
        (members[name].process_id, task)
        for held in (active(target), standby(target))
        for name, tasks in held.items()
        for task in tasks
    )
    assert all(count == 1 for count in in_process.values())
    copies = Counter(task for tasks in standby(target).values() for task in tasks)
    kept = {task for task in wanted if not task[0].startswith("x")}
    assert copies == Counter(dict.fromkeys(kept, min(standbys, len(processes) - 1)) if len(processes) > 1 else {})
    assert not any(duties.warmup for duties in target.values())


@given(groups())
def test_members_have_even_shares_and_nothing_moves_when_it_is_computed_again(
    given: tuple[dict[str, TaskMember], dict[str, int], int],
) -> None:
    members, counts, _ = given
    target = assign(members, **counts)
    sizes = [len(tasks) for tasks in active(target).values()]
    if len({each.process_id for each in members.values()}) == len(members):
        assert max(sizes) - min(sizes) <= 1
    again = {name: each._replace(target=target[name]) for name, each in members.items()}
    if max(sizes) - min(sizes) <= 1:
        assert active(assign(again, **counts)) == active(target)


@pytest.mark.parametrize("standbys", [0, 1])
def test_a_large_group_is_assigned_in_steps(standbys: int) -> None:
    members = {f"m{number}": member(f"p{number}") for number in range(50)}
    steps = sum(1 for _ in assign_tasks(members, {"a": Size(20 * STEP, True)}, standbys))
    assert steps >= 20 * (1 + standbys)


def test_of_equally_loaded_processes_the_one_is_next_that_kafkas_queue_gives() -> None:
    """That follows from the places of processes in a heap. Members come in the order of their ids, whoever is first."""
    for names in (("m0", "m1", "m2", "m3"), ("m3", "m1", "m0", "m2")):
        target = active(assign({name: member(f"p{name}") for name in names}, x=7))
        numbers = {name: sorted(number for _, number in tasks) for name, tasks in target.items()}
        assert numbers == {"m0": [0, 6], "m1": [2, 4], "m2": [3, 5], "m3": [1]}
