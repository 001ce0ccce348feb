"""Loading the partitions of coordinators, and letting go of them: long work, done in slices between other requests.

One partition is loaded after the other, so that a failover of many of them takes one slice of every turn of the loop.
The work is done on the loop and not in a thread: a thread that runs Python holds each system call of the loop up for
5 ms, and the log may be compacted meanwhile.
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
"""How long loading holds the loop at a time, while other work waits."""

MANY_RECORDS = 100_000
"""From so many records on, the garbage collector does not look at what is loaded."""

Steps = Iterator[None]
"""Work that hands over after every step; a step takes a fraction of a millisecond."""


class Loading:
    """The long work of one broker, in the order in which it was asked for. Belongs to the broker's loop."""

    def __init__(self) -> None:
        self._queue: deque[Steps] = deque()
        self._task: asyncio.Task[None] | None = None

    def ask(self, work: Steps) -> None:
        """Have this done, after all that was asked for before. Its first step is taken at once: most work has none."""
        guarded = _logged(work)
        for _ in guarded:
            self._queue.append(guarded)
            if self._task is None:
                self._task = asyncio.ensure_future(self._run())
            return

    async def idle(self) -> None:
        """Return when nothing is left to be done."""
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
    """The garbage collector, as far as loading keeps it away."""

    loading = 0
    """How many loads of very many records go on in this process."""
    was_enabled = True


def without_collection(work: Steps, records: int) -> Steps:
    """The same work. Where it makes very many objects, the garbage collector looks at none of them, now or later: a
    full collection would hold the loop for hundreds of milliseconds. They are in no cycles, so that they are freed when
    the coordinator lets go of them."""
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
