# cython: nonecheck=True
"""Bytes to requests, responses to bytes: one connection, without its socket.

On the wire every message is a frame: its size as an int32, a header, a body. The caller of a `ServerConnection` moves
bytes; this module parses and builds frames:

    buffer = connection.get_buffer()            free space for bytes of the socket
    connection.buffer_updated(count)            the number of bytes that arrived in it
    while (frame := connection.next_frame()) is not NEED_DATA:
        ...                                     frame.api_key names the API, frame.body is the request
        for buffer in response_frame(frame.correlation_id, response, frame.api_version):
            ...                                 send it
        frame.release()

`frame_reader.py` says where the bytes are meanwhile, and what memory they take.

The words of `cython` may be read over: they give C types, or say what other modules see, and do nothing in interpreted
code. Both arms of an `if cython.compiled` have the same result. The declarations in a class are its fields.

The module is compiled where there was a C compiler (`extension_modules.py`), and `frame_reader.py` is a part of its
extension: an edit of either takes effect with the next installation, or with KMINI_PURE=1.
"""

from __future__ import annotations

import struct
from collections import deque
from collections.abc import Iterable, Iterator
from enum import Enum
from typing import Final, Literal

from . import cython_words as cython
from .errors import MalformedMessage
from .frame_reader import SIZE_BYTES, FrameReader, ReceiveBuffer
from .messages import REQUESTS
from .messages.headers import (
    MIN_REQUEST_HEADER_BYTES,
    RequestHeader,
    encode_response_header,
    read_header_start,
    read_request_header,
    read_response_header,
    unpack_header_start,
)
from .primitives import Buffer
from .records.kernels.numbers import Bytes, int16_at, int32_at, put_int32
from .schema import Request, Response

__all__ = [
    "NEED_DATA",
    "ClientConnection",
    "Frame",
    "NeedData",
    "ReceiveBuffer",
    "ServerConnection",
    "frame_of",
    "response_frame",
]

_INT32 = struct.Struct(">i")
_NO_BODY = memoryview(bytearray())
_RESPONSE_STARTS = tuple(bytes(4) + encode_response_header(0, version) for version in (0, 1))
"""The size of a frame and the header of a response, both of them still to be filled in, by the header's version."""


_CORRELATION_ID_AT = cython.declare(cython.Py_ssize_t, 8)
"""Where a frame has the correlation id of its request."""


class NeedData(Enum):
    """The type of NEED_DATA."""

    NEED_DATA = "NEED_DATA"


NEED_DATA: Final[Literal[NeedData.NEED_DATA]] = NeedData.NEED_DATA
"""Returned in place of a frame until a whole one has arrived."""


@cython.freelist(8)
@cython.final
@cython.cclass
class Frame:
    """A request as it arrived: its header, and the bytes of its body.

    `body` is writable and belongs to the holder of the frame until `release` or `forget_body`; then the connection
    overwrites it. A second release has no effect.
    """

    api_key = cython.declare(cython.int, visibility="readonly")
    api_version = cython.declare(cython.int, visibility="readonly")
    correlation_id = cython.declare(cython.int, visibility="readonly")
    client_id = cython.declare(str, visibility="readonly")
    """The fields of the header; `RequestHeader` says what they mean."""
    body = cython.declare(memoryview, visibility="readonly")
    _reader: FrameReader | None

    @property
    def header(self) -> RequestHeader:
        return RequestHeader(self.api_key, self.api_version, self.correlation_id, self.client_id)

    def forget_body(self) -> None:
        """Give the bytes of the body back, while the request is still in service: nothing refers to them."""
        if self._reader is not None:
            self.body = _NO_BODY
            self._reader._forget_frame()

    def release(self) -> None:
        """Give the body back; `next_frame` may be called again."""
        if self._reader is not None:
            self._reader._release()
            self._reader = None


@cython.final
@cython.cclass
class ServerConnection(FrameReader):
    """The broker's end of a connection: it reads requests and writes responses."""

    _last_api_key: cython.int
    _last_api_version: cython.int
    _last_client_id: str | None
    """The header of the last request: clients repeat it, but for the correlation id."""
    _last_tail: bytes
    """Its bytes behind the correlation id; empty before the first request."""

    def __init__(self, max_frame_bytes: int, shared: ReceiveBuffer | None = None) -> None:
        FrameReader.__init__(self, max_frame_bytes, shared)
        self._last_client_id, self._last_tail = None, b""

    def trim(self) -> None:
        FrameReader.trim(self)
        self._last_client_id, self._last_tail = None, b""

    def next_frame(self) -> Frame | Literal[NeedData.NEED_DATA]:
        """The next request, or NEED_DATA. The one before must have been released.

        Raises MalformedMessage if the peer does not speak the protocol, and FrameTooLarge if its frame is too large.
        After either no next request can be found, so the caller closes the connection. A request of an unknown API or
        version is handed out like any other, with as much of its header as could be read.
        """
        begin: cython.Py_ssize_t = self._start + SIZE_BYTES
        stop: cython.Py_ssize_t = self._take()
        if not stop:
            return NEED_DATA
        frame: Frame = Frame.__new__(Frame)  # interpreted, a constructor costs as much again as all of this
        position: cython.Py_ssize_t = self._read_header(frame, begin, stop)
        frame.body = self._view[position:stop]
        frame._reader = self
        return frame

    @cython.cfunc
    @cython.exceptval(-1)
    def _read_header(self, frame: Frame, begin: cython.Py_ssize_t, stop: cython.Py_ssize_t) -> cython.Py_ssize_t:
        """Read the header of the request from `begin` to `stop` in the buffer; return the position of its body."""
        position: cython.Py_ssize_t = begin + MIN_REQUEST_HEADER_BYTES
        end: cython.Py_ssize_t = position + len(self._last_tail)
        # `position < end`: there is a last header, its tail is not empty. `end <= stop`: the request has room for it.
        if position < end <= stop and _has_at(self._buffer, position, self._last_tail):
            if cython.compiled:
                frame.api_key = int16_at(self._buffer, begin)
                frame.api_version = int16_at(self._buffer, begin + 2)
                frame.correlation_id = int32_at(self._buffer, begin + 4)
            else:
                frame.api_key, frame.api_version, frame.correlation_id = unpack_header_start(self._buffer, begin)
            if frame.api_key == self._last_api_key and frame.api_version == self._last_api_version:
                frame.client_id = self._last_client_id
                return end
        try:
            header, end = read_request_header(self._buffer, _FLEXIBLE_FROM, begin, stop)
        except MalformedMessage as error:
            header, end = _beginning_of_header(self._view[begin:stop], error), stop
        else:
            self._last_api_key, self._last_api_version, _, self._last_client_id = header
            self._last_tail = bytes(self._buffer[position:end])
        frame.api_key, frame.api_version, frame.correlation_id, frame.client_id = header
        return end

    def next_token(self) -> bytes | Literal[NeedData.NEED_DATA]:
        """The next frame without a header, or NEED_DATA: what SASL sends after a SaslHandshake of version 0."""
        content = self._next_content()
        if content is None:
            return NEED_DATA
        token: bytes = bytes(content)
        self._release()
        return token

    def take_pending(self) -> bytes:
        """The bytes that have arrived and are in no frame yet, which the connection forgets: what follows is read as
        bytes, without frames. No frame may be handed out."""
        pending: bytes = bytes(self._view[self._start : self._end])
        self._drop_buffer()
        return pending

    def receive_data(self, data: Buffer) -> None:
        """Take bytes that are in another buffer, in place of `get_buffer` and `buffer_updated`."""
        self._copy(data)


@cython.final
@cython.cclass
class ClientConnection(FrameReader):
    """The client's end of a connection: responses arrive in the order of the requests."""

    _client_id: str | None
    _next_correlation_id: cython.longlong
    _unanswered: deque[tuple[int, type[Response], int]]
    """Correlation id, class and version of the responses that are due."""
    _asked: object
    _asked_version: cython.int
    _asked_start: bytes
    """Class, version, size and header of the last request, with zeros for size and correlation id: clients repeat
    them."""

    def __init__(self, client_id: str | None, *, max_frame_bytes: int) -> None:
        FrameReader.__init__(self, max_frame_bytes)
        self._client_id = client_id
        self._next_correlation_id = 0
        self._unanswered = deque()
        self._asked, self._asked_version, self._asked_start = None, 0, b""

    def request(self, request: Request, version: int, *, expects_answer: bool = True) -> list[Buffer]:
        """A request as buffers to send in this order. Only Produce with acks 0 expects no answer."""
        correlation_id = self._next_correlation_id
        if type(request) is not self._asked or version != self._asked_version:
            header = RequestHeader(request.api_key, version, 0, self._client_id)
            self._asked_start = bytes(SIZE_BYTES) + header.encode(request.header_version(version))
            self._asked, self._asked_version = type(request), version
        start: bytearray = bytearray(self._asked_start)
        _put_int32(start, _CORRELATION_ID_AT, correlation_id)
        buffers = _sized(start, request.encode(version, start))
        self._next_correlation_id = correlation_id + 1 & 0x7FFFFFFF
        if expects_answer:
            self._unanswered.append((correlation_id, request.response, version))
        return buffers

    def receive_data(self, data: Buffer) -> Iterator[Response]:
        """The responses that `data` completes, in the order of the requests. They stay valid.

        Raises MalformedMessage if the peer is no broker, or answers requests out of order.
        """
        if self._is_whole_frame(data):
            yield self._response(memoryview(data)[SIZE_BYTES:])
            return
        self._copy(data)
        while (content := self._next_content()) is not None:
            kept = memoryview(bytes(content))
            self._release()
            yield self._response(kept)

    @cython.cfunc
    @cython.exceptval(check=True)
    def _is_whole_frame(self, data: Buffer) -> cython.bint:
        """Whether these bytes, which do not change, are one frame and follow none that is incomplete: then no buffer is
        needed. Most answers arrive so."""
        size: cython.Py_ssize_t = len(data) - SIZE_BYTES
        announced: cython.Py_ssize_t
        if self._start != self._end or type(data) is not bytes or not 0 < size <= self._max_frame_bytes:
            return False
        (announced,) = _INT32.unpack_from(data)
        return announced == size

    def _response(self, content: memoryview) -> Response:
        if not self._unanswered:
            raise MalformedMessage("a response came to no request")
        expected, response, version = self._unanswered.popleft()
        correlation_id, position = read_response_header(content, response.header_version(version))
        if correlation_id != expected:
            raise MalformedMessage(f"a response came to request {correlation_id}, the one to {expected} is due")
        body = content[position:]
        answer: Response = response.decode(body, response.version_of(body, version))
        return answer


def response_frame(correlation_id: cython.int, response: Response, version: int) -> list[Buffer]:
    """A response as buffers to send in this order; large records are not copied. Raises what `encode` raises."""
    start: bytearray = bytearray(_RESPONSE_STARTS[response.header_version(version)])
    _put_int32(start, SIZE_BYTES, correlation_id)
    return _sized(start, response.encode(version, start))


@cython.cfunc
@cython.inline
def _sized(start: bytearray, buffers: list[Buffer]) -> list[Buffer]:
    """The buffers of a frame, the first of which is `start`, with the size in its place."""
    size: cython.Py_ssize_t = len(start) if len(buffers) == 1 else sum(map(len, buffers))
    _put_int32(start, 0, size - SIZE_BYTES)
    return buffers


@cython.cfunc
@cython.inline
@cython.exceptval(-1)
def _put_int32(buffer: bytearray, at: cython.Py_ssize_t, value: cython.longlong) -> cython.int:
    if cython.compiled:
        put_int32(buffer, at, value)
    else:
        _INT32.pack_into(buffer, at, value)
    return 0


@cython.cfunc
@cython.inline
@cython.exceptval(-1)
def _has_at(buffer: bytearray, position: cython.Py_ssize_t, part: bytes) -> cython.int:
    """Whether the buffer has these bytes at `position`."""
    number: cython.Py_ssize_t
    found: Bytes = buffer
    sought: Bytes = part
    if cython.compiled:
        for number in range(len(part)):  # noqa: SIM110
            if found[position + number] != sought[number]:
                return False
        return True
    return buffer[position : position + len(part)] == part


COPIED_BYTES = 8 * 1024
"""Bytes from which `frame_of` leaves a part in its buffer instead of copying it behind the part before."""


def frame_of(header: Buffer, parts: Iterable[Buffer]) -> list[Buffer]:
    """The size, the header and the parts of a frame, in few buffers: for frames that no class of messages writes, as
    the bare tokens of SASL. Responses are written by `response_frame`."""
    joined = bytearray(SIZE_BYTES)
    joined += header
    buffers: list[Buffer] = [joined]
    size = len(header)
    for part in parts:
        size += len(part)
        if len(part) >= COPIED_BYTES:
            joined = bytearray()
            buffers += (part, joined)
        else:
            joined += part
    if not joined:
        buffers.pop()
    _INT32.pack_into(buffers[0], 0, size)
    return buffers


class _FlexibleFrom(dict[int, int]):
    """The first flexible version of each known API, read off its class when its first request arrives."""

    def __missing__(self, api_key: int) -> int:
        self[api_key] = flexible_from = REQUESTS[api_key].flexible_from
        return flexible_from


_FLEXIBLE_FROM = _FlexibleFrom()


def _beginning_of_header(content: memoryview, error: MalformedMessage) -> RequestHeader:
    """The start of a request's header that cannot be read to its end.

    Raises `error` if the broker serves the version of the request. For other versions the start is enough: ApiVersions
    is answered in any version (KIP-511), and the log names the other requests.
    """
    header = read_header_start(content)
    request = REQUESTS.get(header.api_key)
    if request is not None and request.min_version <= header.api_version <= request.max_version:
        raise error
    return header
