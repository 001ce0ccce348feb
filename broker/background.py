"""What the broker does without being asked: periodic tasks, and blocking work that must not hold the loop."""

import asyncio
import logging
import time
import types
from collections.abc import Awaitable, Callable, Coroutine, Generator
from typing import Any, TypeVar, cast

from .clock import Clock, Timer

log = logging.getLogger("kmini.background")
T = TypeVar("T")

_TURN_S = 0.004
"""How long one request may hold the loop while others wait."""


async def in_thread(function: Callable[..., T], *arguments: object) -> T:
    """Run blocking or long work in a worker thread. Its arguments must not change meanwhile."""
    return await asyncio.get_running_loop().run_in_executor(None, function, *arguments)


def run_now(coroutine: Coroutine[Any, Any, T]) -> "asyncio.Future[T]":
    """Run a coroutine up to its first wait, at once, and the rest of it, if there is one, as a task.

    What need not wait has thus happened on return, without the price of a task.
    """
    loop = asyncio.get_running_loop()
    done: asyncio.Future[T] = loop.create_future()
    try:
        awaited = coroutine.send(None)
    except StopIteration as returned:
        done.set_result(returned.value)
    except Exception as error:
        done.set_exception(error)
    else:
        return loop.create_task(resume(coroutine, awaited))
    return done


@types.coroutine
def resume(coroutine: Coroutine[Any, Any, T], awaited: Any) -> Generator[Any, Any, T]:
    """Go on with a coroutine that has been run to its first wait, which is for `awaited`."""
    while True:
        try:
            value = yield awaited
        except BaseException as error:
            try:
                awaited = coroutine.throw(error)
            except StopIteration as done:
                return cast(T, done.value)
        else:
            try:
                awaited = coroutine.send(value)
            except StopIteration as done:
                return cast(T, done.value)


class Turn:
    """A share of the loop: work that may be long asks at every step whether it `is_over`, then for the `next` one."""

    __slots__ = ("_ends",)

    def __init__(self) -> None:
        self._ends = time.perf_counter() + _TURN_S

    @property
    def is_over(self) -> bool:
        return time.perf_counter() >= self._ends

    async def next(self) -> None:
        """Let everybody else who is ready have a turn first."""
        await asyncio.sleep(0)
        self._ends = time.perf_counter() + _TURN_S


class Periodic:
    """Runs a task every `interval_ms` of log time (or liveness), the first time after `delay_ms`. A failed run is
    logged; the next one comes."""

    def __init__(
        self,
        clock: Clock,
        name: str,
        task: Callable[[], Awaitable[None]],
        *,
        interval_ms: int,
        delay_ms: int | None = None,
        liveness: bool = False,
    ) -> None:
        self._clock = clock
        self._name = name
        self._task = task
        self._interval_ms = interval_ms
        self._liveness = liveness
        first_ms = interval_ms if delay_ms is None else delay_ms
        self._due_ms = self._now_ms() + first_ms
        self._timer: Timer | None = clock.call_later(first_ms, self._run, liveness=liveness)

    def _now_ms(self) -> int:
        return self._clock.liveness_ms() if self._liveness else self._clock.now_ms()

    async def _run(self) -> None:
        try:
            await self._task()
        except Exception:
            log.exception("%s failed; it runs again in %d ms", self._name, self._interval_ms)
        if self._timer is not None:
            # Keep the beat, whatever a run takes; beats that were missed are not made up for.
            now_ms = self._now_ms()
            self._due_ms = max(self._due_ms + self._interval_ms, now_ms)
            self._timer = self._clock.call_later(self._due_ms - now_ms, self._run, liveness=self._liveness)

    def cancel(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None


class Deferred:
    """Runs a task some time after it was asked for: once for all who have asked by then, and not at all if nobody does.

    Unlike a periodic task it costs nothing while nothing happens, however far a test moves the clock.
    """

    def __init__(self, clock: Clock, name: str, task: Callable[[], Awaitable[None]]) -> None:
        self._clock = clock
        self._name = name
        self._task = task
        self._timer: Timer | None = None
        self._is_over = False

    @property
    def is_asked_for(self) -> bool:
        return self._timer is not None

    def ask(self, delay_ms: int) -> None:
        """Have it run in `delay_ms` of log time, if it will not sooner."""
        if self._is_over:
            return
        if self._timer is not None:
            if self._timer.due_ms <= self._clock.now_ms() + delay_ms:
                return
            self._timer.cancel()
        self._timer = self._clock.call_later(delay_ms, self._run)

    async def _run(self) -> None:
        self._timer = None
        try:
            await self._task()
        except Exception:
            log.exception("%s failed", self._name)

    def cancel(self) -> None:
        """Never run again."""
        self._is_over = True
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None


class SharedWrite:
    """A file that is written off the loop, and by one write for all who ask at the same time.

    `snapshot` is called on the loop and gives what to write; `write` is called in a thread with it.
    """

    def __init__(self, snapshot: Callable[[], T], write: Callable[[T], None]) -> None:
        self._snapshot = snapshot
        self._write = write
        self._running: asyncio.Task[None] | None = None
        self._next: asyncio.Task[None] | None = None

    async def written(self) -> None:
        """Return once a snapshot that was taken after this call is in the file. Raises what the write raises
        (OSError)."""
        if self._running is None or self._running.done():
            self._running = asyncio.ensure_future(self._run())
            await asyncio.shield(self._running)
        else:
            # The running write may have taken its snapshot already: all who come now share the one after it.
            if self._next is None:
                self._next = asyncio.ensure_future(self._run_after(self._running))
            await asyncio.shield(self._next)

    async def _run(self) -> None:
        await in_thread(self._write, self._snapshot())

    async def _run_after(self, running: "asyncio.Task[None]") -> None:
        await asyncio.wait([running])
        self._running, self._next = self._next, None
        await self._run()
