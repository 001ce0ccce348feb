"""Periodic and deferred tasks of the broker, and blocking work that must not hold the loop.

`clock.py` has the timers under them, and runs what falls due when a test moves the time.
"""

import asyncio
import logging
import time
import types
from collections.abc import Awaitable, Callable, Coroutine, Generator
from typing import Any, TypeAlias, TypeVar, cast

from ..protocol.topics import TopicPartition
from ..storage.background_work import BackgroundWork
from .clock import Clock, Timer

log = logging.getLogger("kmini.background")
T = TypeVar("T")

Offsets: TypeAlias = dict[TopicPartition, int]
"""An offset for each partition."""

_TURN_S = 0.004
"""Seconds that one request may hold the loop while others wait."""


async def in_thread(function: Callable[..., T], *arguments: object) -> T:
    """Run blocking or long work in a worker thread. Its arguments must not change meanwhile."""
    return await asyncio.get_running_loop().run_in_executor(None, function, *arguments)


async def do_in_thread(work: BackgroundWork) -> None:
    """Run work of a log in a worker thread, and finish it on the loop. Raises what `finish` raises."""
    await in_thread(work.run)
    work.finish()


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
        return loop.create_task(_go_on(coroutine, awaited))
    return done


async def _go_on(coroutine: Coroutine[Any, Any, T], awaited: Any) -> T:
    """What `resume` does, as a task takes it: since Python 3.12 none takes a coroutine that is a generator."""
    return await resume(coroutine, awaited)


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


def end_of_turn_s() -> float:
    """When a turn ends that begins now, in seconds of `time.perf_counter`: cheaper than a Turn where most work is
    short."""
    return time.perf_counter() + _TURN_S


async def end_of_next_turn_s() -> float:
    """Let everything else that is ready have a turn first; then return when the next one ends."""
    await asyncio.sleep(0)
    return time.perf_counter() + _TURN_S


class Turn:
    """A share of the loop: work that may be long asks at every step whether it `is_over`, then for the `next` one."""

    __slots__ = ("_ends", "_length_s")

    def __init__(self, length_s: float | None = None) -> None:
        self._length_s = _TURN_S if length_s is None else length_s
        self._ends = time.perf_counter() + self._length_s

    @property
    def is_over(self) -> bool:
        return time.perf_counter() >= self._ends

    async def next(self) -> None:
        """Let everything else that is ready have a turn first."""
        await asyncio.sleep(0)
        self._ends = time.perf_counter() + self._length_s


class PausedTasks:
    """The periodic tasks that skip their runs until a certain time, unless something changes."""

    def __init__(self) -> None:
        self.paused: dict[Periodic, None] = {}
        """In the order of their pauses."""

    def __bool__(self) -> bool:
        return bool(self.paused)

    def add(self, task: "Periodic") -> None:
        self.paused[task] = None

    def discard(self, task: "Periodic") -> None:
        self.paused.pop(task, None)

    def resume(self) -> None:
        """Something has changed: each runs at its next beat, and sees whether it has anything to do."""
        paused, self.paused = self.paused, {}
        for task in paused:
            task.resume()

    def resume_by(self, time_ms: int) -> None:
        """Something has changed that counts from this log time on: each runs at the last beat before it at the latest,
        and stays paused for what else may change."""
        for task in self.paused:
            task.resume_by(time_ms)


class Periodic:
    """Runs a task every `interval_ms` of log time (or liveness), the first time after `delay_ms`. A failed run is
    logged; the next one comes.

    With `paused_tasks` it skips the beats at which it can have no effect, so that a test may move the clock by a month:
    after each run `next_effect_ms` says when the next one can have an effect, as things are; None is never. A caller
    that changes things resumes the paused tasks.
    """

    def __init__(
        self,
        clock: Clock,
        name: str,
        task: Callable[[], Awaitable[None]],
        *,
        interval_ms: int,
        delay_ms: int | None = None,
        liveness: bool = False,
        next_effect_ms: Callable[[], int | None] | None = None,
        paused_tasks: PausedTasks | None = None,
    ) -> None:
        self._clock = clock
        self._name = name
        self._task = task
        self._interval_ms = interval_ms
        self._liveness = liveness
        self._next_effect_ms = next_effect_ms
        self._paused_tasks = paused_tasks
        self._is_over = False
        first_ms = interval_ms if delay_ms is None else delay_ms
        self._beat_ms = self._due_ms = self._now_ms() + first_ms
        """The next beat, which may be skipped, and when the timer is set to."""
        self._timer: Timer | None = None
        self._set_timer(self._due_ms)

    def _now_ms(self) -> int:
        return self._clock.liveness_ms() if self._liveness else self._clock.now_ms()

    async def _run(self) -> None:
        if self._paused_tasks is not None:
            self._paused_tasks.discard(self)
        effect_ms: int | None = 0
        try:
            await self._task()
            if self._next_effect_ms is not None:
                effect_ms = self._next_effect_ms()
        except Exception:
            log.exception("%s failed; it runs again in %d ms", self._name, self._interval_ms)
        if not self._is_over:
            # Keep the beat, whatever a run takes; beats that were missed are not made up for.
            self._beat_ms = max(self._due_ms + self._interval_ms, self._now_ms())
            if self._paused_tasks is not None and (effect_ms is None or effect_ms > self._beat_ms):
                self._paused_tasks.add(self)
            self._set_timer(None if effect_ms is None else self._beat_at(effect_ms))

    def _beat_at(self, time_ms: int) -> int:
        """The first of the beats to come that is not before this time."""
        return self._beat_ms + max(-((self._beat_ms - time_ms) // self._interval_ms), 0) * self._interval_ms

    def _set_timer(self, due_ms: int | None) -> None:
        if self._timer is not None:
            self._timer.cancel()
        if due_ms is None:
            self._timer = None
        else:
            self._timer = self._clock.call_at(due_ms, self._run, liveness=self._liveness)
            self._due_ms = due_ms

    def resume(self) -> None:
        """Run at the next beat, although it was to be skipped."""
        if not self._is_over:
            self._set_timer(self._beat_at(self._now_ms()))

    def resume_by(self, time_ms: int) -> None:
        """Run at the last beat that is not after this log time, although it was to be skipped, or sooner if that was
        due; a task of liveness runs at its next beat."""
        next_ms = self._beat_at(self._now_ms())
        if not self._liveness:
            next_ms += max((time_ms - next_ms) // self._interval_ms, 0) * self._interval_ms
        if not self._is_over and (self._timer is None or next_ms < self._due_ms):
            self._set_timer(next_ms)

    def cancel(self) -> None:
        self._is_over = True
        self._set_timer(None)


class Deferred:
    """Runs a task some time after it was asked for: once for all requests until then, and not at all without one.

    Unlike a periodic task it costs nothing while nothing happens, however far a test moves the clock.
    """

    def __init__(self, clock: Clock, name: str, task: Callable[[], Awaitable[None]]) -> None:
        self._clock = clock
        self._name = name
        self._task = task
        self._timer: Timer | None = None
        self.is_asked_for = False
        self._is_over = False

    def ask(self, delay_ms: int) -> None:
        """Have it run in `delay_ms` of log time, if it will not sooner."""
        self.ask_at(self._clock.now_ms() + delay_ms)

    def ask_at(self, due_ms: int) -> None:
        """Have it run at a log time, if it will not sooner."""
        if self._is_over:
            return
        if self._timer is not None:
            if self._timer.due_ms <= due_ms:
                return
            self._timer.cancel()
        self._timer = self._clock.call_at(due_ms, self._run)
        self.is_asked_for = True

    async def _run(self) -> None:
        self._timer = None
        self.is_asked_for = False
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
            self.is_asked_for = False


class CheckpointWriter:
    """A checkpoint that is written off the loop, one write at a time, for all callers that ask during the one before.

    `snapshot` is called on the loop and gives the offsets to write; `write` is called in a thread with them.
    """

    def __init__(self, snapshot: Callable[[], Offsets], write: Callable[[Offsets], None]) -> None:
        self._snapshot = snapshot
        self._write_in_thread = write
        self._running: asyncio.Task[None] | None = None
        self._next: asyncio.Task[None] | None = None
        self.written: Offsets = {}
        """What was written last; nothing at first."""
        self.has_failed = False
        """Whether the last write failed: the file does not have what it should."""

    async def write(self) -> None:
        """Return once a snapshot that was taken after this call is in the file. Raises what the write raises
        (OSError)."""
        if self._running is None or self._running.done():
            self._running = asyncio.ensure_future(self._run())
            await asyncio.shield(self._running)
        else:
            # The running write may have taken its snapshot already: later callers share the one after it.
            if self._next is None:
                self._next = asyncio.ensure_future(self._run_after(self._running))
            await asyncio.shield(self._next)

    async def _run(self) -> None:
        snapshot = self._snapshot()
        try:
            await in_thread(self._write_in_thread, snapshot)
        except OSError:
            self.has_failed = True
            raise
        self.written, self.has_failed = snapshot, False

    async def _run_after(self, running: "asyncio.Task[None]") -> None:
        await asyncio.wait([running])
        self._running, self._next = self._next, None
        await self._run()
