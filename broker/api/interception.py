"""The one place before and the one place after each request, for what does not belong to its handler: a quota, a fault
that a test asks for. The journal (`journal/`) is written around all of it, and has what interceptors note there.

An interceptor is a coroutine function around the rest of the way: the interceptors behind it, the guard with the
permissions (`security/guarding.py`), and the handler.

    async def slow(exchange: Exchange, serve: Serve) -> Response | None:
        await exchange.context.wait(Never(), timeout_ms=200)      # before the request: a delay
        response = await serve()
        exchange.note_fault("slow")                               # after it
        return response

What it does is what becomes of the request:

* It returns what `serve()` returned, or another answer, before or after the handler has run.
* It returns None: the request is never answered, and the next one of the connection is served.
* It raises a KafkaError: the answer has that error, where the API has an error for the whole request; else the
  connection closes.
* It raises CloseConnection: the connection closes, without an answer.

Waits go through `exchange.context` (`wait`, `answer`), so that they end with the connection. A connection has one
request in service, so a delay keeps its later requests back, too.

Every request that has a handler passes here, on its way from `Dispatcher.dispatch`. What closes its connection before
that (an unknown API or version, a body that does not decode, a request before the login) does not; the request log
(`network/request_log.py`) has a line for these. The requests of SASL have secrets in their bodies.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Coroutine, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from ...protocol.messages.headers import RequestHeader
    from ...protocol.schema import Request, Response
    from ..journal.request_journal import Recorder
    from .registry import Handler
    from .request_context import Context


class Exchange:
    """One request on its way to its answer."""

    __slots__ = ("context", "header", "recorder", "request", "size_bytes")

    def __init__(
        self,
        header: RequestHeader,
        request: Request,
        context: Context,
        size_bytes: int,
        recorder: Recorder | None = None,
    ) -> None:
        self.header = header
        self.request = request
        self.context = context
        self.size_bytes = size_bytes
        """Bytes of the request's body. Records in it are views into the receive buffer until the answer is sent."""
        self.recorder = recorder
        """Writes the journal of the connection; None where there is no journal."""

    def note_fault(self, name: str) -> None:
        """Write to the journal that a fault was applied to the request."""
        entry = None if self.recorder is None else self.recorder.entry
        if entry is not None:
            entry.note_fault(name)


Serve = Callable[[], Awaitable["Response | None"]]
"""Goes on with the request; to be called once at most."""

Interceptor = Callable[[Exchange, Serve], Coroutine[Any, Any, "Response | None"]]


Look = Callable[["Request", "Context"], bool]
"""A cheap look at a request: whether an interceptor has to do with it. The interceptor may get others, too."""


def every_request(request: Request, context: Context) -> bool:
    """The look at a request where interceptors have to do with all of them."""
    return True


class Intercepted:
    """The interceptors of a broker, each with a look at requests that spares most of them the way through it."""

    def __init__(self, interceptors: list[Interceptor]) -> None:
        self.interceptors = interceptors
        """What stands before and after each request, besides its handler. It outlives a reset."""
        self.is_intercepted: Look = every_request
        """Whether an interceptor has to do with a request, where there is one."""
        self._looks: dict[Interceptor, Look] = {}

    def intercept(self, interceptor: Interceptor, look: Look) -> None:
        """Place an interceptor for the requests at which `look` is true, around those that are there; or give one that
        is there another look."""
        if interceptor not in self.interceptors:
            self.interceptors.insert(0, interceptor)
        self._looks[interceptor] = look
        self._look_again()

    def intercept_no_more(self, interceptor: Interceptor) -> None:
        """Take an interceptor away, if it is there."""
        if interceptor in self.interceptors:
            self.interceptors.remove(interceptor)
        self._looks.pop(interceptor, None)
        self._look_again()

    def _look_again(self) -> None:
        looks = tuple(self._looks.values())
        if len(looks) > 1:
            self.is_intercepted = lambda request, context: any(look(request, context) for look in looks)
        else:
            self.is_intercepted = looks[0] if looks else every_request


def intercepted(
    interceptors: Sequence[Interceptor], exchange: Exchange, handler: Handler
) -> Coroutine[Any, Any, Response | None]:
    """The coroutine that serves a request through all interceptors; the first one is the outermost."""
    serve: Callable[[], Any] = partial(handler.function, exchange.request, exchange.context)
    for interceptor in reversed(interceptors):
        serve = partial(interceptor, exchange, serve)
    coroutine: Coroutine[Any, Any, Response | None] = serve()
    return coroutine
