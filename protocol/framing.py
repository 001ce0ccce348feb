"""Bytes to requests, responses to bytes: one connection, without its socket.

On the wire every message is a frame: its size as an int32, a header, a body. The shell around a `ServerConnection`
moves bytes; all that there is to know about frames is here:

    buffer = connection.get_buffer()            a place for what the socket has
    connection.buffer_updated(count)            so much has come
    while (frame := connection.next_frame()) is not NEED_DATA:
        ...                                     frame.header says what is asked, frame.body holds it
        for buffer in connection.response(frame.header.correlation_id, ...):
            ...                                 to be sent
        frame.release()

Theory of operation
-------------------
Frames are read in place. All of a connection's input lies in one buffer, in the order of arrival:

    | consumed | the frame handed out | complete frames | begin of a frame | free |
                                      ^ start                              ^ end

One frame is out at a time, as Kafka serves one request of a connection after the other. Its body is a view of these
bytes, and they stay where they are until it is released: record batches go from here to the log without being copied.
Where bytes must move to make room while a frame is out, they move to another buffer, and the frame keeps the old one.

A size is a claim, not a fact. A frame's size is checked as soon as its four bytes are there, and reserves nothing: the
buffer doubles as bytes arrive, and ends at most one read behind the frame. So an announcement costs its sender as much
as it costs us, and an idle connection holds nothing above what its last requests needed.
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
    RequestHeader,
    encode_response_header,
    read_header_start,
    read_request_header,
    read_response_header,
)
from .primitives import Buffer
from .schema import Request, Response

READ_BYTES = 16 * 1024
"""The size of a fresh buffer: an ordinary request, or a read's worth of a large one."""

SCARCE_BYTES = 4 * 1024
"""With less free space than this it pays to move what is there to the front."""

KEPT_BYTES = 1024 * 1024 + 2 * READ_BYTES
"""A buffer up to this size is kept for the next request; a larger one is dropped as soon as it is empty. Producers send
up to 1 MiB if they are not told otherwise."""

SMALL_FRAMES_BEFORE_SHRINKING = 32
"""Consecutive frames of less than a quarter of the buffer after which a smaller one will do."""

COPIED_BYTES = 8 * 1024
"""Parts of a response below this size are joined; larger ones are sent from where they are."""

_SIZE = struct.Struct(">i")


class _NeedData(Enum):
    NEED_DATA = "NEED_DATA"


NEED_DATA: Final[Literal[_NeedData.NEED_DATA]] = _NeedData.NEED_DATA
"""Instead of a frame: what has arrived so far is not a whole one."""


class FrameReader:
    """Bytes in, frames out: what both ends of a connection have in common.

    Between `get_buffer` and `buffer_updated` nothing else may be called.
    """

    def __init__(self, max_frame_bytes: int) -> None:
        self._max_frame_bytes = max_frame_bytes
        self._buffer = bytearray()
        self._view = memoryview(self._buffer)
        self._start = 0
        """Where the first frame begins that was not handed out yet."""
        self._end = 0
        """Where the bytes end that have arrived."""
        self._is_held = False
        """Whether a frame is handed out…"""
        self._is_held_here = False
        """…and lies in the present buffer."""
        self._small_frames = 0

    def allow(self, max_frame_bytes: int) -> None:
        """Let frames be so large from now on: those of a peer that has said who it is."""
        self._max_frame_bytes = max_frame_bytes

    @property
    def pending_bytes(self) -> int:
        """Bytes that have arrived and are not part of a frame handed out: what a peer has sent ahead."""
        return self._end - self._start

    def get_buffer(self) -> memoryview:
        """Free space for what arrives next; never empty, and good until `buffer_updated`."""
        if len(self._buffer) - self._end < SCARCE_BYTES:
            self._make_room()
        return self._view[self._end :]

    def buffer_updated(self, count: int) -> None:
        """The first `count` bytes of the free space are filled."""
        self._end += count

    def _copy(self, data: Buffer) -> None:
        """`get_buffer` and `buffer_updated` in one, for input that is in another buffer already."""
        rest = memoryview(data)
        while rest:
            free = self.get_buffer()
            count = min(len(free), len(rest))
            free[:count] = rest[:count]
            self.buffer_updated(count)
            rest = rest[count:]

    def trim(self) -> None:
        """Give the memory back: for the shell to call when nothing has come for a while."""
        if self._start == self._end and not self._is_held_here:
            self._use(bytearray())

    def _next_content(self) -> memoryview | None:
        """Hand out the next frame without its size, if it is complete. It is checked however little of it is there."""
        if self._is_held:
            raise RuntimeError("the last frame was not released")
        start, end = self._start, self._end
        if end - start < _SIZE.size:
            return None
        (size,) = _SIZE.unpack_from(self._buffer, start)
        if size < 0:
            raise MalformedMessage(f"a frame cannot have {size} bytes")
        if size > self._max_frame_bytes:
            raise FrameTooLarge(f"a frame of {size} bytes is announced, {self._max_frame_bytes} are allowed")
        begin = start + _SIZE.size
        stop = begin + size
        if stop > end:
            return None
        self._start = stop
        self._is_held = self._is_held_here = True
        self._small_frames = self._small_frames + 1 if size < len(self._buffer) // 4 else 0
        return self._view[begin:stop]

    def _release(self) -> None:
        """The frame handed out is done with: its bytes may be overwritten."""
        self._is_held = self._is_held_here = False
        if self._start < self._end:
            return
        self._start = self._end = 0
        limit = KEPT_BYTES if self._small_frames < SMALL_FRAMES_BEFORE_SHRINKING else READ_BYTES
        if len(self._buffer) > limit:
            self._use(bytearray())

    def _make_room(self) -> None:
        """See to it that there is free space: by moving what is pending to the front, or to a larger buffer."""
        pending = self._end - self._start
        capacity = self._capacity_for(pending)
        if self._is_held_here or capacity > len(self._buffer):
            if self._end == len(self._buffer):  # scarce is enough, if moving is dear
                larger = bytearray(capacity)
                larger[:pending] = self._view[self._start : self._end]
                self._use(larger)
                self._end = pending
        else:
            self._view[:pending] = self._view[self._start : self._end]
            self._start, self._end = 0, pending

    def _capacity_for(self, pending: int) -> int:
        """How large a buffer the pending bytes deserve: twice as large, but at most one read behind the frame."""
        if pending < _SIZE.size:
            return READ_BYTES
        frame: int = _SIZE.size + _SIZE.unpack_from(self._buffer, self._start)[0]
        if not pending < frame <= _SIZE.size + self._max_frame_bytes:
            return pending + READ_BYTES  # whole frames are pending, or what cannot be one
        return max(READ_BYTES, min(2 * pending, frame + READ_BYTES))

    def _use(self, buffer: bytearray) -> None:
        """Leave the present buffer, which lives on for as long as somebody has a view of it."""
        self._buffer, self._view = buffer, memoryview(buffer)
        self._start = self._end = 0
        self._is_held_here = False
        self._small_frames = 0


class Frame:
    """A request as it came: its header, and the bytes of its body.

    `body` is writable, and belongs to whoever holds the frame until `release`: from then on the connection overwrites
    it. Releasing twice does no harm.
    """

    __slots__ = ("_reader", "body", "header")

    def __init__(self, header: RequestHeader, body: memoryview, reader: FrameReader) -> None:
        self.header = header
        self.body = body
        self._reader: FrameReader | None = reader

    def release(self) -> None:
        """Be done with the request: the next one may be asked for."""
        if self._reader is not None:
            self._reader._release()
            self._reader = None


class ServerConnection(FrameReader):
    """The broker's end: requests come in, responses go out."""

    def next_frame(self) -> Frame | Literal[_NeedData.NEED_DATA]:
        """The next request, or NEED_DATA. The one before must have been released.

        MalformedMessage means that the peer does not speak the protocol, FrameTooLarge that it says too much at once:
        there is nothing to answer, and no way to find the next request. A request that we do not serve is handed out
        like any other, as far as its header can be understood.
        """
        content = self._next_content()
        if content is None:
            return NEED_DATA
        try:
            header, position = read_request_header(content, _FLEXIBLE_FROM)
        except MalformedMessage as error:
            header, position = _beginning_of_header(content, error), len(content)
        return Frame(header, content[position:], self)

    def next_token(self) -> bytes | Literal[_NeedData.NEED_DATA]:
        """The next frame as bare bytes, without a header: what SASL sends after a SaslHandshake of version 0."""
        content = self._next_content()
        if content is None:
            return NEED_DATA
        token = bytes(content)
        self._release()
        return token

    def receive_data(self, data: Buffer) -> None:
        """`get_buffer` and `buffer_updated` in one, for input that is in another buffer already."""
        self._copy(data)

    def response(self, correlation_id: int, header_version: int, parts: Iterable[Buffer]) -> list[Buffer]:
        """A response as buffers to be sent in this order; large parts are passed on, not copied."""
        return frame_of(encode_response_header(correlation_id, header_version), parts)


class ClientConnection(FrameReader):
    """The client's end: requests go out, responses come in, in the same order."""

    def __init__(self, client_id: str | None, *, max_frame_bytes: int) -> None:
        super().__init__(max_frame_bytes)
        self._client_id = client_id
        self._next_correlation_id = 0
        self._unanswered: deque[tuple[int, type[Response], int]] = deque()
        """Correlation id, class and version of the responses that are due."""

    def request(self, request: Request, version: int, *, expects_answer: bool = True) -> list[Buffer]:
        """A request as buffers to be sent in this order. Produce with acks 0 is the one that expects no answer."""
        correlation_id = self._next_correlation_id
        header = RequestHeader(request.api_key, version, correlation_id, self._client_id)
        buffers = frame_of(header.encode(request.header_version(version)), request.encode(version))
        self._next_correlation_id = correlation_id + 1 & 0x7FFFFFFF
        if expects_answer:
            self._unanswered.append((correlation_id, request.response, version))
        return buffers

    def receive_data(self, data: Buffer) -> Iterator[Response]:
        """The responses that `data` completes, one for each request in turn. What they hold is the caller's to keep.

        MalformedMessage means that the peer is no broker, or answers what was not asked.
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


def frame_of(header: Buffer, parts: Iterable[Buffer]) -> list[Buffer]:
    """Size, header and parts as few buffers."""
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


_FLEXIBLE_FROM = {api_key: request.flexible_from for api_key, request in REQUESTS.items()}


def _beginning_of_header(content: memoryview, error: MalformedMessage) -> RequestHeader:
    """What can be said of a request whose header cannot be read to its end.

    That is `error` if we know the version of the request. Otherwise the beginning will do: an ApiVersions request of
    any version must be answered (KIP-511), and of others the log can say what came.
    """
    header = read_header_start(content)
    request = REQUESTS.get(header.api_key)
    if request is not None and request.min_version <= header.api_version <= request.max_version:
        raise error
    return header
