"""One connection through the proxy: frames of the client go to the broker, and its answers back.

A whole frame goes on as it came, before it is looked at. Answers with addresses are decoded and written anew. Memory is
bounded: an end is not read from while the other one has unsent bytes, and one frame of each direction is held. What is
no frame turns the connection into a pipe of bytes (`_pass_bytes`), which is no longer read.
"""

from __future__ import annotations

import asyncio
import logging
import struct
from collections import deque
from collections.abc import Coroutine
from time import perf_counter
from typing import TYPE_CHECKING, Any, Protocol, cast

from kmini.broker.network.connection import address_of
from kmini.client.address import Address
from kmini.protocol.errors import MalformedMessage
from kmini.protocol.framing import response_frame
from kmini.protocol.messages.headers import RequestHeader, read_request_header
from kmini.trace.connection_end import ConnectionEnd
from kmini.trace.observer import NO_ANSWER_IS_DUE, Observer, Passing
from kmini.trace.rewriting import (
    API_VERSIONS,
    LocalAddress,
    cut_versions,
    may_be_rewritten,
    request_class,
    rewrite_addresses,
)

if TYPE_CHECKING:
    import ssl

    from kmini.protocol.messages.api_versions import ApiVersionsResponse
    from kmini.protocol.schema import Request, Response
    from kmini.trace.proxied_faults import ProxiedFaults
    from kmini.trace.proxy import BrokerPort

log = logging.getLogger("kmini.trace")

MOST_UNANSWERED = 1_000
"""Requests without an answer beyond which a client is not read from."""
CONNECT_TIMEOUT_S = 20.0
"""Seconds until a connection to a broker is given up."""
_TOKEN = -1
"""In place of an API key: a frame without a header."""
_SASL_HANDSHAKE = 17
_PRODUCE = 0
_KEPT_BYTES = 16 * 1024
"""Bytes of a request up to which it is kept and decoded with its answer: a turn of the loop is saved."""


class _FlexibleFrom(dict[int, int]):
    """The first flexible version of each API that kmini decodes."""

    def __missing__(self, api_key: int) -> int:
        message = request_class(api_key)
        if message is None:
            raise KeyError(api_key)
        self[api_key] = message.flexible_from
        return message.flexible_from


_FLEXIBLE_FROM = _FlexibleFrom()


class ProxyOf(Protocol):
    """The proxy, as its connections use it."""

    observer: Observer
    faults: ProxiedFaults | None
    tls: ssl.SSLContext | None

    def note(self, text: str) -> None: ...

    def local_address(self, host: str) -> LocalAddress: ...

    def opened(self, connection: ProxiedConnection) -> int: ...

    def ended(self, connection: ProxiedConnection) -> None: ...


class ProxiedConnection:
    """A connection of a client, and the one to the broker that belongs to it."""

    def __init__(self, proxy: ProxyOf, port: BrokerPort) -> None:
        self.proxy = proxy
        self.port = port
        self.client = ConnectionEnd(self, self._request)
        self.broker = ConnectionEnd(self, self._answer)
        self.client.other, self.broker.other = self.broker, self.client
        self.number = 0
        self.peer: tuple[str, int] = ("", 0)
        self.is_closing = False
        self.in_service: asyncio.Future[Any] | None = None
        """What a fault rule does with a request; the next one waits for its end."""
        self._passing: deque[Passing] = deque()
        """Requests without an answer, in the order of their arrival."""
        self._reads_tokens = False
        """Whether frames without headers may come: after a SaslHandshake of version 0."""
        self._local: LocalAddress
        self._connecting: asyncio.Task[None] | None = None
        self._is_muted = False
        self._answered: asyncio.Future[None] | None = None
        """Completed by the next answer."""

    # --- the ends

    def made(self, end: ConnectionEnd) -> None:
        """One of the ends is connected."""
        if end is self.broker:
            if self.is_closing:
                end.reset()
                return
            self.client.pump()
            if self.client.has_ended:
                self.half_closed(self.client)
            return
        assert end.transport is not None
        self.peer = address_of(end.transport.get_extra_info("peername"))
        self._local = self.proxy.local_address(address_of(end.transport.get_extra_info("sockname"))[0])
        self.number = self.proxy.opened(self)
        end.set_reading()
        faults = self.proxy.faults
        refusal = None if faults is None else faults.refusal(self, self.port)
        if refusal is not None:
            self.proxy.note(f"#{self.number} refused: {refusal}")
        else:
            self._connecting = asyncio.get_running_loop().create_task(self._connect())

    async def _connect(self) -> None:
        host, port = self.port.upstream
        connecting = asyncio.get_running_loop().create_connection(lambda: self.broker, host, port, ssl=self.proxy.tls)
        try:
            await asyncio.wait_for(connecting, CONNECT_TIMEOUT_S)
        except (OSError, asyncio.TimeoutError) as error:
            reason = getattr(error, "strerror", None) or str(error) or f"no answer in {CONNECT_TIMEOUT_S:.0f} s"
            self.proxy.note(f"#{self.number} cannot reach {Address(host, port)}: {reason}")
            self.client.reset()

    def half_closed(self, end: ConnectionEnd) -> None:
        """A peer sends no more: pass on what it sent, and that it ended, once the other end is connected."""
        if end.other.transport is None:
            return
        end.pump(to_the_end=end is self.broker or self.in_service is None)
        if self.is_closing:
            return
        if self.in_service is not None:
            self.close()  # a client that leaves while a fault holds its request
            return
        pending = end.pending()
        if pending:
            end.other.write([pending])
        if end.other.has_ended:
            self.close()
        else:
            end.other.transport.write_eof()

    def lost(self, end: ConnectionEnd, error: Exception | None) -> None:
        """An end has closed: the other one closes, too, in the same way."""
        if self._connecting is not None and end is self.client:
            self._connecting.cancel()
        if error is not None:
            end.other.reset()
        self.close()

    def close(self) -> None:
        """Send what is written, and close both ends."""
        if self.is_closing:
            return
        self.is_closing = True
        for end in (self.client, self.broker):
            if end.transport is not None:
                end.transport.close()
        self._abandon("the connection ended before the answer")
        if self.in_service is not None:
            self.in_service.cancel()
        self.proxy.ended(self)

    def abort(self) -> None:
        """Close both ends at once."""
        self.client.reset()
        self.broker.reset()
        self.close()

    def _abandon(self, reason: str) -> None:
        """Report the requests whose answers will not be read."""
        while self._passing:
            passing = self._passing.popleft()
            if passing.answered is not None:
                passing.answered.cancel()
            elif passing.header.api_key != _TOKEN:
                self.proxy.observer.closed(passing, reason)

    def pass_bytes(self, reason: str) -> None:
        """Pass all further bytes on without reading them."""
        is_tls = self.client.begins_as_tls
        self.proxy.note(
            f"#{self.number} {'speaks TLS, which a proxy cannot read' if is_tls else reason}: "
            "what follows passes as bytes, and is not shown"
        )
        self._abandon("passed on; the rest of the connection is not read")
        self.client.pipe()
        self.broker.pipe()

    def is_blocked(self, end: ConnectionEnd) -> bool:
        """Whether frames of an end wait for what became of earlier ones."""
        if end is self.broker:
            return False
        if self.broker.transport is None or self.in_service is not None or self._is_muted:
            return True
        return len(self._passing) >= MOST_UNANSWERED

    # --- requests

    def _request(self, content: bytes) -> None:
        view = memoryview(content)
        try:
            header, body_at = read_request_header(view, _FLEXIBLE_FROM)
        except MalformedMessage as error:
            if not self._reads_tokens:
                self.broker.write_frame(content)
                raise MalformedMessage(f"sent a request without a header ({error})") from None
            header, body_at = RequestHeader(_TOKEN, 0, 0, None), 0
        if self._reads_tokens:
            if not _is_known(header):
                self._token(content)
                return
            self._reads_tokens = False
        passing = Passing(header, len(content) - body_at, self.number, str(Address(*self.peer)), self.port.node_id)
        faults = self.proxy.faults
        if faults is not None:
            serving = faults.concern(self, self.port, passing, view[body_at:])
            if serving is not None:
                self._serve(serving)
                return
        self.broker.write_frame(content)
        self._passing.append(passing)
        if faults is None and header.api_key != _PRODUCE and len(content) <= _KEPT_BYTES:
            passing.body = view[body_at:]
        elif faults is None:  # else it is decoded by now
            asyncio.get_running_loop().call_soon(self._observe_request, passing, view[body_at:])
        else:
            self._leave_unanswered(passing)
        if header.api_key == _SASL_HANDSHAKE and header.api_version == 0:
            self._reads_tokens = True

    def _serve(self, serving: Coroutine[Any, Any, None]) -> None:
        """Have fault rules serve a request; the next one waits for its end."""

        def served(task: asyncio.Future[Any]) -> None:
            self.in_service = None
            if not task.cancelled() and task.exception() is not None:
                log.error("a request that a fault rule acts on failed", exc_info=task.exception())
                self.close()
            if not self.is_closing:
                self.client.pump()

        self.in_service = asyncio.get_running_loop().create_task(serving)
        self.in_service.add_done_callback(served)

    def mute(self, ms: int) -> None:
        """Take no request for this long."""
        self._is_muted = True
        asyncio.get_running_loop().call_later(ms / 1000, self._unmute)

    def _unmute(self) -> None:
        self._is_muted = False
        if not self.is_closing:
            self.client.pump()

    async def all_answered(self) -> None:
        """Wait until each request that went to the broker is answered."""
        while self._passing:
            self._answered = asyncio.get_running_loop().create_future()
            await self._answered

    def _token(self, content: bytes) -> None:
        """Pass on a frame of a login, which has no header, and no correlation id in its answer."""
        self.broker.write_frame(content)
        passing = Passing(RequestHeader(_TOKEN, 0, 0, None), len(content), self.number, "", self.port.node_id)
        self._passing.append(passing)

    def _observe_request(self, passing: Passing, body: memoryview) -> None:
        self.proxy.observer.decode(passing, body)
        self._leave_unanswered(passing)

    def _leave_unanswered(self, passing: Passing) -> None:
        """Report a request that gets no answer: a Produce with acks 0."""
        if not passing.expects_answer and passing in self._passing:
            self._passing.remove(passing)
            self.proxy.observer.closed(passing, NO_ANSWER_IS_DUE)
            self._go_on()

    def _go_on(self) -> None:
        """Take the requests that waited for the answers of earlier ones."""
        if self._answered is not None and not self._answered.done():
            self._answered.set_result(None)
        if self.client.has_pending:
            self.client.pump()

    def send(self, passing: Passing, request: Request) -> asyncio.Future[Response] | None:
        """Send a request that fault rules let pass; return the future of its answer, None if none is due."""
        header, version = passing.header, passing.header.api_version
        start = bytearray(4) + header.encode(request.header_version(version))
        buffers = request.encode(version, start)
        struct.pack_into(">i", start, 0, sum(map(len, buffers)) - 4)
        self.broker.write(buffers)
        if not passing.expects_answer:
            return None
        passing.answered = asyncio.get_running_loop().create_future()
        self._passing.append(passing)
        return passing.answered

    # --- answers

    def _answer(self, content: bytes) -> None:
        ended_s = perf_counter()
        passing = self._passing_of(content)
        if passing is None or passing.header.api_key == _TOKEN:
            self.client.write_frame(content)
        elif passing.answered is not None or may_be_rewritten(passing.header.api_key, passing.header.api_version):
            self._read_answer(passing, content, ended_s)
        else:
            self.client.write_frame(content)
            asyncio.get_running_loop().call_soon(self._observe_answer, passing, memoryview(content), ended_s)
        self._go_on()

    def _read_answer(self, passing: Passing, content: bytes, ended_s: float) -> None:
        """Pass on an answer that may have addresses, or that fault rules get first."""
        frame = memoryview(content)
        observer = self.proxy.observer
        answer = observer.decode_answer(passing, frame)
        is_changed = answer is not None and self._rewrite(answer)
        if passing.answered is not None:
            self._hand_to_rules(passing, answer)
            return
        if answer is not None and is_changed:
            header = passing.header
            self.client.write(response_frame(header.correlation_id, answer, version_of(answer, header, frame)))
        else:
            self.client.write_frame(content)
        asyncio.get_running_loop().call_soon(observer.answered, passing, answer, len(content) + 4, ended_s)

    def _observe_answer(self, passing: Passing, frame: memoryview, ended_s: float) -> None:
        observer = self.proxy.observer
        observer.answered(passing, observer.decode_answer(passing, frame), len(frame) + 4, ended_s)

    def _hand_to_rules(self, passing: Passing, answer: Response | None) -> None:
        assert passing.answered is not None
        if passing.answered.done():
            return
        if answer is None:
            passing.answered.set_exception(MalformedMessage(passing.note or "the answer does not decode"))
        else:
            passing.answered.set_result(answer)

    def _rewrite(self, answer: Response) -> bool:
        """Replace the addresses of an answer; cut what kmini cannot rewrite. Returns whether anything has changed."""
        if answer.api_key == API_VERSIONS:
            notes = cut_versions(cast("ApiVersionsResponse", answer))
            for note in notes:
                self.proxy.note(f"#{self.number} {note}")
            return bool(notes)
        return rewrite_addresses(answer, self._local)

    def _passing_of(self, content: bytes) -> Passing | None:
        """The request that an answer belongs to; None for one that belongs to none."""
        if self._passing and self._passing[0].header.api_key == _TOKEN:
            return self._passing.popleft()
        correlation_id = int.from_bytes(content[:4], "big", signed=True)
        for number, passing in enumerate(self._passing):
            if passing.header.api_key != _TOKEN and passing.header.correlation_id == correlation_id:
                if number == 0:
                    return self._passing.popleft()
                del self._passing[number]
                return passing
        self.proxy.note(f"#{self.number} an answer came to no request")
        return None


def version_of(answer: Response, header: RequestHeader, frame: memoryview) -> int:
    """The version of a decoded answer: that of its request, but for ApiVersions (KIP-511)."""
    return answer.version_of(frame[4:], header.api_version)


def _is_known(header: RequestHeader) -> bool:
    """Whether a frame that may be a token of a login is a request: it has an API and a version that kmini knows."""
    message = request_class(header.api_key)
    return message is not None and message.min_version <= header.api_version <= message.max_version
