"""Writes of a coordinator that no request waits for."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Coroutine
from typing import Any

from ..scheduler import run_now

logger = logging.getLogger("kmini.internal_topics")


class Writes:
    """The writes in progress of one coordinator. Belongs to the broker's loop."""

    def __init__(self) -> None:
        self._writes: set[asyncio.Future[None]] = set()

    @property
    def in_progress(self) -> int:
        """How many writes are not over."""
        return len(self._writes)

    def start(self, write: Coroutine[Any, Any, None]) -> None:
        """Run a write up to its first wait, so that it writes the present state. Most writes never wait."""
        task = run_now(write)
        self._writes.add(task)
        if task.done():
            self._done(task)
        else:
            task.add_done_callback(self._done)

    def _done(self, task: asyncio.Future[None]) -> None:
        self._writes.discard(task)
        if not task.cancelled() and (error := task.exception()) is not None:
            logger.error("a write that no request waits for failed", exc_info=error)

    async def done(self) -> None:
        """Wait for the writes in progress."""
        while self._writes:
            await asyncio.wait(self._writes)
