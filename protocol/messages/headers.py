"""The headers of requests and responses.

Request headers: v1 names the client, v2 adds tagged fields; v2 goes with the flexible versions of a message. The client
id keeps its old form in v2, so that a broker can read the header of a request whose version it does not know. Response
headers: v0 is the correlation id alone, v1 adds tagged fields. Which a message has says its `header_version`
(`../schema.py`): an answer to ApiVersions always v0.
"""

from __future__ import annotations

import struct
from collections.abc import Mapping
from typing import NamedTuple

from ..errors import MalformedMessage
from ..primitives import skip_tags

MIN_REQUEST_HEADER_BYTES = 8
"""API key, version and correlation id: every version of the header begins with them."""

_START = struct.Struct(">hhi")
unpack_header_start = _START.unpack_from
"""API key, version and correlation id of the request that begins at a position of a buffer; struct.error if the buffer
ends first."""
_START_AND_LENGTH = struct.Struct(">hhih")
_CORRELATION_ID = struct.Struct(">i")


class RequestHeader(NamedTuple):
    """The request that follows, and the client's name."""

    api_key: int
    api_version: int
    correlation_id: int
    """Comes back in the response."""
    client_id: str | None
    """The name that the client gives itself, or null; a client may give any name."""

    def encode(self, header_version: int) -> bytes:
        """The header as version 1 or 2; ValueError if the client id is too long."""
        client_id = self.client_id.encode() if self.client_id is not None else b""
        if len(client_id) > 0x7FFF:
            raise ValueError(f"a client id of {len(client_id)} bytes is too long")
        length = len(client_id) if self.client_id is not None else -1
        start = _START_AND_LENGTH.pack(self.api_key, self.api_version, self.correlation_id, length)
        return start + client_id + (b"\0" if header_version >= 2 else b"")


def read_request_header(
    buffer: bytearray | memoryview, flexible_from: Mapping[int, int], start: int = 0, end: int | None = None
) -> tuple[RequestHeader, int]:
    """The header of the request from `start` to `end` in the buffer, and the position of its body.

    `flexible_from` has the first flexible version of every API that is known. A header of another API is taken for
    version 1.
    """
    if end is None:
        end = len(buffer)
    position = start + _START_AND_LENGTH.size
    if position > end:
        raise MalformedMessage("the request ends within its header")
    api_key, api_version, correlation_id, length = _START_AND_LENGTH.unpack_from(buffer, start)
    client_id = None
    if length >= 0:
        stop = position + length
        if stop > end:
            raise MalformedMessage("the client id is longer than the request")
        try:
            client_id = str(buffer[position:stop], "utf-8")
        except UnicodeDecodeError:
            raise MalformedMessage("the client id is not UTF-8") from None
        position = stop
    elif length != -1:
        raise MalformedMessage("the client id has a negative length")
    try:
        is_flexible = api_version >= flexible_from[api_key]
    except KeyError:
        is_flexible = False
    if is_flexible:
        if position == end:
            raise MalformedMessage("the request ends within its header")
        tags = buffer[position]
        position += 1
        if tags:
            try:
                position = skip_tags(memoryview(buffer)[:end], position, tags)
            except IndexError:
                raise MalformedMessage("the request ends within its header") from None
    header = tuple.__new__(RequestHeader, (api_key, api_version, correlation_id, client_id))  # cheap (COSTS.md)
    return header, position


def read_header_start(frame: memoryview) -> RequestHeader:
    """The part of a header that has the same place in every version, also in future ones. It has no client id."""
    if len(frame) < MIN_REQUEST_HEADER_BYTES:
        raise MalformedMessage(f"a request of {len(frame)} bytes has no header")
    api_key, api_version, correlation_id = _START.unpack_from(frame)
    return RequestHeader(api_key, api_version, correlation_id, client_id=None)


def read_response_header(frame: memoryview, header_version: int) -> tuple[int, int]:
    """The correlation id, and the position of the body."""
    try:
        (correlation_id,) = _CORRELATION_ID.unpack_from(frame)
        position = _CORRELATION_ID.size
        return correlation_id, skip_tags(frame, position + 1, frame[position]) if header_version >= 1 else position
    except (struct.error, IndexError):
        raise MalformedMessage("the response ends within its header") from None


def encode_response_header(correlation_id: int, header_version: int) -> bytes:
    """A response header of version 0 or 1."""
    return _CORRELATION_ID.pack(correlation_id) + (b"\0" if header_version >= 1 else b"")
