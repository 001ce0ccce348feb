"""A broker that runs elsewhere, with the handles of `Broker`: the same tests run on kmini and on Apache Kafka.

with RemoteBroker("kafka.example:9092", prefix="run-1-") as broker:
    broker.create_topic("run-1-orders")
    broker.produce("run-1-orders", b"placed")
"""

from __future__ import annotations

from types import TracebackType

from kmini.client import Client
from kmini.protocol.errors import KafkaError
from kmini.remote.needs_kmini import Refuse, Unavailable, refuse
from kmini.remote.remote_group import AsyncRemoteGroup, RemoteGroup
from kmini.remote.remote_operations import RemoteOperations
from kmini.remote.remote_topic import AsyncRemoteTopic, RemoteTopic
from kmini.remote.remote_transactions import AsyncRemoteTransactions, RemoteTransactions
from kmini.remote.server_identity import server_identity
from kmini.testkit.embedded import Broker
from kmini.testkit.handle import Awaiting, Blocking, method
from kmini.testkit.loop_thread import LoopThread
from kmini.testkit.name_hints import unknown_attribute

TIMEOUT_MS = 30_000
"""Milliseconds that an operation may take, unless it has a time-out of its own."""

CLIENT_ID = "kmini-tests"


class RemoteMethods:
    """The methods of a remote broker."""

    create_topic = method(RemoteOperations.create_topic)
    delete_topic = method(RemoteOperations.delete_topic)
    topics = method(RemoteOperations.topics)
    produce = method(RemoteOperations.produce)
    records = method(RemoteOperations.records)
    wait_for_records = method(RemoteOperations.wait_for_records)
    offsets = method(RemoteOperations.offsets)
    delete_records = method(RemoteOperations.delete_records)
    load = method(RemoteOperations.load)
    groups = method(RemoteOperations.groups)
    reset = method(RemoteOperations.reset)


class RemoteBroker(RemoteMethods, Blocking[RemoteOperations]):
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
        super().__init__(LoopThread("broker"), lambda: self._remote)
        self.bootstrap_servers = bootstrap_servers
        """The addresses of the brokers, for any client."""
        self.prefix = prefix
        self.server = ""
        """The server and its release: "Apache Kafka 4.3"."""

    def start(self) -> RemoteBroker:
        """Connect. Raises NoBrokerAnswers."""
        self._thread.start()
        try:
            self.server = self._thread.run(server_identity(self._client))
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

    def topic(self, name: str) -> RemoteTopic:
        """A handle of one topic, which need not exist yet."""
        return RemoteTopic(self, name)

    def group(self, name: str) -> RemoteGroup:
        """A handle of one consumer group, which need not exist yet."""
        return RemoteGroup(self, name)

    def report(self) -> str:
        """What that Kafka tells for a test that has failed, in at most 40 lines: the likely reason, what the test
        waited for in vain, topics and their last records, groups, and open transactions."""
        from kmini.remote.remote_facts import RemoteReport

        return RemoteReport(self).text()

    @property
    def transactions(self) -> RemoteTransactions:
        """The transactions of this run."""
        return RemoteTransactions(self)

    def __getattr__(self, name: str) -> Unavailable:
        return _unavailable(self, name)


class AsyncRemoteBroker(RemoteMethods, Awaiting[RemoteOperations]):
    """The result of `RemoteBroker.aio`: the same methods, awaitable on any asyncio event loop."""

    def __init__(self, broker: RemoteBroker) -> None:
        super().__init__(broker._thread, broker._table)
        self._broker = broker
        self.bootstrap_servers = broker.bootstrap_servers
        self.prefix = broker.prefix
        self.server = broker.server

    @property
    def aio(self) -> AsyncRemoteBroker:
        """This object, so that a helper can take either kind."""
        return self

    def topic(self, name: str) -> AsyncRemoteTopic:
        """A handle of one topic, which need not exist yet."""
        return AsyncRemoteTopic(self, name)

    def group(self, name: str) -> AsyncRemoteGroup:
        """A handle of one consumer group, which need not exist yet."""
        return AsyncRemoteGroup(self, name)

    async def report(self) -> str:
        """What that Kafka tells for a test that has failed, in at most 40 lines: the likely reason, what the test
        waited for in vain, topics and their last records, groups, and open transactions."""
        from kmini.remote.remote_facts import AsyncRemoteReport

        return await AsyncRemoteReport(self).text()

    @property
    def transactions(self) -> AsyncRemoteTransactions:
        """The transactions of this run."""
        return AsyncRemoteTransactions(self)

    def __getattr__(self, name: str) -> Unavailable:
        return _unavailable(self, name)


def _unavailable(broker: RemoteBroker | AsyncRemoteBroker, name: str) -> Unavailable:
    """What stands for an attribute that only `Broker` has. Raises AttributeError for one that it does not have
    either."""
    if name.startswith("_") or not hasattr(Broker, name):
        raise AttributeError(unknown_attribute(type(broker), name), name=name)
    return Unavailable(name, broker._operations.refuse)
