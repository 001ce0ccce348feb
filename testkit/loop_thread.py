"""An event loop on its own thread, for a broker that must answer while the code around it blocks.

Only that thread runs the loop, so every method works on any other thread, with or without a running loop there.
"""

import asyncio
import contextlib
import os
import sys
import threading
import traceback
from collections import deque
from collections.abc import Callable, Coroutine
from concurrent.futures import Future, wait
from typing import Any, TypeVar

from kmini.broker.network.event_loop import new_event_loop, raise_descriptor_limit
from kmini.protocol.errors import InvalidState
from kmini.testkit.failed_waits import FailedWait

T = TypeVar("T")

WIND_DOWN_S = 5
"""Seconds that the remaining tasks may take to end after they are cancelled."""


MOST_FAILED_WAITS = 8
"""Waits in vain that are remembered."""

END_S = 60
"""Seconds that the thread may take to end, with the threads of its loop. It is a daemon: after that it is left."""


class LoopThread:
    """Runs from `start` to `end`, and can be started again. One caller at a time may use these two; the others are for
    any thread."""

    def __init__(self, what: str) -> None:
        """`what` runs there: a word for error messages."""
        self.what = what
        self.failed_waits: deque[FailedWait] = deque(maxlen=MOST_FAILED_WAITS)
        """The last calls that have waited in vain, for the failure report."""
        self.told_address_s = 0.0
        """When `bootstrap_servers` was read last, so that a client may have the address: seconds since the epoch."""
        self._lock = threading.Lock()
        """Held while `_loop` is used or changed, so that `end` sees every submitted coroutine."""
        self._loop: asyncio.AbstractEventLoop | None = None
        self._thread: threading.Thread | None = None
        self._pid = os.getpid()
        self._is_ending = False

    def start(self) -> None:
        """Start the thread. Raises RuntimeError if it runs."""
        if self._loop is not None:
            raise InvalidState(f"the {self.what} runs already")
        raise_descriptor_limit()
        self._pid, self._is_ending = os.getpid(), False
        loop = new_event_loop()
        thread = threading.Thread(target=self._serve, args=(loop,), name="kmini", daemon=True)
        try:
            thread.start()
        except BaseException:
            loop.close()
            raise
        self._thread, self._loop = thread, loop

    def _serve(self, loop: asyncio.AbstractEventLoop) -> None:
        try:
            loop.run_forever()
            self._is_ending = True
            loop.run_until_complete(_wind_down(loop))
        finally:
            loop.close()

    def run(self, coroutine: Coroutine[Any, Any, T], *, deadline_s: float | None = None) -> T:
        """Run a coroutine on the thread, and block until it has ended. Raises what `submit` raises, and TimeoutError
        after `deadline_s` seconds, which says where the thread and the coroutine are."""
        try:
            self.check_caller()
        except RuntimeError:
            coroutine.close()
            raise
        future = self.submit(coroutine)
        try:
            if wait([future], deadline_s).not_done:
                raise TimeoutError(self._where_it_hangs(coroutine, deadline_s))
            return future.result()
        except BaseException:
            future.cancel()  # after a KeyboardInterrupt nothing waits for it
            raise

    async def awaited(self, coroutine: Coroutine[Any, Any, T], *, deadline_s: float | None = None) -> T:
        """Run a coroutine on the thread, and return to any asyncio loop when it has ended. Raises what `run` raises,
        but may be awaited where that would wait for ever."""
        future = asyncio.wrap_future(self.submit(coroutine))
        try:
            done, _ = await asyncio.wait([future], timeout=deadline_s)
            if not done:
                raise TimeoutError(self._where_it_hangs(coroutine, deadline_s))
            return future.result()
        except BaseException:
            future.cancel()  # after a cancelled call nothing waits for it
            raise

    def _where_it_hangs(self, coroutine: Any, deadline_s: float | None) -> str:
        waits = "".join(traceback.format_list(_awaited_by(coroutine)))
        return (
            f"{coroutine.__name__} has not returned after {deadline_s:g} s. The call waits at:\n{waits}"
            f"{self._where_the_thread_is()}"
        )

    def _where_the_thread_is(self) -> str:
        frame = None if self._thread is None else sys._current_frames().get(self._thread.ident or 0)
        stack = "".join(traceback.format_stack(frame)) if frame is not None else "  its end\n"
        return f"The thread that the {self.what} runs on is at:\n{stack}"

    def submit(self, coroutine: Coroutine[Any, Any, T]) -> "Future[T]":
        """Submit a coroutine. Raises RuntimeError while the thread does not run, and in a process forked since; the
        coroutine raises it if `end` comes first."""
        try:
            self._check_process()
            with self._lock:
                if self._loop is None:
                    raise InvalidState(f"the {self.what} does not run")
                return asyncio.run_coroutine_threadsafe(self._until_end(coroutine), self._loop)
        except RuntimeError:
            coroutine.close()
            raise

    async def _until_end(self, coroutine: Coroutine[Any, Any, T]) -> T:
        try:
            return await coroutine
        except asyncio.CancelledError:
            if self._is_ending:
                raise InvalidState(f"the {self.what} was stopped during this call") from None
            raise

    def end(self) -> None:
        """Cancel the tasks, end the loop and its threads, and return when all have ended. Raises TimeoutError after
        `END_S` seconds, which says where the thread is."""
        self.check_caller()
        with self._lock:
            loop, self._loop = self._loop, None
        if loop is not None and self._thread is not None:
            loop.call_soon_threadsafe(loop.stop)
            self._thread.join(END_S)
            if self._thread.is_alive():
                raise TimeoutError(f"the {self.what} has not ended after {END_S} s. {self._where_the_thread_is()}")
            self._thread = None

    @property
    def is_running(self) -> bool:
        """Whether it has started and not ended."""
        return self._loop is not None

    @property
    def is_of_this_process(self) -> bool:
        """Whether this process started the thread, and not the process that it was forked from."""
        return os.getpid() == self._pid

    def check_caller(self) -> None:
        """Raise RuntimeError where a call would wait for ever: on the loop's own thread, and in a process that was
        forked since."""
        self._check_process()
        if threading.current_thread() is self._thread:
            raise InvalidState(
                f"the thread that the {self.what} runs on cannot wait for the {self.what}: a function that the "
                f"{self.what} calls can only use its arguments"
            )

    def _check_process(self) -> None:
        if self._loop is not None and not self.is_of_this_process:
            raise InvalidState(
                f"the {self.what} runs in process {self._pid}, from which this one, {os.getpid()}, was forked: "
                "connect a client to its bootstrap_servers instead"
            )


def _awaited_by(coroutine: Any) -> list[traceback.FrameSummary]:
    """Where a coroutine waits, and those that it awaits, the innermost last."""
    places: list[traceback.FrameSummary] = []
    while (frame := getattr(coroutine, "cr_frame", None)) is not None:
        places += traceback.extract_stack(frame, limit=1)
        coroutine = coroutine.cr_await
    return places


async def _wind_down(loop: asyncio.AbstractEventLoop) -> None:
    await asyncio.sleep(0)  # the last submitted task begins, so that its caller learns of its end
    tasks = asyncio.all_tasks(loop) - {asyncio.current_task(loop)}
    for task in tasks:
        task.cancel()
    if tasks:
        await asyncio.wait(tasks, timeout=WIND_DOWN_S)
    await loop.shutdown_asyncgens()
    await loop.shutdown_default_executor()


async def run_aside(function: Callable[[], T], *, undo: Callable[[], object] | None = None) -> T:
    """Run a blocking function in its own thread.

    The function runs to its end even if the caller is cancelled meanwhile; then `undo` runs if the function succeeded.
    """
    done: Future[T] = Future()

    def work() -> None:
        try:
            done.set_result(function())
        except BaseException as error:
            done.set_exception(error)

    thread = threading.Thread(target=work, name="kmini-aside", daemon=True)
    outcome = asyncio.wrap_future(done)
    thread.start()
    cancelled: asyncio.CancelledError | None = None
    while not outcome.done():
        try:
            await asyncio.wait([outcome])
        except asyncio.CancelledError as error:
            cancelled = error
    thread.join()
    if cancelled is None:
        return outcome.result()
    if outcome.exception() is None and undo is not None:
        with contextlib.suppress(asyncio.CancelledError):
            await run_aside(undo)
    raise cancelled
