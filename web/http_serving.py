"""HTTP/1.1 on a socket that listens already, on the broker's loop: what the control API and the schema registry share.

h11 reads and writes the protocol. This module has what it leaves to others: the paths, the connections, how long a
client may take, and that a request ends when its client has gone.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import re
import socket
import ssl
import zlib
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterator, Mapping, Sequence
from email.utils import formatdate
from http import HTTPStatus
from typing import Any, NamedTuple, cast
from urllib.parse import parse_qs, unquote, urlsplit

import h11

READ_S = 10.0
"""Seconds that the headers of a request have to come from its first byte on, and a body from then on."""

IDLE_S = 75.0
"""Seconds after which a connection without a request is closed, from its beginning or its last answer."""

CLOSE_S = 0.3
"""Seconds that requests in service have when the server stops."""

MOST_HEADER_BYTES = 16 * 1024
"""The largest first line and headers of a request."""

CONTINUE = "100-continue"
"""The only expectation that a client may have (RFC 9110, section 10.1.1)."""

SHOWN = 120
"""Most characters that an answer has of a message of the HTTP parser."""


# --- requests and answers


class Headers(Mapping[str, str]):
    """The headers of a request, found in any case of letters. Of several with one name, the first counts."""

    def __init__(self, pairs: Sequence[tuple[bytes, bytes]]) -> None:
        self._values = {name.lower().decode("latin-1"): _header_text(value) for name, value in reversed(pairs)}

    def __getitem__(self, name: str) -> str:
        return self._values[name.lower()]

    def __iter__(self) -> Iterator[str]:
        return iter(self._values)

    def __len__(self) -> int:
        return len(self._values)


def _header_text(value: bytes) -> str:
    return value.decode("utf-8", "surrogateescape")


class Response(NamedTuple):
    """An answer."""

    status: int = HTTPStatus.OK
    headers: Mapping[str, str] = {}
    body: bytes | AsyncGenerator[bytes, None] = b""
    """Bytes, or the pieces of a stream, which is closed when its client has gone."""


class Request:
    """A request whose headers have come."""

    def __init__(self, connection: _Connection, head: h11.Request, router: Router) -> None:
        """Raises Unreadable."""
        self._connection = connection
        self.method = head.method.decode("ascii")
        self.target = head.target.decode("latin-1")
        """The path and the query as they were sent."""
        try:
            url = urlsplit("//_" + self.target if self.target.startswith("/") else self.target, allow_fragments=False)
        except ValueError as error:
            raise Unreadable(str(error)) from error
        self.path = unquote(url.path)
        """The path, decoded."""
        self.queries: Mapping[str, list[str]] = parse_qs(url.query, keep_blank_values=True)
        """All values of each name of the query."""
        self.headers = Headers(head.headers)
        length = self.headers.get("Content-Length")
        self.content_length = None if length is None else int(length)
        """The bytes that the body is said to have."""
        self.has_body = "Transfer-Encoding" in self.headers or bool(self.content_length)
        self.handler, self.names = router.find(self.method, url.path)
        """The handler, which raises NoSuchPath or NoSuchMethod where there is no route, and what the path says for the
        names of its route."""

    @property
    def query(self) -> Mapping[str, str]:
        """The first value of each name of the query."""
        return {name: values[0] for name, values in self.queries.items()}

    @property
    def transport(self) -> asyncio.Transport:
        """The connection of the client."""
        return self._connection.transport

    @property
    def peer(self) -> tuple[str, int]:
        """The address and the port of the client."""
        host, port = (self.transport.get_extra_info("peername") or ("", 0))[:2]
        return host, port

    async def read(self) -> bytes:
        """Read the body. Raises BodyTooLarge, BodyMissing where it has not come within `READ_S`, and Unreadable."""
        try:
            body = await asyncio.wait_for(self._connection.read_body(), READ_S)
        except asyncio.TimeoutError:
            raise BodyMissing from None
        coding = self.headers.get("Content-Encoding", "identity").lower()
        return body if coding == "identity" else _decompressed(coding, body, self._connection.max_body_bytes)


def _decompressed(coding: str, body: bytes, most_bytes: int) -> bytes:
    """A body without its coding. Raises BodyTooLarge and Unreadable."""
    if coding not in ("gzip", "deflate"):
        raise Unreadable(f"its Content-Encoding is {coding}, and may be gzip or deflate")
    decompressor = zlib.decompressobj(zlib.MAX_WBITS | 32)  # either one, by its header
    try:
        plain = decompressor.decompress(body, most_bytes + 1)
    except zlib.error as error:
        raise Unreadable(f"it is no {coding}: {error}") from None
    if len(plain) > most_bytes:
        raise BodyTooLarge
    if not decompressor.eof:
        raise Unreadable(f"its {coding} has no end")
    return plain


class BodyTooLarge(Exception):
    """The body of a request has more bytes than the server takes."""


class BodyMissing(Exception):
    """The body of a request has not come in time."""


class Unreadable(Exception):
    """A request breaks the rules of HTTP."""


# --- paths

Handler = Callable[[Request], Awaitable[Response]]


class NoSuchPath(Exception):
    """No route has the path of a request."""


class NoSuchMethod(Exception):
    """The path of a request has other methods."""

    def __init__(self, methods: Sequence[str]) -> None:
        super().__init__(",".join(methods))
        self.methods = methods


class Router:
    """Finds the handler of a request."""

    def __init__(self) -> None:
        self.routes: dict[str, dict[str, Handler]] = {}
        """The handlers by method, by path as it was added."""
        self._patterns: dict[str, re.Pattern[str]] = {}

    def add(self, methods: str, path: str, handler: Handler) -> None:
        """Add a route for some methods with spaces between them. In its path "{name}" stands for a segment, and
        "{name:.*}" for all that follows. Of two that fit a request, the one that was added first serves it."""
        if path not in self.routes:
            self.routes[path] = {}
            self._patterns[path] = _pattern(path)
        self.routes[path].update(dict.fromkeys(methods.split(), handler))

    def find(self, method: str, path: str) -> tuple[Handler, Mapping[str, str]]:
        """The handler for a path as it was sent, and what the path says for the names of its route. Where no route
        fits, the handler raises NoSuchPath or NoSuchMethod."""
        methods: set[str] = set()
        for route, handlers in self.routes.items():
            if (found := self._patterns[route].fullmatch(path)) is not None:
                if method in handlers:
                    return handlers[method], {name: unquote(value) for name, value in found.groupdict().items()}
                methods |= handlers.keys()
        error = NoSuchMethod(sorted(methods)) if methods else NoSuchPath()

        async def refuse(request: Request) -> Response:
            raise error

        return refuse, {}


def _pattern(path: str) -> re.Pattern[str]:
    literals = re.split(r"{(\w+)(:\.\*)?}", path)
    parts = [re.escape(literals[0])]
    for name, rest, literal in zip(literals[1::3], literals[2::3], literals[3::3], strict=True):
        parts += [f"(?P<{name}>{'.*' if rest else '[^/]+'})", re.escape(literal)]
    return re.compile("".join(parts))


# --- the server

AnswerError = Callable[[HTTPStatus, str], Response]
"""Makes the answer to a request that cannot be read, of its status and a sentence. For a failure the sentence is
empty."""


class HttpServer:
    """Serves requests."""

    def __init__(
        self,
        router: Router,
        serve: Handler,
        answer_error: AnswerError,
        log: logging.Logger,
        max_body_bytes: int,
    ) -> None:
        """`serve` answers every request whose headers can be read; it asks `router`, which has the paths."""
        self.router = router
        self.serve = serve
        self.answer_error = answer_error
        self.log = log
        self.max_body_bytes = max_body_bytes
        self.connections: set[_Connection] = set()
        self._listening: asyncio.AbstractServer | None = None

    async def start(self, listening: socket.socket, tls: ssl.SSLContext | None = None) -> None:
        """Serve the connections of a socket that listens already; by TLS, if there is a context for that."""
        loop = asyncio.get_running_loop()
        self._listening = await loop.create_server(lambda: _Connection(self), sock=listening, ssl=tls)

    def close(self) -> None:
        """Close the socket. Connections go on."""
        if self._listening is not None:
            self._listening.close()

    async def stop(self) -> None:
        """Close the socket, and end all connections. Requests in service have `CLOSE_S` to end."""
        self.close()
        for connection in self.connections:
            connection.end()
        tasks = [connection.task for connection in self.connections]
        if tasks:
            _, late = await asyncio.wait(tasks, timeout=CLOSE_S)
            for task in late:
                task.cancel()
            if late:
                await asyncio.wait(late)


class _Connection(asyncio.Protocol):
    """A connection: its requests are answered one after the other."""

    transport: asyncio.Transport
    task: asyncio.Task[None]

    def __init__(self, server: HttpServer) -> None:
        self._server = server
        self.max_body_bytes = server.max_body_bytes
        self._http = h11.Connection(h11.SERVER, max_incomplete_event_size=MOST_HEADER_BYTES)
        self._loop = asyncio.get_running_loop()
        self._more: asyncio.Future[None] | None = None
        """Done when more bytes have come; None while `_next_event` does not wait for them."""
        self._writable = asyncio.Event()
        self._writable.set()
        self._timer: asyncio.TimerHandle | None = None
        """Closes the connection unless the headers of a request are complete by then; None while one is served."""
        self._has_begun = False
        """Whether bytes of headers have come that are not complete."""
        self._is_ending = False
        self._discards = False

    # --- what the loop calls

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = cast(asyncio.Transport, transport)
        self._server.connections.add(self)
        self._expect_headers()
        self.task = self._loop.create_task(self._run())

    def data_received(self, data: bytes) -> None:
        if self._discards:
            return
        self._http.receive_data(data)
        if self._timer is not None and not self._has_begun:
            self._has_begun = True
            due_s = min(self._timer.when(), self._loop.time() + READ_S)
            self._timer.cancel()
            self._timer = self._loop.call_at(due_s, self.transport.close)
        if self._more is None:
            self.transport.pause_reading()
        elif not self._more.done():
            self._more.set_result(None)

    def pause_writing(self) -> None:
        self._writable.clear()

    def resume_writing(self) -> None:
        self._writable.set()

    def connection_lost(self, exc: Exception | None) -> None:
        self._server.connections.discard(self)
        self._end_timer()
        self._is_ending = True  # `wait_for` of Python 3.11 forgets a cancellation that comes with the end of a body
        self.task.cancel()

    # --- requests

    def end(self) -> None:
        """End the connection, after the request in service if there is one."""
        self._is_ending = True
        if self._timer is not None:
            self.transport.close()

    async def _run(self) -> None:
        try:
            while await self._serve_next():
                pass
            if self._http.their_state in (h11.SEND_BODY, h11.ERROR):
                await self._discard_rest()
        except (asyncio.CancelledError, ConnectionError):
            pass  # the client has gone, or the server stops
        except Exception as error:
            self._server.log.error("an answer failed", exc_info=error)
            self.transport.abort()
        self.transport.close()

    async def _serve_next(self) -> bool:
        """Serve a request. Return whether the connection may have another one."""
        try:
            head = await self._next_event()
            if not isinstance(head, h11.Request):
                return False
            self._end_timer()
            self.transport.resume_reading()  # the end of the connection is seen meanwhile
            response = await self._answer(head)
            await self._send(response, with_body=head.method != b"HEAD")
            if self._http.their_state is h11.SEND_BODY and not self._http.they_are_waiting_for_100_continue:
                with contextlib.suppress(asyncio.TimeoutError, BodyTooLarge):
                    await asyncio.wait_for(self.read_body(), READ_S)  # the next request comes after it
        except Unreadable as error:
            self._end_timer()
            if self._http.our_state in (h11.IDLE, h11.SEND_RESPONSE):
                self._server.log.debug("a request that is no HTTP", exc_info=error)
                why = parser_message("the request cannot be read", error)
                await self._send(self._server.answer_error(HTTPStatus.BAD_REQUEST, why))
            return False
        if self._is_ending or (self._http.our_state, self._http.their_state) != (h11.DONE, h11.DONE):
            return False
        self._http.start_next_cycle()
        self._expect_headers()
        return True

    async def _answer(self, head: h11.Request) -> Response:
        """The answer to a request. Raises Unreadable."""
        if head.http_version not in (b"1.0", b"1.1"):
            raise Unreadable(f"the version of HTTP is {head.http_version.decode()}, and must be 1.0 or 1.1")
        request = Request(self, head, self._server.router)
        if len(head.target) + sum(len(name) + len(value) for name, value in head.headers) > MOST_HEADER_BYTES:
            raise Unreadable(f"its first line and headers have more than {MOST_HEADER_BYTES} bytes")
        if "Transfer-Encoding" in request.headers and request.content_length is not None:
            raise Unreadable("it has both Content-Length and Transfer-Encoding")
        if head.http_version == b"1.1" and request.headers.get("Expect", CONTINUE).lower() != CONTINUE:
            return self._server.answer_error(HTTPStatus.EXPECTATION_FAILED, f"the header Expect must be {CONTINUE}")
        try:
            return await self._server.serve(request)
        except Unreadable:
            raise
        except Exception as error:
            self._server.log.error("a request failed", exc_info=error)
            return self._server.answer_error(HTTPStatus.INTERNAL_SERVER_ERROR, "")

    async def read_body(self) -> bytes:
        """Read the body of the request in service. Raises BodyTooLarge and Unreadable."""
        if self._http.they_are_waiting_for_100_continue:
            self._write(h11.InformationalResponse(status_code=HTTPStatus.CONTINUE, headers=[], reason=b"Continue"))
        pieces: list[bytes] = []
        length = 0
        while self._http.their_state is h11.SEND_BODY:
            event = await self._next_event()
            if isinstance(event, h11.Data):
                pieces.append(event.data)
                length += len(event.data)
                if length > self.max_body_bytes:
                    raise BodyTooLarge
        self.transport.resume_reading()
        return b"".join(pieces)

    async def _next_event(self) -> Any:
        """The next event of the client. Raises Unreadable."""
        while (event := self._parsed()) is h11.NEED_DATA:
            self._more = self._loop.create_future()
            self.transport.resume_reading()
            try:
                await self._more
            finally:
                self._more = None
        return event

    def _parsed(self) -> Any:
        try:
            return self._http.next_event()
        except h11.RemoteProtocolError as error:
            raise Unreadable(str(error)) from error

    def _expect_headers(self) -> None:
        self._has_begun = bool(self._http.trailing_data[0])
        self._timer = self._loop.call_later(min(IDLE_S, READ_S) if self._has_begun else IDLE_S, self.transport.close)

    def _end_timer(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    # --- answers

    async def _send(self, response: Response, *, with_body: bool = True) -> None:
        """Send an answer. Raises ConnectionError if the connection was closed."""
        if self.transport.is_closing():
            raise ConnectionAbortedError("the connection was closed")
        status, body = HTTPStatus(response.status), response.body
        headers = {"Date": formatdate(usegmt=True), **response.headers}
        if isinstance(body, bytes) and status not in (HTTPStatus.NO_CONTENT, HTTPStatus.NOT_MODIFIED):
            headers["Content-Length"] = str(len(body))
        if self._is_ending:
            headers["Connection"] = "close"
        encoded = [(name.encode(), value.encode("utf-8", "surrogateescape")) for name, value in headers.items()]
        self._write(h11.Response(status_code=status.value, headers=encoded, reason=status.phrase.encode()))
        if not isinstance(body, bytes):
            async with contextlib.aclosing(body):
                async for piece in body:
                    self._write(h11.Data(data=piece))
                    await self._writable.wait()
        elif with_body:
            self._write(h11.Data(data=body))
        self._write(h11.EndOfMessage())
        await self._writable.wait()

    def _write(self, event: Any) -> None:
        self.transport.write(self._http.send(event) or b"")

    async def _discard_rest(self) -> None:
        """Read on for a while after an answer that came before its request was complete. A connection that is closed
        with bytes unread is reset, and its client may not get the answer."""
        self._discards = True
        self.transport.write_eof()
        self.transport.resume_reading()
        await asyncio.sleep(READ_S)


async def to_its_end(answer: Awaitable[Any], log: logging.Logger, what: str) -> Any:
    """The answer of a call that changes something: it runs to its end though its client has gone, and its failure is
    logged then."""
    call = asyncio.ensure_future(answer)
    try:
        return await asyncio.shield(call)
    except asyncio.CancelledError:
        await asyncio.wait([call])
        if not call.cancelled() and (error := call.exception()) is not None:
            log.warning("%s failed, and its client has gone: %s", what, error)
        raise


def parser_message(what: str, message: object) -> str:
    """A sentence about a request that HTTP's rules refuse, with the parser's message, without the bytes that it
    shows."""
    why = re.split(r":? ?(?:b['\"]|bytearray)", str(message), maxsplit=1)[0][:SHOWN]
    return f"{what}: {why}" if why else what
