"""The operations of a cluster inside a program, beside those it shares with a broker (`shared_operations.py`).

`cluster.py` makes blocking and awaitable methods of them.
"""

from __future__ import annotations

from collections.abc import Collection
from functools import partial

from kmini.broker.broker import BrokerServer
from kmini.broker.clock import MovableClock
from kmini.broker.controller.controller import Controller
from kmini.broker.controller.topology import PartitionState
from kmini.broker.coordinators.coordinator_topic import CoordinatorTopic
from kmini.broker.local_cluster import LocalCluster, ReplicaOffsets
from kmini.broker.purgatory import Operation
from kmini.broker.reset import ResetReport
from kmini.broker.snapshots import Saved
from kmini.protocol.errors import InvalidArgument
from kmini.protocol.topics import TopicPartition
from kmini.testkit.argument_checks import Config
from kmini.testkit.crash_damage import CrashDamage
from kmini.testkit.shared_operations import BrokerNotRunning, NoSuchBroker, SharedOperations
from kmini.testkit.waiting import NotInTime


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
            raise NoSuchBroker(f"there is no broker {broker}; the cluster has {has}, of which run: {running}")
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
                raise InvalidArgument(
                    f"broker=None: the cluster has the brokers {', '.join(map(str, numbers))}; name one"
                )
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
        config: Config | None = None,
    ) -> None:
        """Create a topic; clients can produce to it when this returns. The default replication factor is
        `default.replication.factor`.

        Raises TopicAlreadyExists, InvalidTopic, InvalidConfig, InvalidPartitions, InvalidReplicationFactor.
        """
        self.create(name, partitions, replication_factor, config)

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

    async def brokers(self) -> list[int]:
        """The numbers of the running brokers, including the cut-off and paused ones."""
        return sorted(self.core.brokers)

    async def metrics_text(self, broker: int | None = None) -> str:
        """The metrics of one broker, in Prometheus' text format; by default those of the running broker with the lowest
        number. Raises BrokerNotRunning."""
        from kmini.broker.metrics_text import metrics_text_in_turns  # start-up time counts

        return await metrics_text_in_turns(self.broker(min(self.core.brokers, default=0) if broker is None else broker))

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
