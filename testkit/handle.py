"""Blocking and awaitable methods, made from coroutines that are written once, as the methods of a table of operations.

The coroutines run on their own thread and event loop, so that a broker answers while the code around it blocks, and any
loop of a test works. A `Handle` has the methods of one table.
"""

import asyncio
import functools
import inspect
import sys
from collections.abc import Callable, Coroutine, Mapping
from types import MappingProxyType, TracebackType
from typing import TYPE_CHECKING, Any, Concatenate, Generic, Literal, ParamSpec, TypeVar, overload

from kmini.protocol.errors import AnswerError, InvalidState, RequestTimedOut
from kmini.testkit.argument_checks import checked
from kmini.testkit.failed_waits import FailedWait
from kmini.testkit.loop_thread import LoopThread

P = ParamSpec("P")
T = TypeVar("T")
Table = TypeVar("Table")
Operations = TypeVar("Operations", covariant=True)
H = TypeVar("H")
F = TypeVar("F", bound=Callable[..., Any])

_WAITS = "__waits_for_clients__"
_TAKES_LONG = "__takes_long__"
_ENDS_WITH_ITS_CALLER = "__ends_with_its_caller__"

DEADLINE_S = 60
"""Seconds after which a blocking call is given up, beside its `timeout_ms`: more than `request.timeout.ms`, for which a
record waits for its replicas."""

LONG_DEADLINE_S = 1_800
"""The same for calls whose work depends on how much the logs hold, such as a compaction."""


def waits_for_clients(method: F) -> F:
    """Mark a method of a table that waits, for at most `timeout_ms`, for an action of clients.

    Clients may run on the event loop of the calling thread. There the blocking method does not wait: it returns if the
    condition holds, and raises RuntimeError otherwise.
    """
    setattr(method, _WAITS, True)
    return method


def waits_for_its_caller(method: Callable[..., object]) -> bool:
    """Whether a method only waits, or can end at any moment: nothing is left half done if its caller goes."""
    return hasattr(method, _WAITS) or hasattr(method, _ENDS_WITH_ITS_CALLER)


def ends_with_its_caller(method: F) -> F:
    """Mark a method of a table that acts, and stops where it has come to if its caller goes."""
    setattr(method, _ENDS_WITH_ITS_CALLER, True)
    return method


def takes_long(method: F) -> F:
    """Mark a method of a table whose work depends on how much the logs hold: its deadline is `LONG_DEADLINE_S`."""
    setattr(method, _TAKES_LONG, True)
    return method


class Handle(Generic[Operations]):
    """Has the operations of a table, each as a method: `Blocking` and `Awaiting` handles are made from one list.

    class TopicMethods:
        roll = method(TopicOperations.roll)

    class Topic(Blocking[TopicOperations], TopicMethods): ...
    class AsyncTopic(Awaiting[TopicOperations], TopicMethods): ...
    """

    _called = ""
    """How a user gets this handle from the broker or cluster, with a dot behind: "clock."."""

    _about: Mapping[str, str] = MappingProxyType({})
    """The topic or the group that all methods are about."""

    def __init__(self, thread: LoopThread, table: Callable[[], Operations]) -> None:
        """`table` returns the table of the broker or cluster that runs on `thread`, and raises RuntimeError while none
        runs."""
        self._thread = thread
        self._table = table

    @property
    def _operations(self) -> Operations:
        return self._table()

    if not TYPE_CHECKING:

        def __getattr__(self, name: str) -> Any:
            __tracebackhide__ = True  # pytest shows the line of the test
            from kmini.testkit.name_hints import unknown_attribute  # start-up time counts

            raise AttributeError(unknown_attribute(type(self), name), name=name)

    def _operation(self, method: Callable[..., Coroutine[Any, Any, T]]) -> Callable[..., Coroutine[Any, Any, T]]:
        """The method of the table. The table is asked by the name, because that of a broker elsewhere is of another
        class; it may refuse, before the arguments are checked."""
        __tracebackhide__ = True
        try:
            operation: Callable[..., Coroutine[Any, Any, T]] = getattr(self._operations, method.__name__)
        except Exception as error:
            raise brief(error)  # noqa: B904  # it is the same error
        return operation

    def _note_failed_wait(
        self, name: str, args: tuple[object, ...], kwargs: Mapping[str, Any], error: RequestTimedOut, **about: Any
    ) -> None:
        """Remember a call that waited in vain, and the topic or group of its arguments, for the failure report."""
        about = {**self._about, **about}
        self._thread.failed_waits.append(FailedWait.of(self._called + name, args, kwargs, about, error.message))


class Blocking(Handle[Operations]):
    """A handle whose methods block until they are done."""

    def __init_subclass__(cls) -> None:
        super().__init_subclass__()
        _install_methods(cls, blocking)


class Awaiting(Handle[Operations]):
    """A handle whose methods are coroutine functions, for any asyncio event loop."""

    def __init_subclass__(cls) -> None:
        super().__init_subclass__()
        _install_methods(cls, awaitable)


class method(Generic[Table, P, T]):
    """A coroutine of a table as a method: it blocks on a `Blocking` handle, and is awaited on an `Awaiting` one.

    At run time both classes have ordinary functions with the name, the docstring and the signature of the coroutine
    (`Handle.__init_subclass__`); type checkers read `__get__`.
    """

    def __init__(self, coroutine: Callable[Concatenate[Table, P], Coroutine[Any, Any, T]]) -> None:
        self.coroutine = coroutine

    if TYPE_CHECKING:

        @overload
        def __get__(self, instance: Blocking[Table], owner: type | None = None) -> Callable[P, T]: ...

        @overload
        def __get__(
            self, instance: Awaiting[Table], owner: type | None = None
        ) -> Callable[P, Coroutine[Any, Any, T]]: ...

        @overload
        def __get__(self, instance: None, owner: type) -> Callable[..., Any]: ...

        def __get__(self, instance: object, owner: type | None = None) -> Any: ...


def _install_methods(cls: type, make: Callable[[Any], Any]) -> None:
    """Give a class an ordinary function for each `method` that it inherits from a list of methods."""
    for name in dir(cls):
        found = inspect.getattr_static(cls, name)
        if isinstance(found, method):
            setattr(cls, name, make(found.coroutine))


def blocking(
    method: Callable[Concatenate[Table, P], Coroutine[Any, Any, T]],
) -> Callable[Concatenate[Handle[Table], P], T]:
    """Make the method a blocking one. It raises TypeError and ValueError for wrong arguments."""
    signature = _signature_of_calls(method)

    def call(self: Handle[Table], /, *args: P.args, **kwargs: P.kwargs) -> T:
        __tracebackhide__ = True  # pytest shows the line of the test
        operation = self._operation(method)
        bound = _checked(method.__name__, signature, args, kwargs)
        library = running_library() if hasattr(method, _WAITS) else None
        if library is not None:
            bound.arguments["timeout_ms"] = 0
        deadline_s = _deadline_s(method, bound)
        try:
            return self._thread.run(operation(*bound.args, **bound.kwargs), deadline_s=deadline_s)
        except Exception as error:
            if library is not None and isinstance(error, RequestTimedOut):
                raise InvalidState(_would_stop_the_loop(self, method.__name__, library)) from None
            _note_if_in_vain(self, method.__name__, bound, args, kwargs, error)
            raise brief(error)  # noqa: B904  # it is the same error

    functools.update_wrapper(call, method)
    return call


def awaitable(
    method: Callable[Concatenate[Table, P], Coroutine[Any, Any, T]],
) -> Callable[Concatenate[Handle[Table], P], Coroutine[Any, Any, T]]:
    """Make the method one that any asyncio event loop can await. It raises what the blocking one raises, and has the
    same deadline."""
    signature = _signature_of_calls(method)

    async def call(self: Handle[Table], /, *args: P.args, **kwargs: P.kwargs) -> T:
        __tracebackhide__ = True
        check_can_await()
        operation = self._operation(method)
        bound = _checked(method.__name__, signature, args, kwargs)
        deadline_s = _deadline_s(method, bound)
        try:
            return await self._thread.awaited(operation(*bound.args, **bound.kwargs), deadline_s=deadline_s)
        except Exception as error:
            _note_if_in_vain(self, method.__name__, bound, args, kwargs, error)
            raise brief(error)  # noqa: B904  # it is the same error

    functools.update_wrapper(call, method)
    return call


def _deadline_s(method: Callable[..., object], bound: inspect.BoundArguments) -> float:
    """Seconds after which a call is given up; what it may wait for comes on top."""
    if "timeout_ms" in bound.signature.parameters:
        bound.apply_defaults()
    usual_s = LONG_DEADLINE_S if hasattr(method, _TAKES_LONG) else DEADLINE_S
    return float(usual_s + bound.arguments.get("timeout_ms", 0) / 1000)


def _note_if_in_vain(
    handle: Handle[Any],
    name: str,
    bound: inspect.BoundArguments,
    args: tuple[object, ...],
    kwargs: Mapping[str, Any],
    error: Exception,
) -> None:
    if "timeout_ms" in bound.signature.parameters and isinstance(error, RequestTimedOut):
        about = {key: value for key, value in {**bound.arguments, **kwargs}.items() if key in ("topic", "group")}
        handle._note_failed_wait(name, args, kwargs, error, **about)


def checking(method: Callable[Concatenate[H, P], T]) -> Callable[Concatenate[H, P], T]:
    """Have a method that is no coroutine of a table check its arguments, too. It raises TypeError and ValueError."""
    signature = _signature_of_calls(method)

    @functools.wraps(method)
    def call(self: H, /, *args: P.args, **kwargs: P.kwargs) -> T:
        __tracebackhide__ = True
        bound = _checked(method.__name__, signature, args, kwargs)
        return method(self, *bound.args, **bound.kwargs)

    return call


def _checked(
    name: str, signature: inspect.Signature, args: tuple[object, ...], kwargs: dict[str, Any]
) -> inspect.BoundArguments:
    __tracebackhide__ = True
    try:
        return checked(name, signature, args, kwargs)
    except (TypeError, ValueError) as error:
        raise error.with_traceback(None)  # noqa: B904  # it is the same error


def brief(error: Exception) -> Exception:
    """The error without the frames of our modules, if it is an answer: a failed test shows the line of the test.

    What a function of the caller's raised keeps the frames from that function on, and what should not happen keeps all.
    """
    last = error.__traceback__
    while last is not None:
        if _home(last) != "kmini" and _home(last) not in sys.stdlib_module_names:
            return error.with_traceback(last)  # the first frame of a function of the caller's
        if last.tb_next is None:
            break
        last = last.tb_next
    return error.with_traceback(None) if isinstance(error, AnswerError) else error


def _home(entry: TracebackType) -> str:
    """The package of the code that a frame runs."""
    return str(entry.tb_frame.f_globals.get("__name__")).partition(".")[0]


@functools.cache  # blocking and awaiting classes ask for the same ones
def _signature_of_calls(method: Callable[..., object]) -> inspect.Signature:
    """The signature of a method of a table, without the table."""
    signature = inspect.signature(method)
    return signature.replace(parameters=[*signature.parameters.values()][1:])


def running_library() -> Literal["asyncio", "trio"] | None:
    """The library whose event loop runs on this thread."""
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        trio = sys.modules.get("trio")
        try:
            return "trio" if trio is not None and trio.lowlevel.current_task() else None
        except RuntimeError:
            return None
    return "asyncio"


def check_can_await() -> None:
    """Raise RuntimeError on trio: the awaitable methods need asyncio."""
    if running_library() == "trio":
        raise InvalidState(
            "kmini's awaitable methods need asyncio, and this is trio: call the blocking ones, those that wait by "
            "trio.to_thread.run_sync"
        )


def _would_stop_the_loop(handle: Handle[Any], name: str, library: Literal["asyncio", "trio"]) -> str:
    what, called = handle._thread.what, handle._called + name
    instead = f"{what}.aio.{called}(...)" if library == "asyncio" else f"trio.to_thread.run_sync({what}.{called}, ...)"
    return f"{name} would stop the event loop that your client runs on: await {instead}"
