"""Waiting is one concept: a request that cannot be answered yet waits here, and nothing else sleeps or polls.

An `Operation` names the keys whose change may complete it. Code that changes what a key stands for calls `check(key)`.
An operation leaves exactly once: complete, expired, or with the connection that asked for it. A fetch session outlives
its requests, so it registers as a listener instead: it is called once, at the next change of a key.
"""

import asyncio
from collections.abc import Hashable, Iterable
from typing import Protocol

from .clock import Clock


class Operation:
    """The condition that a request waits for."""

    @property
    def keys(self) -> Iterable[Hashable]:
        """The keys to watch. Read once, when the wait begins."""
        raise NotImplementedError

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


class Listener(Protocol):
    """Receives the next change of a key."""

    def changed(self, key: Hashable) -> None:
        """Something about `key` changed. Must be cheap, and may listen to it again."""


class Purgatory:
    """The operations that wait, by key."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._watchers: dict[Hashable, dict[Operation, asyncio.Future[bool]]] = {}
        self._listeners: dict[Hashable, list[Listener]] = {}
        self._waiting = 0
        self.released = 0
        """Operations that a change has released so far. Each goes on in the loop's next pass."""

    def __len__(self) -> int:
        """The number of waiting operations."""
        return self._waiting

    async def wait(self, operation: Operation, *, timeout_ms: int, waiter: Waiter) -> bool:
        """Return True once `operation` is complete, False if `timeout_ms` pass first. Raises CancelledError if `waiter`
        leaves."""
        if operation.is_complete():
            return True
        if timeout_ms <= 0:
            return False
        outcome: asyncio.Future[bool] = asyncio.get_running_loop().create_future()
        keys = list(operation.keys)
        for key in keys:
            self._watchers.setdefault(key, {})[operation] = outcome
        self._waiting += 1
        waiter.waiting = outcome
        timer = self._clock.call_later(timeout_ms, lambda: _settle(outcome, False), liveness=True)
        try:
            return await outcome
        finally:
            timer.cancel()
            waiter.waiting = None
            self._waiting -= 1
            for key in keys:
                self._forget(key, operation)

    def check(self, key: Hashable) -> None:
        """Handle a change of `key`: call its listeners, release the operations that are complete now."""
        if self._listeners:
            for listener in self._listeners.pop(key, ()):
                listener.changed(key)
        watchers = self._watchers.get(key)
        if watchers:
            for operation, outcome in list(watchers.items()):
                if not outcome.done():
                    try:
                        if operation.is_complete():
                            outcome.set_result(True)
                            self.released += 1
                    except Exception as error:  # that of the request that waits, not of the one that changed something
                        outcome.set_exception(error)

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

    def _forget(self, key: Hashable, operation: Operation) -> None:
        watchers = self._watchers.get(key)
        if watchers is not None:
            watchers.pop(operation, None)
            if not watchers:
                del self._watchers[key]


def _settle(outcome: "asyncio.Future[bool]", result: bool) -> None:
    if not outcome.done():
        outcome.set_result(result)
