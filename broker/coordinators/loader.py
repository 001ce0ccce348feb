"""Loading and unloading of coordinators' partitions: long work, done in slices between other requests.

Partitions are loaded one after the other, so that a failover of many takes one slice of every turn of the loop. The
work is done on the loop and not in a thread: a thread that runs Python delays each system call of the loop by 5 ms, and
the log may be compacted meanwhile.
"""

from __future__ import annotations

import asyncio
import gc
import logging
from collections import deque
from collections.abc import Iterator

from ..scheduler import Turn

log = logging.getLogger("kmini.internal_topics")

SLICE_S = 0.002
"""Seconds that loading may hold the loop at a time."""

MANY_RECORDS = 100_000
"""From this number of records on, the garbage collector is paused during a load."""

Steps = Iterator[None]
"""Work in steps, each of which takes a fraction of a millisecond."""


class Loading:
    """The queue of one broker's loads and unloads. Belongs to the broker's loop."""

    def __init__(self) -> None:
        self._queue: deque[Steps] = deque()
        self._task: asyncio.Task[None] | None = None

    def submit(self, work: Steps) -> None:
        """Queue work. Its first step is taken at once, because most work has none."""
        guarded = _logged(work)
        for _ in guarded:
            self._queue.append(guarded)
            if self._task is None:
                self._task = asyncio.ensure_future(self._run())
            return

    async def idle(self) -> None:
        """Wait until the queue is empty."""
        while self._task is not None:
            await asyncio.wait([self._task])

    async def _run(self) -> None:
        turn = Turn(SLICE_S)
        try:
            while self._queue:
                for _ in self._queue.popleft():
                    if turn.is_over:
                        await turn.next()
        finally:
            self._task = None


def _logged(work: Steps) -> Steps:
    try:
        yield from work
    except Exception:
        log.exception("loading the partition of a coordinator failed")


class _Collector:
    """The state of the garbage collector during loads."""

    loading = 0
    """The number of large loads in progress in this process."""
    was_enabled = True


def without_collection(work: Steps, records: int) -> Steps:
    """The same work. From MANY_RECORDS on, the garbage collector never scans the loaded objects: a full collection
    would hold the loop for hundreds of milliseconds. The objects are in no cycles, so unloading frees them."""
    if records < MANY_RECORDS:
        yield from work
        return
    if not _Collector.loading:
        _Collector.was_enabled = gc.isenabled()
        gc.disable()
    _Collector.loading += 1
    try:
        yield from work
    finally:
        _Collector.loading -= 1
        if not _Collector.loading:
            gc.freeze()
            if _Collector.was_enabled:
                gc.enable()
