"""Several brokers inside a program: leaders that move, followers that lag and brokers that die, in milliseconds.

    with Cluster(brokers=3) as cluster:
        cluster.create_topic("orders", replication_factor=3)
        cluster.kill(cluster.leader("orders"))

Clients connect to `bootstrap_servers`, and find out who leads what as with any cluster. What can be asked of it is
written once (`ClusterOperations`); `Cluster` and `AsyncCluster` have it as blocking and as awaitable methods
(`voices.py`).
"""

import asyncio
import os
from collections.abc import Mapping

from kmini.broker import topics
from kmini.broker.broker import Broker as CoreBroker
from kmini.broker.clock import Duration, MovableClock
from kmini.broker.cluster import Cluster as Core
from kmini.broker.cluster import ReplicaOffsets
from kmini.broker.config import BrokerConfig
from kmini.broker.controller import PartitionState
from kmini.broker.properties import property_text
from kmini.broker.purgatory import Operation
from kmini.host import AsyncHost, Host
from kmini.protocol.errors import RequestTimedOut
from kmini.protocol.topics import TopicPartition
from kmini.voices import awaitable, blocking

__all__ = ["AsyncCluster", "Cluster", "ReplicaOffsets"]


class ClusterOperations:
    """What can be asked of a running cluster. Every coroutine runs on its loop and raises KafkaError; a broker is named
    by its number, which is a KeyError unless it runs."""

    def __init__(self, core: Core) -> None:
        self.core = core

    def _any(self) -> CoreBroker:
        return next(iter(self.core.brokers.values()))

    # --- topics

    async def create_topic(
        self,
        name: str,
        partitions: int = 1,
        replication_factor: int = -1,
        configs: Mapping[str, str | int] | None = None,
    ) -> None:
        """Create a topic; when this returns it can be produced to. Without a number of replicas it has
        `default.replication.factor`. Raises TopicAlreadyExists, InvalidReplicationFactor, InvalidConfig."""
        texts = {key: str(value) for key, value in (configs or {}).items()}
        topics.create(self._any(), name, partitions=partitions, replication_factor=replication_factor, configs=texts)

    async def delete_topic(self, name: str) -> None:
        """Delete a topic and its records. Raises UnknownTopicOrPartition."""
        topics.delete(self._any(), name)

    async def leader(self, topic: str, partition: int = 0) -> int:
        """The number of the broker that leads a partition; -1 if none does. Raises UnknownTopicOrPartition."""
        return self.core.state(TopicPartition(topic, partition)).leader

    async def isr(self, topic: str, partition: int = 0) -> set[int]:
        """The brokers that are in sync. Raises UnknownTopicOrPartition."""
        return {*self.core.state(TopicPartition(topic, partition)).isr}

    async def replicas(self, topic: str, partition: int = 0) -> list[int]:
        """The brokers that hold a partition, the preferred leader first. Raises UnknownTopicOrPartition."""
        return [*self.core.state(TopicPartition(topic, partition)).replicas]

    async def offsets(self, topic: str, partition: int = 0) -> dict[int, ReplicaOffsets]:
        """Where each replica stands whose broker runs, by number. Raises UnknownTopicOrPartition."""
        return self.core.replica_offsets(TopicPartition(topic, partition))

    async def wait_until_in_sync(self, topic: str, partition: int = 0, *, timeout_ms: int = 30_000) -> None:
        """Return once all replicas of a partition are in sync. Raises RequestTimedOut, which says who is;
        UnknownTopicOrPartition."""
        wanted = TopicPartition(topic, partition)
        deadline_ms = self.core.clock.liveness_ms() + timeout_ms
        while {*(state := self.core.state(wanted)).isr} != {*state.replicas}:
            left_ms = deadline_ms - self.core.clock.liveness_ms()
            holders = [self.core.brokers[number] for number in state.replicas if number in self.core.brokers]
            if left_ms <= 0 or not holders:
                raise RequestTimedOut(f"of the replicas {[*state.replicas]} of {wanted} {[*state.isr]} are in sync")
            changes = [_Change(self.core, wanted, state) for _ in holders]
            waits = [
                asyncio.ensure_future(holder.purgatory.wait(change, timeout_ms=left_ms, waiter=change))
                for holder, change in zip(holders, changes, strict=True)
            ]
            try:
                await asyncio.wait(waits, return_when=asyncio.FIRST_COMPLETED)
            finally:
                for wait in waits:
                    wait.cancel()
                await asyncio.gather(*waits, return_exceptions=True)

    async def coordinator(self, group: str) -> int:
        """The number of the broker that coordinates a group, and has its offsets. Raises CoordinatorNotAvailable."""
        return self._any().groups.store.coordinator_of(group)

    async def transaction_coordinator(self, transactional_id: str) -> int:
        """The number of the broker that coordinates the transactions of a producer. Raises
        CoordinatorNotAvailable."""
        return self._any().transactions.store.topic.coordinator_of(transactional_id)

    async def move_leader(self, topic: str, partition: int = 0, *, to: int | None = None) -> None:
        """Have another replica lead, by default the preferred one. Raises PreferredLeaderNotAvailable where it is not
        in sync, ElectionNotNeeded where it leads already."""
        self.core.move_leader(TopicPartition(topic, partition), to)

    # --- brokers

    async def brokers(self) -> list[int]:
        """Those that run, cut off or paused ones too."""
        return sorted(self.core.brokers)

    async def stop_broker(self, broker: int) -> None:
        """Stop one in order; what it led moves first."""
        await self.core.stop_broker(broker)

    async def kill(self, broker: int) -> None:
        """End one as `kill -9` does: connections break, nothing is written any more, others lead at once."""
        await self.core.kill(broker)

    async def restart(self, broker: int) -> None:
        """Start one that was stopped or killed, on its port and with its data. ValueError if it runs."""
        await self.core.restart(broker)

    async def pause(self, broker: int) -> None:
        """Have one stand still, as SIGSTOP does, until `reconnect`: clients wait, and after
        `broker.session.timeout.ms` it counts as dead."""
        await self.core.pause(broker)

    async def cut_off(self, broker: int) -> None:
        """Have one and the others not reach each other, until `reconnect`. It serves its clients as it did, and after
        `broker.session.timeout.ms` counts as dead."""
        await self.core.cut_off(broker)

    async def reconnect(self, broker: int) -> None:
        """End `pause` or `cut_off`."""
        self.core.reconnect(broker)

    async def hold(self, broker: int) -> None:
        """Have one fetch nothing from its leaders, as a follower that lags, until `release`."""
        await self.core.brokers[broker].replication.hold()

    async def release(self, broker: int) -> None:
        """End `hold`."""
        self.core.brokers[broker].replication.release()

    async def limit_fetch_version(self, broker: int, version: int | None) -> None:
        """Have one follow with Fetch of this version at most, as one of an older release does; None ends it. Below
        version 5 a follower does not tell where its log starts (KIP-107)."""
        await self.core.brokers[broker].replication.limit_fetch_version(version)

    async def advance_clock(self, duration: Duration, *, liveness: bool = False) -> None:
        """Move the clock of all brokers on, and return when everything that fell due has run; see `Broker.clock`."""
        assert isinstance(self.core.clock, MovableClock)
        await self.core.clock.advance(duration, liveness=liveness)


class _Change(Operation):
    """Complete when the controller has changed something about a partition."""

    def __init__(self, core: Core, topic_partition: TopicPartition, seen: PartitionState) -> None:
        self.waiting: asyncio.Future[bool] | None = None
        self._core = core
        self._topic_partition = topic_partition
        self._seen = seen

    @property
    def keys(self) -> list[TopicPartition]:
        return [self._topic_partition]

    def is_complete(self) -> bool:
        return self._core.state(self._topic_partition) != self._seen


class Cluster(Host[ClusterOperations, "AsyncCluster"]):
    """`brokers` brokers, numbered from 1, each on a port of its own, with a private data directory that is removed at
    the end.

    `port` is that of the first one, and the others have the ports after it; 0 takes any free ones. `config` holds
    settings of every broker by Kafka's names; `racks` a rack for brokers by number. With `data_dir` the data stay
    there. Raises PortTaken and ConfigError.
    """

    def __init__(
        self,
        brokers: int = 3,
        *,
        port: int = 0,
        host: str = "127.0.0.1",
        config: Mapping[str, str | int | bool] | None = None,
        racks: Mapping[int, str] | None = None,
        data_dir: str | os.PathLike[str] | None = None,
    ) -> None:
        super().__init__("cluster", data_dir)
        if brokers < 1:
            raise ValueError(f"brokers={brokers}: a cluster has at least one")
        self._ahead_ms = 0
        """What its clock was moved by: time does not go back when it is stopped and started again."""
        common = {name: property_text(value) for name, value in (config or {}).items()}
        self._configs = [
            BrokerConfig.parse(
                {
                    "listeners": f"PLAINTEXT://{host}:{port + number - 1 if port else 0}",
                    **common,
                    **({"broker.rack": racks[number]} if racks and number in racks else {}),
                    "node.id": str(number),
                }
            )
            for number in range(1, brokers + 1)
        ]

    # --- life

    async def _begin(self, data_dir: str, *, is_temporary: bool) -> ClusterOperations:
        core = Core(self._configs, data_dir, clock=MovableClock(self._ahead_ms), is_temporary=is_temporary)
        await core.start()
        self._configs = core.configs  # started again, it comes back to the ports that its clients know
        return ClusterOperations(core)

    async def _finish(self, running: ClusterOperations) -> None:
        core = running.core
        try:
            await core.stop()
        finally:
            assert isinstance(core.clock, MovableClock)
            self._ahead_ms = core.clock.ahead_ms

    # --- what can be asked of it

    @property
    def aio(self) -> "AsyncCluster":
        """The same methods, to be awaited on any asyncio event loop."""
        return AsyncCluster(self)

    @property
    def bootstrap_servers(self) -> str:
        """host:port of every broker that runs, with commas between them, for any client."""
        return ",".join(broker.address for broker in self._operations.core.brokers.values())

    def address_of(self, broker: int) -> str:
        """host:port of one broker. KeyError unless it runs."""
        return self._operations.core.brokers[broker].address

    create_topic = blocking(ClusterOperations.create_topic)
    delete_topic = blocking(ClusterOperations.delete_topic)
    leader = blocking(ClusterOperations.leader)
    isr = blocking(ClusterOperations.isr)
    replicas = blocking(ClusterOperations.replicas)
    offsets = blocking(ClusterOperations.offsets)
    wait_until_in_sync = blocking(ClusterOperations.wait_until_in_sync)
    coordinator = blocking(ClusterOperations.coordinator)
    transaction_coordinator = blocking(ClusterOperations.transaction_coordinator)
    move_leader = blocking(ClusterOperations.move_leader)
    brokers = blocking(ClusterOperations.brokers)
    stop_broker = blocking(ClusterOperations.stop_broker)
    kill = blocking(ClusterOperations.kill)
    restart = blocking(ClusterOperations.restart)
    pause = blocking(ClusterOperations.pause)
    cut_off = blocking(ClusterOperations.cut_off)
    reconnect = blocking(ClusterOperations.reconnect)
    hold = blocking(ClusterOperations.hold)
    release = blocking(ClusterOperations.release)
    limit_fetch_version = blocking(ClusterOperations.limit_fetch_version)
    advance_clock = blocking(ClusterOperations.advance_clock)


class AsyncCluster(AsyncHost[ClusterOperations]):
    """What `async with Cluster()` and `cluster.aio` give: the same methods, to be awaited on any asyncio event loop."""

    def __init__(self, cluster: Cluster) -> None:
        super().__init__(cluster)
        self._cluster = cluster

    @property
    def bootstrap_servers(self) -> str:
        """host:port of every broker that runs, with commas between them, for any client."""
        return self._cluster.bootstrap_servers

    def address_of(self, broker: int) -> str:
        """host:port of one broker. KeyError unless it runs."""
        return self._cluster.address_of(broker)

    create_topic = awaitable(ClusterOperations.create_topic)
    delete_topic = awaitable(ClusterOperations.delete_topic)
    leader = awaitable(ClusterOperations.leader)
    isr = awaitable(ClusterOperations.isr)
    replicas = awaitable(ClusterOperations.replicas)
    offsets = awaitable(ClusterOperations.offsets)
    wait_until_in_sync = awaitable(ClusterOperations.wait_until_in_sync)
    coordinator = awaitable(ClusterOperations.coordinator)
    transaction_coordinator = awaitable(ClusterOperations.transaction_coordinator)
    move_leader = awaitable(ClusterOperations.move_leader)
    brokers = awaitable(ClusterOperations.brokers)
    stop_broker = awaitable(ClusterOperations.stop_broker)
    kill = awaitable(ClusterOperations.kill)
    restart = awaitable(ClusterOperations.restart)
    pause = awaitable(ClusterOperations.pause)
    cut_off = awaitable(ClusterOperations.cut_off)
    reconnect = awaitable(ClusterOperations.reconnect)
    hold = awaitable(ClusterOperations.hold)
    release = awaitable(ClusterOperations.release)
    limit_fetch_version = awaitable(ClusterOperations.limit_fetch_version)
    advance_clock = awaitable(ClusterOperations.advance_clock)
