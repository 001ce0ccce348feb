"""Serving HTTP on a socket that listens already, on the broker's loop: what the control API and the schema registry
share (aiohttp).
"""

from __future__ import annotations

import asyncio
import logging
import socket
from collections.abc import Awaitable, Callable
from http import HTTPStatus

from aiohttp import HttpVersion11, hdrs, web

MAX_BODY_BYTES = 16 * 1024 * 1024
"""The largest body of a request."""

READ_S = 10.0
"""Seconds that the headers of a request have to come from its first byte on, and a body from then on."""

IDLE_S = 75.0
"""Seconds after which a connection without a request is closed, from its beginning or its last answer. Clients keep
unused connections for a shorter time: aiohttp's for 15 s."""

CLOSE_S = 0.3
"""Seconds that requests in service have when the server stops; aiohttp waits twice as long for one that goes on."""

SHOWN = 120
"""Most characters that an answer has of a message of the HTTP parser."""

AnswerError = Callable[[HTTPStatus, str], web.Response]
"""Makes the answer to a request that cannot be read, of its status and a sentence. For a failure the sentence is
empty."""


async def read_body(request: web.Request) -> bytes:
    """The body of a request. Raises HTTPRequestTimeout where it has not come within `READ_S`, and what aiohttp raises
    for one that is too large or broken."""
    try:
        return await asyncio.wait_for(request.read(), READ_S)
    except asyncio.TimeoutError:
        raise web.HTTPRequestTimeout from None


def expecting(answer_error: AnswerError) -> Callable[[web.Request], Awaitable[web.StreamResponse | None]]:
    """The handler of the header Expect for the routes of an application (RFC 9110, section 10.1.1). It asks for the
    body that waits for 100-continue, and answers 417 to any other expectation."""

    async def expect(request: web.Request) -> web.StreamResponse | None:
        if request.version < HttpVersion11:
            return None
        if request.headers[hdrs.EXPECT].lower() != "100-continue":
            return answer_error(HTTPStatus.EXPECTATION_FAILED, "the header Expect must be 100-continue")
        if request.transport is not None:
            request.transport.write(b"HTTP/1.1 100 Continue\r\n\r\n")
        return None

    return expect


class HttpServer:
    """Serves an application."""

    def __init__(self, app: web.Application, answer_error: AnswerError, log: logging.Logger) -> None:
        self._runner = web.AppRunner(app, handler_cancellation=True, shutdown_timeout=CLOSE_S)
        self._answer_error = answer_error
        self._log = log
        self._listening: asyncio.AbstractServer | None = None

    async def start(self, listening: socket.socket) -> None:
        """Serve the connections of a socket that listens already."""
        await self._runner.setup()
        server, loop = self._runner.server, asyncio.get_running_loop()
        assert server is not None

        def connect() -> _Connection:
            return _Connection(server, loop, self._answer_error, self._log)

        self._listening = await loop.create_server(connect, sock=listening)

    def close(self) -> None:
        """Close the socket. Connections go on."""
        if self._listening is not None:
            self._listening.close()

    async def stop(self) -> None:
        """Close the socket, and end all connections. Requests in service have `CLOSE_S` to end."""
        self.close()
        await self._runner.cleanup()


class _Connection(web.RequestHandler):
    """A connection that answers in the application's way what is no HTTP, too."""

    __slots__ = ("_answer_error", "_headers_timer", "_log_errors")

    def __init__(
        self,
        server: web.Server,
        loop: asyncio.AbstractEventLoop,
        answer_error: AnswerError,
        log: logging.Logger,
    ) -> None:
        super().__init__(
            server,
            loop=loop,
            keepalive_timeout=IDLE_S,
            access_log=None,  # type: ignore[arg-type]  # None writes no log
        )
        self._answer_error = answer_error
        self._log_errors = log
        self._headers_timer: asyncio.TimerHandle | None = None
        """Ends the connection unless the headers that have begun are complete by then."""

    def data_received(self, data: bytes) -> None:
        """Take bytes of requests. Where they end within headers, the rest has `READ_S` to come."""
        super().data_received(data)
        if not self._awaits_headers:
            self._end_headers_timer()
        elif self._headers_timer is None:
            self._headers_timer = asyncio.get_running_loop().call_later(READ_S, self._end_slow_headers)

    @property
    def _awaits_headers(self) -> bool:
        """Whether no request is in service, nor complete."""
        is_woken = self._waiter is not None and self._waiter.done()
        return self._current_request is None and not self._messages and not is_woken

    def _end_slow_headers(self) -> None:
        self._headers_timer = None
        if self._awaits_headers and self.transport is not None:
            self.transport.close()

    def _end_headers_timer(self) -> None:
        if self._headers_timer is not None:
            self._headers_timer.cancel()
            self._headers_timer = None

    def connection_lost(self, exc: BaseException | None) -> None:
        self._end_headers_timer()
        super().connection_lost(exc)

    def handle_error(
        self,
        request: web.BaseRequest,
        status: int = 500,
        exc: BaseException | None = None,
        message: str | None = None,
    ) -> web.StreamResponse:
        """The answer to a request that the parser refuses, and to one whose service has failed. The connection ends
        with it. Raises ConnectionError if an answer has begun."""
        if request.writer.output_size > 0:
            raise ConnectionError("an answer has begun already")
        if status >= HTTPStatus.INTERNAL_SERVER_ERROR:
            self._log_errors.error("a request failed", exc_info=exc)
            response = self._answer_error(HTTPStatus.INTERNAL_SERVER_ERROR, "")
        else:
            self._log_errors.debug("a request that is no HTTP", exc_info=exc)
            response = self._answer_error(HTTPStatus.BAD_REQUEST, parser_message("the request cannot be read", message))
        response.force_close()
        return response


def parser_message(what: str, message: object) -> str:
    """A sentence about a request that HTTP's rules refuse, with the first line of the parser's message, without the
    bytes that it shows."""
    lines = [line.strip(" :") for line in str(message or "").splitlines() if not line.startswith("400")]
    why = f": {lines[0].partition(': b')[0][:SHOWN]}" if lines and lines[0] else ""
    return f"{what}{why}"
