"""Two voices for what is written once, as a table of coroutines: methods that block, and methods that are awaited.

The coroutines run on a thread and an event loop of their own, so that a broker answers while the code around it blocks,
and does not care which loop a test runs on. A `Host` is what runs there; a `Speaker` is whoever can be asked something
of it.
"""

import asyncio
import functools
import os
import shutil
import tempfile
from abc import abstractmethod
from collections.abc import Callable, Coroutine
from types import TracebackType
from typing import Any, Concatenate, Generic, ParamSpec, TypeVar

from kmini.loop_thread import LoopThread

P = ParamSpec("P")
T = TypeVar("T")
Table = TypeVar("Table")
Awaited = TypeVar("Awaited")
H = TypeVar("H", bound="Host[Any, Any]")


class Speaker(Generic[Table]):
    """Has the operations of a table, each a method made by `blocking` or by `awaitable`."""

    def __init__(self, thread: LoopThread, table: Callable[[], Table]) -> None:
        """`table` gives the table of what runs on `thread` now, and raises RuntimeError while nothing does."""
        self._thread = thread
        self._table = table

    @property
    def _operations(self) -> Table:
        return self._table()


def blocking(
    method: Callable[Concatenate[Table, P], Coroutine[Any, Any, T]],
) -> Callable[Concatenate[Speaker[Table], P], T]:
    """The method as a blocking one."""

    def call(self: Speaker[Table], /, *args: P.args, **kwargs: P.kwargs) -> T:
        return self._thread.run(method(self._operations, *args, **kwargs))

    functools.update_wrapper(call, method)
    return call


def awaitable(
    method: Callable[Concatenate[Table, P], Coroutine[Any, Any, T]],
) -> Callable[Concatenate[Speaker[Table], P], Coroutine[Any, Any, T]]:
    """The method as one that any event loop can await."""

    async def call(self: Speaker[Table], /, *args: P.args, **kwargs: P.kwargs) -> T:
        return await asyncio.wrap_future(self._thread.submit(method(self._operations, *args, **kwargs)))

    functools.update_wrapper(call, method)
    return call


class Host(Speaker[Table], Generic[Table, Awaited]):
    """Runs on a thread of its own, with a data directory that is private, and removed at the end, unless one is given.

    `with` it gives itself; `async with` it gives an `Awaited`, which speaks the same table by awaiting.
    """

    def __init__(self, what: str, data_dir: str | os.PathLike[str] | None) -> None:
        """`what` it is, as error messages say it."""
        super().__init__(LoopThread(what), self._what_runs)
        self._what = what
        self._given_directory = None if data_dir is None else os.fspath(data_dir)
        self._private_directory: str | None = None
        self._running: Table | None = None

    @abstractmethod
    async def _begin(self, data_dir: str, *, is_temporary: bool) -> Table:
        """Start; return what can be asked."""

    @abstractmethod
    async def _finish(self, running: Table) -> None:
        """Stop what `_begin` has started."""

    @abstractmethod
    def _awaited(self) -> Awaited: ...

    def _what_runs(self) -> Table:
        if self._running is None:
            raise RuntimeError(f"the {self._what} does not run")
        return self._running

    @property
    def data_dir(self) -> str | None:
        """Where the data are: `kmini.db`, and the Kafka log directory `broker-N` of each broker. None while a private
        one does not exist."""
        return self._given_directory or self._private_directory

    def start(self: H) -> H:
        """Start, and return once it can be reached."""
        self._thread.start()
        try:
            is_temporary = self._given_directory is None
            if self.data_dir is None:
                self._private_directory = tempfile.mkdtemp(prefix="kmini-")
            assert self.data_dir is not None
            self._running = self._thread.run(self._begin(self.data_dir, is_temporary=is_temporary))
        except BaseException:
            self._thread.end()
            self._remove_directory()
            raise
        return self

    def _stop(self) -> None:
        running, self._running = self._running, None
        if running is not None:
            try:
                self._thread.run(self._finish(running))
            finally:
                self._thread.end()

    def close(self) -> None:
        """Stop, and remove the private data directory."""
        try:
            self._stop()
        finally:
            self._remove_directory()

    def _remove_directory(self) -> None:
        if self._private_directory is not None:
            shutil.rmtree(self._private_directory, ignore_errors=True)
            self._private_directory = None

    def __enter__(self: H) -> H:
        return self.start()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close()

    async def __aenter__(self) -> Awaited:
        await asyncio.get_running_loop().run_in_executor(None, self.start)
        return self._awaited()

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        await asyncio.get_running_loop().run_in_executor(None, self.close)
