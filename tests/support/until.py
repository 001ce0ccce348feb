"""Wait for a condition that no event tells of, up to a deadline."""

from __future__ import annotations

import asyncio
import inspect
import os
import time
from collections.abc import Awaitable, Callable
from typing import TypeVar

T = TypeVar("T")

TIMEOUT_S = 60.0
"""Seconds that a busy machine may take for anything that a test waits for."""
POLL_S = 0.005
PATIENCE = int(os.environ.get("KMINI_PATIENCE", "1"))
"""Factor of the time-outs that tests give to clients and let pass: more than 1 where tests run beside each other."""


def until(
    condition: Callable[[], T],
    about: str | Callable[[], object] | None = None,
    *,
    timeout_s: float = TIMEOUT_S,
    poll_s: float = POLL_S,
) -> T:
    """Block until `condition()` is true, and return what it returned.

    Raises AssertionError after `timeout_s` with `about`, or with the result of calling it then; without it, with the
    source of the condition. What the condition raises ends the wait, too.
    """
    deadline = time.monotonic() + timeout_s
    while not (value := condition()):
        if time.monotonic() >= deadline:
            raise AssertionError(_not_in_time(condition, about, value, timeout_s))
        time.sleep(poll_s)
    return value


async def until_async(
    condition: Callable[[], T | Awaitable[T]],
    about: str | Callable[[], object] | None = None,
    *,
    timeout_s: float = TIMEOUT_S,
    poll_s: float = POLL_S,
) -> T:
    """As `until`, while the event loop goes on. The condition may be a coroutine function."""
    deadline = time.monotonic() + timeout_s
    while True:
        answer = condition()
        value: T = await answer if inspect.isawaitable(answer) else answer
        if value:
            return value
        if time.monotonic() >= deadline:
            raise AssertionError(_not_in_time(condition, about, value, timeout_s))
        await asyncio.sleep(poll_s)


def _not_in_time(
    condition: Callable[[], object], about: str | Callable[[], object] | None, value: object, timeout_s: float
) -> str:
    if about is None:
        try:
            about = " ".join(inspect.getsource(condition).split())
        except (OSError, TypeError):  # a condition without source, such as a method of a C type
            about = repr(condition)
    awaited = about if isinstance(about, str) else about()
    return f"after {timeout_s:g} s still {value!r}: {awaited}"
