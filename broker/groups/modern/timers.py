"""Time-outs of members of consumer groups, on the liveness timeline.

| timer     | begins                                                                              |
|-----------|-------------------------------------------------------------------------------------|
| session   | with every heartbeat                                                                |
| rebalance | when the member is asked to give up partitions; its heartbeats do not extend it     |
| join      | when a classic member of a mixed group is asked to join again                       |
| sync      | when a classic member of a mixed group has joined                                   |

The member is removed when one fires (`group_life.py`); unless it has moved to another epoch since, for all but the
session.
"""

from __future__ import annotations

from collections.abc import Callable
from enum import Enum
from functools import partial
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ...clock import Clock, Timer


class Wait(Enum):
    """What a member is waited for."""

    SESSION = "heartbeat"
    REBALANCE = "revocation"
    JOIN = "JoinGroup"
    SYNC = "SyncGroup"


Key = tuple[str, str, Wait]
"""Group id, member id, and what is waited for."""


class MemberTimers:
    """The timers of all members. Belongs to the broker's loop."""

    def __init__(self, clock: Clock, expired: Callable[[str, str, Wait, int], None]) -> None:
        """`expired` is called with group id, member id, what was waited for, and the number given with the timer."""
        self._clock = clock
        self._expired = expired
        self._timers: dict[str, dict[tuple[str, Wait], _Waiting]] = {}

    def extend_session(self, group_id: str, member_id: str, timeout_ms: int) -> None:
        """Let the session of a member end `timeout_ms` from now.

        Every heartbeat calls this, so it moves a deadline and leaves the timer as it is, which checks the deadline.
        """
        waiting = self._timers.get(group_id, {}).get((member_id, Wait.SESSION))
        deadline_ms = self._clock.liveness_ms() + timeout_ms
        if waiting is not None and waiting.timer.due_ms <= deadline_ms:
            waiting.deadline_ms, waiting.timeout_ms = deadline_ms, timeout_ms
        else:
            self.start(group_id, member_id, Wait.SESSION, timeout_ms, timeout_ms)

    def start(self, group_id: str, member_id: str, wait: Wait, timeout_ms: int, number: int) -> None:
        """Start a timer, in place of any of its kind. `number` is given back when it fires."""
        self.cancel(group_id, member_id, wait)
        deadline_ms = self._clock.liveness_ms() + timeout_ms
        waiting = _Waiting(deadline_ms, number)
        self._timers.setdefault(group_id, {})[member_id, wait] = waiting
        self._schedule(group_id, member_id, wait, waiting)

    def _schedule(self, group_id: str, member_id: str, wait: Wait, waiting: _Waiting) -> None:
        remaining_ms = max(waiting.deadline_ms - self._clock.liveness_ms(), 0)
        check = partial(self._check, group_id, member_id, wait, waiting)
        waiting.timer = self._clock.call_later(remaining_ms, check, liveness=True)

    def _check(self, group_id: str, member_id: str, wait: Wait, waiting: _Waiting) -> None:
        """End the wait for a member whose timer fired, unless its deadline has moved."""
        if waiting.deadline_ms > self._clock.liveness_ms():
            self._schedule(group_id, member_id, wait, waiting)
            return
        self._forget(group_id, member_id, wait)
        self._expired(group_id, member_id, wait, waiting.timeout_ms)

    def is_running(self, group_id: str, member_id: str, wait: Wait) -> bool:
        """Whether such a timer runs."""
        return (member_id, wait) in self._timers.get(group_id, ())

    def deadline_ms(self, group_id: str, member_id: str, wait: Wait) -> int | None:
        """When the wait ends, in liveness time; None if no such timer runs."""
        waiting = self._timers.get(group_id, {}).get((member_id, wait))
        return None if waiting is None else waiting.deadline_ms

    def cancel(self, group_id: str, member_id: str, *waits: Wait) -> None:
        """Cancel these timers of a member; all of them without a kind."""
        for wait in waits or tuple(Wait):
            waiting = self._forget(group_id, member_id, wait)
            if waiting is not None:
                waiting.timer.cancel()

    def cancel_group(self, group_id: str) -> None:
        """Cancel all timers of the members of a group."""
        for waiting in self._timers.pop(group_id, {}).values():
            waiting.timer.cancel()

    def _forget(self, group_id: str, member_id: str, wait: Wait) -> _Waiting | None:
        timers = self._timers.get(group_id)
        if timers is None:
            return None
        waiting = timers.pop((member_id, wait), None)
        if not timers:
            del self._timers[group_id]
        return waiting


class _Waiting:
    """A deadline that may move, and the timer that checks it."""

    __slots__ = ("deadline_ms", "timeout_ms", "timer")

    timer: Timer

    def __init__(self, deadline_ms: int, timeout_ms: int) -> None:
        self.deadline_ms = deadline_ms
        self.timeout_ms = timeout_ms
        """The number given with the timer: of a session its length, else the member epoch."""
