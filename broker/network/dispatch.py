"""Dispatch: decode a request, run its handler, and answer it, or turn its failure into an answer. A version that is not
served is refused here.

A handler runs without a task up to its first wait, because most requests never wait, and without one beyond a wait in
the purgatory. What stands before and after each request besides its handler (`api/interception.py`) is asked here.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Coroutine, Mapping
from time import perf_counter
from typing import TYPE_CHECKING, Any, Protocol

from ...protocol.errors import KafkaError, MalformedMessage, UnknownServerError
from ..api.error_mapping import error_response
from ..api.interception import Exchange, intercepted
from ..api.request_context import CloseConnection, Context, RequestConnection
from ..handlers.api_versions import unsupported_version_answer
from ..metrics import MANY_ANSWERS
from ..purgatory import Wait
from ..scheduler import resume
from .request_log import LoggedRequest
from .request_log import log as _request_log

if TYPE_CHECKING:
    from ...protocol.framing import Frame
    from ...protocol.messages.headers import RequestHeader
    from ...protocol.schema import Request, Response
    from ..api.registry import Handler
    from ..journal.request_journal import Recorder
    from ..metrics import RequestMetrics
    from ..services import Services
    from .client_hints import ClientHints, RedirectWatch

log = logging.getLogger("kmini.connection")

API_VERSIONS = 18


class DispatchingConnection(RequestConnection, Protocol):
    """The connection whose requests are dispatched, as the dispatcher uses it."""

    in_service: asyncio.Future[Any] | None
    """The request in service, if its handler could not answer at once."""
    redirect_watch: RedirectWatch | None
    client_id: str | None

    def send(self, correlation_id: int, version: int, response: Response) -> bytearray: ...

    def drop(self, reason: object, header: RequestHeader | None = None) -> None: ...

    def serve(self) -> None: ...


class Dispatcher:
    """Runs the handlers of one connection's requests, one after the other, each in four steps:

    1. Take the handler and the context of the last request, if this one repeats it; else make them. Decode.
    2. Tell what observes requests: hints, the request log, the journal.
    3. Run the handler up to its end or its first wait.
    4. Go on with what it released; then answer it.

    Its slots have three lifetimes:

    - the connection's: `_connection`, and what `use` sets (`_handlers`, `_hints`, `_purgatory`, `_recorder`,
      `_services`)
    - of what repeats: `_handler`, `_counted` and `_context` stay for the next request, because clients repeat API,
      version and client id. Another request replaces them, and an idle connection has none (`forget`)
    - a request's, from `dispatch` to its answer: `_frame`, `_started_s`, and where there is a request log `_logged`;
      `_coroutine` only while its handler waits
    """

    __slots__ = (
        "_connection",
        "_context",
        "_coroutine",
        "_counted",
        "_frame",
        "_handler",
        "_handlers",
        "_hints",
        "_logged",
        "_purgatory",
        "_recorder",
        "_services",
        "_started_s",
    )

    _frame: Frame
    """The request in service; its handler is `_handler`."""
    _coroutine: Coroutine[Any, Any, Response | None]
    """What its handler has still to do."""
    _started_s: float
    """When it was begun with."""

    def __init__(
        self, connection: DispatchingConnection, services: Services, handlers: Mapping[int, Handler], hints: ClientHints
    ) -> None:
        self._connection = connection
        self._logged: LoggedRequest | None = None
        """The request in service, where the log has a line for each request."""
        self._handler: Handler | None = None
        """The handler of the last request."""
        self._counted: RequestMetrics | None = None
        """The counters of its API."""
        self._context: Context | None = None
        self.use(services, handlers, hints)

    def use(self, services: Services, handlers: Mapping[int, Handler], hints: ClientHints) -> None:
        """Serve requests by these parts from now on. No request may be in service."""
        self._services = services
        self._purgatory = services.purgatory
        self._handlers = handlers
        self._hints = hints
        journal = services.journal
        self._recorder: Recorder | None = None if journal is None else journal.recorder(services, self._connection)
        """Writes the journal, where there is one."""
        self._handler = self._counted = self._context = None

    def forget(self) -> None:
        """Keep nothing of the last request: the connection is idle."""
        if self._connection.in_service is None:
            self._handler = self._counted = self._context = None

    def dispatch(self, frame: Frame) -> None:
        """Serve a request. It is answered on return, unless its handler has to wait: then the connection has it
        `in_service`. Other requests that it released are answered before it, if they are few."""
        version, client_id = frame.api_version, frame.client_id
        handler, context = self._handlers.get(frame.api_key), self._context
        if (
            handler is None
            or handler is not self._handler
            or context is None
            or version != context.version
            or client_id != context.client_id
        ):
            if handler is None or not handler.min_version <= version <= handler.max_version:
                self._refuse_version(frame, handler)
                return
            context = self._new_context(frame, handler)
        self._started_s = perf_counter()
        try:
            request = handler.request.decode(frame.body, version)
        except MalformedMessage as error:
            self._drop(frame, error)
            return
        connection, services = self._connection, self._services
        connection.client_id = client_id  # not before: what does not decode has no client id either
        if connection.redirect_watch is not None:
            connection.redirect_watch.request(frame.header)
        if _request_log.isEnabledFor(logging.DEBUG):
            self._logged = self._log_line(frame.header, request)
        self._frame = frame
        if self._recorder is not None:
            self._recorder.begin(frame, request, context, self._started_s)
        purgatory = self._purgatory
        attends = purgatory.attend()  # False for a request that is served while another one goes on with the released
        waits, response, failure = False, None, None
        try:
            coroutine: Coroutine[Any, Any, Response | None]
            if services.interceptors and services.is_intercepted(request, context):
                exchange = Exchange(frame.header, request, context, len(frame.body), self._recorder)
                coroutine = intercepted(services.interceptors, exchange, handler)
            else:
                coroutine = handler.function(request, context)  # type: ignore[assignment]
            awaited = coroutine.send(None)  # what the handler awaits, most often a `Wait`; or it has ended
        except StopIteration as done:
            response = done.value
        except BaseException as error:
            failure = error
        else:
            waits = True
            self._wait(coroutine, awaited)
        # After `_wait`, because what goes on now may release this very request, which must be ready to go on by then;
        # and before the answer, whose price the consumers of its records would wait for otherwise.
        if attends:
            purgatory.run_released()
        if failure is not None:
            self._fail(failure)
            failure = None  # with its traceback it would be a cycle, which keeps views of the receive buffer
        elif not waits:
            self._finish(response)

    def _new_context(self, frame: Frame, handler: Handler) -> Context:
        """Make ready for a request that does not repeat API, version and client id of the last one, and for those that
        repeat it: load its handler, take the counters of its API, make its context."""
        self._handler, self._counted = handler.load(), self._services.metrics.of_api(frame.api_key)
        self._context = context = Context(self._services, self._connection, frame.api_version, frame.client_id)
        return context

    def _wait(self, coroutine: Coroutine[Any, Any, Response | None], awaited: Any) -> None:
        """Go on with a handler when it has what it waits for: in place after a wait in the purgatory, else as a
        task."""
        self._coroutine = coroutine
        assert self._handler is not None
        if not self._handler.request.holds_views:
            self._frame.forget_body()  # so that others may use the shared buffer while it waits
        if type(awaited) is Wait:
            awaited.resume_request = self._resume_handler
            self._connection.in_service = awaited
        else:
            self._connection.in_service = asyncio.get_running_loop().create_task(self._await(awaited))

    def _resume_handler(self) -> None:
        """Go on with a handler whose wait in the purgatory has ended."""
        # The handler stands in the `__await__` of its `Wait`, a future, which yielded itself to `dispatch`. It is done
        # now, so `send(None)` lets `__await__` return its result, or raise its error or its CancelledError: the handler
        # goes on behind its `await`, or unwinds from there.
        try:
            awaited = self._coroutine.send(None)
        except StopIteration as done:
            self._answer(done.value, None)
        except asyncio.CancelledError:
            self._abandon()
        except Exception as error:
            self._answer(None, error)
        else:
            self._wait(self._coroutine, awaited)

    async def _await(self, awaited: Any) -> None:
        """Run the rest of a handler that has to wait, and answer its request."""
        response, failure = None, None
        try:
            response = await resume(self._coroutine, awaited)
        except asyncio.CancelledError:
            self._abandon()
            return
        except Exception as error:
            failure = error
        self._answer(response, failure)

    def _abandon(self) -> None:
        """Release a request whose client has left, which ended its wait."""
        del self._coroutine
        self._write_closed(self._frame, "the connection ended before the answer")
        self._frame.release()

    def _answer(self, response: Response | None, failure: Exception | None) -> None:
        """Answer a request that was in service, and serve the next ones."""
        connection = self._connection
        connection.in_service = None
        if connection.is_closing:
            self._abandon()
            if failure is not None and not isinstance(failure, (KafkaError, CloseConnection)):
                log.error("%s failed after its client left", self._name, exc_info=failure)
            return
        del self._coroutine
        if failure is not None:
            self._fail(failure)
        else:
            self._finish(response)
        connection.serve()

    def _finish(self, response: Response | None) -> None:
        frame = self._frame
        sent = None
        if response is not None:
            try:
                sent = self._connection.send(frame.correlation_id, frame.api_version, response)
            except Exception as error:  # a bug of kmini's: end the client's wait for the answer
                log.error("the answer to %s v%d failed", self._name, frame.api_version, exc_info=error)
                self._drop(frame, "the answer cannot be sent")
                return
        frame.release()
        del self._frame
        counted = self._counted
        assert counted is not None
        ended_s = perf_counter()
        counted.seconds_taken.append(ended_s - self._started_s)
        if len(counted.seconds_taken) >= MANY_ANSWERS:
            counted.sum_up()
        if self._recorder is not None:
            self._recorder.end(response, sent, ended_s)
        if self._logged is not None:
            self._logged.answered(response)
            self._logged = None

    @property
    def waits_for(self) -> str:
        """What the request in service waits for: its API, and what the wait says about itself."""
        wait = self._connection.waiting
        what = wait.operation.what if isinstance(wait, Wait) else self._connection.waiting_what
        if self._handler is None:  # a connection that no request has come from, or none that is remembered
            return what
        return f"{self._name} {what}" if what else self._name

    @property
    def _name(self) -> str:
        assert self._handler is not None
        return self._handler.request.name

    # --- refusals and failures

    def refuse(self, frame: Frame, reason: object, error: KafkaError | None) -> None:
        """Hang up on a request without serving it; answer `error` first, if its version has a place for that."""
        header = frame.header
        handler = self._handlers.get(header.api_key)
        if error is not None and handler is not None and header.api_version <= handler.max_version:
            response = error_response(handler.load().request.response, header.api_version, error)
            if response is not None:
                self._connection.send(header.correlation_id, header.api_version, response)
        self._drop(frame, reason)

    def _refuse_version(self, frame: Frame, handler: Handler | None) -> None:
        header = frame.header
        self._hints.not_served(self._connection, header, handler)
        if handler is not None and header.api_key == API_VERSIONS:
            # KIP-511: version 0 of the answer, whatever version was asked, tells the client which versions are served.
            answer = unsupported_version_answer(self._handlers)
            self._connection.send(header.correlation_id, 0, answer)
            if self._recorder is not None:
                self._recorder.closed(frame, "answered with the versions that are served")
            frame.release()
            if _request_log.isEnabledFor(logging.DEBUG):
                self._log_line(header).answered(answer)
            return
        reason = (
            "not served" if handler is None else f"served in versions {handler.min_version} to {handler.max_version}"
        )
        self._drop(frame, reason)

    def _fail(self, error: BaseException) -> None:
        """Turn an exception into the answer; the only place that does so. What is no Exception is raised on."""
        if not isinstance(error, Exception):
            raise error
        frame, handler = self._frame, self._handler
        assert handler is not None
        if isinstance(error, CloseConnection):
            self._drop(frame, error)
            return
        if not isinstance(error, KafkaError):
            log.error("%s v%d failed", self._name, frame.header.api_version, exc_info=error)
            error = UnknownServerError()
        response = error_response(handler.request.response, frame.header.api_version, error)
        if response is None:
            self._drop(frame, error)
            return
        self._services.metrics.failed(handler.request.api_key, error.kafka_name)
        self._finish(response)

    def _drop(self, frame: Frame, reason: object) -> None:
        self._connection.drop(reason, frame.header)
        self._write_closed(frame, reason)
        frame.release()

    # --- the journal and the request log

    def _log_line(self, header: RequestHeader, request: Request | None = None) -> LoggedRequest:
        connection = self._connection
        return LoggedRequest(header, connection.peer, connection.principal, request, self._topic_name)

    def _topic_name(self, topic_id: bytes) -> str | None:
        topic = self._services.controller.topic_by_id(topic_id)
        return None if topic is None else topic.name

    def _write_closed(self, frame: Frame, reason: object) -> None:
        """Write a request that is not answered to the journal, and to the log if it has a line for each request."""
        if self._recorder is not None:
            self._recorder.closed(frame, reason)
        if self._logged is not None or _request_log.isEnabledFor(logging.DEBUG):
            (self._logged or self._log_line(frame.header)).closed(reason)
            self._logged = None
