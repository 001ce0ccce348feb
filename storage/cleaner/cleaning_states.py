"""What the cleaner is doing with a partition, and what others may ask of it meanwhile.

1. A partition that is being cleaned, or whose old segments the cleaner is deleting, is IN_PROGRESS: nobody else touches
   its sealed segments.
2. Who must touch them (truncation, deletion, a policy that no longer compacts) pauses the partition first, and resumes
   it afterwards. Pauses add up. Nothing is cleaned while one lasts.
3. A pause that finds it IN_PROGRESS makes it ABORTED: the worker sees that between two reads, ends, and only then is
   the partition PAUSED. Who paused waits for that.
4. An aborted pass moves no checkpoint.
"""

from __future__ import annotations

import enum
from collections.abc import Callable, Iterable

from ...protocol.topics import TopicPartition


class State(enum.Enum):
    IDLE = "idle"
    IN_PROGRESS = "in progress"
    ABORTED = "aborted"
    PAUSED = "paused"
    """Once or more often."""


class Event(enum.Enum):
    START = "start"
    """The cleaner picks the partition."""
    DONE = "done"
    """The worker has ended, with or without success."""
    PAUSE = "pause"
    RESUME = "resume"


TRANSITIONS: dict[tuple[State, Event], State] = {
    (State.IDLE, Event.START): State.IN_PROGRESS,
    (State.IDLE, Event.PAUSE): State.PAUSED,
    (State.IN_PROGRESS, Event.DONE): State.IDLE,
    (State.IN_PROGRESS, Event.PAUSE): State.ABORTED,
    (State.ABORTED, Event.DONE): State.PAUSED,
    (State.PAUSED, Event.PAUSE): State.PAUSED,
    (State.PAUSED, Event.RESUME): State.PAUSED,  # to IDLE with the last one
}


class IllegalTransition(Exception):
    """Somebody does not know what he is doing."""


class CleaningStates:
    """The states of all partitions. For the loop; `is_aborted` may be asked from any thread."""

    def __init__(self) -> None:
        self._states: dict[TopicPartition, State] = {}
        self._pauses: dict[TopicPartition, int] = {}
        self._waiting: dict[TopicPartition, Callable[[], None]] = {}

    def __getitem__(self, partition: TopicPartition) -> State:
        return self._states.get(partition, State.IDLE)

    def is_idle(self, partition: TopicPartition) -> bool:
        return partition not in self._states

    def is_aborted(self, partition: TopicPartition) -> bool:
        """Whether the worker must end."""
        return self._states.get(partition) is State.ABORTED

    def start(self, partition: TopicPartition) -> None:
        self._move(partition, Event.START)

    def done(self, partition: TopicPartition) -> bool:
        """The worker has ended; False if it was aborted. Those who wait for that go on."""
        was_aborted = self.is_aborted(partition)
        self._move(partition, Event.DONE)
        if was_aborted:
            self._pauses[partition] = 1
            self._waiting.pop(partition, _nobody)()
        return not was_aborted

    def pause(self, partition: TopicPartition, when_paused: Callable[[], None] | None = None) -> bool:
        """Stop cleaning it. True if it is paused now; else the worker has to end first, and then calls
        `when_paused`."""
        self._move(partition, Event.PAUSE)
        if self[partition] is State.PAUSED:
            self._pauses[partition] = self._pauses.get(partition, 0) + 1
            return True
        if when_paused is not None:
            self._waiting[partition] = when_paused
        return False

    def resume(self, partition: TopicPartition) -> None:
        """Take one pause back."""
        self._move(partition, Event.RESUME)
        self._pauses[partition] -= 1
        if not self._pauses[partition]:
            del self._pauses[partition], self._states[partition]

    def forget_all_but(self, partitions: Iterable[TopicPartition]) -> None:
        """Partitions that are gone have no state, unless a worker is still busy with one."""
        known = set(partitions)
        for partition in [p for p, state in self._states.items() if p not in known and state is State.PAUSED]:
            del self._states[partition], self._pauses[partition]

    def _move(self, partition: TopicPartition, event: Event) -> None:
        state = self[partition]
        target = TRANSITIONS.get((state, event))
        if target is None:
            raise IllegalTransition(f"{partition}: {event.value} while {state.value}")
        if target is State.IDLE:
            del self._states[partition]
        else:
            self._states[partition] = target


def _nobody() -> None:
    """Nobody waits."""
