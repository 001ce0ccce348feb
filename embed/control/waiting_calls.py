"""The calls of HTTP requests that wait for clients of the broker, or move its clock.

Such a call ends with its request: a client that goes away leaves no wait behind. A reset, a stop of the broker and the
end of the control server end it the other way round, so that its request has an answer.
"""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Coroutine
from typing import Any


class WaitingCalls:
    """The calls in progress that wait."""

    def __init__(self) -> None:
        self._why_ended: dict[asyncio.Task[Any], str] = {}
        """Each call; why it was ended, or an empty text."""

    def __len__(self) -> int:
        return len(self._why_ended)

    @property
    def begun(self) -> Collection[asyncio.Task[Any]]:
        """The calls that wait now."""
        return [*self._why_ended]

    async def result(self, call: Coroutine[Any, Any, Any]) -> Any:
        """Wait for a call and return its result. Raises what the call raises, and RuntimeError if it was ended. Where
        the caller is cancelled, the call has ended when this returns."""
        task = asyncio.ensure_future(call)
        self._why_ended[task] = ""
        try:
            await asyncio.wait([task])
        finally:
            why = self._why_ended.pop(task)
            if not task.done():
                task.cancel()
                await asyncio.wait([task])
        if why and task.cancelled():
            raise RuntimeError(why)
        return task.result()

    def end(self, calls: Collection[asyncio.Task[Any]], why: str) -> None:
        """End those of these calls that still wait; `why` is what their requests are answered."""
        for task in calls:
            if task in self._why_ended:
                self._why_ended[task] = why
                task.cancel()
