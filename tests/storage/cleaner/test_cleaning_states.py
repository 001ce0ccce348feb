"""The table of cleaning states, exhaustively: each operation in each state, and every sequence of operations."""

from __future__ import annotations

import itertools
from collections.abc import Callable

import pytest

from kmini.protocol.topics import TopicPartition
from kmini.storage.cleaner.cleaning_states import TRANSITIONS, CleaningStates, Event, IllegalTransition, State
from support.for_each import for_each

P = TopicPartition("orders", 0)
OTHER = TopicPartition("orders", 1)

OPERATIONS: dict[str, Callable[[CleaningStates], object]] = {
    "start": lambda states: states.start(P),
    "done": lambda states: states.done(P),
    "pause": lambda states: states.pause(P),
    "resume": lambda states: states.resume(P),
    "remove": lambda states: states.forget_all_but([OTHER]),
}

SITUATIONS: dict[str, tuple[State, list[str]]] = {
    "idle": (State.IDLE, []),
    "in progress": (State.IN_PROGRESS, ["start"]),
    "aborted": (State.ABORTED, ["start", "pause"]),
    "paused once": (State.PAUSED, ["pause"]),
    "paused twice": (State.PAUSED, ["pause", "pause"]),
}
"""Each state, PAUSED with and without another pause, and the operations that lead to it."""

EVENTS = {
    **{(situation, name): Event(name) for situation in SITUATIONS for name in OPERATIONS},
    ("paused once", "resume"): Event.RESUME_LAST,
}
"""The event that an operation is in a situation."""

ILLEGAL = None
AFTER: dict[str, dict[str, State | None]] = {
    "idle": {
        "start": State.IN_PROGRESS,
        "done": ILLEGAL,
        "pause": State.PAUSED,
        "resume": ILLEGAL,
        "remove": State.IDLE,
    },
    "in progress": {
        "start": ILLEGAL,
        "done": State.IDLE,
        "pause": State.ABORTED,
        "resume": ILLEGAL,
        "remove": State.IN_PROGRESS,
    },
    "aborted": {"start": ILLEGAL, "done": State.PAUSED, "pause": ILLEGAL, "resume": ILLEGAL, "remove": State.ABORTED},
    "paused once": {
        "start": ILLEGAL,
        "done": ILLEGAL,
        "pause": State.PAUSED,
        "resume": State.IDLE,
        "remove": State.IDLE,
    },
    "paused twice": {
        "start": ILLEGAL,
        "done": ILLEGAL,
        "pause": State.PAUSED,
        "resume": State.PAUSED,
        "remove": State.IDLE,
    },
}
"""What Apache Kafka's LogCleanerManager allows, and the state afterwards."""


def enter(situation: str) -> CleaningStates:
    states = CleaningStates()
    state, operations = SITUATIONS[situation]
    for name in operations:
        OPERATIONS[name](states)
    assert states[P] is state
    return states


@for_each(("situation", "operation"), list(itertools.product(SITUATIONS, OPERATIONS)))
def test_every_operation_in_every_state(situation: str, operation: str) -> None:
    states = enter(situation)
    before, expected = states[P], AFTER[situation][operation]
    if expected is ILLEGAL:
        with pytest.raises(IllegalTransition, match=f"{operation} while {before.value}"):
            OPERATIONS[operation](states)
        assert states[P] is before
    else:
        OPERATIONS[operation](states)
        assert states[P] is expected


@for_each(("state", "event"), list(itertools.product(State, Event)))
def test_the_table_has_every_legal_move_and_no_other(state: State, event: Event) -> None:
    expected = {
        AFTER[situation][operation]
        for (situation, operation), its_event in EVENTS.items()
        if its_event is event and SITUATIONS[situation][0] is state
    } - {ILLEGAL}
    assert {TRANSITIONS.get((state, event), ILLEGAL)} - {ILLEGAL} == expected


@pytest.mark.parametrize("first", OPERATIONS)
def test_no_operation_goes_round_the_table(first: str) -> None:
    """All sequences of six operations: a state becomes what the table says for one of the operation's events."""
    for names in itertools.product(OPERATIONS, repeat=5):
        states = CleaningStates()
        for name in (first, *names):
            before = states[P]
            possible = {TRANSITIONS.get((before, event)) for event in Event if event.value.startswith(name)}
            try:
                OPERATIONS[name](states)
            except IllegalTransition:
                assert states[P] is before, names
                assert None in possible, names
            else:
                assert states[P] in possible, names


def test_as_many_resumes_as_pauses() -> None:
    states = enter("paused once")
    states.pause(P)
    states.resume(P)
    assert states[P] is State.PAUSED
    states.resume(P)
    assert states.is_idle(P)
    with pytest.raises(IllegalTransition):
        states.resume(P)


def test_a_pause_of_a_busy_partition_waits_for_its_worker() -> None:
    states = enter("in progress")
    paused = []
    assert not states.pause(P, lambda: paused.append(states[P]))
    assert states.is_aborted(P)
    assert not paused
    assert not states.done(P)
    assert paused == [State.PAUSED]
    states.resume(P)
    assert states.is_idle(P)


def test_the_callback_of_a_pause_may_resume() -> None:
    states = enter("in progress")
    states.pause(P, lambda: states.resume(P))
    assert not states.done(P)
    assert states.is_idle(P)


def test_a_worker_that_was_not_stopped_leaves_its_partition_idle() -> None:
    states = enter("in progress")
    assert states.done(P)
    assert states.is_idle(P)


def test_an_idle_partition_is_paused_at_once() -> None:
    assert CleaningStates().pause(P)


def test_a_removed_log_takes_its_pauses_with_it() -> None:
    states = enter("paused twice")
    states.forget_all_but([P])
    assert states[P] is State.PAUSED
    states.forget_all_but([])
    assert states.is_idle(P)
    states.pause(P)
    states.resume(P)
    assert states.is_idle(P)


def test_partitions_do_not_share_a_state() -> None:
    states = enter("aborted")
    assert states.pause(OTHER)
    assert states[P] is State.ABORTED
    states.resume(OTHER)
    assert states[P] is State.ABORTED
