"""The operations of one broker inside a program, beside those it shares with a cluster (`shared_operations.py`).

`embedded.py` makes blocking and awaitable methods of them.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Collection
from typing import TYPE_CHECKING

from kmini.broker.broker import BrokerServer
from kmini.broker.clock import MovableClock
from kmini.broker.controller.controller import Controller
from kmini.broker.network.kept_ports import KeptPorts
from kmini.broker.network.listeners import Endpoint
from kmini.protocol.errors import InvalidArgument
from kmini.testkit.argument_checks import Config
from kmini.testkit.contents import PartitionOffsets
from kmini.testkit.crash_damage import CrashDamage
from kmini.testkit.shared_operations import BrokerNotRunning, NoSuchBroker, SharedOperations

if TYPE_CHECKING:
    from kmini.broker.reset import ResetReport
    from kmini.broker.snapshots import Saved


class Operations(SharedOperations):
    """The operations of a running broker. Every coroutine runs on the broker's loop and raises KafkaError."""

    none_runs = "the broker has crashed and does not run again: stop and start it, unless that is under way"

    def __init__(self, core: BrokerServer, start: Callable[[], Awaitable[BrokerServer]]) -> None:
        """`start` starts the broker again after its end."""
        assert isinstance(core.clock, MovableClock)
        super().__init__(core.clock)
        self.core = core
        self._start = start
        self.is_down = False
        """Whether the broker has crashed, and does not run again, or not yet."""

    @property
    def _controller(self) -> Controller:
        return self.core.controller

    @property
    def _data_dir(self) -> str:
        return self.core.data_dir

    async def _reset(self, keep: Collection[str], saved: Saved | None = None) -> ResetReport:
        from kmini.broker.reset import reset_broker  # start-up time counts

        try:
            return await reset_broker(self.one_broker(None), keep, saved)
        finally:
            self.is_down = self.core.server.is_closed  # after a reset that failed

    @property
    def running(self) -> Collection[BrokerServer]:
        return () if self.is_down else (self.core,)

    async def _crash(self, number: int | None, damage: CrashDamage) -> None:
        killed = self.one_broker(number)
        listeners = [Endpoint(one.name, one.host, one.port) for one in killed.server.listeners]
        self.is_down = True
        await killed.kill()
        kept = KeptPorts(listeners)
        try:
            damage.apply(killed.logs)
            self.core = await self._start()
        finally:
            kept.give_back()
        self.core.server.advertised.update(killed.server.advertised)
        self.is_down = False

    def one_broker(self, number: int | None) -> BrokerServer:
        if self.is_down:
            raise BrokerNotRunning(self.none_runs)
        if number not in (None, self.core.node_id):
            raise NoSuchBroker(f"there is no broker {number}; this one is {self.core.node_id}")
        return self.core

    async def brokers(self) -> list[int]:
        """The number of the broker; none while it does not run after a crash. It is that of a cluster of one."""
        return [broker.node_id for broker in self.running]

    async def create_topic(
        self, name: str, partitions: int = 1, config: Config | None = None, *, replication_factor: int = -1
    ) -> None:
        """Create a topic; clients can produce to it when this returns.

        Raises TopicAlreadyExists, InvalidTopic, InvalidConfig, InvalidPartitions, InvalidReplicationFactor.

        >>> broker.create_topic("users", 3, {"cleanup.policy": "compact"})
        >>> broker.topics()
        ['orders', 'users']
        """
        self.create(name, partitions, replication_factor, config)

    async def offsets(self, topic: str, partition: int = 0) -> PartitionOffsets:
        """The offsets of a partition. Raises UnknownTopicOrPartition."""
        return PartitionOffsets.of(self.leader_of(topic, partition)[1].log)

    async def metrics_text(self) -> str:
        """The metrics, in Prometheus' text format."""
        from kmini.broker.metrics_text import metrics_text_in_turns  # start-up time counts

        return await metrics_text_in_turns(self.core)

    # --- the one broker of its topology

    async def pause(self) -> None:
        """Pause the broker, as SIGSTOP does, until `reconnect`: its clients connect and wait. Methods of this object go
        on. Raises ValueError if it is paused."""
        if self.core.server.is_suspended:
            raise InvalidArgument("the broker is paused already")
        self.core.server.is_suspended = True

    async def reconnect(self) -> None:
        """End `pause`: requests that came meanwhile are answered. Raises ValueError if the broker is not paused."""
        if not self.core.server.is_suspended:
            raise InvalidArgument("the broker is not paused")
        self.core.server.resume()
