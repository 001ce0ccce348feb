"""The clock of a broker or a cluster, which tests move: `broker.clock`."""

from kmini.broker.clock import Duration
from kmini.handle import Awaiting, Blocking, Handle, method, takes_long
from kmini.shared_operations import SharedOperations


class ClockOperations:
    """The clock of a broker or a cluster: the wall clock, plus the time that it was moved (`broker/clock.py`)."""

    def __init__(self, operations: SharedOperations) -> None:
        self._clock = operations.clock

    @takes_long
    async def advance(self, duration: Duration, *, liveness: bool = False) -> None:
        """Move log time by `duration` ("7d", "90m", "1h30m", "250ms", a timedelta, or milliseconds); return when
        everything that fell due has run, in order: retention, rolls, compaction, expiry. With `liveness` the time-outs
        of sessions, requests, transactions and connections move too. Raises ValueError.

        >>> broker.create_topic("users", configs={"retention.ms": 86_400_000})
        >>> _ = broker.produce("users", b"alice")
        >>> broker.clock.advance("7d")
        >>> broker.records("users")
        []
        """
        await self._clock.advance(duration, liveness=liveness)

    async def now_ms(self) -> int:
        """Log time in milliseconds since the epoch: the broker's current time."""
        return self._clock.now_ms()


class _ClockHandle(Handle[ClockOperations]):
    """The methods of `Clock` and `AsyncClock`."""

    _called = "clock."

    def __init__(self, host: Handle[SharedOperations]) -> None:
        super().__init__(host._thread, lambda: ClockOperations(host._operations))

    advance = method(ClockOperations.advance)
    now_ms = method(ClockOperations.now_ms)


class Clock(_ClockHandle, Blocking[ClockOperations]):
    """The clock of a broker or a cluster."""


class AsyncClock(_ClockHandle, Awaiting[ClockOperations]):
    """The clock of a broker or a cluster; see Clock."""
