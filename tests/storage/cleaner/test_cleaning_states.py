"""The table of states, exhaustively, and how pauses add up."""

from __future__ import annotations

import itertools

import pytest

from kmini.protocol.topics import TopicPartition
from kmini.storage.cleaner.cleaning_states import TRANSITIONS, CleaningStates, Event, IllegalTransition, State

P = TopicPartition("orders", 0)

WAYS: dict[State, list[str]] = {
    State.IDLE: [],
    State.IN_PROGRESS: ["start"],
    State.ABORTED: ["start", "pause"],
    State.PAUSED: ["pause"],
}


def _in(state: State) -> CleaningStates:
    states = CleaningStates()
    for step in WAYS[state]:
        getattr(states, step)(P)
    assert states[P] is state
    return states


@pytest.mark.parametrize(("state", "event"), list(itertools.product(State, Event)))
def test_every_event_in_every_state(state: State, event: Event) -> None:
    states = _in(state)
    act = getattr(states, event.value)
    if (state, event) not in TRANSITIONS:
        with pytest.raises(IllegalTransition, match=event.value):
            act(P)
        assert states[P] is state
    else:
        act(P)
        expected = TRANSITIONS[state, event]
        assert states[P] is (State.IDLE if (state, event) == (State.PAUSED, Event.RESUME) else expected)


def test_as_many_resumes_as_pauses() -> None:
    states = _in(State.PAUSED)
    states.pause(P)
    states.resume(P)
    assert states[P] is State.PAUSED
    states.resume(P)
    assert states.is_idle(P)
    with pytest.raises(IllegalTransition):
        states.resume(P)


def test_who_pauses_a_busy_partition_waits_for_its_worker() -> None:
    states = _in(State.IN_PROGRESS)
    paused = []
    assert not states.pause(P, lambda: paused.append(states[P]))
    assert states.is_aborted(P)
    assert not paused
    assert not states.done(P)
    assert paused == [State.PAUSED]
    states.resume(P)
    assert states.is_idle(P)


def test_a_worker_that_nobody_stopped_is_simply_done() -> None:
    states = _in(State.IN_PROGRESS)
    assert states.done(P)
    assert states.is_idle(P)


def test_an_idle_partition_is_paused_at_once() -> None:
    assert CleaningStates().pause(P)


def test_pauses_of_partitions_that_are_gone_are_forgotten() -> None:
    states = _in(State.PAUSED)
    states.forget_all_but([P])
    assert states[P] is State.PAUSED
    states.forget_all_but([])
    assert states.is_idle(P)
