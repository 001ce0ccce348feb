"""An event loop on a thread of its own, for what has to answer while the code around it blocks."""

import asyncio
import threading
from collections.abc import Coroutine
from concurrent.futures import Future
from typing import Any, TypeVar

from kmini.broker.event_loop import new_event_loop, raise_descriptor_limit

T = TypeVar("T")


class LoopThread:
    """Runs from `start` to `end`, and can be started again."""

    def __init__(self, what: str) -> None:
        """`what` runs there, as error messages say it."""
        self._what = what
        self._loop: asyncio.AbstractEventLoop | None = None
        self._thread: threading.Thread | None = None

    @property
    def loop(self) -> asyncio.AbstractEventLoop:
        """Raises RuntimeError while nothing runs."""
        if self._loop is None:
            raise RuntimeError(f"the {self._what} does not run")
        return self._loop

    def start(self) -> None:
        """Raises RuntimeError if it runs."""
        if self._loop is not None:
            raise RuntimeError(f"the {self._what} runs already")
        raise_descriptor_limit()
        self._loop = new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="kmini", daemon=True)
        self._thread.start()

    def run(self, coroutine: Coroutine[Any, Any, T]) -> T:
        """Run a coroutine there, and block until it has ended."""
        return self.submit(coroutine).result()

    def submit(self, coroutine: Coroutine[Any, Any, T]) -> "Future[T]":
        """Have a coroutine run there. Raises RuntimeError while nothing runs."""
        return asyncio.run_coroutine_threadsafe(coroutine, self.loop)

    def end(self) -> None:
        """Stop the loop and wait for its threads."""
        loop, self._loop = self.loop, None
        loop.call_soon_threadsafe(loop.stop)
        assert self._thread is not None
        self._thread.join()
        loop.run_until_complete(loop.shutdown_default_executor())
        loop.close()
