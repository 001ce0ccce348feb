"""Raw requests on a socket, encoded and decoded by kafka-python's tables: an independent reading of the protocol."""

from __future__ import annotations

import itertools
import socket
import struct
from types import TracebackType
from typing import Any

CLIENT_ID = "tests"


class Wire:
    """One connection to a server; answers come in the order of the requests."""

    def __init__(self, host: str, port: int, *, timeout: float = 30.0, client_id: str = CLIENT_ID) -> None:
        self._client_id = client_id
        self.socket = socket.create_connection((host, port), timeout)
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._correlation_ids = itertools.count(1)

    def __enter__(self) -> Wire:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.socket.close()

    def send(self, request: Any, version: int) -> int:
        """Write a request and return its correlation id."""
        correlation_id = next(self._correlation_ids)
        request.API_VERSION = version
        request.with_header(correlation_id=correlation_id, client_id=self._client_id)
        self.socket.sendall(request.encode(header=True, framed=True))
        return correlation_id

    def receive(self) -> bytes | None:
        """Return the next response, its header included, or None when the server closed the connection."""
        try:
            size = self._exactly(4)
            return None if size is None else self._exactly(struct.unpack(">i", size)[0])
        except ConnectionError:
            return None

    def ask(self, request: Any, version: int) -> Any:
        """Send one request and return the decoded response, or None when the server closed the connection instead."""
        correlation_id = self.send(request, version)
        data = self.receive()
        if data is None:
            return None
        response = _response_class(type(request)).decode(data, version=version, header=True)
        assert response.header.correlation_id == correlation_id
        return response

    def _exactly(self, count: int) -> bytes | None:
        received = b""
        while len(received) < count:
            more = self.socket.recv(count - len(received))
            if not more:
                return None
            received += more
        return received


def _response_class(request_class: Any) -> Any:
    import importlib

    module = importlib.import_module(request_class.__module__)
    return getattr(module, request_class.__name__.replace("Request", "Response"))
