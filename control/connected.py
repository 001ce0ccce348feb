"""`kmini.connect("http://127.0.0.1:8090")`: the handles of `Broker` or of `Cluster`, of a broker in another process.

The handles are the same classes. What differs is the table behind them: its methods ask the control server
(`control_client.py`).
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping
from itertools import islice
from types import TracebackType
from typing import Any, TypeVar, cast
from urllib.parse import urlsplit

from kmini.broker.reset import ResetReport
from kmini.broker.scheduler import in_thread
from kmini.broker.snapshots import Snapshot
from kmini.control.connected_tables import (
    ConnectedFaults,
    ConnectedReport,
    ConnectedRequests,
    ConnectedRules,
    ConnectedTopic,
)
from kmini.control.control_client import ConnectedTable, ControlClient
from kmini.control.control_operations import ControlOperations, Description
from kmini.testkit.argument_checks import NewTopic
from kmini.testkit.cluster import ClusterMethods, ClusterOperations
from kmini.testkit.contents import Isolation, Record
from kmini.testkit.embedded import BrokerMethods, BrokerOperations
from kmini.testkit.fault_handle import FaultOperations
from kmini.testkit.group_handle import GroupOperations
from kmini.testkit.handle import DEADLINE_S, LONG_DEADLINE_S, Awaiting, Blocking
from kmini.testkit.journal_handle import RequestOperations
from kmini.testkit.loop_thread import LoopThread
from kmini.testkit.operations import BrokerNotRunning, Operations
from kmini.testkit.parts import AsyncParts, Parts
from kmini.testkit.report_handle import ReportOperations
from kmini.testkit.seeds import SeedError
from kmini.testkit.topic_handle import TopicOperations
from kmini.web.json_data import data_to_json

H = TypeVar("H", bound="ConnectedHost")

SEED_LINES = 2_000
"""Records of a file that one request brings."""


class ConnectedOperations(ConnectedTable):
    """The operations of a broker or a cluster in another process."""

    def __init__(self, client: ControlClient, thread: LoopThread, table: type[Operations]) -> None:
        super().__init__(client, table)
        self.server: Any = ConnectedTable(client, ControlOperations)
        self._thread = thread

    def part(self, table: type, *about: Any) -> Any:
        """The table of a part. See `Operations.part`."""
        if table is TopicOperations:
            return ConnectedTopic(self._client, *about)
        if table is GroupOperations:
            return ConnectedTable(self._client, table, {"group": about[0]})
        if table is RequestOperations:
            return ConnectedRequests(self._client)
        if table is FaultOperations:
            return ConnectedFaults(self._client, self._thread, *about)
        if table is ReportOperations:
            return ConnectedReport(self._client, about[1])
        return ConnectedTable(self._client, table)

    async def records(
        self, topic: str, partition: int | None = None, *, isolation: Isolation = "committed"
    ) -> list[Record]:
        """See `Operations.records`."""
        return await ConnectedTopic(self._client, topic).records(partition, isolation=isolation)

    async def wait_for_records(
        self, topic: str, count: int, *, timeout_ms: int = 10_000, isolation: Isolation = "committed"
    ) -> list[Record]:
        """See `Operations.wait_for_records`."""
        return await ConnectedTopic(self._client, topic).wait_for(count, timeout_ms=timeout_ms, isolation=isolation)

    async def create_missing(self, new_topics: list[NewTopic]) -> None:
        """Create the missing ones of these topics."""
        there = {*await self._there.topics()}
        for topic in new_topics:
            if topic.name not in there:
                await self._there.create_topic(
                    topic.name, topic.partitions, replication_factor=topic.replication_factor, config=topic.configs
                )

    async def snapshot(self, name: str | None = None) -> Snapshot:
        """See `Operations.snapshot`. The snapshot stays there: its path is its name."""
        taken = await self.server.snapshot(name)
        return Snapshot(taken.name, taken.name)

    async def restore(self, snapshot: Snapshot | str | os.PathLike[str], *, keep: Any = ()) -> ResetReport:
        """See `Operations.restore`. Raises ValueError for what is no name."""
        name = snapshot.name if isinstance(snapshot, Snapshot) else os.fspath(snapshot)
        report: ResetReport = await self.server.restore(name, keep=[*keep])
        return report

    async def load(self, path: str | os.PathLike[str], *, topic: str | None = None) -> dict[str, int]:
        """See `Operations.load`. The file is read here. Raises SeedError for a directory, which cannot be sent,
        and OSError."""
        if await in_thread(os.path.isdir, path):
            raise SeedError(f"{path} is a directory, and only a file of lines can be sent to a broker elsewhere")
        loaded: dict[str, int] = {}
        lines = _lines(path, topic)
        while records := await in_thread(lambda: [*islice(lines, SEED_LINES)]):
            for name, count in (await self.server.seed(records)).items():
                loaded[name] = loaded.get(name, 0) + count
        return loaded


def _lines(path: str | os.PathLike[str], topic: str | None) -> Iterator[Any]:
    """The records of a file as JSON has them; with a topic each line is a value. Raises SeedError."""
    import json

    with open(path, "rb") as file:
        for number, line in enumerate(file, start=1):
            if topic is not None:
                yield {"topic": topic, "value": data_to_json(line.rstrip(b"\n"))}
            elif line.strip():
                try:
                    yield json.loads(line)
                except ValueError as error:
                    raise SeedError(f"{path}, line {number} is no JSON: {error}") from None


class ConnectedHost(Parts):
    """A broker or a cluster in another process, which its control server steers.

    `start` and `stop` start and stop it there; `close` only ends the connection, and so does the end of a `with`.
    """

    data_dir = None
    """The data are there, and no path of it is told."""

    def __init__(self, client: ControlClient, thread: LoopThread, table: type[Operations]) -> None:
        self._client = client
        self._connected = ConnectedOperations(client, thread, table)
        self._faults: ConnectedRules | None = None
        self._fault_seed = 0
        super().__init__(thread, cast(Callable[[], Operations], lambda: self._connected))

    @property
    def _running(self) -> ConnectedOperations | None:
        """The table, if something runs there."""
        return self._connected if self.describe().addresses else None

    def different_settings(self, configs: Mapping[str, str]) -> list[str]:
        """Those of these settings, by Kafka's names, that the brokers there have otherwise: "retention.ms is 5"."""
        node_ids = self.describe().node_ids
        if not configs or not node_ids:
            return []
        found = self._thread.run(self._connected.server.broker_configs(min(node_ids)), deadline_s=DEADLINE_S)
        values = {setting.name: setting.value for setting in found}
        return [f"{name} is {values.get(name)}" for name, wanted in configs.items() if values.get(name) != wanted]

    def _fault_rules(self) -> ConnectedRules:
        """What the handle of fault rules keeps here."""
        if self._faults is None:
            self._faults = ConnectedRules(self._fault_seed)
        return self._faults

    @property
    def url(self) -> str:
        """The address of the control server."""
        return self._client.url

    def describe(self) -> Description:
        """What runs there."""
        found: Description = self._thread.run(self._connected.server.describe(), deadline_s=DEADLINE_S)
        return found

    @property
    def bootstrap_servers(self) -> str:
        """host:port of every running broker, separated by commas, for any client; empty while none runs."""
        return ",".join(self.describe().addresses.values())

    @property
    def registry_url(self) -> str:
        """The address of the schema registry there, at the host of the control server; empty without one."""
        port = self.describe().registry_port
        return "" if port is None else f"http://{host_in(self.url)}:{port}"

    def start(self: H) -> H:
        """Start what was stopped there, on the same ports, with the same data. Raises RuntimeError if it runs."""
        self._thread.run(self._connected.server.start(), deadline_s=LONG_DEADLINE_S)
        return self

    def stop(self) -> None:
        """Stop it there as Kafka does on SIGTERM; the control server goes on."""
        self._thread.run(self._connected.server.stop(), deadline_s=LONG_DEADLINE_S)

    def close(self) -> None:
        """End the connection. What runs there goes on."""
        if self._thread.is_running:
            self._thread.end()

    def __enter__(self: H) -> H:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close()


def host_in(url: str) -> str:
    """The host of an address, in brackets where it is one of IPv6."""
    host = urlsplit(url).hostname or ""
    return f"[{host}]" if ":" in host else host


class ConnectedBroker(ConnectedHost, BrokerMethods, Blocking[BrokerOperations]):
    """A broker in another process; see `ConnectedHost` and `Broker`."""

    @property
    def aio(self) -> AsyncConnectedBroker:
        """The same methods, awaitable on any asyncio event loop."""
        return AsyncConnectedBroker(self)


class ConnectedCluster(ConnectedHost, ClusterMethods, Blocking[ClusterOperations]):
    """A cluster in another process; see `ConnectedHost` and `Cluster`."""

    def address_of(self, broker: int) -> str:
        """host:port of one broker. Raises BrokerNotRunning."""
        addresses = self.describe().addresses
        if broker not in addresses:
            raise BrokerNotRunning(
                f"broker {broker} does not run; there run: {', '.join(map(str, addresses)) or 'none'}"
            )
        return addresses[broker]

    @property
    def aio(self) -> AsyncConnectedCluster:
        """The same methods, awaitable on any asyncio event loop."""
        return AsyncConnectedCluster(self)


class AsyncConnectedHost(AsyncParts):
    """The methods of a `ConnectedHost`, awaitable on any asyncio event loop."""

    def __init__(self, host: ConnectedHost) -> None:
        super().__init__(host._thread, host._table)
        self._host = host

    @property
    def bootstrap_servers(self) -> str:
        """host:port of every running broker, separated by commas, for any client; empty while none runs."""
        return self._host.bootstrap_servers

    @property
    def registry_url(self) -> str:
        """See `ConnectedHost.registry_url`."""
        return self._host.registry_url

    async def start(self) -> None:
        """See `ConnectedHost.start`."""
        await self._thread.awaited(self._host._connected.server.start(), deadline_s=LONG_DEADLINE_S)

    async def stop(self) -> None:
        """See `ConnectedHost.stop`."""
        await self._thread.awaited(self._host._connected.server.stop(), deadline_s=LONG_DEADLINE_S)


class AsyncConnectedBroker(AsyncConnectedHost, BrokerMethods, Awaiting[BrokerOperations]):
    """The result of `ConnectedBroker.aio`."""


class AsyncConnectedCluster(AsyncConnectedHost, ClusterMethods, Awaiting[ClusterOperations]):
    """The result of `ConnectedCluster.aio`."""


def connect(url: str, *, token: str | None = None) -> ConnectedBroker | ConnectedCluster:
    """Connect to the control server of a broker or a cluster in another process (`kmini serve --http`).

    The result has the handles of `Broker`, or of `Cluster`, so that a suite uses a container as it uses the embedded
    one; functions that a test gives (`where=`) run in this process, and fault rules with a Python function are refused.
    Needs the extra "http". Raises RuntimeError where no such server answers, and for a wrong token;
    ValueError for what is no address.
    """
    client, thread = ControlClient(url, token), LoopThread("broker")
    thread.start()
    try:
        there: Any = ConnectedTable(client, ControlOperations)
        found: Description = thread.run(there.describe(), deadline_s=DEADLINE_S)
    except BaseException:
        thread.end()
        raise
    if found.kind == "cluster":
        return ConnectedCluster(client, thread, ClusterOperations)
    return ConnectedBroker(client, thread, BrokerOperations)
