"""Connections inside a process: what one end writes reaches the other without a socket.

Brokers of a local cluster share a process and a loop, so their connections need no system calls. Protocols notice no
difference: the bytes are those of a socket, in their order; reading can be paused, and a writer whose reader falls
behind is told to pause; what was written before `close` arrives before the end of the connection does.

Theory of operation
-------------------
A write puts its bytes in the queue of the other end, and that end in the queue of the network. No protocol is called
meanwhile. A callback of the loop (`MemoryNetwork._carry`) takes one end after the other and gives its protocol what has
arrived. The protocol may write, also to the end that has just written: that goes behind what is queued already, and is
carried in the same turn of the loop, without a call inside a call. A request and its answer, and the request that
follows it, thus share a turn. A turn that is over hands the rest to the next pass of the loop.
"""

from __future__ import annotations

import asyncio
import time
from collections import deque
from collections.abc import Iterable
from typing import Any

from ...protocol.primitives import Buffer
from ..scheduler import end_of_turn_s

HIGH_WATER_BYTES = 64 * 1024
"""Bytes that an end has written and the other has not read, beyond which the writer is told to pause. As asyncio's."""
LOW_WATER_BYTES = HIGH_WATER_BYTES // 4
"""Bytes down to which the other end has to read before the writer is told to go on."""

SocketName = tuple[str, int]
"""Host and port of an end."""


class MemoryNetwork:
    """Carries the bytes of connections inside one process, all on one event loop."""

    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._due: deque[MemoryTransport] = deque()
        """The ends that have something to do: bytes or the end of the connection have arrived, or writing may go on."""
        self._is_carrying = False
        """Whether `_carry` runs, or will."""

    def connect(
        self,
        client: asyncio.BaseProtocol,
        server: asyncio.BaseProtocol,
        *,
        client_name: SocketName,
        server_name: SocketName,
    ) -> None:
        """Connect two protocols. The connection is made for both when this returns."""
        near = MemoryTransport(self, client, sockname=client_name, peername=server_name)
        far = MemoryTransport(self, server, sockname=server_name, peername=client_name)
        near.peer, far.peer = far, near
        self.join(near, far)

    def join(self, near: MemoryTransport, far: MemoryTransport) -> None:
        """Tell the protocols at both ends that they are connected."""
        far._protocol.connection_made(far)
        near._protocol.connection_made(near)

    def notify(self, end: MemoryTransport) -> None:
        """Have `end` look at what has arrived, soon."""
        if end.is_due:
            return
        end.is_due = True
        self._due.append(end)
        if not self._is_carrying:
            self._is_carrying = True
            self._loop.call_soon(self._carry)

    def _carry(self) -> None:
        """Serve the ends that are due, and those that become due meanwhile, until the turn is over."""
        due = self._due
        turn_ends_s = end_of_turn_s()
        try:
            while due:
                due.popleft().look()
                if time.perf_counter() >= turn_ends_s:
                    break
        finally:
            self._is_carrying = bool(due)
            if due:
                self._loop.call_soon(self._carry)


class MemoryTransport(asyncio.Transport):
    """One end of a connection."""

    peer: MemoryTransport
    """The other end."""

    def __init__(
        self, network: MemoryNetwork, protocol: asyncio.BaseProtocol, *, sockname: SocketName, peername: SocketName
    ) -> None:
        super().__init__({"sockname": sockname, "peername": peername})
        self.is_due = False
        """Whether the network calls `look` soon."""
        self._network = network
        self._protocol: Any = protocol
        self._is_buffered = isinstance(protocol, asyncio.BufferedProtocol)
        self._arrived: deque[Buffer] = deque()
        """What the other end has written and the protocol has not read."""
        self._arrived_bytes = 0
        self._is_reading = True
        self._is_writing_paused = False
        self._is_closing = False

    # --- what protocols call

    def write(self, data: Buffer) -> None:
        """Send bytes, which must not change any more. They go nowhere once either end has closed."""
        peer, size = self.peer, len(data)
        if not size or self._is_closing or peer._is_closing:
            return
        peer._arrived.append(data)
        peer._arrived_bytes = size = peer._arrived_bytes + size
        if not peer.is_due and peer._is_reading:
            self._network.notify(peer)
        if size > HIGH_WATER_BYTES and not self._is_writing_paused:
            self._is_writing_paused = True
            self._protocol.pause_writing()

    def writelines(self, list_of_data: Iterable[Any]) -> None:
        for data in list_of_data:
            self.write(data)

    def can_write_eof(self) -> bool:
        return False

    def get_write_buffer_size(self) -> int:
        return self.peer._arrived_bytes

    def is_reading(self) -> bool:
        return self._is_reading

    def pause_reading(self) -> None:
        self._is_reading = False

    def resume_reading(self) -> None:
        if not self._is_closing and not self._is_reading:
            self._is_reading = True
            self._network.notify(self)

    def is_closing(self) -> bool:
        return self._is_closing

    def close(self) -> None:
        """Read no more, and end the connection once the other end has read what was written."""
        if self._is_closing:
            return
        self._is_closing = True
        self._is_reading = False
        self._arrived.clear()
        self._arrived_bytes = 0
        self._network._loop.call_soon(self._protocol.connection_lost, None)
        self._network.notify(self.peer)

    def abort(self) -> None:
        """End the connection; the other end does not get what it has not read yet."""
        if not self._is_closing:
            self.peer._arrived.clear()
            self.peer._arrived_bytes = 0
            self.close()

    # --- what the network calls

    def look(self) -> None:
        """Have the protocol go on writing, and give it what has arrived."""
        self.is_due = False
        if self._is_closing:
            return
        peer = self.peer
        try:
            if self._is_writing_paused and peer._arrived_bytes <= LOW_WATER_BYTES:
                self._is_writing_paused = False
                self._protocol.resume_writing()
            self._read()
            if peer._is_writing_paused and self._arrived_bytes <= LOW_WATER_BYTES:
                self._network.notify(peer)
            if peer._is_closing and self._is_reading:
                self._is_reading = False
                if not self._protocol.eof_received():
                    self.close()
        except Exception as error:
            context = {"message": "a protocol failed", "exception": error, "transport": self}
            self._network._loop.call_exception_handler(context)
            self.abort()

    def _read(self) -> None:
        """Give the protocol what has arrived, as far as it reads."""
        arrived, protocol = self._arrived, self._protocol
        while arrived and self._is_reading:
            data = arrived.popleft()
            size = len(data)
            self._arrived_bytes -= size
            if not self._is_buffered:
                protocol.data_received(bytes(data))
                continue
            free = protocol.get_buffer(size)
            if size <= len(free):
                free[:size] = data
                protocol.buffer_updated(size)
            else:
                self._fill(free, data)

    def _fill(self, free: memoryview, data: Buffer) -> None:
        """Put bytes into this buffer of the protocol, and what it has no room for into the next ones, as far as the
        protocol reads."""
        rest = memoryview(data)
        while True:
            count = min(len(free), len(rest))
            free[:count] = rest[:count]
            self._protocol.buffer_updated(count)
            rest = rest[count:]
            if not rest or self._is_closing:
                return
            if not self._is_reading:
                self._arrived.appendleft(rest)
                self._arrived_bytes += len(rest)
                return
            free = self._protocol.get_buffer(len(rest))
