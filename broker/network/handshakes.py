"""Accepts the connections of a listener with TLS, and bounds how many of them are amid their handshake.

asyncio's server reports a connection only when its handshake is done. With it, the broker could neither count nor close
the connections of clients that never finish their handshake.
"""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import logging
import socket
import ssl
from collections.abc import Callable

from .peer_log import PeerLog

log = logging.getLogger("kmini.server")
peer_log = PeerLog(logging.getLogger("kmini.connection"))

MOST_HANDSHAKES = 1_000
"""Handshakes that a listener works on at a time. When another one begins, the connection with the oldest handshake is
closed: a well-behaved client needs milliseconds for its own."""
PAUSE_S = 1.0
"""Seconds until the next attempt to accept, where the system has no room for another connection."""
AT_ONCE = 50
"""Connections that are accepted before others have their turn: a queue of the system that is full drops them."""


class Handshakes:
    """Accepts at a listening socket. Each connection becomes one of the protocols that `make` returns, once its
    handshake is done."""

    def __init__(
        self,
        listening: socket.socket,
        make: Callable[[], asyncio.BaseProtocol],
        context: ssl.SSLContext,
        *,
        limit_s: float,
        most: int,
    ) -> None:
        """`limit_s` is how many seconds a handshake may take, `most` how many may go on."""
        listening.setblocking(False)
        self._listening = listening
        self._make = make
        self._context = context
        self._limit_s = limit_s
        self._most = most
        self._going: dict[asyncio.Task[None], socket.socket | None] = {}
        """The handshakes that go on, the oldest first; with its socket, one that has not begun."""
        self._accepting = asyncio.get_running_loop().create_task(self._accept())

    def close(self) -> None:
        """Accept no more, and end the handshakes that go on."""
        self._accepting.cancel()
        for handshake in self._going:
            self._cancel(handshake)

    async def wait_closed(self) -> None:
        """Return when nothing of it runs any more, and the address is free."""
        await asyncio.wait([self._accepting, *self._going])
        self._listening.close()

    async def _accept(self) -> None:
        loop = asyncio.get_running_loop()
        for number in itertools.count(1):
            try:
                accepted, _ = await loop.sock_accept(self._listening)
            except ConnectionError:  # the client has gone already
                continue
            except OSError as error:
                log.error("cannot accept a connection: %s", error)
                await asyncio.sleep(PAUSE_S)
                continue
            task = loop.create_task(self._shake_hands(accepted))
            self._going[task] = accepted
            task.add_done_callback(self._end)
            if len(self._going) > self._most:
                self._end_oldest()
            if number % AT_ONCE == 0:
                await asyncio.sleep(0)

    def _end(self, handshake: asyncio.Task[None]) -> None:
        self._going.pop(handshake, None)

    def _end_oldest(self) -> None:
        oldest = next(iter(self._going))
        peer_log.warning("closed a connection: it is the oldest of more than %d TLS handshakes", self._most)
        self._cancel(oldest)
        self._end(oldest)

    def _cancel(self, handshake: asyncio.Task[None]) -> None:
        handshake.cancel()
        accepted = self._going[handshake]
        if accepted is not None:  # the task, which would close it, never runs
            accepted.close()

    async def _shake_hands(self, accepted: socket.socket) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._going[task] = None
        # A handshake that fails has written to the log why; one that takes too long has closed its connection.
        with contextlib.suppress(OSError):
            await asyncio.get_running_loop().connect_accepted_socket(
                self._make, accepted, ssl=self._context, ssl_handshake_timeout=self._limit_s
            )
