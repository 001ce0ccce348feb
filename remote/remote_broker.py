"""A broker that runs elsewhere, with the handles of `Broker`: the same tests run on kmini and on Apache Kafka.

with RemoteBroker("kafka.example:9092", prefix="run-1-") as broker:
    broker.create_topic("run-1-orders")
    broker.produce("run-1-orders", b"placed")
"""

from __future__ import annotations

from collections.abc import Callable
from types import TracebackType
from typing import TYPE_CHECKING, cast

from kmini.client import Client
from kmini.protocol.errors import KafkaError
from kmini.remote.needs_kmini import Refuse, Unavailable, refuse
from kmini.remote.remote_operations import RemoteOperations
from kmini.remote.server_identity import server_identity
from kmini.testkit.embedded import Broker, BrokerMethods, BrokerOperations
from kmini.testkit.handle import Awaiting, Blocking
from kmini.testkit.loop_thread import LoopThread
from kmini.testkit.parts import AsyncParts, Parts

TIMEOUT_MS = 30_000
"""Milliseconds that an operation may take, unless it has a time-out of its own."""

CLIENT_ID = "kmini-tests"


class _Elsewhere:
    """Refuses, when it is called, what only a broker of kmini has beside its operations."""

    _remote: RemoteOperations

    if not TYPE_CHECKING:
        clock = property(lambda self: Unavailable("clock", self._remote.refuse))
        requests = property(lambda self: Unavailable("requests", self._remote.refuse))
        faults = property(lambda self: Unavailable("faults", self._remote.refuse))

        def __getattr__(self, name: str) -> Unavailable:
            if name.startswith("_") or not hasattr(Broker, name):
                return super().__getattr__(name)
            return Unavailable(name, self._remote.refuse)


class RemoteBroker(_Elsewhere, BrokerMethods, Parts, Blocking[BrokerOperations]):
    """A broker that runs elsewhere: what Kafka's protocol can do works as with `Broker`, all else is refused by
    NeedsKmini when it is called.

    Topics and groups whose names begin with `prefix`, and topics that a method has created, are this object's own:
    `reset` deletes them, and `close` does. Raises ValueError for bootstrap servers that are none.
    """

    def __init__(
        self, bootstrap_servers: str, *, prefix: str = "", refuse: Refuse = refuse, timeout_ms: int = TIMEOUT_MS
    ) -> None:
        """`refuse` raises where a call needs kmini; it gets the name of the call, as "clock.advance"."""
        self._client = Client(bootstrap_servers, client_id=CLIENT_ID, timeout_ms=timeout_ms)
        self._remote = RemoteOperations(self._client, prefix, refuse)
        super().__init__(LoopThread("broker"), cast(Callable[[], BrokerOperations], lambda: self._remote))
        self.bootstrap_servers = bootstrap_servers
        """The addresses of the brokers, for any client."""
        self.prefix = prefix
        self.server = ""
        """The server and its release: "Apache Kafka 4.3"."""

    def start(self) -> RemoteBroker:
        """Connect. Raises NoBrokerAnswers."""
        self._thread.start()
        try:
            self.server = self._remote.server = self._thread.run(server_identity(self._client))
        except BaseException:
            self._thread.run(self._client.close())
            self._thread.end()
            raise
        return self

    def close(self) -> None:
        """Delete the topics and groups that are this object's own, and disconnect."""
        try:
            self.reset()
        except KafkaError:
            pass  # a broker that has gone keeps its topics
        finally:
            self._thread.run(self._client.close())
            self._thread.end()

    def __enter__(self) -> RemoteBroker:
        return self.start()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close()

    @property
    def aio(self) -> AsyncRemoteBroker:
        """The same methods, awaitable on any asyncio event loop."""
        return AsyncRemoteBroker(self)


class AsyncRemoteBroker(_Elsewhere, BrokerMethods, AsyncParts, Awaiting[BrokerOperations]):
    """The result of `RemoteBroker.aio`: the same methods, awaitable on any asyncio event loop."""

    def __init__(self, broker: RemoteBroker) -> None:
        super().__init__(broker._thread, broker._table)
        self._host = broker
        self._remote = broker._remote
        self.bootstrap_servers = broker.bootstrap_servers
        self.prefix = broker.prefix
        self.server = broker.server

    @property
    def aio(self) -> AsyncRemoteBroker:
        """This object, so that a helper can take either kind."""
        return self
