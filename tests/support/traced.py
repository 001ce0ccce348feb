"""A proxy of `kmini trace` on a thread of this process."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from kmini.testkit.loop_thread import LoopThread
from kmini.trace.observer import Observer, TracedExchange
from kmini.trace.proxied_faults import ProxiedFaults
from kmini.trace.proxy import Proxy
from support.until import until


class Traced:
    """A proxy that runs: where it is, and what it has shown."""

    def __init__(self) -> None:
        self.exchanges: list[TracedExchange] = []
        self.notes: list[str] = []
        self.faults: ProxiedFaults | None = None
        self.proxy: Proxy
        self.thread: LoopThread = LoopThread("trace")
        self.port = 0

    @property
    def bootstrap_servers(self) -> str:
        return f"127.0.0.1:{self.port}"

    def of(self, api: str) -> list[TracedExchange]:
        """The exchanges of an API."""
        return [one for one in self.exchanges if one.entry.api == api]

    def shown(self, api: str, count: int = 1) -> list[TracedExchange]:
        """The exchanges of an API, once there are so many."""
        until(lambda: len(self.of(api)) >= count, lambda: [str(one.entry) for one in self.exchanges])
        return self.of(api)


@contextmanager
def traced(bootstrap_servers: str, rules: Sequence[dict[str, Any]] | None = None) -> Iterator[Traced]:
    """Run a proxy in front of a broker, on a free port."""
    running = Traced()
    host, _, port = bootstrap_servers.rpartition(":")
    observer = Observer(running.exchanges.append)

    async def begin() -> None:
        running.faults = None if rules is None else ProxiedFaults(rules, observer)
        running.proxy = Proxy((host, int(port)), ("127.0.0.1", 0), observer, running.notes.append, running.faults)
        running.port = await running.proxy.start()

    running.thread.start()
    try:
        running.thread.run(begin(), deadline_s=60)
        yield running
    finally:
        running.thread.run(running.proxy.close(), deadline_s=60)
        running.thread.end()
