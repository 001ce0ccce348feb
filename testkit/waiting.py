"""Waiting for a condition that a change on some broker may bring about, without polling."""

from __future__ import annotations

from collections.abc import Callable, Collection, Hashable
from typing import TYPE_CHECKING

from kmini.broker.purgatory import Operation
from kmini.protocol.errors import RequestTimedOut

if TYPE_CHECKING:
    from kmini.testkit.operations import Operations


class NotInTime(RequestTimedOut, AssertionError):
    """What a test waited for did not happen in time. It is an assertion that failed, too."""

    kafka_name = "REQUEST_TIMED_OUT"

    def __str__(self) -> str:
        return self.message


class Condition(Operation):
    """Complete when a condition holds, or the keys have changed since the wait began."""

    def __init__(self, holds: Callable[[], bool], keys: Callable[[], Collection[Hashable]]) -> None:
        self._holds = holds
        self._keys = keys
        self._first_keys = keys()

    @property
    def keys(self) -> Collection[Hashable]:
        return self._first_keys

    def is_complete(self) -> bool:
        return self._keys() != self._first_keys or self._holds()


async def until(
    operations: Operations,
    holds: Callable[[], bool],
    keys: Callable[[], Collection[Hashable]],
    timeout_ms: int,
) -> bool:
    """Wait until a condition holds; return whether it does within `timeout_ms` of liveness time.

    `keys` are those of the purgatories whose change may make it hold, on any broker. They are read again after each
    change.
    """
    deadline_ms = operations.clock.liveness_ms() + timeout_ms
    while not holds():
        left_ms = deadline_ms - operations.clock.liveness_ms()
        if left_ms <= 0:
            return False
        await operations.until_any(lambda: Condition(holds, keys), left_ms)
    return True
