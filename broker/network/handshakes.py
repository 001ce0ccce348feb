"""Accepts the connections of a listener with TLS, and bounds how many of them are amid their handshake.

asyncio's server reports a connection only when its handshake is done. With it, the broker could neither count nor close
the connections of clients that never finish their handshake. As in Apache Kafka, a connection counts towards the limits
from the moment at which it is accepted.
"""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import logging
import socket
import ssl
from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

from ..security.tls import ACCEPTED
from .connection import Connection, address_of
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


class Admission(Protocol):
    """Counts connections amid their handshakes, and holds them to the limits."""

    def admit(self, connection: Connection, host: str) -> str | None:
        """Count a connection from this host; return why it has to be refused, or None."""

    def dismiss(self, connection: Connection) -> None:
        """Count it no more, if it still counts as amid its handshake."""


@dataclass(eq=False, slots=True)
class _Handshake:
    connection: Connection
    accepted: socket.socket | None
    """Its socket, as long as the handshake has not begun."""


class Handshakes:
    """Accepts at a listening socket. Each connection is one that `make` returns, which asyncio tells once its handshake
    is done."""

    def __init__(
        self,
        listening: socket.socket,
        make: Callable[[], Connection],
        context: ssl.SSLContext,
        admission: Admission,
        *,
        limit_s: float,
        most: int,
    ) -> None:
        """`limit_s` is how many seconds a handshake may take, `most` how many may go on."""
        listening.setblocking(False)
        self._listening = listening
        self._make = make
        self._context = context
        self._admission = admission
        self._limit_s = limit_s
        self._most = most
        self._going: dict[asyncio.Task[None], _Handshake] = {}
        """The handshakes that go on, the oldest first."""
        self._accepting = asyncio.get_running_loop().create_task(self._accept())

    def close(self) -> None:
        """Accept no more, and end the handshakes that go on."""
        self._accepting.cancel()
        for task in self._going:
            self._cancel(task)

    async def wait_closed(self) -> None:
        """Return when nothing of it runs any more, and the address is free."""
        await asyncio.wait([self._accepting, *self._going])
        self._listening.close()

    async def _accept(self) -> None:
        loop = asyncio.get_running_loop()
        for number in itertools.count(1):
            try:
                accepted, name = await loop.sock_accept(self._listening)
            except ConnectionError:  # the client has gone already
                continue
            except OSError as error:
                log.error("cannot accept a connection: %s", error)
                await asyncio.sleep(PAUSE_S)
                continue
            connection, (host, _) = self._make(), address_of(name)
            refusal = self._admission.admit(connection, host)
            if refusal is not None:
                peer_log.warning("refused a connection from %s: %s", host, refusal)
                self._admission.dismiss(connection)
                accepted.close()
                continue
            handshake = _Handshake(connection, accepted)
            task = loop.create_task(self._shake_hands(handshake, accepted))
            self._going[task] = handshake
            task.add_done_callback(self._end)
            if len(self._going) > self._most:
                self._end_oldest()
            if number % AT_ONCE == 0:
                await asyncio.sleep(0)

    def _end(self, task: asyncio.Task[None]) -> None:
        ended = self._going.pop(task, None)
        if ended is not None:
            self._admission.dismiss(ended.connection)

    def _end_oldest(self) -> None:
        oldest = next(iter(self._going))
        peer_log.warning("closed a connection: it is the oldest of more than %d TLS handshakes", self._most)
        self._cancel(oldest)
        self._end(oldest)

    def _cancel(self, task: asyncio.Task[None]) -> None:
        task.cancel()
        accepted = self._going[task].accepted
        if accepted is not None:  # the task, which would close it, never runs
            accepted.close()

    async def _shake_hands(self, handshake: _Handshake, accepted: socket.socket) -> None:
        handshake.accepted = None
        ACCEPTED.set(accepted)
        # A handshake that fails has written to the log why; one that takes too long has closed its connection.
        with contextlib.suppress(OSError):
            await asyncio.get_running_loop().connect_accepted_socket(
                lambda: handshake.connection, accepted, ssl=self._context, ssl_handshake_timeout=self._limit_s
            )
