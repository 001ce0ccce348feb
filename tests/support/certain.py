"""What keeps the certain stage certain: its tests cannot connect, start a process or a thread, or sleep.

An audit hook of the interpreter raises where one of them tries, and the test fails even if something catches that.
"""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Callable
from typing import Any

FORBIDDEN = {
    "socket.connect": "connects a socket",
    "subprocess.Popen": "starts a process",
    "os.fork": "forks",
    "os.posix_spawn": "starts a process",
    "time.sleep": "sleeps",  # seen from Python 3.11 on
    "_thread.start_new_thread": "starts a thread",
}


class NotCertain(RuntimeError):
    """A test of the certain stage did what makes an outcome a matter of luck."""


class Guard:
    """Watches this interpreter from its making on; `found` are the acts of the test under way."""

    def __init__(self) -> None:
        self.is_on = False
        self.found: list[str] = []
        sys.addaudithook(self._hook)

    def _hook(self, event: str, _: tuple[Any, ...]) -> None:
        if self.is_on and event in FORBIDDEN:
            self.found.append(FORBIDDEN[event])
            raise NotCertain(f"a test of the certain stage {FORBIDDEN[event]}: mark it `sockets` or do without")


class CertainLoop(asyncio.SelectorEventLoop):
    """An event loop that does itself, in a turn of its own, what another one gives to a thread."""

    def run_in_executor(self, _: Any, function: Callable[..., Any], *arguments: Any) -> asyncio.Future[Any]:  # type: ignore[override]
        done = self.create_future()

        def run() -> None:
            if done.cancelled():
                return
            try:
                result = function(*arguments)
            except Exception as error:
                done.set_exception(error)
            else:
                done.set_result(result)

        self.call_soon(run)
        return done


class LoopPolicy(asyncio.DefaultEventLoopPolicy):
    """Gives tests of the certain stage their loop."""

    def __init__(self, guard: Guard) -> None:
        super().__init__()
        self._guard = guard

    def new_event_loop(self) -> asyncio.AbstractEventLoop:
        return CertainLoop() if self._guard.is_on else super().new_event_loop()
