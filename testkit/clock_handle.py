"""The clock of a broker or a cluster, which tests move: `broker.clock`. `argument_checks.py` refuses durations that are
none, and `broker/clock.py` moves it."""

from kmini.broker.clock import Duration
from kmini.testkit.handle import Awaiting, Blocking, Handle, ends_with_its_caller, method, takes_long
from kmini.testkit.operations import Operations


class ClockOperations:
    """The clock of a broker or a cluster: the wall clock, plus the time that it was moved (`broker/clock.py`)."""

    def __init__(self, operations: Operations) -> None:
        self._clock = operations.clock

    @takes_long
    @ends_with_its_caller
    async def advance(self, duration: Duration, *, liveness: bool = False) -> None:
        """Move log time by `duration` ("7d", "90m", "1h30m", "250ms", a timedelta, or milliseconds); return when
        everything that fell due has run, in order: retention, rolls, compaction, expiry. With `liveness` the time-outs
        of sessions, requests, transactions and connections move too. What clients write meanwhile is looked at when
        the clock has been moved. A caller that is cancelled or gone ends the move where it is. Raises ValueError.

        >>> broker.create_topic("users", config={"retention.ms": 86_400_000})
        >>> _ = broker.produce("users", b"alice")
        >>> broker.clock.advance("7d")
        >>> broker.records("users")
        []
        """
        await self._clock.advance(duration, liveness=liveness)

    async def stop_moving(self) -> bool:
        """End the `advance` that another caller waits for, and return whether there is one; log time stays where it has
        come to. `advance` raises RuntimeError then.

        >>> broker.clock.stop_moving()
        False
        """
        return self._clock.stop_moving()

    async def turn_back(self, duration: Duration) -> None:
        """Turn log time back by `duration`, as the clock of a machine that is corrected. Nothing runs by it, and what
        was due in an hour is due in an hour still; records that the broker stamps are older than those before them.
        Time-outs do not move. Raises ValueError.

        >>> before = broker.clock.now_ms()
        >>> broker.clock.turn_back("1h")
        >>> broker.clock.now_ms() < before
        True
        """
        self._clock.turn_back(duration)

    async def now_ms(self) -> int:
        """Log time in milliseconds since the epoch: the broker's current time."""
        return self._clock.now_ms()


class _ClockHandle(Handle[ClockOperations]):
    """The methods of `Clock` and `AsyncClock`."""

    _called = "clock."

    def __init__(self, host: Handle[Operations]) -> None:
        super().__init__(host._thread, lambda: host._operations.part(ClockOperations))

    advance = method(ClockOperations.advance)
    stop_moving = method(ClockOperations.stop_moving)
    turn_back = method(ClockOperations.turn_back)
    now_ms = method(ClockOperations.now_ms)


class Clock(_ClockHandle, Blocking[ClockOperations]):
    """The clock of a broker or a cluster."""


class AsyncClock(_ClockHandle, Awaiting[ClockOperations]):
    """The clock of a broker or a cluster; see Clock."""
