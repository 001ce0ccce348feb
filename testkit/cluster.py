"""Several brokers inside a program: leaders that move, followers that lag and brokers that die, in milliseconds.

    with Cluster(brokers=3) as cluster:
        cluster.create_topic("orders", replication_factor=3)
        cluster.kill(cluster.leader("orders"))

Clients connect to `bootstrap_servers`, and find the leaders as in any cluster. The operations are written once
(`operations.py`); `Cluster` has them as blocking methods and `AsyncCluster` as methods to await (`handle.py`).
"""

import os
from collections.abc import Mapping, Sequence
from functools import partial
from typing import Literal

from kmini.broker.controller.topology import PartitionState
from kmini.broker.coordinators.coordinator_topic import CoordinatorTopic
from kmini.broker.local_cluster import LocalCluster, ReplicaOffsets
from kmini.broker.purgatory import Operation
from kmini.broker.settings.broker_config import BrokerConfig
from kmini.protocol.topics import TopicPartition
from kmini.testkit import argument_checks
from kmini.testkit.argument_checks import Config, Topics
from kmini.testkit.handle import method
from kmini.testkit.host import AsyncHost, Host, quick_security, settings_of
from kmini.testkit.operations import BrokerNotRunning, Operations
from kmini.testkit.parts import AsyncParts, Parts
from kmini.testkit.waiting import NotInTime

__all__ = ["AsyncCluster", "BrokerNotRunning", "Cluster", "ReplicaOffsets"]

MAX_BROKERS = 1_000
"""Most brokers of a cluster in one process."""


class ClusterOperations(Operations):
    """The operations of several brokers, as a `Cluster` spells them."""

    async def create_topic(
        self,
        name: str,
        partitions: int = 1,
        replication_factor: int = -1,
        config: Config | None = None,
    ) -> None:
        """Create a topic; clients can produce to it when this returns. The default replication factor is
        `default.replication.factor`.

        Raises TopicAlreadyExists, InvalidTopic, InvalidConfig, InvalidPartitions, InvalidReplicationFactor.
        """
        self.create(name, partitions, replication_factor, config)

    async def offsets(self, topic: str, partition: int = 0) -> dict[int, ReplicaOffsets]:
        """The offsets of each replica whose broker runs, by the broker's number. Raises UnknownTopicOrPartition."""
        return self.core.replica_offsets(self.check_partition(topic, partition))

    # --- leaders, replicas and coordinators

    async def leader(self, topic: str, partition: int = 0) -> int:
        """The number of the broker that leads a partition; -1 if none does. Raises UnknownTopicOrPartition."""
        return self.core.state(self.check_partition(topic, partition)).leader

    async def isr(self, topic: str, partition: int = 0) -> set[int]:
        """The brokers in the ISR. Raises UnknownTopicOrPartition."""
        return {*self.core.state(self.check_partition(topic, partition)).isr}

    async def replicas(self, topic: str, partition: int = 0) -> list[int]:
        """The replicas of a partition, the preferred leader first. Raises UnknownTopicOrPartition."""
        return [*self.core.state(self.check_partition(topic, partition)).replicas]

    async def wait_until_in_sync(self, topic: str, partition: int = 0, *, timeout_ms: int = 30_000) -> None:
        """Return once a partition has a leader and all its replicas are in sync. Raises RequestTimedOut, which is an
        AssertionError as well and names the ISR, and UnknownTopicOrPartition.

        >>> cluster.create_topic("users", replication_factor=2)
        >>> cluster.kill(2)
        >>> cluster.restart(2)
        >>> cluster.wait_until_in_sync("users")
        >>> sorted(cluster.isr("users"))
        [1, 2]
        """
        place = self.check_partition(topic, partition)
        deadline_ms = self.clock.liveness_ms() + timeout_ms
        while {*(state := self.core.state(place)).isr} != {*state.replicas} or state.leader < 0:
            left_ms = deadline_ms - self.clock.liveness_ms()
            holders = [self.core.brokers[number] for number in state.replicas if number in self.core.brokers]
            if left_ms <= 0 or not holders:
                led = f"broker {state.leader} leads" if state.leader >= 0 else "no broker leads"
                status = f"of the replicas {[*state.replicas]} of {place} {[*state.isr]} are in sync, and {led}"
                raise NotInTime(status)
            await self._until_any(partial(_Change, self.core, place, state), holders, left_ms)

    async def coordinator(self, group: str) -> int:
        """The number of the broker that coordinates a group and stores its offsets. Raises CoordinatorNotAvailable."""
        return self.any_broker().groups.store.coordinator_of(group)

    async def transaction_coordinator(self, transactional_id: str) -> int:
        """The number of the broker that coordinates a producer's transactions. Raises CoordinatorNotAvailable."""
        return self.any_broker().transactions.store.topic.coordinator_of(transactional_id)

    async def move_coordinator(self, group: str, to: int) -> None:
        """Have a broker coordinate a group, which need not exist yet, and all others of its partition of
        `__consumer_offsets`. Nothing changes if it does. Until the broker has loaded the group it answers
        COORDINATOR_LOAD_IN_PROGRESS, and clients ask again.

        Raises CoordinatorNotAvailable, BrokerNotRunning for a broker that the cluster does not have, and
        PreferredLeaderNotAvailable for a broker without an in-sync replica of the partition.

        >>> cluster.move_coordinator("billing", 2)
        >>> cluster.coordinator("billing")
        2
        """
        await self._move_coordinator(self.any_broker().groups.store.topic, group, to)

    async def move_transaction_coordinator(self, transactional_id: str, to: int) -> None:
        """Have a broker coordinate a producer's transactions, and all others of its partition of `__transaction_state`.
        Nothing changes if it does.

        Raises CoordinatorNotAvailable, BrokerNotRunning for a broker that the cluster does not have, and
        PreferredLeaderNotAvailable for a broker without an in-sync replica of the partition.

        >>> cluster.move_transaction_coordinator("billing-1", 2)
        >>> cluster.transaction_coordinator("billing-1")
        2
        """
        await self._move_coordinator(self.any_broker().transactions.store.topic, transactional_id, to)

    async def _move_coordinator(self, topic: CoordinatorTopic, key: str, to: int) -> None:
        self.check_broker(to, must_run=False)
        if topic.coordinator_of(key) != to:  # which creates the topic, as for a client
            self.core.move_leader(TopicPartition(topic.name, topic.number_of(key)), to)

    async def move_leader(self, topic: str, partition: int = 0, *, to: int | None = None) -> None:
        """Move the leadership to another replica, by default to the preferred one.

        Raises UnknownTopicOrPartition, BrokerNotRunning for a broker that the cluster does not have,
        PreferredLeaderNotAvailable for a broker outside the ISR, and ElectionNotNeeded for the leader.

        >>> cluster.create_topic("users", replication_factor=2)
        >>> cluster.move_leader("users", to=cluster.replicas("users")[1])
        >>> cluster.leader("users") == cluster.replicas("users")[1]
        True
        """
        if to is not None:
            self.check_broker(to, must_run=False)
        self.core.move_leader(self.check_partition(topic, partition), to)

    # --- brokers

    async def metrics_text(self, broker: int | None = None) -> str:
        """The metrics of one broker, in Prometheus' text format; by default those of the running broker with the lowest
        number. Raises BrokerNotRunning."""
        from kmini.broker.metrics_text import metrics_text_in_turns  # start-up time counts

        return await metrics_text_in_turns(self.broker(min(self.core.brokers, default=0) if broker is None else broker))

    async def pause(self, broker: int) -> None:
        """Pause a broker, as SIGSTOP does, until `reconnect`: clients wait, and after `broker.session.timeout.ms` the
        broker counts as dead. Raises BrokerNotRunning, and ValueError if it is paused or cut off."""
        self.check_broker(broker)
        await self.core.pause(broker)

    async def reconnect(self, broker: int) -> None:
        """End `pause` or `cut_off`. Raises BrokerNotRunning, and ValueError if the broker is neither paused nor cut
        off."""
        self.check_broker(broker)
        self.core.reconnect(broker)

    async def stop_broker(self, broker: int) -> None:
        """Stop a broker cleanly; its leaderships move first. Raises BrokerNotRunning."""
        self.check_broker(broker)
        await self.core.stop_broker(broker)

    async def kill(self, broker: int) -> None:
        """End a broker as `kill -9` does: its connections break, it writes nothing more, and other replicas lead at
        once. Raises BrokerNotRunning."""
        self.check_broker(broker)
        await self.core.kill(broker)

    async def restart(self, broker: int) -> None:
        """Start a stopped or killed broker, on its port and with its data. Raises ValueError if it runs,
        BrokerNotRunning if the cluster never had it, and PortTaken."""
        self.check_broker(broker, must_run=False)
        await self.core.restart(broker)

    async def cut_off(self, broker: int) -> None:
        """Cut the network between a broker and the others, until `reconnect`. The broker goes on serving its clients,
        and after `broker.session.timeout.ms` it counts as dead. Raises BrokerNotRunning, and ValueError if it is paused
        or cut off."""
        self.check_broker(broker)
        await self.core.cut_off(broker)

    async def hold(self, broker: int) -> None:
        """Stop a broker's fetching, so that it lags as a follower, until `release`. Raises BrokerNotRunning."""
        await self.broker(broker).replica_manager.fetcher_manager.hold()

    async def release(self, broker: int) -> None:
        """End `hold`. Raises BrokerNotRunning."""
        self.broker(broker).replica_manager.fetcher_manager.release()

    async def limit_fetch_version(self, broker: int, version: int | None) -> None:
        """Let a broker fetch with at most this version of Fetch, as a broker of an older release does; None ends it.
        Below version 5 a follower does not report its log start offset (KIP-107). Raises BrokerNotRunning."""
        await self.broker(broker).replica_manager.fetcher_manager.limit_fetch_version(version)


class _Change(Operation):
    """Complete when the controller has changed the state of a partition."""

    def __init__(self, core: LocalCluster, topic_partition: TopicPartition, seen: PartitionState) -> None:
        self._core = core
        self._topic_partition = topic_partition
        self._seen = seen

    @property
    def keys(self) -> list[TopicPartition]:
        return [self._topic_partition]

    def is_complete(self) -> bool:
        return self._core.state(self._topic_partition) != self._seen


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
    `as_version`, `timestamps`, `registry`, `registry_port`, `tls`, `sasl`, `users` and `acls` are those of a `Broker`.
    With `journal` the brokers keep their last requests, for `requests`. Raises ConfigError, TypeError, ValueError, and
    ImportError where an extra is wanted and not installed.

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
        tls: Literal["auto", "mutual"] | None = None,
        sasl: str | None = None,
        users: Mapping[str, str] | None = None,
        acls: Sequence[str] | None = None,
    ) -> None:
        super().__init__("cluster", argument_checks.directory("data_dir", data_dir))
        argument_checks.integer("brokers", brokers, "a number of brokers, 1 or more", 1, MAX_BROKERS)
        argument_checks.integer("port", port, f"a port that leaves room for {brokers}, or 0", 0, 65_536 - brokers)
        argument_checks.text("host", host, "the name or address of an interface as str")
        rack_of = argument_checks.racks("racks", racks, brokers)
        options = argument_checks.as_settings(as_version, timestamps)
        security = quick_security(tls, sasl, users, acls, host, data_dir)
        common = {**options, **argument_checks.config("config", config)}
        configs = [
            BrokerConfig.parse(
                {
                    **settings_of(security, f"{host}:{port + number - 1 if port else 0}"),
                    **common,
                    **({"broker.rack": rack_of[number]} if number in rack_of else {}),
                    "node.id": str(number),
                }
            )
            for number in range(1, brokers + 1)
        ]
        self._live(
            ClusterOperations,
            configs,
            host,
            topics=topics,
            journal=journal,
            registry=registry,
            registry_port=registry_port,
            security=security,
        )

    @property
    def aio(self) -> "AsyncCluster":
        """The same methods, awaitable on any asyncio event loop."""
        return AsyncCluster(self)

    def address_of(self, broker: int) -> str:
        """host:port of one broker. Raises BrokerNotRunning."""
        return self._operations.broker(argument_checks.ARGUMENTS["broker"]("broker", broker)).address


class AsyncCluster(AsyncHost[ClusterOperations], ClusterMethods, AsyncParts):
    """The result of `async with Cluster()` and of `cluster.aio`: the same methods, awaitable on any asyncio event
    loop."""

    def __init__(self, cluster: Cluster) -> None:
        super().__init__(cluster)
        self._cluster = cluster

    def address_of(self, broker: int) -> str:
        """host:port of one broker. Raises BrokerNotRunning."""
        return self._cluster.address_of(broker)
