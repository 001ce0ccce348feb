"""Waiting is one concept: a request that waits for a change of a log or of topics waits here, without polling.

An `Operation` names the keys whose change may complete it. Code that changes what a key stands for calls `check(key)`.
An operation leaves exactly once: complete, expired, or with the connection that asked for it. A fetch session outlives
its requests, so it registers as a listener instead: it is called once, at the next change of a key.

A request that waits needs no task: its `Wait` has the function that goes on with it. The request whose change released
it runs that function before its own answer, so that both answers leave in the same turn of the loop. A produce that
completes a fetch, step by step; the flag is `_is_attended`, which only `attend` and `run_released` change:

1. `Dispatcher.dispatch` begins the produce. `attend` sets the flag and returns True: this request has to call
   `run_released`.
2. The handler appends, and the append calls `check` for the partition. The flag is set.
3. `check` finds the fetch's operation complete: its `Wait` gets its result. `_leave` forgets the wait as an operation,
   and puts it into `_released`. As the flag is set, it does not ask the loop to go on with it.
4. The produce's handler has ended, or waits itself. The dispatcher calls `run_released`: it clears the flag, and sets
   it again while it empties `_released`. If more than RELEASED_IN_PLACE are there, the loop's next passes do that
   instead, behind the produce's answer.
5. It calls the fetch's `resume_request`, which is `Dispatcher._resume_handler` of the fetch's connection. The flag is
   set.
6. The fetch's handler reads the records, its answer is written, and its connection serves its next request. `attend`
   returns False there, because the flag is set: what that request releases joins `_released`.
7. `_released` is empty, and the flag is cleared. The produce's own answer is written.

Where a wait ends and the flag is not set (its time ran out, its client left, or the change came from no request), the
first one in `_released` asks the loop for a pass, which does the steps from 5 on. A wait that a task awaits is never in
`_released`: the loop goes on with the task, as after any future.
"""

import asyncio
import heapq
from collections import deque
from collections.abc import Awaitable, Callable, Collection, Generator, Hashable
from itertools import count
from time import perf_counter
from typing import Any, Protocol

from ..protocol.topics import TopicPartition
from .clock import Clock, Timer
from .scheduler import end_of_turn_s

RELEASED_IN_PLACE = 4
"""If a request releases at most this many others, they go on before it is answered. That delays its answer a little,
and halves the time until a record reaches its consumer. If it releases more, all of them go on after the answer."""

SHOWN_PLACES = 3
"""Partitions that are named where it is told what a request waits for; of more, the number is told."""

_SPARE_DEADLINES = 64
"""Deadlines of waits that ended sooner, which are kept at least before they are removed."""


class Operation:
    """The condition that a request waits for."""

    __slots__ = ()

    @property
    def keys(self) -> Collection[Hashable]:
        """The keys to watch. Read once, when the wait begins."""
        raise NotImplementedError

    @property
    def what(self) -> str:
        """What it waits for, to be told after the name of the API: "of orders-0, orders-1"."""
        places = [str(key) for key in sorted(key for key in self.keys if isinstance(key, TopicPartition))]
        rest = f" and {len(places) - SHOWN_PLACES} more" if len(places) > SHOWN_PLACES else ""
        return f"of {', '.join(places[:SHOWN_PLACES])}{rest}" if places else ""

    def is_complete(self) -> bool:
        """Whether the request can be answered now. Cheap, asked often; may remember what it found."""
        raise NotImplementedError


class Waiter(Protocol):
    """The connection whose request waits. It may close: cancelling `waiting` ends the wait."""

    waiting: "asyncio.Future[bool] | None"


class Unattended:
    """Waits on behalf of no connection, and so until the wait itself ends."""

    waiting: "asyncio.Future[bool] | None" = None
    is_closing = False


_NO_OPERATION = Operation()
_NO_WAITER = Unattended()


class Wait(asyncio.Future[bool]):
    """One operation that waits: True once it is complete, False if time ran out; cancelled if its client left.

    A task awaits it like any future. Without a task `resume_request` is called, once, after it is settled.
    """

    __slots__ = ("keys", "operation", "purgatory", "resume_request", "waiter")

    resume_request: Callable[[], None] | None
    keys: Collection[Hashable]
    operation: Operation
    purgatory: "Purgatory"
    waiter: Waiter

    def settle(self, is_complete: bool) -> None:
        """End the wait, unless it has ended."""
        if not self.done():
            self.set_result(is_complete)
            self.purgatory._leave(self)

    def fail(self, error: Exception) -> None:
        """End the wait with an error of the operation."""
        self.set_exception(error)
        self.purgatory._leave(self)

    def cancel(self, msg: Any | None = None) -> bool:
        is_cancelled = super().cancel(msg)
        if is_cancelled:
            self.purgatory._leave(self)
        return is_cancelled


class _NoWait:
    """In place of a wait that has ended before it began."""

    __slots__ = ("_is_complete",)

    def __init__(self, is_complete: bool) -> None:
        self._is_complete = is_complete

    def __await__(self) -> Generator[Any, None, bool]:
        return self._is_complete
        yield  # never reached: it makes this function a generator, as awaiting asks for


class _Refused:
    """In place of a wait that may not begin."""

    __slots__ = ("_error",)

    def __init__(self, error: Exception) -> None:
        self._error = error

    def __await__(self) -> Generator[Any, None, bool]:
        raise self._error
        yield  # never reached: it makes this function a generator, as awaiting asks for


class Listener(Protocol):
    """Receives the next change of a key."""

    def changed(self, key: Hashable) -> None:
        """Something about `key` changed. Must be cheap, and may listen to it again."""


class Purgatory:
    """The operations that wait, by key."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._loop: asyncio.AbstractEventLoop | None = None
        """The broker's loop, once something has waited."""
        self._watchers: dict[Hashable, dict[Operation, Wait]] = {}
        self._listeners: dict[Hashable, list[Listener]] = {}
        self._waiting = 0
        self._deadlines: list[tuple[int, int, Wait]] = []
        """A heap of when each wait expires, in liveness time; waits that have ended stay in it for a while."""
        self._order = count()
        self._timer: Timer | None = None
        """Set for the first of the deadlines, or sooner."""
        self._released: deque[Wait] = deque()
        """Waits that have ended, and whose requests go on next."""
        self._is_attended = False
        """Whether a function on the stack goes on with what is released: the caller of `attend` that got True, or
        `_run_until_turn_ends`."""

    def __len__(self) -> int:
        """The number of waiting operations."""
        return self._waiting

    def wait(self, operation: Operation, *, timeout_ms: int, waiter: Waiter) -> Awaitable[bool]:
        """Wait: True once `operation` is complete, False if `timeout_ms` pass first. Awaiting raises CancelledError if
        `waiter` leaves."""
        return _NoWait(True) if operation.is_complete() else self.wait_for_change(operation, timeout_ms, waiter)

    def wait_for_change(self, operation: Operation, timeout_ms: int, waiter: Waiter) -> Awaitable[bool]:
        """What `wait` does, for an operation that was just found incomplete. `end_waits` puts another function in the
        place of this one."""
        if timeout_ms <= 0:
            return _NoWait(False)
        loop = self._loop
        if loop is None:
            loop = self._loop = asyncio.get_running_loop()  # once: it takes a system call
        wait = Wait(loop=loop)
        wait.purgatory, wait.operation, wait.waiter, wait.resume_request = self, operation, waiter, None
        wait.keys = keys = operation.keys
        watchers = self._watchers
        for key in keys:
            watched = watchers.get(key)
            if watched is None:
                watchers[key] = {operation: wait}
            else:
                watched[operation] = wait
        self._waiting += 1
        waiter.waiting = wait
        self._expire_in(timeout_ms, wait)
        return wait

    def check(self, key: Hashable) -> None:
        """Handle a change of `key`: call its listeners, release the operations that are complete now."""
        if self._listeners:
            for listener in self._listeners.pop(key, ()):
                listener.changed(key)
        watchers = self._watchers.get(key)
        if watchers:
            for operation, wait in list(watchers.items()):
                if not wait.done():
                    try:
                        if operation.is_complete():
                            wait.set_result(True)
                            self._leave(wait)
                    except Exception as error:  # that of the request that waits, not of the one that changed something
                        wait.fail(error)

    # --- listeners

    def listen(self, key: Hashable, listener: Listener) -> None:
        """Have `listener` told of the next change of `key`, once."""
        self._listeners.setdefault(key, []).append(listener)

    @property
    def listened_keys(self) -> int:
        """The number of keys that have listeners."""
        return len(self._listeners)

    def ignore(self, key: Hashable, listener: Listener) -> None:
        """Take back what `listen` asked for, if it has not happened yet."""
        listeners = self._listeners.get(key, [])
        if listener in listeners:
            listeners.remove(listener)
            if not listeners:
                del self._listeners[key]

    # --- going on with what was released

    def attend(self) -> bool:
        """Keep what is released from now on for a call of `run_released`. True if the caller has to make that call;
        False if a function around it goes on with what is released."""
        if self._is_attended:
            return False
        self._is_attended = True
        return True

    def run_released(self) -> None:
        """Go on with the requests that were released since `attend` returned True: at once if there are at most
        RELEASED_IN_PLACE of them, else with all of them in the loop's next passes."""
        self._is_attended = False
        if self._released:
            if len(self._released) <= RELEASED_IN_PLACE:
                self._run_until_turn_ends()
            else:
                self._run_released_soon()

    def _run_until_turn_ends(self) -> None:
        """Go on with requests until none is left, or the turn is over. What they release goes on in its turn."""
        turn_ends_s = end_of_turn_s()
        self._is_attended = True
        try:
            while self._released:
                resume_request = self._released.popleft().resume_request
                assert resume_request is not None
                resume_request()
                if perf_counter() >= turn_ends_s:
                    break
        finally:
            self._is_attended = False
            if self._released:
                self._run_released_soon()

    def _run_released_soon(self) -> None:
        assert self._loop is not None
        self._loop.call_soon(self._run_until_turn_ends)

    def _leave(self, wait: Wait) -> None:
        """Forget a wait that has ended, and see to it that its request goes on."""
        self._waiting -= 1
        wait.waiter.waiting = None
        watchers = self._watchers
        for key in wait.keys:
            watched = watchers.get(key)
            if watched is not None:
                watched.pop(wait.operation, None)
                if not watched:
                    del watchers[key]
        wait.operation, wait.keys, wait.waiter = _NO_OPERATION, (), _NO_WAITER  # its deadline may keep it for long
        if wait.resume_request is not None:
            self._released.append(wait)
            if not self._is_attended and len(self._released) == 1:
                self._run_released_soon()

    # --- expiry

    def _expire_in(self, timeout_ms: int, wait: Wait) -> None:
        due_ms = self._clock.liveness_ms() + timeout_ms
        if len(self._deadlines) > 2 * self._waiting + _SPARE_DEADLINES:
            self._deadlines = [deadline for deadline in self._deadlines if not deadline[2].done()]
            heapq.heapify(self._deadlines)
        heapq.heappush(self._deadlines, (due_ms, next(self._order), wait))
        if self._timer is None or due_ms < self._timer.due_ms:
            self._set_timer(timeout_ms)

    def _set_timer(self, delay_ms: int) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self._timer = self._clock.call_later(delay_ms, self._expire, liveness=True)

    def _expire(self) -> None:
        """End the waits that are due, and set the timer for the next one."""
        self._timer = None
        now_ms = self._clock.liveness_ms()
        deadlines = self._deadlines
        while deadlines and (deadlines[0][0] <= now_ms or deadlines[0][2].done()):
            heapq.heappop(deadlines)[2].settle(False)
        if deadlines:
            self._set_timer(deadlines[0][0] - now_ms)

    def end_waits(self, error: Exception) -> None:
        """End every wait, now and from now on: that of a connection as if its time ran out, all others with `error`."""

        def ended(operation: Operation, timeout_ms: int, waiter: Waiter) -> Awaitable[bool]:
            return _Refused(error) if isinstance(waiter, Unattended) else _NoWait(False)

        self.wait_for_change = ended  # type: ignore[method-assign]  # a flag would have to be looked at by every wait
        for wait in {wait for watched in self._watchers.values() for wait in watched.values()}:
            if isinstance(wait.waiter, Unattended):
                wait.fail(error)
            else:
                wait.settle(False)

    def close(self) -> None:
        """End what still waits, as if its time were over: the broker stops, and its connections have ended."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        for _, _, wait in self._deadlines:
            wait.settle(False)
        self._deadlines.clear()
