"""One source of time.

Every timestamp, deadline and period of the broker comes from its `Clock`. There are two timelines, because a test that
moves a week of log time must not throw its live clients out:

* *log time*: retention, rolls, lags, horizons, expiry of offsets and producer ids;
* *liveness*: request, session, transaction and connection time-outs.

Both run with the wall clock. A `MovableClock` can be moved ahead of it: it runs what falls due, in order, at its own
time. Its log time can be turned back, too, as that of a machine whose clock is corrected.

Clients go on writing while log time is moved. What they write meanwhile counts as written when the move ends (`Move`):
otherwise a log would be dirty anew at each look of the cleaner, 5,760 times a day.
"""

import asyncio
import heapq
import logging
import re
import time
from collections import deque
from collections.abc import Awaitable, Callable
from contextvars import ContextVar
from datetime import timedelta
from itertools import count

from ..protocol.errors import InvalidArgument, InvalidState, InvalidType
from ..protocol.topics import TopicPartition

log = logging.getLogger("kmini.clock")

Callback = Callable[[], "Awaitable[None] | None"]
"""The function that a timer runs. An awaitable that it returns runs to its end; `MovableClock.advance` waits for it."""


Duration = int | str | timedelta
"""Milliseconds, or numbers with units: "7d", "1h30m", "250ms"."""

_UNITS_MS = {"ms": 1, "s": 1_000, "m": 60_000, "h": 3_600_000, "d": 86_400_000, "w": 604_800_000}
_PART = r"(\d+(?:\.\d+)?)([a-z]+)"
_WORDS = {"sec": "s", "second": "s", "min": "m", "minute": "m", "hour": "h", "day": "d", "week": "w"}
"""What a unit may be called besides, also with an s behind it."""


def milliseconds(duration: Duration) -> int:
    """How long a duration is. ValueError, which names the units, for a text that is none; TypeError for other types."""
    if isinstance(duration, timedelta):
        return duration // timedelta(milliseconds=1)
    if isinstance(duration, int):
        return duration
    if not isinstance(duration, str):
        raise InvalidType(f"{duration!r} is no duration: it is milliseconds as an int, a str as 1h30m, or a timedelta")
    text = duration.replace(" ", "")
    parts = [(number, _WORDS.get(unit.removesuffix("s"), unit)) for number, unit in re.findall(_PART, text)]
    if not re.fullmatch(f"(?:{_PART})+", text) or any(unit not in _UNITS_MS for _, unit in parts):
        raise InvalidArgument(
            f"{duration!r} is no duration: it is numbers with units ({', '.join(_UNITS_MS)}), as in 1h30m"
        )
    return round(sum(float(number) * _UNITS_MS[unit] for number, unit in parts))


def in_days(duration_ms: int) -> str:
    """A duration in its two largest units, as "2d 5h"."""
    parts: list[str] = []
    for unit in ("d", "h", "m", "s"):
        number, duration_ms = divmod(duration_ms, _UNITS_MS[unit])
        if number or parts:
            parts.append(f"{number}{unit}")
    return " ".join(parts[:2]) or "0s"


MOVES = 1_000
"""The last moves of a clock that it remembers."""


TURN_S = 0.004
"""Seconds for which a move of the clock may hold the loop while clients wait."""

TOLD_EVERY_S = 1.0
"""Seconds after which a move of the clock that is not over says how far it is."""


class Move:
    """A move of log time that is under way, and the partitions that clients write to meanwhile.

    What such a log gets counts at the end of the move; what it held before falls due at its own times.
    """

    __slots__ = ("at_end", "began_ms", "ends_ms", "is_stopped", "written")

    def __init__(self, began_ms: int, ends_ms: int) -> None:
        self.began_ms = began_ms
        self.ends_ms = ends_ms
        self.written: dict[TopicPartition, None] = {}
        self.at_end: dict[Callable[[Move], None], None] = {}
        """Called when the move has ended, at its end or before."""
        self.is_stopped = False
        """Whether it ends where it has come to."""

    def note_append(self, partition: TopicPartition) -> None:
        """A leader has appended. Appends by what falls due in the move, such as expired offsets, are part of it."""
        if _FALLEN_DUE_IN.get() is not self:
            self.written[partition] = None


_FALLEN_DUE_IN: ContextVar[Move | None] = ContextVar("_FALLEN_DUE_IN", default=None)
"""The move in which the code that runs has fallen due; None for what clients ask for."""


class Timer:
    """A callback due at a time of one timeline. `cancel` may be called at any moment, also after it ran."""

    __slots__ = ("_handle", "callback", "due_ms", "liveness", "order")

    def __init__(self, due_ms: int, order: int, callback: Callback, *, liveness: bool) -> None:
        self.due_ms = due_ms
        self.order = order
        self.callback: Callback | None = callback
        self.liveness = liveness
        self._handle: asyncio.TimerHandle | None = None

    def cancel(self) -> None:
        self.callback = None
        if self._handle is not None:
            self._handle.cancel()
            self._handle = None

    def __lt__(self, other: "Timer") -> bool:
        return (self.due_ms, self.order) < (other.due_ms, other.order)


class Clock:
    """The wall clock. Belongs to the event loop on which its timers are set."""

    move: Move | None = None
    """The move of log time that is under way."""

    def __init__(self) -> None:
        self._order = count()
        self._running: dict[asyncio.Task[None], bool] = {}
        """What timers have started and not finished, and whether by the timeline of liveness."""

    def now_ms(self) -> int:
        """Log time, in milliseconds since the epoch."""
        return time.time_ns() // 1_000_000

    def liveness_ms(self) -> int:
        """The time of the liveness timeline, in milliseconds since an arbitrary start."""
        return time.monotonic_ns() // 1_000_000

    def liveness_at(self, log_time_ms: int) -> int:
        """The liveness time at which it was this log time. For what is stored with a log time, and ages as clients
        do."""
        return self.liveness_ms() - max(self.now_ms() - log_time_ms, 0)

    def call_later(self, delay_ms: int, callback: Callback, *, liveness: bool = False) -> Timer:
        """Run `callback` on the loop once `delay_ms` have passed on the log timeline, or on that of liveness."""
        now_ms = self.liveness_ms() if liveness else self.now_ms()
        return self.call_at(now_ms + delay_ms, callback, liveness=liveness)

    def call_at(self, due_ms: int, callback: Callback, *, liveness: bool = False) -> Timer:
        """Run `callback` on the loop at a time of the log timeline, or of that of liveness; at once if it is over."""
        now_ms = self.liveness_ms() if liveness else self.now_ms()
        timer = Timer(due_ms, next(self._order), callback, liveness=liveness)
        timer._handle = asyncio.get_running_loop().call_later(max(due_ms - now_ms, 0) / 1000, self._fire, timer)
        return timer

    @property
    def moves_to_ms(self) -> int | None:
        """The log time to which the clock is being moved; None if it only runs."""
        return None if self.move is None else self.move.ends_ms

    def move_of(self, partition: TopicPartition) -> Move | None:
        """The move of log time that is under way, if clients have written to this partition meanwhile and the end is
        still to come: what they have written waits for it."""
        move = self.move
        return None if move is None or partition not in move.written or self.now_ms() >= move.ends_ms else move

    def _fire(self, timer: Timer) -> "asyncio.Task[None] | None":
        callback, timer.callback = timer.callback, None
        timer.cancel()
        result = callback() if callback is not None else None
        if result is None:
            return None
        task = asyncio.ensure_future(_finish(result))
        self._running[task] = timer.liveness
        task.add_done_callback(self._running.pop)
        return task

    def set_back(self, ahead_ms: int = 0) -> int:
        """Set the clock back to the wall clock, which this one shows anyway. See `MovableClock.set_back`."""
        return 0

    async def settle(self) -> None:
        """Wait for what timers have started and not finished. What they start meanwhile is not waited for: what is
        tried again and again, because a broker is gone, would keep the caller for ever."""
        await self._finish_all(list(self._running))

    async def _finish_all(self, running: "list[asyncio.Task[None]]") -> None:
        if running:
            # A caller that is cancelled ends its wait only.
            await asyncio.shield(asyncio.gather(*running, return_exceptions=True))
            # From Python 3.12 on, tasks that are done already are gathered without a turn for what forgets them.
            await asyncio.sleep(0)


class MovableClock(Clock):
    """A clock for tests: the wall clock, plus what `advance` has added to it and `turn_back` has taken."""

    def __init__(self, ahead_ms: int = 0) -> None:
        """Log time begins so far ahead of the wall clock."""
        super().__init__()
        self._ahead_ms = ahead_ms
        self._liveness_ahead_ms = 0
        self._timers: list[Timer] = []
        self._liveness_timers: list[Timer] = []
        self._prune_at = 64
        self._times_set_back = 0
        self._one_at_a_time = asyncio.Lock()
        self.move = None
        self.moves: deque[tuple[float, int]] = deque([(0.0, ahead_ms)], maxlen=MOVES)
        """When log time was moved, by `time.perf_counter`, and how far it was ahead from then on; the first one is the
        start."""
        self._aheads: deque[tuple[int, int, int]] = deque([(0, ahead_ms, 0)], maxlen=MOVES)
        """The log time of each move, and how far log time and liveness were ahead from then on; at first, of the
        start."""

    def _moved(self) -> None:
        self.moves.append((time.perf_counter(), self._ahead_ms))
        self._aheads.append((self.now_ms(), self._ahead_ms, self._liveness_ahead_ms))

    def liveness_at(self, log_time_ms: int) -> int:
        known = (aheads for aheads in reversed(self._aheads) if aheads[0] <= log_time_ms)
        _, ahead_ms, liveness_ahead_ms = next(known, self._aheads[0])
        age_ms = self.now_ms() - self._ahead_ms - (log_time_ms - ahead_ms)
        liveness_ms = self.liveness_ms()
        return min(liveness_ms - self._liveness_ahead_ms + liveness_ahead_ms - age_ms, liveness_ms)

    @property
    def ahead_ms(self) -> int:
        """How far log time is ahead of the wall clock; negative if it is behind."""
        return self._ahead_ms

    def now_ms(self) -> int:
        return time.time_ns() // 1_000_000 + self._ahead_ms

    def liveness_ms(self) -> int:
        return time.monotonic_ns() // 1_000_000 + self._liveness_ahead_ms

    def call_at(self, due_ms: int, callback: Callback, *, liveness: bool = False) -> Timer:
        timer = super().call_at(due_ms, callback, liveness=liveness)
        timers = self._liveness_timers if liveness else self._timers
        heapq.heappush(timers, timer)
        if len(timers) >= self._prune_at:
            self._prune()
        return timer

    def _prune(self) -> None:
        """Forget the timers that ran or were cancelled: most waits end before their time-out."""
        for timers in (self._timers, self._liveness_timers):
            timers[:] = [timer for timer in timers if timer.callback is not None]
            heapq.heapify(timers)
        self._prune_at = 2 * max(len(self._timers), len(self._liveness_timers)) + 64

    async def advance(self, duration: Duration, *, liveness: bool = False) -> None:
        """Move log time by `duration`, and liveness too if asked; return when everything that fell due has run.

        A timer sees the clock at its own due time, and timers set on the way run as well. A second call waits for the
        first one. If the caller is cancelled, the clock stays where it has come to; `stop_moving` does that, too, and
        is a RuntimeError here. ValueError for what is no duration, or a negative one.
        """
        duration_ms = milliseconds(duration)
        if duration_ms < 0:
            raise InvalidArgument(f"the clock advances forward only, not by {duration_ms} ms: turn_back turns it back")
        async with self._one_at_a_time:
            now_ms = self.now_ms()
            move = self.move = Move(now_ms, now_ms + duration_ms)
            token = _FALLEN_DUE_IN.set(move)
            try:
                await self._advance_log_time(move)
            finally:
                _FALLEN_DUE_IN.reset(token)
                self.move = None
                self._moved()
                for at_end in move.at_end:
                    at_end(move)
            if liveness:
                await self._advance_liveness(self.liveness_ms() + duration_ms)
                self._aheads.append((self.now_ms(), self._ahead_ms, self._liveness_ahead_ms))

    def stop_moving(self) -> bool:
        """End the `advance` that is under way; return whether one was. The clock stays where it has come to."""
        if self.move is None:
            return False
        self.move.is_stopped = True
        return True

    def turn_back(self, duration: Duration) -> None:
        """Turn log time back by `duration`. Nothing runs: a timer that is set keeps the time that it has left, as the
        timers of a machine do whose clock is corrected. ValueError for what is no duration, or a negative one."""
        duration_ms = milliseconds(duration)
        if duration_ms < 0:
            raise InvalidArgument(f"the clock is turned back by a positive duration, not by {duration_ms} ms")
        for timer in self._timers:
            timer.due_ms -= duration_ms
        self._ahead_ms -= duration_ms
        self._moved()

    def set_back(self, ahead_ms: int = 0) -> int:
        """Set both timelines back to the wall clock, or log time to `ahead_ms` ahead of it; return by how many
        milliseconds that of liveness. A timer that is set keeps the time that it has left.

        Only for a caller that has stopped everything that remembers a time: the reset of a broker. An `advance` under
        way raises RuntimeError.
        """
        self._times_set_back += 1
        set_back_ms = self._liveness_ahead_ms
        for timers, by_ms in ((self._timers, self._ahead_ms - ahead_ms), (self._liveness_timers, set_back_ms)):
            for timer in timers:
                timer.due_ms -= by_ms
        self._ahead_ms, self._liveness_ahead_ms = ahead_ms, 0
        self.moves.clear()
        self.moves.append((0.0, ahead_ms))
        self._aheads.clear()
        self._aheads.append((0, ahead_ms, 0))
        self._prune()
        return set_back_ms

    async def _advance_log_time(self, move: Move) -> None:
        target_ms = move.ends_ms
        turn_ends_s = time.perf_counter() + TURN_S
        told_s = time.perf_counter()
        times_set_back = self._times_set_back
        await self._settle_log_time()  # what time alone has started may set timers that fall due
        self._check_not_set_back(times_set_back)
        while (timer := _next_due(self._timers, target_ms)) is not None:
            self._ahead_ms += max(timer.due_ms - self.now_ms(), 0)
            await self._run(timer)
            await self._settle_log_time()
            if time.perf_counter() >= turn_ends_s:
                await asyncio.sleep(0)  # clients first
                turn_ends_s = time.perf_counter() + TURN_S
            self._check_not_set_back(times_set_back)
            if move.is_stopped:
                done_ms = self.now_ms() - move.began_ms
                raise InvalidState(f"the move of the clock was stopped after {in_days(done_ms)} of its time")
            if time.perf_counter() >= told_s + TOLD_EVERY_S:
                told_s = time.perf_counter()
                self._moved()
                done_ms, all_ms = self.now_ms() - move.began_ms, target_ms - move.began_ms
                log.info("the clock is being moved: %s of %s", in_days(done_ms), in_days(all_ms))
        self._ahead_ms += max(target_ms - self.now_ms(), 0)

    async def _settle_log_time(self) -> None:
        """As `settle`, but only for what log time has started. What waits for replicas by the other timeline, which
        stands still, would hold a move for all of its time-out."""
        await self._finish_all([task for task, is_liveness in self._running.items() if not is_liveness])

    async def _advance_liveness(self, target_ms: int) -> None:
        times_set_back = self._times_set_back
        while (timer := _next_due(self._liveness_timers, target_ms)) is not None:
            self._liveness_ahead_ms += max(timer.due_ms - self.liveness_ms(), 0)
            await self._run(timer)
            self._check_not_set_back(times_set_back)
        self._liveness_ahead_ms += max(target_ms - self.liveness_ms(), 0)

    def _check_not_set_back(self, times_set_back: int) -> None:
        """Raise RuntimeError if the clock was set back since it had been `times_set_back` times."""
        if self._times_set_back != times_set_back:
            raise InvalidState("the clock was set back to the wall clock while it was advanced")

    async def _run(self, timer: Timer) -> None:
        task = self._fire(timer)
        if task is not None:
            await asyncio.shield(task)  # it runs to its end, also if the caller is cancelled


def _next_due(timers: list[Timer], target_ms: int) -> Timer | None:
    """Take the first timer that still has something to run and is due by `target_ms`."""
    while timers and (timers[0].callback is None or timers[0].due_ms <= target_ms):
        timer = heapq.heappop(timers)
        if timer.callback is not None:
            return timer
    return None


async def _finish(result: "Awaitable[None]") -> None:
    await result
