"""Several brokers inside a program: leaders that move, followers that lag and brokers that die, in milliseconds.

    with Cluster(brokers=3) as cluster:
        cluster.create_topic("orders", replication_factor=3)
        cluster.kill(cluster.leader("orders"))

Clients connect to `bootstrap_servers`, and find the leaders as in any cluster. The operations are written once
(`ClusterOperations`); `Cluster` has them as blocking methods and `AsyncCluster` as methods to await (`handle.py`).
"""

import os
from collections.abc import Collection, Mapping
from functools import partial
from typing import Literal

from kmini import argument_checks
from kmini.argument_checks import Config, Topics
from kmini.broker.broker import BrokerServer
from kmini.broker.clock import MovableClock
from kmini.broker.controller.controller import Controller
from kmini.broker.controller.topology import PartitionState
from kmini.broker.local_cluster import LocalCluster, ReplicaOffsets
from kmini.broker.metrics_text import metrics_text
from kmini.broker.purgatory import Operation
from kmini.broker.resetting import ResetReport
from kmini.broker.settings.broker_config import BrokerConfig
from kmini.broker.snapshots import Saved
from kmini.crash_damage import CrashDamage
from kmini.handle import method
from kmini.host import AsyncHost, Host
from kmini.parts import AsyncParts, Parts, new_journal
from kmini.protocol.topics import TopicPartition
from kmini.shared_operations import BrokerNotRunning, SharedOperations
from kmini.waiting import NotInTime

__all__ = ["AsyncCluster", "BrokerNotRunning", "Cluster", "ReplicaOffsets"]

MAX_BROKERS = 1_000
"""Most brokers of a cluster in one process."""


class ClusterOperations(SharedOperations):
    """The operations of a running cluster. Every coroutine runs on the cluster's loop and raises KafkaError. A method
    that names a broker raises BrokerNotRunning unless that broker runs."""

    def __init__(self, core: LocalCluster) -> None:
        assert isinstance(core.clock, MovableClock)
        super().__init__(core.clock)
        self.core = core

    @property
    def _controller(self) -> Controller:
        return self.core.controller

    @property
    def _data_dir(self) -> str:
        return self.core.data_dir

    async def _reset(self, keep: Collection[str], saved: Saved | None = None) -> ResetReport:
        return await self.core.reset(keep, saved)

    @property
    def running(self) -> Collection[BrokerServer]:
        return self.core.brokers.values()

    def check_broker(self, broker: int, *, must_run: bool = True) -> BrokerServer | None:
        """Return the broker if it runs. Raises BrokerNotRunning for a broker that the cluster does not have, and, with
        `must_run`, for one that does not run."""
        numbers = [config.node_id for config in self.core.configs]
        running = ", ".join(map(str, sorted(self.core.brokers))) or "none"
        if broker not in numbers:
            has = ", ".join(map(str, numbers))
            raise BrokerNotRunning(f"there is no broker {broker}; the cluster has {has}, of which run: {running}")
        if must_run and broker not in self.core.brokers:
            raise BrokerNotRunning(f"broker {broker} does not run; there run: {running}")
        return self.core.brokers.get(broker)

    def broker(self, number: int) -> BrokerServer:
        """The broker of this number. Raises BrokerNotRunning."""
        found = self.check_broker(number)
        assert found is not None
        return found

    def one_broker(self, number: int | None) -> BrokerServer:
        if number is None:
            numbers = [config.node_id for config in self.core.configs]
            if len(numbers) > 1:
                raise ValueError(f"broker=None: the cluster has the brokers {', '.join(map(str, numbers))}; name one")
            (number,) = numbers
        return self.broker(number)

    async def _crash(self, number: int | None, damage: CrashDamage) -> None:
        killed = [*self.core.brokers.values()] if number is None else [self.broker(number)]
        for one in killed:
            await self.core.kill(one.node_id)
        for one in killed:
            damage.apply(one.logs)
            await self.core.restart(one.node_id)

    # --- topics

    async def create_topic(
        self,
        name: str,
        partitions: int = 1,
        replication_factor: int = -1,
        configs: Config | None = None,
    ) -> None:
        """Create a topic; clients can produce to it when this returns. The default replication factor is
        `default.replication.factor`.

        Raises TopicAlreadyExists, InvalidTopic, InvalidConfig, InvalidPartitions, InvalidReplicationFactor.
        """
        self.create(name, partitions, replication_factor, configs)

    async def leader(self, topic: str, partition: int = 0) -> int:
        """The number of the broker that leads a partition; -1 if none does. Raises UnknownTopicOrPartition."""
        return self.core.state(self.check_partition(topic, partition)).leader

    async def isr(self, topic: str, partition: int = 0) -> set[int]:
        """The brokers in the ISR. Raises UnknownTopicOrPartition."""
        return {*self.core.state(self.check_partition(topic, partition)).isr}

    async def replicas(self, topic: str, partition: int = 0) -> list[int]:
        """The replicas of a partition, the preferred leader first. Raises UnknownTopicOrPartition."""
        return [*self.core.state(self.check_partition(topic, partition)).replicas]

    async def offsets(self, topic: str, partition: int = 0) -> dict[int, ReplicaOffsets]:
        """The offsets of each replica whose broker runs, by the broker's number. Raises UnknownTopicOrPartition."""
        return self.core.replica_offsets(self.check_partition(topic, partition))

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

    async def brokers(self) -> list[int]:
        """The numbers of the running brokers, including the cut-off and paused ones."""
        return sorted(self.core.brokers)

    async def metrics_text(self, broker: int | None = None) -> str:
        """The metrics of one broker, in Prometheus' text format; by default those of the running broker with the lowest
        number. Raises BrokerNotRunning."""
        return metrics_text(self.broker(min(self.core.brokers, default=0) if broker is None else broker))

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

    async def pause(self, broker: int) -> None:
        """Pause a broker, as SIGSTOP does, until `reconnect`: clients wait, and after `broker.session.timeout.ms` the
        broker counts as dead. Raises BrokerNotRunning, and ValueError if it is paused or cut off."""
        self.check_broker(broker)
        await self.core.pause(broker)

    async def cut_off(self, broker: int) -> None:
        """Cut the network between a broker and the others, until `reconnect`. The broker goes on serving its clients,
        and after `broker.session.timeout.ms` it counts as dead. Raises BrokerNotRunning, and ValueError if it is paused
        or cut off."""
        self.check_broker(broker)
        await self.core.cut_off(broker)

    async def reconnect(self, broker: int) -> None:
        """End `pause` or `cut_off`. Raises BrokerNotRunning, and ValueError if the broker is neither paused nor cut
        off."""
        self.check_broker(broker)
        self.core.reconnect(broker)

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
    `as_version` and `timestamps` are those of a `Broker`. With `journal` the brokers keep their last requests, for
    `requests`. Raises ConfigError, TypeError and ValueError.

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
    ) -> None:
        super().__init__("cluster", argument_checks.directory("data_dir", data_dir))
        argument_checks.integer("brokers", brokers, "a number of brokers, 1 or more", 1, MAX_BROKERS)
        argument_checks.integer("port", port, f"a port that leaves room for {brokers}, or 0", 0, 65_536 - brokers)
        argument_checks.text("host", host, "the name or address of an interface as str")
        rack_of = argument_checks.racks("racks", racks, brokers)
        self._journal = new_journal("journal", journal)
        self._ahead_ms = 0
        """Milliseconds that the clock was moved: time does not go back when the cluster is stopped and started
        again."""
        self._topics = argument_checks.topics("topics", topics)
        options = argument_checks.as_settings(as_version, timestamps)
        common = {**options, **argument_checks.config("config", config)}
        self._configs = [
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

    # --- life

    async def _begin(self, data_dir: str, *, is_temporary: bool) -> ClusterOperations:
        core = LocalCluster(
            self._configs,
            data_dir,
            clock=MovableClock(self._ahead_ms),
            is_temporary=is_temporary,
            journal=self._journal,
        )
        core.before_open = self._place_faults
        await core.start(before_open=lambda: ClusterOperations(core).create_missing(self._topics))
        self._configs = core.configs  # after a restart the brokers listen on the ports that clients know
        return ClusterOperations(core)

    async def _finish(self, running: ClusterOperations, *, keeps_data: bool) -> None:
        try:
            await running.core.stop(keeps_data=keeps_data)
        finally:
            self._ahead_ms = running.clock.ahead_ms

    # --- operations

    @property
    def aio(self) -> "AsyncCluster":
        """The same methods, awaitable on any asyncio event loop."""
        return AsyncCluster(self)

    @property
    def bootstrap_servers(self) -> str:
        """host:port of every running broker, separated by commas, for any client; empty if none runs."""
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
