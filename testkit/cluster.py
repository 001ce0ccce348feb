"""Several brokers inside a program: leaders that move, followers that lag and brokers that die, in milliseconds.

    with Cluster(brokers=3) as cluster:
        cluster.create_topic("orders", replication_factor=3)
        cluster.kill(cluster.leader("orders"))

Clients connect to `bootstrap_servers`, and find the leaders as in any cluster. The operations are written once
(`cluster_operations.py`); `Cluster` has them as blocking methods and `AsyncCluster` as methods to await (`handle.py`).
"""

import os
import time
from collections.abc import Mapping
from typing import Literal

from kmini.broker.local_cluster import ReplicaOffsets
from kmini.broker.settings.broker_config import BrokerConfig
from kmini.testkit import argument_checks
from kmini.testkit.argument_checks import Config, Topics
from kmini.testkit.cluster_operations import ClusterOperations
from kmini.testkit.embedded_registry import embedded_registry
from kmini.testkit.handle import method
from kmini.testkit.host import AsyncHost, Host
from kmini.testkit.lifecycle import ClusterLifecycle
from kmini.testkit.parts import AsyncParts, Parts, new_journal
from kmini.testkit.shared_operations import BrokerNotRunning

__all__ = ["AsyncCluster", "BrokerNotRunning", "Cluster", "ReplicaOffsets"]

MAX_BROKERS = 1_000
"""Most brokers of a cluster in one process."""


class ClusterMethods:
    """The methods of a cluster, beside those it shares with a broker (`parts.py`)."""

    create_topic = method(ClusterOperations.create_topic)
    leader = method(ClusterOperations.leader)
    isr = method(ClusterOperations.isr)
    replicas = method(ClusterOperations.replicas)
    offsets = method(ClusterOperations.offsets)
    wait_until_in_sync = method(ClusterOperations.wait_until_in_sync)
    coordinator = method(ClusterOperations.coordinator)
    transaction_coordinator = method(ClusterOperations.transaction_coordinator)
    move_coordinator = method(ClusterOperations.move_coordinator)
    move_transaction_coordinator = method(ClusterOperations.move_transaction_coordinator)
    move_leader = method(ClusterOperations.move_leader)
    brokers = method(ClusterOperations.brokers)
    metrics_text = method(ClusterOperations.metrics_text)
    stop_broker = method(ClusterOperations.stop_broker)
    kill = method(ClusterOperations.kill)
    restart = method(ClusterOperations.restart)
    pause = method(ClusterOperations.pause)
    cut_off = method(ClusterOperations.cut_off)
    reconnect = method(ClusterOperations.reconnect)
    hold = method(ClusterOperations.hold)
    release = method(ClusterOperations.release)
    limit_fetch_version = method(ClusterOperations.limit_fetch_version)


class Cluster(Host[ClusterOperations, "AsyncCluster"], ClusterMethods, Parts):
    """`brokers` brokers, numbered from 1, each on its own port, with a private data directory that is removed at the
    end.

    `port` is the first broker's; the others have the ports after it; 0 takes any free ports. `config` holds settings of
    every broker by Kafka's names; `racks` the rack of brokers by number. `topics` are created at the start, as those of
    a `Broker`; their default replication factor is `default.replication.factor`. With `data_dir` the data stay there.
    `as_version`, `timestamps`, `registry` and `registry_port` are those of a `Broker`. With `journal` the brokers keep
    their last requests, for `requests`. Raises ConfigError, TypeError, ValueError, and ImportError where the extra
    "registry" is wanted and not installed.

    >>> with Cluster(brokers=3) as cluster:
    ...     cluster.create_topic("orders", replication_factor=3)
    ...     cluster.kill(cluster.leader("orders"))
    ...     cluster.produce("orders", b"placed")
    0
    """

    def __init__(
        self,
        brokers: int = 3,
        *,
        port: int = 0,
        host: str = "127.0.0.1",
        config: Config | None = None,
        topics: Topics | None = None,
        racks: Mapping[int, str] | None = None,
        data_dir: str | os.PathLike[str] | None = None,
        as_version: str | None = None,
        timestamps: Literal["create", "append"] = "create",
        journal: bool = False,
        registry: bool = False,
        registry_port: int = 0,
    ) -> None:
        super().__init__("cluster", argument_checks.directory("data_dir", data_dir))
        argument_checks.integer("brokers", brokers, "a number of brokers, 1 or more", 1, MAX_BROKERS)
        argument_checks.integer("port", port, f"a port that leaves room for {brokers}, or 0", 0, 65_536 - brokers)
        argument_checks.text("host", host, "the name or address of an interface as str")
        rack_of = argument_checks.racks("racks", racks, brokers)
        new_topics = argument_checks.topics("topics", topics)
        options = argument_checks.as_settings(as_version, timestamps)
        common = {**options, **argument_checks.config("config", config)}
        configs = [
            BrokerConfig.parse(
                {
                    "listeners": f"PLAINTEXT://{host}:{port + number - 1 if port else 0}",
                    **common,
                    **({"broker.rack": rack_of[number]} if number in rack_of else {}),
                    "node.id": str(number),
                }
            )
            for number in range(1, brokers + 1)
        ]
        self._lifecycle = ClusterLifecycle(
            configs,
            lambda operations: operations.create_missing(new_topics),
            self._place_faults,
            journal=new_journal("journal", journal),
            registry=embedded_registry(registry, registry_port, host),
        )

    # --- operations

    @property
    def aio(self) -> "AsyncCluster":
        """The same methods, awaitable on any asyncio event loop."""
        return AsyncCluster(self)

    @property
    def bootstrap_servers(self) -> str:
        """host:port of every running broker, separated by commas, for any client; empty if none runs."""
        self._thread.told_address_s = time.time()
        return self._addresses

    @property
    def _addresses(self) -> str:
        return ",".join(
            broker.address for broker in list(self._operations.core.brokers.values())
        )  # the loop may change it

    def address_of(self, broker: int) -> str:
        """host:port of one broker. Raises BrokerNotRunning."""
        return self._operations.broker(argument_checks.ARGUMENTS["broker"]("broker", broker)).address


class AsyncCluster(AsyncHost[ClusterOperations], ClusterMethods, AsyncParts):
    """The result of `async with Cluster()` and of `cluster.aio`: the same methods, awaitable on any asyncio event
    loop."""

    def __init__(self, cluster: Cluster) -> None:
        super().__init__(cluster)
        self._cluster = cluster

    @property
    def bootstrap_servers(self) -> str:
        """host:port of every running broker, separated by commas, for any client; empty if none runs."""
        return self._cluster.bootstrap_servers

    def address_of(self, broker: int) -> str:
        """host:port of one broker. Raises BrokerNotRunning."""
        return self._cluster.address_of(broker)
