"""Requests over a bare socket: a client that costs next to nothing beside the server that a benchmark measures."""

from __future__ import annotations

import socket
import struct
from typing import Protocol

from kmini.protocol.framing import frame_of
from kmini.protocol.messages.headers import RequestHeader
from kmini.protocol.schema import Request

DISCARDED_AT_ONCE_BYTES = 1 << 20
"""Bytes of an answer that `discard` receives at a time."""


class Located(Protocol):
    """A server, or its address."""

    @property
    def host(self) -> str: ...

    @property
    def port(self) -> int: ...


class Client:
    """One connection; answers come in the order of the requests, each from its header on."""

    def __init__(self, server: Located, timeout_s: float | None = None) -> None:
        self.socket = socket.create_connection((server.host, server.port), timeout_s)
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)

    def send(self, *frames: bytes) -> None:
        self.socket.sendall(b"".join(frames))

    def receive(self) -> bytes:
        """The next answer."""
        return self._exactly(self._size())

    def ask(self, frame: bytes | bytearray) -> bytes:
        self.socket.sendall(frame)
        return self._exactly(self._size())

    def discard(self) -> int:
        """Receive the next answer without keeping it, and return its bytes."""
        size = left = self._size()
        buffer = bytearray(min(size, DISCARDED_AT_ONCE_BYTES))
        while left:
            left -= self._received(self.socket.recv_into(buffer, min(left, len(buffer))))
        return size

    def close(self) -> None:
        self.socket.close()

    def _size(self) -> int:
        size: int = struct.unpack(">i", self._exactly(4))[0]
        return size

    def _exactly(self, size: int) -> bytes:
        data = self.socket.recv(size, socket.MSG_WAITALL)
        while len(data) < size:  # a socket with a timeout does not wait for all
            more = self.socket.recv(size - len(data))
            self._received(len(more))
            data += more
        return data

    def _received(self, count: int) -> int:
        if not count:
            raise ConnectionError("the server closed the connection")
        return count


def framed(request: Request, version: int, client_id: str = "bench") -> bytes:
    """A request as it is sent, with correlation id 1."""
    header = RequestHeader(request.api_key, version, 1, client_id).encode(request.header_version(version))
    return b"".join(frame_of(header, request.encode(version)))
