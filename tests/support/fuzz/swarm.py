"""Many connections at once, from one thread: what each sent, and whether it was answered or closed."""

from __future__ import annotations

import selectors
import socket
import struct
import time
from collections.abc import Callable, Sequence

from kmini.protocol.messages import ApiVersionsRequest

RESET_ON_CLOSE = struct.pack("ii", 1, 0)
LAST = 0x7EADBEEF
"""The correlation id of the request that ends a stream: its answer means that all before it were served."""
LAST_REQUEST = struct.pack(">ihhih", 10, ApiVersionsRequest.api_key, 0, LAST, -1)


class Stranger:
    """A connection with something to send and a tally of what came back."""

    def __init__(self, address: tuple[str, int], stream: bytes, *, leaves: bool = False) -> None:
        self.socket = socket.create_connection(address, 20)
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.socket.setblocking(False)
        self.unsent = memoryview(stream)
        self.leaves = leaves
        """Hang up, without warning, as soon as everything is sent."""
        self.answered: list[int] = []
        """Correlation ids, in the order of the answers."""
        self.is_done = False
        self._input = bytearray()

    def send(self) -> None:
        if self.unsent:
            self.unsent = self.unsent[self.socket.send(self.unsent) :]
        if not self.unsent and self.leaves:
            self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, RESET_ON_CLOSE)
            self.is_done = True

    def receive(self) -> None:
        data = self.socket.recv(1 << 18)
        self.is_done = not data
        self._input += data
        while len(self._input) >= 8:
            size, correlation_id = struct.unpack_from(">ii", self._input)
            if len(self._input) < 4 + size:
                return
            self.answered.append(correlation_id)
            del self._input[: 4 + size]
            if correlation_id == LAST:
                self.is_done = True


def until_done(strangers: Sequence[Stranger], *, on_silence: Callable[[], object], timeout_s: float = 30.0) -> int:
    """Let all send and read until each got the last answer, was closed, or left; how many have not, in the end.

    `on_silence` is called when nothing has moved for a while: some requests ask to be kept waiting.
    """
    deadline = time.monotonic() + timeout_s
    with selectors.DefaultSelector() as selector:
        for stranger in strangers:
            selector.register(stranger.socket, selectors.EVENT_READ | selectors.EVENT_WRITE, stranger)
        left = len(strangers)
        while left and time.monotonic() < deadline:
            ready = selector.select(0.3)
            if not ready:
                on_silence()
            for key, events in ready:
                stranger: Stranger = key.data
                try:
                    if events & selectors.EVENT_WRITE:
                        stranger.send()
                        if not stranger.unsent:
                            selector.modify(stranger.socket, selectors.EVENT_READ, stranger)
                    if events & selectors.EVENT_READ and not stranger.is_done:
                        stranger.receive()
                except BlockingIOError:
                    continue
                except ConnectionError:
                    stranger.is_done = True
                if stranger.is_done:
                    selector.unregister(stranger.socket)
                    stranger.socket.close()
                    left -= 1
    for stranger in strangers:
        stranger.socket.close()
    return left
