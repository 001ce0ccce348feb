"""Helpers for tests of brokers: a socket that speaks the protocol, request by request."""

import itertools
import socket
import struct
from types import TracebackType
from typing import Any

from kmini.protocol.framing import frame_of
from kmini.protocol.messages.headers import RequestHeader, read_response_header
from kmini.protocol.schema import Request, Response


class ConnectionClosed(Exception):
    """The broker hung up instead of answering."""


class Wire:
    """One blocking connection. It retries, negotiates and remembers nothing: it sends exactly the given requests.

    `address` is "host:port". An answer that does not come within `timeout_s` is a TimeoutError, so that no test hangs.
    """

    def __init__(self, address: str, *, client_id: str | None = "wire", timeout_s: float = 20.0) -> None:
        host, _, port = address.rpartition(":")
        self.socket = socket.create_connection((host.strip("[]"), int(port)), timeout_s)
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._client_id = client_id
        self._correlation_ids = itertools.count(1)

    def __enter__(self) -> "Wire":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        self.socket.close()

    def ask(self, request: Request, version: int | None = None) -> Any:
        """Send a request, by default in its newest version, and return the response. Raises ConnectionClosed."""
        version = request.max_version if version is None else version
        correlation_id = self.send(request, version)
        return self.receive(type(request).response, version, correlation_id)

    def send(self, request: Request, version: int) -> int:
        """Send a request without waiting; return its correlation id. Raises ConnectionClosed."""
        return self.send_together((request, version))[0]

    def send_together(self, *requests: tuple[Request, int]) -> list[int]:
        """Send requests, each with its version, in one write and without waiting, as a client that pipelines does;
        return their correlation ids. Raises ConnectionClosed."""
        frames, correlation_ids = [], []
        for request, version in requests:
            header = RequestHeader(request.api_key, version, next(self._correlation_ids), self._client_id)
            frames += frame_of(header.encode(request.header_version(version)), request.encode(version))
            correlation_ids.append(header.correlation_id)
        try:
            self.socket.sendall(b"".join(frames))
        except ConnectionError as error:
            raise ConnectionClosed from error
        return correlation_ids

    def receive(self, response: type[Response], version: int, correlation_id: int) -> Response:
        """The next response, which must be the one to `correlation_id`."""
        content = memoryview(self.receive_frame())
        answered, position = read_response_header(content, response.header_version(version))
        if answered != correlation_id:
            raise AssertionError(f"the answer is to request {answered}, not to {correlation_id}")
        return response.decode(content[position:], version)

    def receive_frame(self) -> bytes:
        """The content of the next frame. Raises ConnectionClosed."""
        (size,) = struct.unpack(">i", self._exactly(4))
        return self._exactly(size)

    def _exactly(self, count: int) -> bytes:
        received = bytearray()
        while len(received) < count:
            try:
                more = self.socket.recv(min(count - len(received), 1 << 20))
            except ConnectionError as error:
                raise ConnectionClosed from error
            if not more:
                raise ConnectionClosed
            received += more
        return bytes(received)
