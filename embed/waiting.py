"""Waiting for a condition that a change on some broker may bring about, without polling."""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Hashable, Mapping
from typing import TYPE_CHECKING, Any, NamedTuple

from kmini.broker.purgatory import Operation
from kmini.protocol.errors import RequestTimedOut

if TYPE_CHECKING:
    from kmini.shared_operations import SharedOperations


class NotInTime(RequestTimedOut, AssertionError):
    """What a test waited for did not happen in time. It is an assertion that failed, too."""

    kafka_name = "REQUEST_TIMED_OUT"

    def __str__(self) -> str:
        return self.message


MOST_OF_ARGUMENT = 60
"""Characters of an argument that the text of a call shows."""


class FailedWait(NamedTuple):
    """A call of a test that waited, and whose time-out passed."""

    call: str
    """As the test has written it, about: "topic('orders').wait_for(3)"."""
    topic: str | None
    """The topic that it is about; None if it is about none."""
    group: str | None
    message: str
    """What there was instead."""
    ended_s: float
    """When it ended, in seconds since the epoch."""

    @classmethod
    def of(
        cls, call: str, args: tuple[object, ...], kwargs: Mapping[str, Any], about: Mapping[str, Any], message: str
    ) -> FailedWait:
        """`call` is the name of the method as a test calls it; `about` has the topic and the group, if there are
        some."""
        shown = [*map(_shown, args), *(f"{name}={_shown(value)}" for name, value in kwargs.items())]
        text = f"{call}({', '.join(shown)})"
        return cls(text, about.get("topic"), about.get("group"), message, time.time())


def _shown(argument: object) -> str:
    if callable(argument):
        return str(getattr(argument, "__name__", argument))
    text = repr(argument)
    return text if len(text) <= MOST_OF_ARGUMENT else f"{text[: MOST_OF_ARGUMENT - 3]}..."


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
    operations: SharedOperations,
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
