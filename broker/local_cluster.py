"""Several brokers in one process, over one controller: for tests of failover, and for what replicas mean.

Each has its own listeners, its own log directory, and followers that fetch with the requests of the wire protocol, over
connections in memory (`network/memory_transport.py`). The controller is an object that all of them share, so that a
broker is known to be dead at once when it is stopped or killed. It is no distributed system: one machine, one process,
one loop.
"""

from __future__ import annotations

import os
import time
from collections import deque
from collections.abc import Callable, Collection, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, NamedTuple

from ..protocol.errors import InvalidArgument, UnknownTopicOrPartition
from ..protocol.topics import TopicPartition
from ..storage.filenames import broker_directory
from ..storage.filesystem import FileSystem, OsFileSystem
from .broker import BrokerServer
from .clock import Clock, Timer
from .controller import elections
from .controller.controller import Controller
from .controller.topics import is_unclean_election_allowed
from .controller.topology import BrokerRegistration, PartitionState
from .network.reserved_ports import KeptPorts
from .reset import ResetReport, empty, successor_of
from .scheduler import Periodic, in_thread
from .security.inter_broker import inter_broker_connection
from .settings.broker_config import BrokerConfig, ConfigError

if TYPE_CHECKING:
    from .journal.request_journal import RequestJournal
    from .snapshots import Saved


class ReplicaOffsets(NamedTuple):
    """The offsets of one replica of a partition."""

    log_start_offset: int
    high_watermark: int
    """The high watermark that this replica knows: a follower learns the leader's with its next fetch."""
    log_end_offset: int
    last_stable_offset: int
    """The first offset of the oldest transaction that this replica knows as open, or its high watermark."""


class BrokerEvent(NamedTuple):
    """What happened to a broker of a cluster."""

    time_s: float
    """In seconds since the epoch, by the wall clock."""
    broker: int
    what: str
    """As "was killed"."""


CONTROLLER = -1
"""The controller among the node ids of file systems."""
MOST_EVENTS = 100
"""The last events that a cluster remembers."""


class LocalCluster:
    """Brokers over `data_dir`: the controller's database, and the log directory of each beside it. Belongs to one
    event loop."""

    def __init__(
        self,
        configs: Sequence[BrokerConfig],
        data_dir: str,
        *,
        clock: Clock | None = None,
        is_temporary: bool = False,
        cluster_id: str = "",
        journal: RequestJournal | None = None,
        filesystems: Mapping[int, FileSystem] | None = None,
    ) -> None:
        """A configuration for each broker, with node ids of their own. ConfigError where they could not reach each
        other. `filesystems` has the file system of each broker, which each start looks up, and that of the controller
        as CONTROLLER; without it they are on the disk."""
        for config in configs:
            if len(configs) > 1:
                _check_inter_broker(config)
        self.data_dir = data_dir
        self.clock = clock or Clock()
        self.brokers: dict[int, BrokerServer] = {}
        """The running brokers, by node id."""
        self._configs = {config.node_id: config for config in configs}
        self._rebalance: Periodic | None = None
        self._starting: set[int] = set()
        self._kept_ports: dict[int, KeptPorts] = {}
        """The ports of stopped brokers."""
        self._overrides: dict[int, dict[str, tuple[str, int]]] = {}
        """The advertised addresses that were set while a broker ran, by the node id of a stopped broker."""
        self._fences: dict[int, Timer] = {}
        """Timers after which brokers that are cut off count as dead."""
        self.events: deque[BrokerEvent] = deque(maxlen=MOST_EVENTS)
        """What happened to the brokers since the start or the last reset, for the failure report of a test."""
        self._before_open: Callable[[], None] | None = None
        self.is_stopped = False
        """Whether all of it ends, or has ended."""
        self._is_temporary = is_temporary
        self._cluster_id = cluster_id
        self._journal = journal
        self._filesystems = filesystems
        self.before_open: Callable[[BrokerServer], None] | None = None
        """Called with each broker that starts, before clients can connect to it."""
        self.controller: Controller

    # --- all together

    @property
    def configs(self) -> list[BrokerConfig]:
        """The configuration of each broker, with the ports that it has bound."""
        return [*self._configs.values()]

    async def start(self, *, before_open: Callable[[], None] | None = None) -> None:
        """Start every broker, or none; when this returns all can be reached. `before_open` is called once all run, or
        before clients can connect to the only one, and again by each reset. Raises what a broker's start does."""
        self._before_open = before_open
        self.controller = Controller.open(
            self.data_dir,
            node_ids=self._configs.keys(),
            cluster_id=self._cluster_id,
            filesystem=self._filesystem(CONTROLLER),
        )
        try:
            self.controller.begin_leader_epochs(self._configs.keys())
            for config in self._configs.values():  # no election happens because another broker starts more slowly
                self.controller.register(BrokerRegistration(config.node_id, config.broker_rack))
            is_one = len(self._configs) == 1
            for node_id in self._configs:
                await self._start(node_id, before_open if is_one else None)
            if before_open is not None and not is_one:  # followers can reach each other
                before_open()
        except BaseException:
            await self.stop()
            raise
        self._start_preferring_first()

    def _filesystem(self, node_id: int) -> FileSystem:
        if self._filesystems is not None:
            return self._filesystems[node_id]
        return OsFileSystem(synced=not self._is_temporary)

    def _start_preferring_first(self) -> None:
        """Have leaderships return to first replicas from time to time, as the settings say."""
        if self._rebalance is not None:
            self._rebalance.cancel()
        config = next(iter(self._configs.values()))
        if config.auto_leader_rebalance_enable:
            self._rebalance = Periodic(
                self.clock,
                "the return of leadership to first replicas",
                self._prefer_first,
                interval_ms=config.leader_imbalance_check_interval_seconds * 1000,
                liveness=True,
                next_effect_ms=lambda: 0 if elections.may_prefer_first(self.controller) else None,
                paused_tasks=self.controller.paused_tasks,
            )

    async def _prefer_first(self) -> None:
        elections.prefer_first(self.controller)

    async def stop(self, *, keeps_data: bool = True) -> None:
        """Stop every broker. Leaders and in-sync replicas stay as they are: the next start finds them again. Without
        `keeps_data` nothing more is written: the data directory is removed next."""
        self.is_stopped = True
        if self._rebalance is not None:
            self._rebalance.cancel()
        for timer in self._fences.values():
            timer.cancel()
        for broker in [*self.brokers.values()]:
            self.controller.fence(broker.node_id)
        for node_id in list(self._kept_ports):
            self._give_ports_back(node_id)
        while self.brokers:
            _, broker = self.brokers.popitem()
            await broker.stop(keeps_data=keeps_data)
        self.controller.close(clean=keeps_data)

    async def reset(self, keep: Collection[str] = (), saved: Saved | None = None) -> ResetReport:
        """Make the cluster as it was right after its start, or when it was `saved`: `reset.py` says how. Brokers
        that do not run are started, those that are paused or cut off are reached again. Raises what the start of a
        broker does."""
        try:
            for node_id in list(self._fences):
                self.reconnect(node_id)
            brokers = [*self.brokers.values()]
            emptied = await empty(brokers, self.clock, keep, saved)
            self.controller = successor_of(self.controller, self._filesystem(CONTROLLER), saved)
            for config in self._configs.values():
                self.controller.register(BrokerRegistration(config.node_id, config.broker_rack))
            for broker in brokers:
                await broker.begin_anew(self.controller, None if saved is None else saved.logs_of(broker.node_id))
            self._overrides.clear()
            for node_id in self._configs.keys() - self.brokers.keys():
                await self._restart_anew(node_id, saved)
            if self._before_open is not None:
                self._before_open()
            for broker in brokers:
                broker.serve_anew(set_back_ms=emptied.set_back_ms)
            self._start_preferring_first()
        except BaseException:
            await self.stop(keeps_data=False)
            raise
        self.events.clear()
        return ResetReport(emptied.closed)

    def _note(self, node_id: int, what: str) -> None:
        self.events.append(BrokerEvent(time.time(), node_id, what))

    async def _restart_anew(self, node_id: int, saved: Saved | None) -> None:
        """Start a broker that was stopped or killed, without its data; from a snapshot it gets them later."""
        directory = os.path.join(self.data_dir, broker_directory(node_id))
        await in_thread(self._filesystem(node_id).remove_tree, directory)
        broker = await self.restart(node_id)
        if saved is not None:
            await broker.server.suspend(lambda _: True)
            await broker.empty()
            await broker.begin_anew(self.controller, saved.logs_of(node_id))
            broker.serve_anew(set_back_ms=0)

    # --- one of them

    async def _start(self, node_id: int, then: Callable[[], None] | None = None) -> BrokerServer:
        """Start a broker; `then` is called before clients can connect."""

        def before_open(broker: BrokerServer) -> None:
            nonlocal then
            if self.before_open is not None:
                self.before_open(broker)
            if then is not None:
                self.brokers[node_id] = broker
                then()
                then = None  # a reset has its own turn

        try:
            broker = await BrokerServer.start(
                self._configs[node_id],
                self.data_dir,
                clock=self.clock,
                filesystem=None if self._filesystems is None else self._filesystems[node_id],
                is_temporary=self._is_temporary,
                controller=self.controller,
                journal=self._journal,
                before_open=before_open,
            )
        except BaseException:
            self.brokers.pop(node_id, None)
            raise
        self.brokers[node_id] = broker
        broker.server.advertised.overrides.update(self._overrides.pop(node_id, {}))
        bound = broker.server.listeners
        listeners = tuple(
            listener._replace(port=actual.port)
            for listener, actual in zip(broker.config.current.listeners, bound, strict=True)
        )
        self._configs[node_id] = self._configs[node_id].replace(listeners=listeners)  # for the next start
        return broker

    async def restart(self, node_id: int) -> BrokerServer:
        """Start a broker that was stopped or killed: same port, same data. KeyError for one that there never was."""
        if node_id in self.brokers or node_id in self._starting:
            raise InvalidArgument(f"broker {node_id} runs")
        self._starting.add(node_id)
        try:
            broker = await self._start(node_id)
            self._give_ports_back(node_id)
            self._note(node_id, "was started again")
            return broker
        except BaseException:
            if self.controller.is_live(node_id):  # it had joined already
                elections.leave(self.controller, node_id)
            raise
        finally:
            self._starting.discard(node_id)

    async def stop_broker(self, node_id: int) -> None:
        """Stop one broker in order; others lead what it led before it hangs up."""
        self._note(node_id, "was stopped")
        broker = self._leave(node_id)
        await broker.stop()
        self._kept_ports[node_id] = KeptPorts(self._configs[node_id].listeners)

    async def kill(self, node_id: int) -> None:
        """End one broker as `kill -9` does; it is known to be dead at once."""
        self._note(node_id, "was killed")
        broker = self._leave(node_id)
        await broker.kill()
        self._kept_ports[node_id] = KeptPorts(self._configs[node_id].listeners)

    def _give_ports_back(self, node_id: int) -> None:
        kept = self._kept_ports.pop(node_id, None)
        if kept is not None:
            kept.give_back()

    async def cut_off(self, node_id: int) -> None:
        """Keep one broker and the others from reaching each other, until `reconnect`. After
        `broker.session.timeout.ms` it counts as dead; it goes on to serve its clients as it did. ValueError if it is
        cut off or paused."""
        self._check_connected(node_id)
        self._note(node_id, "was cut off from the others")
        await self._lose(node_id)

    def _check_connected(self, node_id: int) -> None:
        """ValueError for a broker that is cut off or paused: a second fence would outlive `reconnect`."""
        if node_id in self._fences:
            raise InvalidArgument(f"broker {node_id} is cut off or paused already")

    async def pause(self, node_id: int) -> None:
        """Have one broker stand still, as SIGSTOP does: clients wait, and after `broker.session.timeout.ms` it counts
        as dead. Until `reconnect`. ValueError if it is cut off or paused."""
        self._check_connected(node_id)
        self._note(node_id, "was paused")
        self.brokers[node_id].server.is_suspended = True
        await self._lose(node_id)

    async def _lose(self, node_id: int) -> None:
        broker = self.brokers[node_id]
        broker.peers.is_cut_off = True
        await broker.replica_manager.fetcher_manager.hang_up()
        for other in self.brokers.values():
            await other.replica_manager.fetcher_manager.hang_up(node_id)
        timeout_ms = broker.config.current.broker_session_timeout_ms
        self._fences[node_id] = self.clock.call_later(timeout_ms, partial(self._fence, node_id), liveness=True)

    def _fence(self, node_id: int) -> None:
        self._note(node_id, "counts as dead: broker.session.timeout.ms is over")
        elections.leave(self.controller, node_id, partial(is_unclean_election_allowed, self.brokers[node_id].config))

    def reconnect(self, node_id: int) -> None:
        """End `cut_off` or `pause`: the broker learns what has changed, and catches up. ValueError if it is
        neither cut off nor paused."""
        if node_id not in self._fences:
            raise InvalidArgument(f"broker {node_id} is neither cut off nor paused")
        self._fences.pop(node_id).cancel()
        broker = self.brokers[node_id]
        self._note(node_id, "was reconnected")
        broker.peers.is_cut_off = False
        if self.controller.is_live(node_id):
            broker.replica_manager.catch_up()
        else:
            broker.come_back()
        broker.server.resume()

    def _leave(self, node_id: int) -> BrokerServer:
        broker = self.brokers.pop(node_id)
        self._overrides[node_id] = broker.server.advertised.overrides
        if node_id in self._fences:
            self._fences.pop(node_id).cancel()
        elections.leave(self.controller, node_id, partial(is_unclean_election_allowed, broker.config))
        broker.resign()
        return broker

    # --- partitions

    def state(self, topic_partition: TopicPartition) -> PartitionState:
        """Replicas, ISR, leader and epochs, as the controller has them. Raises UnknownTopicOrPartition."""
        topic = self.controller.topic(topic_partition.topic)
        if topic is None or not 0 <= topic_partition.partition < len(topic.partitions):
            raise UnknownTopicOrPartition(f"there is no partition {topic_partition}")
        return topic.partitions[topic_partition.partition]

    def replica_offsets(self, topic_partition: TopicPartition) -> dict[int, ReplicaOffsets]:
        """The offsets of each replica on a running broker, by node id. Raises UnknownTopicOrPartition."""
        offsets = {}
        for node_id in self.state(topic_partition).replicas:
            log = self.brokers[node_id].logs.get(topic_partition) if node_id in self.brokers else None
            if log is not None:
                offsets[node_id] = ReplicaOffsets(
                    log.log_start_offset, log.high_watermark, log.log_end_offset, log.last_stable_offset
                )
        return offsets

    def move_leader(self, topic_partition: TopicPartition, node_id: int | None = None) -> None:
        """Have a replica that is in sync lead, the first of all if none is named. Raises what `elections.elect`
        does."""
        elections.elect(self.controller, topic_partition, node_id)
        self._note(self.state(topic_partition).leader, f"was made the leader of {topic_partition}")


def _check_inter_broker(config: BrokerConfig) -> None:
    """Raise ConfigError for settings with which a broker cannot connect to the others."""
    try:
        inter_broker_connection(config, "")
    except ValueError as error:
        raise ConfigError(str(error)) from None
