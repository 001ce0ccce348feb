"""A simulated loop: time, network, threads and chance of one process are functions of a seed.

`simulate(seed, history)` runs a coroutine on it. While it runs there is no other time than the loop's, which stands
still while anything is ready and then jumps to the next timer; a day takes as long as its work. Sockets listen and
connect in memory only, each write arrives after a time that the seed draws, and what is given to a thread is done by
the loop, at a moment that the seed draws. Brokers and clients run unchanged.

Each connection, and each function that is given to a thread, draws from a stream of its own. So what happens at one
place does not change what is drawn at another one.
"""

from __future__ import annotations

import asyncio
import contextlib
import errno
import os
import random
import socket
import threading
import time
from collections.abc import Callable, Coroutine, Iterator
from typing import Any, TypeVar
from unittest import mock

from kmini.broker.network import dispatch, memory_transport
from kmini.broker.network.memory_transport import MemoryNetwork, MemoryTransport
from kmini.protocol import uuids
from support.certain import settle

T = TypeVar("T")

BEGIN_S = 1_700_000_000
"""The wall clock when a simulation begins, in seconds since the epoch."""


class Deadlock(AssertionError):
    """Nothing is ready, and no timer is set: what the history waits for never comes."""


class SimulatedLoop(asyncio.BaseEventLoop):
    """An event loop whose time is simulated."""

    def __init__(self, seed: int) -> None:
        super().__init__()
        self._seed = seed
        self._streams: dict[object, random.Random] = {}
        self.network = SimulatedNetwork(self)
        self.slowest_thread_s = 0.0
        """How long at most a slow disk keeps a thread, beyond the usual."""
        self._now_s = 0.0
        self._selector = self  # which BaseEventLoop asks to wait, by `select`
        self._clock_resolution = 1e-9

    def time(self) -> float:
        return self._now_s

    def chance(self, place: object) -> random.Random:
        """The random numbers of a place."""
        if place not in self._streams:
            self._streams[place] = random.Random(f"{self._seed} {place}")
        return self._streams[place]

    def sleep(self, seconds: float) -> None:
        """Let time pass for everyone, as when the thread of the loop sleeps."""
        self._now_s += max(seconds, 0)

    # --- what BaseEventLoop asks for

    def select(self, timeout_s: float | None) -> list[Any]:
        """Jump to the next timer, which is so far away."""
        if timeout_s is None:
            raise Deadlock("nothing is ready, and no timer is set")
        if timeout_s > 0:
            self._now_s = max(self._now_s, self._scheduled[0].when())  # type: ignore[attr-defined]
        return []

    def _process_events(self, event_list: list[Any]) -> None:
        """There are no sockets to look at."""

    def _write_to_self(self) -> None:
        """Nothing sleeps that would have to be woken."""

    # --- threads

    def run_in_executor(self, executor: Any, func: Callable[..., Any], *args: Any) -> asyncio.Future[Any]:  # type: ignore[override]
        """Do it in one go, at a moment that the seed draws."""
        done = self.create_future()
        chance = self.chance(getattr(func, "__qualname__", type(func).__name__))
        delay_s = chance.choice((0, 0.0001, 0.001, 0.01)) * chance.random()
        if self.slowest_thread_s:
            delay_s += chance.random() * self.slowest_thread_s
        self.call_later(delay_s, settle, done, func, args)
        return done

    # --- sockets

    async def create_server(self, protocol_factory: Any, host: Any = None, port: Any = None, **options: Any) -> Any:  # type: ignore[override]
        listening = options.get("sock")
        assert isinstance(listening, ListeningSocket), "sockets of a simulation are made while it runs"
        assert options.get("ssl") is None, "TLS is not simulated"
        listening.accept = protocol_factory
        return MemoryServer(listening)

    async def create_connection(self, protocol_factory: Any, host: Any = None, port: Any = None, **options: Any) -> Any:  # type: ignore[override]
        await asyncio.sleep(self.network.latency_s(port))
        listening = self.network.listening.get(port)
        if listening is None or listening.accept is None:
            raise ConnectionRefusedError(errno.ECONNREFUSED, os.strerror(errno.ECONNREFUSED))
        protocol = protocol_factory()
        self.network.client_ports += 1
        self.network.connect(
            protocol,
            listening.accept(),
            client_name=(host, self.network.client_ports),
            server_name=(host, port),
        )
        return None, protocol


class SimulatedNetwork(MemoryNetwork):
    """Connections in memory whose bytes need time, and may be held up."""

    def __init__(self, loop: SimulatedLoop) -> None:
        self._loop: SimulatedLoop = loop
        self.listening: dict[int, ListeningSocket] = {}
        """Listening sockets, by port."""
        self.client_ports = 60_000
        """The last one that a client got."""
        self.slowest_s = self.usual_slowest_s = 0.002
        self._number = 0
        self._ends: dict[MemoryTransport, str] = {}
        """The ends of open connections, with their names."""
        self._held_until_s: dict[MemoryTransport, float] = {}

    def join(self, near: MemoryTransport, far: MemoryTransport) -> None:
        self._number += 1
        self._ends[near], self._ends[far] = f"{self._number} near", f"{self._number} far"
        super().join(near, far)

    def latency_s(self, place: object) -> float:
        """How long bytes need, this time: mostly little."""
        return self._loop.chance(place).random() ** 3 * self.slowest_s

    def notify(self, end: MemoryTransport) -> None:
        """Have `end` look at what has arrived, when it has."""
        if not end.is_due:
            end.is_due = True
            now_s = self._loop.time()
            due_s = max(now_s + self.latency_s(self._ends.get(end)), self._held_until_s.get(end, 0.0))
            self._loop.call_at(due_s, end.look)

    def open_ends(self) -> list[MemoryTransport]:
        """Those of connections that have not ended, in the order of their making."""
        for end in [end for end in self._ends if end.is_closing() and end.peer.is_closing()]:
            del self._ends[end]
            self._held_until_s.pop(end, None)
        return [*self._ends]

    def hold_up(self, end: MemoryTransport, duration_s: float) -> None:
        """Have nothing arrive at this end for so long; what it sends itself does arrive."""
        self._held_until_s[end] = self._loop.time() + duration_s

    def free_port(self) -> int:
        return next(port for port in range(20_000, 30_000) if port not in self.listening)


class ListeningSocket:
    """What a broker listens with."""

    family = socket.AF_INET

    def __init__(self, network: SimulatedNetwork, host: str, port: int) -> None:
        if port in network.listening:
            raise OSError(errno.EADDRINUSE, os.strerror(errno.EADDRINUSE))
        self._network = network
        self._name = (host, port or network.free_port())
        self.accept: Callable[[], asyncio.BaseProtocol] | None = None
        network.listening[self._name[1]] = self

    def getsockname(self) -> tuple[str, int]:
        return self._name

    def setsockopt(self, *_: object) -> None:
        """Buffers have no size here."""

    def close(self) -> None:
        self.accept = None
        self._network.listening.pop(self._name[1], None)


class MemoryServer(asyncio.AbstractServer):
    def __init__(self, listening: ListeningSocket) -> None:
        self._listening = listening

    def close(self) -> None:
        self._listening.close()

    async def wait_closed(self) -> None:
        """Connections are closed by whom they belong to."""


class ClosedSocket:
    """What holds the port of a broker that does not run: nobody listens there."""

    def __init__(self, *_: object) -> None: ...

    def __getattr__(self, name: str) -> Callable[..., None]:
        return lambda *_, **__: None


def _for_this_thread(replacement: Callable[..., Any], real: Callable[..., Any]) -> Callable[..., Any]:
    here = threading.get_ident()

    def either(*arguments: Any, **more: Any) -> Any:
        return (replacement if threading.get_ident() == here else real)(*arguments, **more)

    return either


@contextlib.contextmanager
def _nothing_real(loop: SimulatedLoop, seed: int) -> Iterator[None]:
    """Replace time, chance, and the sockets that listen, for this thread. Others of the process, such as those of a
    library that a test before used, go on with what is real: each of their sleeps would move the simulated time."""
    chance = random.Random(f"urandom {seed}")

    def wall_s() -> float:
        return BEGIN_S + loop._now_s

    def listen(address: tuple[str, int], **_: object) -> ListeningSocket:
        return ListeningSocket(loop.network, *address)

    def network() -> SimulatedNetwork:
        return loop.network

    with contextlib.ExitStack() as stack:
        for owner, name, replacement in (
            (time, "time", wall_s),
            (time, "time_ns", lambda: int(wall_s() * 1e9)),
            (time, "monotonic", loop.time),
            (time, "monotonic_ns", lambda: int(loop.time() * 1e9)),
            (time, "perf_counter", loop.time),
            (time, "sleep", loop.sleep),
            (dispatch, "perf_counter", loop.time),
            (os, "urandom", chance.randbytes),
            (uuids, "urandom", chance.randbytes),
            (socket, "create_server", listen),
            (socket, "getaddrinfo", lambda *_: []),
            (socket, "socket", ClosedSocket),
            (memory_transport, "MemoryNetwork", network),
        ):
            replaced = replacement if name == "socket" else _for_this_thread(replacement, getattr(owner, name))
            stack.enter_context(mock.patch.object(owner, name, replaced))
        state = random.getstate()
        random.seed(seed)
        try:
            yield
        finally:
            random.setstate(state)


def simulate(seed: int, history: Callable[[], Coroutine[Any, Any, T]]) -> T:
    """What the coroutine returns, on a simulated loop of this seed."""
    loop = SimulatedLoop(seed)
    with _nothing_real(loop, seed):
        try:
            return loop.run_until_complete(history())
        finally:
            for task in asyncio.all_tasks(loop):
                task.cancel()
            loop.run_until_complete(asyncio.sleep(0))
            loop.close()


def simulated_loop() -> SimulatedLoop:
    """The loop that runs."""
    loop = asyncio.get_running_loop()
    assert isinstance(loop, SimulatedLoop)
    return loop
