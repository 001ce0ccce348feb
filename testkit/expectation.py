"""`with topic.expect(count=1) as records:` around the code under test."""

from __future__ import annotations

from collections.abc import Coroutine
from types import TracebackType
from typing import TYPE_CHECKING, Any

from kmini.protocol.errors import ExpectationFailed, InvalidState, RequestTimedOut
from kmini.testkit.arrivals import listed
from kmini.testkit.contents import Isolation, Record
from kmini.testkit.handle import DEADLINE_S, Handle, brief, check_can_await, running_library
from kmini.testkit.phrases import counted
from kmini.testkit.record_selection import Mark, Predicate, RecordSelection

if TYPE_CHECKING:
    from kmini.testkit.topic_handle import TopicOperations

QUIET_MS = 200
"""Milliseconds for which nothing may arrive where no record is expected, unless `within_ms` says otherwise."""


class Expectation:
    """Expects records of the block that it is entered for. `with` blocks at the end of the block, `async with` awaits.

    The list that the block gets is empty until its end.
    """

    def __init__(
        self,
        handle: Handle[TopicOperations],
        count: int,
        *,
        partition: int | None,
        key: bytes | None,
        where: Predicate | None,
        timeout_ms: int,
        within_ms: int | None,
        isolation: Isolation,
    ) -> None:
        self._handle = handle
        self._count = count
        self._selection = RecordSelection(partition, key, where, None, isolation)
        self._timeout_ms = timeout_ms
        self._within_ms = within_ms if within_ms is not None else QUIET_MS if count == 0 else 0
        self._records: list[Record] = []

    # --- the block

    def __enter__(self) -> list[Record]:
        self._begin(self._handle._thread.run(self._handle._operations.mark(), deadline_s=DEADLINE_S))
        return self._records

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        __tracebackhide__ = True  # pytest shows the line of the test
        if kind is not None:
            return
        library = running_library()
        timeout_ms, within_ms = (self._timeout_ms, self._within_ms) if library is None else (0, 0)
        deadline_s = (timeout_ms + within_ms) / 1000 + DEADLINE_S
        try:
            found = self._handle._thread.run(self._arrived(timeout_ms, within_ms), deadline_s=deadline_s)
        except Exception as failure:
            if library is not None and isinstance(failure, RequestTimedOut):
                raise InvalidState(self._would_stop_the_loop(library)) from None
            self._note_if_in_vain(failure)
            raise brief(failure)  # noqa: B904  # it is the same error
        if library is not None and self._within_ms:
            raise InvalidState(self._would_stop_the_loop(library))
        self._records += found

    async def __aenter__(self) -> list[Record]:
        self._begin(await self._awaited(self._handle._operations.mark()))
        return self._records

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        __tracebackhide__ = True
        if kind is not None:
            return
        try:
            waits_ms = self._timeout_ms + self._within_ms
            self._records += await self._awaited(self._arrived(self._timeout_ms, self._within_ms), waits_ms)
        except Exception as failure:
            self._note_if_in_vain(failure)
            raise brief(failure)  # noqa: B904  # it is the same error

    async def _awaited(self, coroutine: Coroutine[Any, Any, Any], waits_ms: int = 0) -> Any:
        try:
            check_can_await()
        except RuntimeError:
            coroutine.close()
            raise
        return await self._handle._thread.awaited(coroutine, deadline_s=waits_ms / 1000 + DEADLINE_S)

    def _note_if_in_vain(self, failure: Exception) -> None:
        """Remember for the failure report that the records did not come in time."""
        if isinstance(failure, RequestTimedOut):
            chosen = self._selection._asdict()
            given = {name: chosen[name] for name in ("partition", "key", "where") if chosen[name] is not None}
            self._handle._note_failed_wait("expect", (), {"count": self._count, **given}, failure)

    def _begin(self, mark: Mark) -> None:
        self._selection = self._selection._replace(since=mark)
        self._records = []

    # --- on the broker's loop

    async def _arrived(self, timeout_ms: int, within_ms: int) -> list[Record]:
        """The expected records. Raises RecordsMissing, and AssertionError for records too many."""
        topic, count, chosen = self._handle._operations, self._count, self._selection._asdict()
        if count:
            await topic.wait_for(count, timeout_ms=timeout_ms, **chosen)
        if within_ms:
            try:
                await topic.wait_for(count + 1, timeout_ms=within_ms, **chosen)
            except RequestTimedOut:
                pass  # as it should be
        found = await topic.wait_for(count, timeout_ms=0, **chosen)
        if len(found) > count:
            came = f"{counted(len(found), 'record')}{self._selection._replace(since=None)}"
            raise ExpectationFailed(f"{came} came to {topic.name}, and {count or 'none'} should: {listed(found)}")
        return found

    def _would_stop_the_loop(self, library: str) -> str:
        what, called = self._handle._thread.what, self._handle._called
        if library == "asyncio":
            return (
                "the end of `with expect` would stop the event loop that your client runs on: "
                f"async with {what}.aio.{called}expect(...)"
            )
        instead = f"trio.to_thread.run_sync({what}.{called}wait_for, ...)"
        return f"the end of `with expect` would stop the event loop that your client runs on: await {instead}"
