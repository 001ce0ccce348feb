"""A connection of a broker without a socket: bytes are fed into it, and its transport remembers what it wrote."""

from __future__ import annotations

from typing import Any

from kmini.broker.broker import BrokerServer
from kmini.broker.network.connection import Connection
from kmini.broker.network.listeners import Listener
from kmini.protocol.messages.headers import RequestHeader
from kmini.protocol.schema import Request


class RecordingTransport:
    """A transport whose writes are `written`, as pairs of the connection's name and the bytes; connections may share
    the list."""

    def __init__(self, name: str, written: list[tuple[str, bytes]]) -> None:
        self._name = name
        self._written = written
        self.is_reading = True

    def get_extra_info(self, name: str) -> Any:
        return {"peername": ("127.0.0.1", 40_000), "sockname": ("127.0.0.1", 9092)}.get(name)

    def write(self, data: bytes) -> None:
        self._written.append((self._name, bytes(data)))

    def writelines(self, buffers: list[bytes]) -> None:
        self.write(b"".join(map(bytes, buffers)))

    def is_closing(self) -> bool:
        return False

    def pause_reading(self) -> None:
        self.is_reading = False

    def resume_reading(self) -> None:
        self.is_reading = True

    def close(self) -> None:
        self.write(b"")

    abort = close


class FedConnection:
    """A client named `name`, connected to a broker."""

    client_id = "fed"

    def __init__(
        self, broker: BrokerServer, name: str, written: list[tuple[str, bytes]], *, listener: str = "PLAINTEXT"
    ) -> None:
        self.transport = RecordingTransport(name, written)
        self.connection = Connection(broker.server, Listener(listener, "127.0.0.1", 9092))
        self.connection.connection_made(self.transport)  # type: ignore[arg-type]

    def send(self, *requests: tuple[Request, int]) -> None:
        """Have requests, each in a version, arrive in one piece."""
        frames = []
        for request, version in requests:
            content = RequestHeader(request.api_key, version, 7, self.client_id).encode(request.header_version(version))
            content += b"".join(map(bytes, request.encode(version)))
            frames.append(len(content).to_bytes(4, "big") + content)
        rest = memoryview(b"".join(frames))
        while rest:
            free = self.connection.get_buffer(-1)
            count = min(len(free), len(rest))
            free[:count] = rest[:count]
            self.connection.buffer_updated(count)
            rest = rest[count:]

    def leave(self) -> None:
        """End the connection, as the client's end of it does."""
        self.connection.connection_lost(None)
