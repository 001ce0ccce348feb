"""One end of a proxied connection: frames out of its bytes, and the bounds of what is held of them.

An end is not read from while the other one has unsent bytes. At most one frame is held that is not whole, beside the
requests that wait behind a fault.
"""

from __future__ import annotations

import asyncio
import socket
import struct
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, cast

from kmini.protocol.errors import MalformedMessage
from kmini.protocol.framing import NEED_DATA, ServerConnection

if TYPE_CHECKING:
    from kmini.protocol.primitives import Buffer
    from kmini.trace.proxied_connection import ProxiedConnection

MAX_FRAME_BYTES = 128 * 1024 * 1024
"""Bytes of the largest frame that is read; Apache Kafka takes requests of 100 MiB."""
PIPELINED_BYTES = 256 * 1024
"""Bytes of requests that wait behind a fault beyond which a client is not read from."""
_JOINED_BYTES = 64 * 1024
"""Bytes of a frame up to which its size is joined with it."""
_RAW_BYTES = 256 * 1024
"""Bytes of the buffer of a pipe."""
_TLS_START = b"\x16\x03"
"""The first bytes of a TLS connection: a handshake record."""


class ConnectionEnd(asyncio.BufferedProtocol):
    """One end of a connection: that of the client, or that of the broker."""

    def __init__(self, connection: ProxiedConnection, take: Callable[[bytes], None]) -> None:
        self._connection = connection
        self._take = take
        self._framing = ServerConnection(MAX_FRAME_BYTES)
        self._raw: bytearray | None = None
        """The buffer of a pipe; None while frames are read."""
        self.transport: asyncio.Transport | None = None
        self.other: ConnectionEnd
        self.is_write_paused = False
        self.has_ended = False
        """Whether this peer sends no more."""
        self._is_read = True
        self._is_pumping = False

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = cast(asyncio.Transport, transport)
        transport.get_extra_info("socket").setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._connection.made(self)

    def connection_lost(self, error: Exception | None) -> None:
        self._connection.lost(self, error)

    def get_buffer(self, size_hint: int) -> Any:
        return self._framing.get_buffer(size_hint) if self._raw is None else self._raw

    def buffer_updated(self, count: int) -> None:
        if self._raw is not None:
            self.other.write([bytes(memoryview(self._raw)[:count])])
            return
        self._framing.buffer_updated(count)
        self.pump()

    def eof_received(self) -> bool:
        self.has_ended = True
        self._connection.half_closed(self)
        assert self.transport is not None
        return self.transport.get_extra_info("sslcontext") is None  # TLS closes both directions at once

    def pause_writing(self) -> None:
        self.is_write_paused = True
        self.other.set_reading()

    def resume_writing(self) -> None:
        self.is_write_paused = False
        self.other.pump()

    def pump(self, *, to_the_end: bool = False) -> None:
        """Pass on the frames that have arrived, as far as the other end takes them; all of them `to_the_end`."""
        if self._is_pumping:  # a frame that is passed on may release others, which come next
            return
        if self._raw is None:
            self._is_pumping = True
            try:
                while to_the_end or not (self.other.is_write_paused or self._connection.is_blocked(self)):
                    content = self._framing.next_token()
                    if content is NEED_DATA:
                        break
                    self._take(content)
                    if self._raw is not None:
                        break
            except MalformedMessage as error:
                self._connection.pass_bytes(str(error))
            finally:
                self._is_pumping = False
        self.set_reading()

    @property
    def has_pending(self) -> bool:
        """Whether bytes have arrived that were not passed on."""
        return self._framing.pending_bytes > 0

    def pending(self) -> bytes:
        """What has arrived and is no whole frame; it is forgotten here."""
        return self._framing.take_pending() if self._raw is None else b""

    def pipe(self) -> None:
        """Read no frames any more, and pass all bytes on as they come."""
        if self._raw is None:
            pending = self.pending()
            self._raw = bytearray(_RAW_BYTES)
            if pending:
                self.other.write([pending])

    @property
    def begins_as_tls(self) -> bool:
        """Whether what has arrived, and is no frame, begins a TLS connection."""
        return self._framing.pending_bytes >= 2 and self._begins_with(_TLS_START)

    def _begins_with(self, start: bytes) -> bool:
        pending = self._framing.take_pending()
        self._framing.receive_data(pending)
        return pending.startswith(start)

    def set_reading(self) -> None:
        """Read while the other end takes what comes."""
        is_held_back = self._connection.is_blocked(self) and self._framing.pending_bytes > PIPELINED_BYTES
        is_read = self.other.transport is not None and not self.other.is_write_paused and not is_held_back
        if is_read is not self._is_read and self.transport is not None and not self.has_ended:
            self._is_read = is_read
            if is_read:
                self.transport.resume_reading()
            else:
                self.transport.pause_reading()

    def write(self, buffers: list[Buffer]) -> None:
        if self.transport is not None and not self.transport.is_closing():
            self.transport.writelines(buffers)

    def write_frame(self, content: bytes) -> None:
        """Write a frame by its content, with its size before it."""
        size = struct.pack(">i", len(content))
        self.write([size + content] if len(content) <= _JOINED_BYTES else [size, content])

    def reset(self) -> None:
        """Close at once, so that the peer's system reports a reset (RST)."""
        if self.transport is not None:
            own_socket = self.transport.get_extra_info("socket")
            if own_socket is not None and not self.transport.is_closing():
                own_socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            self.transport.abort()
