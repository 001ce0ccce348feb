"""One client connection: the asyncio shell around `protocol.framing`.

It does four things: feed what arrives, hand each request to its handler, write the answer, and keep a peer from costing
more than one request and one reply. Requests of a connection are served one by one and answered in order, as in Kafka;
what a client pipelines waits in its receive buffer, and beyond a bound in its socket. Nobody is read from while a reply
to them is unsent.
"""

import asyncio
import logging
import time
from collections.abc import Coroutine
from typing import TYPE_CHECKING, Any, cast

from ...protocol.errors import IllegalSaslState, KafkaError, MalformedMessage, UnknownServerError
from ...protocol.framing import NEED_DATA, Frame, ServerConnection, frame_of
from ...protocol.schema import Response
from ..api.registry import Handler
from ..api.request_context import Context
from ..scheduler import Turn, resume
from ..security.resources import ANONYMOUS, Principal
from ..security.sasl import SaslSession
from ..security.sasl_exchange import AuthenticationFailed
from .client_hints import RedirectWatch
from .peer_log import PeerLog
from .request_log import LoggedRequest
from .request_log import log as _request_log

if TYPE_CHECKING:
    from .socket_server import Listener, Server

log = logging.getLogger("kmini.connection")
peer_log = PeerLog(log)

_PIPELINED_BYTES = 256 * 1024
"""Unserved input of a connection beyond which it is not read from until its request is answered."""

API_VERSIONS = 18


class CloseConnection(Exception):
    """Raised by a handler when the protocol offers no answer but hanging up: a failed produce with acks=0."""


class Connection(asyncio.BufferedProtocol):
    """A peer. `waiting` is the future its request waits for in the purgatory, if it does; it is cancelled when the peer
    is gone."""

    def __init__(self, server: "Server", listener: "Listener") -> None:
        self.server = server
        self.listener = listener
        self.waiting: asyncio.Future[bool] | None = None
        self.peer: tuple[str, int] = ("", 0)
        self.arrived_at: tuple[str, int] = ("", 0)
        """Our host and port, as this client reached them."""
        self.was_active = True
        """Whether the peer sent something, or read what we sent, since the server last looked."""
        self.idle_since_ms = 0
        """When the server last saw that it was active, in liveness time."""
        self.principal: Principal = ANONYMOUS
        """Who the peer is, as far as it has shown."""
        self.sasl = None if listener.sasl is None else SaslSession(server.broker, listener.sasl, self)
        """How it authenticates; None where nobody has to."""
        self.gate = self.sasl
        """Who is asked what may be served; None once that is everything."""
        self._framing = ServerConnection(
            server.max_request_bytes if listener.sasl is None else listener.sasl.max_receive_bytes
        )
        self._loop = asyncio.get_running_loop()
        self._transport: asyncio.Transport
        self.redirect_watch: RedirectWatch | None = None
        """Watches whether the client connects to the address it is told; None where that is the address it came to."""
        self._logged: LoggedRequest | None = None
        """The request in service, where the log has a line for each request."""
        self.in_service: asyncio.Task[None] | None = None
        """The request that is being worked on, or waits, where its handler could not answer at once."""
        self._reading = True
        self._write_paused = False
        self._closing = False

    # --- what asyncio calls

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)
        self.peer = address_of(transport.get_extra_info("peername"))
        self.arrived_at = address_of(transport.get_extra_info("sockname"))
        refusal = self.server.register(self)
        if refusal is not None:
            peer_log.warning("refused a connection from %s: %s", self.peer[0], refusal)
            self._closing = True
            self._transport.abort()
            return
        self.redirect_watch = self.server.hints.watch(self)
        if self.sasl is not None:
            self.sasl.begin()

    def connection_lost(self, error: Exception | None) -> None:
        self._closing = True
        if self.sasl is not None:
            self.sasl.end()
        self.server.unregister(self)
        if self.waiting is not None:
            self.waiting.cancel()

    def get_buffer(self, size_hint: int) -> memoryview:
        return self._framing.get_buffer()

    def buffer_updated(self, count: int) -> None:
        self.was_active = True
        self._framing.buffer_updated(count)
        if self.in_service is None and not self.server.is_suspended:
            self._serve()
        elif self._framing.pending_bytes > _PIPELINED_BYTES:
            self._set_reading(False)

    def eof_received(self) -> bool:
        return False

    def pause_writing(self) -> None:
        self._write_paused = True
        self._set_reading(False)

    def resume_writing(self) -> None:
        self._write_paused = False
        self.was_active = True
        self._serve()

    # --- what the server calls

    @property
    def is_closing(self) -> bool:
        """Whether the peer is gone, or will be: nothing is answered any more."""
        return self._closing

    @property
    def is_waiting(self) -> bool:
        """Whether its request waits, and nothing has ended the wait."""
        return self.waiting is not None and not self.waiting.done()

    def close(self) -> None:
        """Send what is written and hang up; a request that waits is abandoned."""
        self._closing = True
        if self.waiting is not None:
            self.waiting.cancel()
        self._transport.close()

    def go_on(self) -> None:
        """Serve what has come while the server was suspended."""
        if self.in_service is None:
            self._serve()

    def trim(self) -> None:
        """Give back the receive buffer of a connection on which nothing is going on."""
        self._framing.trim()

    def abort(self) -> None:
        """Hang up at once."""
        self._closing = True
        self._transport.abort()

    # --- authentication

    def authenticated(self, principal: Principal, *, for_good: bool) -> None:
        """The peer has shown who it is: its requests are served; if not `for_good`, until that expires."""
        self.principal = principal
        self._framing.allow(self.server.max_request_bytes)
        self.gate = None if for_good else self.sasl

    def close_after_answer(self) -> None:
        """Hang up once the answer is out that is about to be given."""
        self._loop.call_soon(self.close)

    def _refuse_entry(self, session: SaslSession, frame: Frame, handler: Handler | None) -> None:
        """Hang up on a request that came too early or too late; in the middle of an exchange, with a word."""
        header = frame.header
        if session.has_failed:  # which was said, and logged
            frame.release()
            self.close()
            return
        if session.is_exchanging and handler is not None and header.api_version <= handler.max_version:
            response = _error_response(handler, header.api_version, IllegalSaslState())
            if response is not None:
                self._send(header.correlation_id, header.api_version, response)
        self._drop(frame, session.why_not)

    def _take_token(self, session: SaslSession) -> bool:
        """Serve a bare token of SASL; False if there is no whole one yet."""
        token = self._framing.next_token()
        if token is NEED_DATA:
            return False
        try:
            answer = session.evaluate(token)
        except AuthenticationFailed as failure:
            self.in_service = self._loop.create_task(self._fail_authentication(session, failure))
        else:
            self._transport.writelines(frame_of(answer, ()))
        return True

    async def _fail_authentication(self, session: SaslSession, failure: AuthenticationFailed) -> None:
        await session.wait_after_failure(failure)
        self.close()

    # --- serving

    def _serve(self) -> None:
        """Answer what has arrived, until input is missing, a request has to wait, or others are due."""
        turn = Turn()
        while not (self._closing or self._write_paused or self.in_service is not None or self.server.is_suspended):
            try:
                if self.gate is not None and self.gate.takes_tokens:
                    if self._take_token(self.gate):
                        continue
                    self._set_reading(True)
                    return
                frame = self._framing.next_frame()
            except MalformedMessage as error:
                self._drop(None, error)
                return
            if frame is NEED_DATA:
                self._set_reading(True)
                return
            self._begin(frame)
            if turn.is_over and self.in_service is None:
                # What comes meanwhile may be more than is served: no more is read until there is nothing left to serve.
                self._set_reading(False)
                self._loop.call_soon(self._serve)
                return
        if self.in_service is not None and not self._write_paused:
            # Only who reads is told that the peer has gone, and that nobody needs to wait any more.
            self._set_reading(self._framing.pending_bytes <= _PIPELINED_BYTES)

    def _begin(self, frame: Frame) -> None:
        header = frame.header
        handler = self.server.handlers.get(header.api_key)
        if self.gate is not None and not self.gate.admits(header.api_key):
            self._refuse_entry(self.gate, frame, handler)
            return
        if handler is None or not handler.min_version <= header.api_version <= handler.max_version:
            self._refuse_version(frame, handler)
            return
        started = time.perf_counter()
        try:
            request = handler.request.decode(frame.body, header.api_version)
        except MalformedMessage as error:
            self._drop(frame, error)
            return
        if self.redirect_watch is not None:
            self.redirect_watch.request(header)
        if _request_log.isEnabledFor(logging.DEBUG):
            self._logged = LoggedRequest(self, header, request)
        context = Context(self.server.broker, self, header.api_version, header.client_id)
        coroutine: Coroutine[Any, Any, Response | None] = handler.function(request, context)  # type: ignore[assignment]
        # Most requests are answered without waiting: run up to the first wait without the price of a task.
        try:
            awaited = coroutine.send(None)
        except StopIteration as done:
            self._finish(frame, handler, started, done.value)
        except Exception as error:
            self._fail(frame, handler, started, error)
        else:
            self.in_service = self._loop.create_task(self._go_on(frame, handler, started, coroutine, awaited))

    async def _go_on(
        self,
        frame: Frame,
        handler: Handler,
        started: float,
        coroutine: Coroutine[Any, Any, Response | None],
        awaited: Any,
    ) -> None:
        """Wait with a request that has to, and answer it."""
        response, failure = None, None
        try:
            response = await resume(coroutine, awaited)
        except asyncio.CancelledError:  # the peer left, and its wait ended with it
            self._log_closed(frame, "the connection ended before the answer")
            frame.release()
            return
        except Exception as error:
            failure = error
        self.in_service = None
        if self._closing:
            self._log_closed(frame, "the connection ended before the answer")
            frame.release()
            if failure is not None and not isinstance(failure, (KafkaError, CloseConnection)):
                log.error("%s failed after its client left", handler.request.name, exc_info=failure)
            return
        if failure is not None:
            self._fail(frame, handler, started, failure)
        else:
            self._finish(frame, handler, started, response)
        self._serve()

    def _finish(self, frame: Frame, handler: Handler, started: float, response: Response | None) -> None:
        header = frame.header
        if response is not None:
            try:
                self._send(header.correlation_id, header.api_version, response)
            except Exception as error:  # a mistake of ours; the peer must not wait for an answer because of it
                log.error("the answer to %s v%d failed", handler.request.name, header.api_version, exc_info=error)
                self._drop(frame, "the answer cannot be sent")
                return
        frame.release()
        self.server.broker.metrics.request(header.api_key, time.perf_counter() - started)
        if self._logged is not None:
            self._logged.answered(response)
            self._logged = None

    def _log_closed(self, frame: Frame, reason: object) -> None:
        """Give a request that is not answered its line in the log, if requests get one."""
        if self._logged is not None or _request_log.isEnabledFor(logging.DEBUG):
            logged = self._logged or LoggedRequest(self, frame.header)
            logged.closed(reason)
            self._logged = None

    def _send(self, correlation_id: int, version: int, response: Response) -> None:
        buffers = self._framing.response(correlation_id, response.header_version(version), response.encode(version))
        if len(buffers) == 1:
            self._transport.write(buffers[0])
        else:
            self._transport.writelines(buffers)

    # --- what cannot be answered as asked

    def _refuse_version(self, frame: Frame, handler: Handler | None) -> None:
        header = frame.header
        self.server.hints.not_served(self, header, handler)
        if handler is not None and header.api_key == API_VERSIONS:
            # KIP-511: whatever version was asked, version 0 of the answer tells the client what to ask next.
            from ..handlers.api_versions import unsupported_version_answer

            answer = unsupported_version_answer(self.server.handlers)
            self._send(header.correlation_id, 0, answer)
            frame.release()
            if _request_log.isEnabledFor(logging.DEBUG):
                LoggedRequest(self, header).answered(answer)
            return
        reason = (
            "not served" if handler is None else f"served in versions {handler.min_version} to {handler.max_version}"
        )
        self._drop(frame, reason)

    def _fail(self, frame: Frame, handler: Handler, started: float, error: BaseException) -> None:
        """Turn an exception into the answer, at this one place."""
        if isinstance(error, CloseConnection):
            self._drop(frame, error)
            return
        if not isinstance(error, KafkaError):
            log.error("%s v%d failed", handler.request.name, frame.header.api_version, exc_info=error)
            error = UnknownServerError()
        response = _error_response(handler, frame.header.api_version, error)
        if response is None:
            self._drop(frame, error)
            return
        self.server.broker.metrics.failed(handler.request.api_key, error.kafka_name)
        self._finish(frame, handler, started, response)

    def _drop(self, frame: Frame | None, reason: object) -> None:
        """Hang up on a peer that broke the protocol: one line, and nobody else is touched."""
        if frame is None:
            peer_log.warning("closed the connection of %s:%d: %s", *self.peer, reason)
        else:
            header = frame.header
            peer_log.warning(
                "closed the connection of %s:%d: api key %d version %d: %s",
                *(*self.peer, header.api_key, header.api_version, reason),
            )
            self._log_closed(frame, reason)
            frame.release()
        self._closing = True
        self._transport.close()

    def _set_reading(self, reading: bool) -> None:
        if reading == self._reading or self._transport.is_closing():
            return
        self._reading = reading
        if reading:
            self._transport.resume_reading()
        else:
            self._transport.pause_reading()


def _error_response(handler: Handler, version: int, error: KafkaError) -> Response | None:
    """The answer that says only this; None if this version has no place for an error of the whole request."""
    response = handler.request.response
    if not any(field.name == "error_code" and field.exists_in(version) for field in response.__fields__):
        return None
    try:
        return response(error_code=error.code)
    except TypeError:  # it has fields that must be given: errors of this API live in its partitions
        return None


def address_of(name: Any) -> tuple[str, int]:
    """Host and port of a socket name; an IPv4 address that came through an IPv6 socket is given as IPv4."""
    if not isinstance(name, tuple):
        return ("", 0)
    return name[0].removeprefix("::ffff:"), name[1]
