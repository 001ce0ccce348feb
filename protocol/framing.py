"""Bytes to requests, responses to bytes: one connection, without its socket.

On the wire every message is a frame: its size as an int32, a header, a body. The caller of a `ServerConnection` moves
bytes; this module parses and builds frames:

    buffer = connection.get_buffer()            free space for bytes of the socket
    connection.buffer_updated(count)            the number of bytes that arrived in it
    while (frame := connection.next_frame()) is not NEED_DATA:
        ...                                     frame.header names the API, frame.body is the request
        for buffer in response_frame(frame.header.correlation_id, response, frame.header.api_version):
            ...                                 send it
        frame.release()

Theory of operation
-------------------
Frames are read in place. All input of a connection is in one buffer, in the order of arrival:

    | consumed | the frame handed out | complete frames | start of a frame | free |
                                      ^ start                              ^ end

One frame is handed out at a time, as Kafka serves the requests of a connection one by one. The body of the frame is a
view of the buffer, and its bytes stay in place until the frame is released: record batches reach the log without a
copy. If bytes must move to make room meanwhile, they move to another buffer, and the frame keeps the old one.

A frame's size is a claim. It is checked as soon as its four bytes have arrived, and it reserves nothing: the buffer
doubles as bytes arrive, and extends at most READ_BYTES past the frame. A large size therefore costs the peer as much as
it costs the broker, and an idle connection holds no more memory than its last requests needed.
"""

from __future__ import annotations

import struct
from collections import deque
from collections.abc import Iterable, Iterator
from enum import Enum
from typing import Final, Literal

from .errors import FrameTooLarge, MalformedMessage
from .messages import REQUESTS
from .messages.headers import (
    MIN_REQUEST_HEADER_BYTES,
    RequestHeader,
    read_header_start,
    read_request_header,
    read_response_header,
    start_response,
    unpack_header_start,
)
from .primitives import Buffer
from .schema import Request, Response

READ_BYTES = 16 * 1024
"""Bytes of a new buffer, and of one read of a large frame."""

SCARCE_BYTES = 4 * 1024
"""Bytes of free space below which pending bytes move to the front of the buffer."""

KEPT_BYTES = 1024 * 1024 + 2 * READ_BYTES
"""Bytes up to which a connection keeps its buffer for the next request; it drops a larger one as soon as that is empty.
Producers send up to 1 MiB by default."""

SMALL_FRAMES_BEFORE_SHRINKING = 32
"""Consecutive frames of less than a quarter of the buffer after which the connection takes a smaller one."""

COPIED_BYTES = 8 * 1024
"""Bytes below which parts of a response are joined; larger parts are sent without a copy."""

_SIZE = struct.Struct(">i")
_NO_HEADER = RequestHeader(-1, -1, 0, None)
_new = object.__new__


class _NeedData(Enum):
    NEED_DATA = "NEED_DATA"


NEED_DATA: Final[Literal[_NeedData.NEED_DATA]] = _NeedData.NEED_DATA
"""Returned in place of a frame until a whole one has arrived."""


class FrameReader:
    """Makes frames of bytes, at both ends of a connection.

    No other method may be called between `get_buffer` and `buffer_updated`.
    """

    def __init__(self, max_frame_bytes: int) -> None:
        self._max_frame_bytes = max_frame_bytes
        self._buffer = bytearray()
        self._view = memoryview(self._buffer)
        self._start = 0
        """Start of the next frame to hand out."""
        self._end = 0
        """Where the bytes that have arrived end."""
        self._is_held = False
        """Whether a frame is handed out."""
        self._is_held_here = False
        """Whether a frame is handed out that is in the present buffer."""
        self._small_frames = 0

    def allow(self, max_frame_bytes: int) -> None:
        """Allow frames of `max_frame_bytes` from now on: the peer has authenticated."""
        self._max_frame_bytes = max_frame_bytes

    @property
    def pending_bytes(self) -> int:
        """Bytes that the peer has sent ahead: they have arrived and are in no frame handed out."""
        return self._end - self._start

    def get_buffer(self, size_hint: int = -1) -> memoryview:
        """Free space for the next bytes, whatever size is hinted; never empty, valid until `buffer_updated`."""
        if len(self._buffer) - self._end < SCARCE_BYTES:
            self._make_room()
        return self._view[self._end :] if self._end else self._view

    def buffer_updated(self, count: int) -> None:
        """Note that the first `count` bytes of the free space are filled."""
        self._end += count

    def _copy(self, data: Buffer) -> None:
        """Take bytes that are in another buffer, in place of `get_buffer` and `buffer_updated`."""
        rest = memoryview(data)
        while rest:
            free = self.get_buffer()
            count = min(len(free), len(rest))
            free[:count] = rest[:count]
            self.buffer_updated(count)
            rest = rest[count:]

    def trim(self) -> None:
        """Free the buffer if it is empty: the caller does so when a connection is idle."""
        if self._start == self._end and not self._is_held_here:
            self._use(bytearray())

    def _take(self) -> int:
        """Take the next frame, if it is complete, and return its end in the buffer; else 0. An incomplete frame has its
        size checked."""
        if self._is_held:
            raise RuntimeError("the last frame was not released")
        begin, end = self._start + _SIZE.size, self._end
        if begin > end:
            return 0
        (size,) = _SIZE.unpack_from(self._buffer, self._start)
        if not 0 <= size <= self._max_frame_bytes:
            if size < 0:
                raise MalformedMessage(f"a frame cannot have {size} bytes")
            raise FrameTooLarge(f"a frame of {size} bytes is announced, {self._max_frame_bytes} are allowed")
        stop: int = begin + size
        if stop > end:
            return 0
        self._start = stop
        self._is_held = self._is_held_here = True
        self._small_frames = self._small_frames + 1 if size < len(self._buffer) // 4 else 0
        return stop

    def _next_content(self) -> memoryview | None:
        """The next frame without its size; None until it is complete."""
        begin = self._start + _SIZE.size
        stop = self._take()
        return self._view[begin:stop] if stop else None

    def _release(self) -> None:
        """Take the frame back: its bytes may be overwritten."""
        self._is_held = self._is_held_here = False
        if self._start < self._end:
            return
        self._start = self._end = 0
        size = len(self._buffer)
        if size > READ_BYTES and (size > KEPT_BYTES or self._small_frames >= SMALL_FRAMES_BEFORE_SHRINKING):
            self._use(bytearray())

    def _make_room(self) -> None:
        """Make free space: move the pending bytes to the front of the buffer, or to a larger one."""
        pending = self._end - self._start
        capacity = self._capacity_for(pending)
        if self._is_held_here or capacity > len(self._buffer):
            if self._end == len(self._buffer):  # a copy to a larger buffer waits until no space is left
                larger = bytearray(capacity)
                larger[:pending] = self._view[self._start : self._end]
                self._use(larger)
                self._end = pending
        else:
            self._view[:pending] = self._view[self._start : self._end]
            self._start, self._end = 0, pending

    def _capacity_for(self, pending: int) -> int:
        """Bytes of a buffer for the pending bytes: twice as many, but at most one read behind the frame."""
        if pending < _SIZE.size:
            return READ_BYTES
        frame: int = _SIZE.size + _SIZE.unpack_from(self._buffer, self._start)[0]
        if not pending < frame <= _SIZE.size + self._max_frame_bytes:
            return pending + READ_BYTES  # whole frames are pending, or a size that no frame has
        return max(READ_BYTES, min(2 * pending, frame + READ_BYTES))

    def _use(self, buffer: bytearray) -> None:
        """Replace the buffer; the old one lives as long as a view of it."""
        self._buffer, self._view = buffer, memoryview(buffer)
        self._start = self._end = 0
        self._is_held_here = False
        self._small_frames = 0


class Frame:
    """A request as it arrived: its header, and the bytes of its body.

    `body` is writable and belongs to the holder of the frame until `release`; then the connection overwrites it. A
    second release has no effect.
    """

    __slots__ = ("_reader", "body", "header")

    header: RequestHeader
    body: memoryview
    _reader: FrameReader | None

    def release(self) -> None:
        """Give the body back; `next_frame` may be called again."""
        if self._reader is not None:
            self._reader._release()
            self._reader = None


class ServerConnection(FrameReader):
    """The broker's end of a connection: it reads requests and writes responses."""

    def __init__(self, max_frame_bytes: int) -> None:
        super().__init__(max_frame_bytes)
        self._last = _NO_HEADER
        self._last_tail: bytes | bytearray = b""
        """The header of the last request, and its bytes behind the correlation id: clients repeat them."""

    def trim(self) -> None:
        super().trim()
        self._last, self._last_tail = _NO_HEADER, b""

    def next_frame(self) -> Frame | Literal[_NeedData.NEED_DATA]:
        """The next request, or NEED_DATA. The one before must have been released.

        Raises MalformedMessage if the peer does not speak the protocol, and FrameTooLarge if its frame is too large.
        After either no next request can be found, so the caller closes the connection. A request of an unknown API or
        version is handed out like any other, with as much of its header as could be read.
        """
        begin = self._start + _SIZE.size
        stop = self._take()
        if not stop:
            return NEED_DATA
        frame: Frame = _new(Frame)  # a constructor costs as much again as all of this
        frame.header, position = self._read_header(begin, stop)
        frame.body = self._view[position:stop]
        frame._reader = self
        return frame

    def _read_header(self, begin: int, stop: int) -> tuple[RequestHeader, int]:
        """The header of the request from `begin` to `stop` in the buffer, and the position of its body."""
        buffer, last, tail = self._buffer, self._last, self._last_tail
        position = begin + MIN_REQUEST_HEADER_BYTES
        end = position + len(tail)
        if tail and end <= stop and buffer[position:end] == tail:
            api_key, api_version, correlation_id = unpack_header_start(buffer, begin)
            if api_key == last[0] and api_version == last[1]:
                return tuple.__new__(RequestHeader, (api_key, api_version, correlation_id, last[3])), end
        try:
            self._last, end = read_request_header(buffer, _FLEXIBLE_FROM, begin, stop)
        except MalformedMessage as error:
            return _beginning_of_header(self._view[begin:stop], error), stop
        self._last_tail = buffer[position:end]
        return self._last, end

    def next_token(self) -> bytes | Literal[_NeedData.NEED_DATA]:
        """The next frame without a header, or NEED_DATA: what SASL sends after a SaslHandshake of version 0."""
        content = self._next_content()
        if content is None:
            return NEED_DATA
        token = bytes(content)
        self._release()
        return token

    def receive_data(self, data: Buffer) -> None:
        """Take bytes that are in another buffer, in place of `get_buffer` and `buffer_updated`."""
        self._copy(data)


class ClientConnection(FrameReader):
    """The client's end of a connection: responses arrive in the order of the requests."""

    def __init__(self, client_id: str | None, *, max_frame_bytes: int) -> None:
        super().__init__(max_frame_bytes)
        self._client_id = client_id
        self._next_correlation_id = 0
        self._unanswered: deque[tuple[int, type[Response], int]] = deque()
        """Correlation id, class and version of the responses that are due."""

    def request(self, request: Request, version: int, *, expects_answer: bool = True) -> list[Buffer]:
        """A request as buffers to send in this order. Only Produce with acks 0 expects no answer."""
        correlation_id = self._next_correlation_id
        header = RequestHeader(request.api_key, version, correlation_id, self._client_id)
        buffers = frame_of(header.encode(request.header_version(version)), request.encode(version))
        self._next_correlation_id = correlation_id + 1 & 0x7FFFFFFF
        if expects_answer:
            self._unanswered.append((correlation_id, request.response, version))
        return buffers

    def receive_data(self, data: Buffer) -> Iterator[Response]:
        """The responses that `data` completes, in the order of the requests. They stay valid.

        Raises MalformedMessage if the peer is no broker, or answers requests out of order.
        """
        self._copy(data)
        while (content := self._next_content()) is not None:
            kept = memoryview(bytes(content))
            self._release()
            yield self._response(kept)

    def _response(self, content: memoryview) -> Response:
        if not self._unanswered:
            raise MalformedMessage("a response came to no request")
        expected, response, version = self._unanswered.popleft()
        correlation_id, position = read_response_header(content, response.header_version(version))
        if correlation_id != expected:
            raise MalformedMessage(f"a response came to request {correlation_id}, the one to {expected} is due")
        body = content[position:]
        return response.decode(body, response.version_of(body, version))


def response_frame(correlation_id: int, response: Response, version: int) -> list[Buffer]:
    """A response as buffers to send in this order; large records are not copied. Raises what `encode` raises."""
    start = start_response(correlation_id, response.header_version(version))
    buffers = response.encode(version, start)
    size = len(start) if len(buffers) == 1 else sum(map(len, buffers))
    _SIZE.pack_into(start, 0, size - _SIZE.size)
    return buffers


def frame_of(header: Buffer, parts: Iterable[Buffer]) -> list[Buffer]:
    """The size, the header and the parts of a frame, in few buffers."""
    joined = bytearray(_SIZE.size)
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
    _SIZE.pack_into(buffers[0], 0, size)
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
