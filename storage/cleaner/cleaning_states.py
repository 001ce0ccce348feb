"""The cleaning state of each partition: what the cleaner does with it, and what others may do meanwhile.

1. The cleaner moves a partition to IN_PROGRESS before it reads its sealed segments. Only a PAUSE takes the partition
   away from it.
2. Truncation, deletion of the log and a change of `cleanup.policy` pause the partition first, and resume it afterwards.
   Pauses add up: the partition is IDLE again when each of them has been taken back. The cleaner picks IDLE partitions
   only.
3. A PAUSE of a partition that is IN_PROGRESS makes it ABORTED. The worker checks for that between two reads, ends, and
   its DONE makes the partition PAUSED; then the callback of the pause is called.
4. A pass that was aborted moves no checkpoint.
5. When a log is removed, its partition is IDLE again, but for a worker that has yet to end.

TRANSITIONS has every legal move. A pair of state and event that it lacks is IllegalTransition, and changes nothing.
(Apache Kafka: LogCleaningState, with LogCleaningPaused counting the pauses.)
"""

from __future__ import annotations

import enum
from collections import Counter
from collections.abc import Callable, Iterable

from ...protocol.topics import TopicPartition


class State(enum.Enum):
    IDLE = "idle"
    IN_PROGRESS = "in progress"
    ABORTED = "aborted"
    """A worker is to end, and has not ended yet."""
    PAUSED = "paused"
    """By one pause or more."""


class Event(enum.Enum):
    START = "start"
    """The cleaner picks the partition."""
    DONE = "done"
    """The worker has ended, with or without success."""
    PAUSE = "pause"
    RESUME = "resume"
    """One pause is taken back, and another one is left."""
    RESUME_LAST = "resume last"
    """The only pause is taken back."""
    REMOVE = "remove"
    """The partition has no log any more."""


TRANSITIONS: dict[tuple[State, Event], State] = {
    (State.IDLE, Event.START): State.IN_PROGRESS,
    (State.IDLE, Event.PAUSE): State.PAUSED,
    (State.IDLE, Event.REMOVE): State.IDLE,
    (State.IN_PROGRESS, Event.DONE): State.IDLE,
    (State.IN_PROGRESS, Event.PAUSE): State.ABORTED,
    (State.IN_PROGRESS, Event.REMOVE): State.IN_PROGRESS,
    (State.ABORTED, Event.DONE): State.PAUSED,
    (State.ABORTED, Event.REMOVE): State.ABORTED,
    (State.PAUSED, Event.PAUSE): State.PAUSED,
    (State.PAUSED, Event.RESUME): State.PAUSED,
    (State.PAUSED, Event.RESUME_LAST): State.IDLE,
    (State.PAUSED, Event.REMOVE): State.IDLE,
}


class IllegalTransition(Exception):
    """An event that the state of the partition does not allow: a bug in the caller."""


class CleaningStates:
    """The states of all partitions. For the loop; any thread may call `is_aborted`."""

    def __init__(self) -> None:
        self._states: dict[TopicPartition, State] = {}
        """Partitions that are not IDLE. Changed by `_move` alone."""
        self._pauses: Counter[TopicPartition] = Counter()
        """Pauses that were not taken back, of PAUSED partitions."""
        self._when_paused: dict[TopicPartition, Callable[[], None]] = {}
        """The callbacks of ABORTED partitions."""

    def __getitem__(self, partition: TopicPartition) -> State:
        return self._states.get(partition, State.IDLE)

    def is_idle(self, partition: TopicPartition) -> bool:
        return partition not in self._states

    def is_aborted(self, partition: TopicPartition) -> bool:
        """Whether the worker must end."""
        return self._states.get(partition) is State.ABORTED

    def start(self, partition: TopicPartition) -> None:
        """Give the partition to the cleaner."""
        self._move(partition, Event.START)

    def done(self, partition: TopicPartition) -> bool:
        """Note that the worker has ended; return False if it was aborted. Calls the callback of the pause."""
        if self._move(partition, Event.DONE) is State.IDLE:
            return True
        self._pauses[partition] = 1
        when_paused = self._when_paused.pop(partition, None)
        if when_paused is not None:
            when_paused()
        return False

    def pause(self, partition: TopicPartition, when_paused: Callable[[], None] | None = None) -> bool:
        """Keep the cleaner away from the partition until `resume`; return True if no worker has to end first.

        Otherwise `when_paused` is called once the worker has ended.
        """
        if self._move(partition, Event.PAUSE) is State.PAUSED:
            self._pauses[partition] += 1
            return True
        if when_paused is not None:
            self._when_paused[partition] = when_paused
        return False

    def resume(self, partition: TopicPartition) -> None:
        """Take one pause back."""
        is_last = self._pauses[partition] == 1
        self._move(partition, Event.RESUME_LAST if is_last else Event.RESUME)
        if is_last:
            del self._pauses[partition]
        else:
            self._pauses[partition] -= 1

    def forget_all_but(self, partitions: Iterable[TopicPartition]) -> None:
        """Forget the pauses of partitions that have no log any more, which are those that are not among these."""
        for partition in self._states.keys() - set(partitions):
            if self._move(partition, Event.REMOVE) is State.IDLE:
                del self._pauses[partition]

    def _move(self, partition: TopicPartition, event: Event) -> State:
        """Change the state as the table says, and return the new one. Raises IllegalTransition."""
        before = self[partition]
        after = TRANSITIONS.get((before, event))
        if after is None:
            raise IllegalTransition(f"{partition}: {event.value} while {before.value}")
        if after is State.IDLE:
            self._states.pop(partition, None)
        else:
            self._states[partition] = after
        return after
