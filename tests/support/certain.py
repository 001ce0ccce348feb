"""What keeps the certain stage certain: its tests cannot connect, start a process or a thread, or sleep.

What one of them tries raises, and the test fails even if something catches that.
"""

from __future__ import annotations

import asyncio
import functools
import sys
import threading
import time
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any

FORBIDDEN = {
    "socket.connect": "connects a socket",
    "subprocess.Popen": "starts a process",
    "os.fork": "forks",
    "os.posix_spawn": "starts a process",
}
"""Events of the interpreter's audit hooks."""


class NotCertain(RuntimeError):
    """A test of the certain stage did what makes an outcome a matter of luck."""


class Guard:
    """Watches this interpreter from its making on; `found` are the acts of the test under way."""

    def __init__(self) -> None:
        self.is_on = False
        self.found: list[str] = []
        self._of_tests = threading.get_ident()
        """The thread that runs tests. What another one does, which an earlier test of another stage has left, as the
        client of Spark's JVM leaves one, is none of this test's."""
        sys.addaudithook(self._hook)
        # Of these the audit hooks of Python 3.10 to 3.12 say nothing.
        threading.Thread.start = self._refused(threading.Thread.start, "starts a thread")  # type: ignore[method-assign]
        time.sleep = self._refused(time.sleep, "sleeps")
        self._submit_to_thread = ThreadPoolExecutor.submit
        ThreadPoolExecutor.submit = lambda *args, **kwargs: self._submit(*args, **kwargs)  # type: ignore[method-assign]
        self._new_other_loop = asyncio.new_event_loop
        asyncio.new_event_loop = asyncio.events.new_event_loop = self._new_event_loop

    def _hook(self, event: str, _: tuple[Any, ...]) -> None:
        if event in FORBIDDEN and self._watches():
            self._refuse(FORBIDDEN[event])

    def _refused(self, function: Callable[..., None], act: str) -> Callable[..., None]:
        @functools.wraps(function)
        def guarded(*arguments: Any) -> None:
            if self._watches():
                self._refuse(act)
            function(*arguments)

        return guarded

    def _watches(self) -> bool:
        return self.is_on and threading.get_ident() == self._of_tests

    def _new_event_loop(self) -> asyncio.AbstractEventLoop:
        return CertainLoop() if self.is_on else self._new_other_loop()

    def _submit(
        self, executor: ThreadPoolExecutor, function: Callable[..., Any], /, *args: Any, **kwargs: Any
    ) -> Future[Any]:
        """What a pool of threads is given is done at once, by the thread that gives it."""
        if not self.is_on:
            return self._submit_to_thread(executor, function, *args, **kwargs)
        done: Future[Any] = Future()
        try:
            done.set_result(function(*args, **kwargs))
        except Exception as error:
            done.set_exception(error)
        return done

    def _refuse(self, act: str) -> None:
        self.found.append(act)
        raise NotCertain(f"a test of the certain stage {act}: mark it `sockets` or do without")


def settle(done: asyncio.Future[Any], function: Callable[..., Any], arguments: Sequence[Any]) -> None:
    """Do what a future stands for, in one go, unless it was cancelled meanwhile."""
    if done.cancelled():
        return
    try:
        result = function(*arguments)
    except Exception as error:
        done.set_exception(error)
    else:
        done.set_result(result)


class CertainLoop(asyncio.SelectorEventLoop):
    """An event loop that does itself, in a turn of its own, what another one gives to a thread."""

    def run_in_executor(self, _: Any, function: Callable[..., Any], *arguments: Any) -> asyncio.Future[Any]:  # type: ignore[override]
        done = self.create_future()
        self.call_soon(settle, done, function, arguments)
        return done


class LoopPolicy(asyncio.DefaultEventLoopPolicy):
    """Gives tests of the certain stage their loop."""

    def __init__(self, guard: Guard) -> None:
        super().__init__()
        self._guard = guard

    def new_event_loop(self) -> asyncio.AbstractEventLoop:
        return CertainLoop() if self._guard.is_on else super().new_event_loop()
