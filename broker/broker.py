"""A broker: its parts, how they belong together, how they start and how they stop. Owned by one event loop."""

from __future__ import annotations

import asyncio
import errno
import logging
import os
import time
from collections.abc import Callable, Mapping
from functools import partial
from typing import TYPE_CHECKING, NamedTuple

from ..storage.filesystem import FileSystem, OsFileSystem
from ..storage.log_config import LogConfig
from ..storage.log_manager import LogManager
from .api.interception import Interceptor
from .api.releases import RELEASES, TRANSACTION_VERSION, Feature
from .clock import Clock
from .controller import elections, topics
from .controller.controller import Controller
from .controller.peers import Peers
from .controller.stored_config import stored_config
from .controller.topology import BrokerRegistration
from .coordination import Coordination
from .handlers import HANDLERS
from .housekeeping import Housekeeping
from .log_cleaner import LogCleaner
from .log_maintenance import LogMaintenance
from .long_work import LongWork
from .metrics import Metrics
from .network.event_loop import descriptors_for_files
from .network.socket_server import Server
from .purgatory import Purgatory
from .replication.fetch_sessions import FetchSessions
from .replication.replica_manager import ReplicaManager
from .replication.startup_reconciliation import reconcile
from .scheduler import in_thread
from .security.authorizer import authorizer_of
from .security.inter_broker import inter_broker_listener
from .services import Services
from .settings.broker_config import BrokerConfig
from .settings.dynamic_config import DynamicBrokerConfig
from .startup import open_controller, recover_logs

if TYPE_CHECKING:
    from .groups.group_coordinator import GroupCoordinator
    from .journal.request_journal import RequestJournal
    from .share_state.share_coordinator import ShareCoordinator
    from .transactions.markers import MarkerWriter
    from .transactions.transaction_coordinator import TransactionCoordinator

log = logging.getLogger("kmini.broker")


MAX_REMOVALS = 4
"""Removals of the files of earlier resets that may be under way; the next reset waits for one of them to end."""


class AtStart(NamedTuple):
    """What a broker was started with, for a reset."""

    config: BrokerConfig
    before_open: Callable[[BrokerServer], None] | None
    """Called before the listeners open."""


class BrokerServer:
    """One broker over a data directory: the controller's database, and the Kafka log directory `broker-<node id>`
    beside it.

    `BrokerServer.start` makes one; it belongs to the running event loop. Blocking work runs in threads, on input that
    does not change.
    """

    def __init__(
        self,
        config: BrokerConfig,
        data_dir: str,
        *,
        clock: Clock,
        controller: Controller,
        owns_controller: bool,
        logs: LogManager,
        journal: RequestJournal | None = None,
        at_start: AtStart,
    ) -> None:
        """Build the parts over open logs and a controller. Nothing runs until `start`."""
        self.data_dir, self.node_id = data_dir, config.node_id
        self._at_start = at_start
        self.clock = clock
        self._owns_controller = owns_controller
        self._removals: dict[str, asyncio.Future[None]] = {}
        """Directories with the files of before a reset, which threads remove."""
        self.on_reset: list[Callable[[], object]] = []
        """Called when a reset begins: what was added to this broker becomes as it was after the start."""
        self._build(config, controller, logs, [], journal)
        self.server = Server(self.services, HANDLERS)

    def _build(
        self,
        config: BrokerConfig,
        controller: Controller,
        logs: LogManager,
        interceptors: list[Interceptor],
        journal: RequestJournal | None,
    ) -> None:
        """Make the parts that a reset replaces: all but the clock and the server."""
        clock = self.clock
        self.config = DynamicBrokerConfig(config)
        """The settings in force."""
        self.controller = controller
        self.peers = Peers(controller)
        self.logs = logs
        self.metrics = Metrics()
        self.purgatory = Purgatory(clock)
        self.maintenance = LogMaintenance(self.config, clock, logs, self.purgatory)
        self.cleaner = LogCleaner(self.config, clock, logs, self.maintenance)
        self.replica_manager = ReplicaManager(
            self.node_id,
            self.config,
            clock,
            controller,
            self.peers,
            logs,
            self.maintenance,
            self.cleaner,
            self.purgatory,
            self.metrics,
        )
        slots = config.max_incremental_fetch_session_cache_slots
        self.fetch_sessions = FetchSessions(self.replica_manager, slots, clock)
        self.coordination = Coordination(
            self.replica_manager, self.peer, self._transaction_version, self.maintenance.paused_tasks
        )
        self.housekeeping = Housekeeping(self.replica_manager, self.maintenance, self.cleaner)
        self.services: Services = Services(
            this_broker=self,
            release=RELEASES.get(config.kmini_as_version or ""),
            replica_manager=self.replica_manager,
            log_start_checkpoint=self.maintenance.log_start_checkpoint,
            cleaner=self.cleaner,
            fetch_sessions=self.fetch_sessions,
            long_work=LongWork(),
            coordination=self.coordination,
            authorizer=authorizer_of(config, controller.acls),
            journal=journal,
            interceptors=interceptors,
        )
        for entity in controller.client_quotas:
            self.update_quotas(entity)

    # --- life

    @classmethod
    async def start(
        cls,
        config: BrokerConfig,
        data_dir: str,
        *,
        clock: Clock | None = None,
        filesystem: FileSystem | None = None,
        is_temporary: bool = False,
        cluster_id: str = "",
        controller: Controller | None = None,
        before_open: Callable[[BrokerServer], None] | None = None,
        journal: RequestJournal | None = None,
    ) -> BrokerServer:
        """Recover what is on disk, then open the listeners: an open port means ready. Raises PortTaken, OSError,
        and ControllerError for a directory that is not kmini's.

        With `is_temporary` the data need not survive a power loss, so neither logs nor database are synced.
        `cluster_id` is the id of a new cluster; without one it gets a random id. A broker of several shares their
        `controller`; one by itself opens its own. `before_open` is for the latter: it runs before the listeners
        open, so it can create topics that clients find. Requests are written to `journal`, if there is one.
        """
        began = time.perf_counter()
        clock = clock or Clock()
        filesystem = filesystem or OsFileSystem(max_open_files=descriptors_for_files(), synced=not is_temporary)
        metadata = controller or open_controller(config, data_dir, filesystem, cluster_id)
        try:
            in_force = stored_config(config, metadata)
            logs = await recover_logs(in_force, data_dir, filesystem, metadata, clock)
            try:
                broker = cls(
                    in_force,
                    data_dir,
                    clock=clock,
                    controller=metadata,
                    owns_controller=controller is None,
                    logs=logs,
                    journal=journal,
                    at_start=AtStart(config, before_open),
                )
            except BaseException:
                await in_thread(partial(logs.close, clean=False))
                raise
        except BaseException:
            if controller is None:
                metadata.close()
            raise
        try:
            await broker._open()
        except BaseException:
            await broker.server.kill()
            await broker._close(clean=False)  # no request was served, so nothing needs to be flushed
            raise
        log.info(
            "node %d started in %.0f ms: %s, leads %d partitions",
            broker.node_id,
            (time.perf_counter() - began) * 1000,
            broker.address,
            len(broker.replica_manager.partitions),
        )
        return broker

    async def _open(self) -> None:
        comes_back = not self._owns_controller and not self.controller.is_live(self.node_id)
        if comes_back:
            await self.server.start()
        await self._begin()
        if not comes_back:
            await self.server.start()
        self.replica_manager.fetcher_manager.start()
        self.cleaner.ask()

    async def _begin(self) -> None:
        """Begin all that comes before clients are served."""
        self.housekeeping.start()
        self._join()
        await self.coordination.loading.idle()
        if self._at_start.before_open is not None:
            self._at_start.before_open(self)

    def _join(self) -> None:
        """Be a part of the cluster from now on, with all that this broker leads and follows."""
        reconcile(self.replica_manager)
        self.replica_manager.join()
        self._register()
        self.coordination.start()

    def come_back(self) -> None:
        """Count as live again, bring every partition to the controller's state, and lead those that have no leader
        without this broker."""
        with self.replica_manager.rejoining():
            self._register()
            self.replica_manager.catch_up()

    def _register(self) -> None:
        registration = BrokerRegistration(self.node_id, self.config.current.broker_rack, self)
        elections.join(self.controller, registration, partial(topics.is_unclean_election_allowed, self.config))

    def resign(self) -> None:
        """Stop leading partitions and coordinating groups and transactions. Requests that wait for them fail with
        NOT_LEADER_OR_FOLLOWER or NOT_COORDINATOR, so clients look up the new leader or coordinator."""
        self.replica_manager.resign()
        self.coordination.resign()

    async def stop(self, *, keeps_data: bool = True) -> None:
        """Answer the requests in service, close the connections, and leave the data directory as a clean shutdown
        does. Without `keeps_data` nothing more is written: the directory is removed next."""
        await self.server.stop()
        await self._close(clean=keeps_data, keeps_data=keeps_data)
        log.info("node %d stopped", self.node_id)

    async def kill(self) -> None:
        """End as `kill -9` ends a process: connections break, and the logs close without a flush."""
        await self.server.kill()
        await self._close(clean=False)
        log.info("node %d was killed", self.node_id)

    # --- a reset, whose steps are in reset.py

    async def empty(self) -> None:
        """Stop every part but the server, which is suspended, and move the logs away. Raises OSError."""
        for added in self.on_reset:
            added()
        if self.services.quotas is not None:
            self.services.quotas.end()
        self.purgatory.end_waits(RuntimeError("the broker was reset during this call"))
        self.resign()
        await self._stop_parts()
        from ..storage import wiping  # most brokers are never reset

        while len(self._removals) >= MAX_REMOVALS:
            await asyncio.wait(self._removals.values(), return_when=asyncio.FIRST_COMPLETED)
        keep = map(os.path.basename, self._removals)
        self.logs, gone = wiping.empty(self.logs, self.log_config_of, keep=keep)
        removal = asyncio.ensure_future(in_thread(wiping.remove, self.logs.filesystem, gone))
        self._removals[gone] = removal
        removal.add_done_callback(lambda _: self._removals.pop(gone))

    def log_config_of(self, topic: str) -> LogConfig:
        """The settings of a topic, and the defaults for one that the cluster does not have."""
        return topics.log_config(self.controller.topic(topic), self._at_start.config.log_config)

    async def begin_anew(self, controller: Controller, logs_from: str | None = None) -> None:
        """Have new parts over the empty logs, or over those of a snapshot, as after a start with the same settings. The
        server stays suspended."""
        config = stored_config(self._at_start.config, controller)
        self.controller = controller
        if logs_from is not None:
            from ..storage import log_snapshots

            log_snapshots.fill(self.logs, logs_from)
            self.logs.load(config.num_recovery_threads_per_data_dir)
            self.logs.environment.deletions.forget(self._removals)
        self._build(config, controller, self.logs, self.services.interceptors, self.services.journal)
        self.logs.set_producer_id_expiration_ms(config.producer_id_expiration_ms)
        await self._begin()

    def serve_anew(self, *, set_back_ms: int) -> None:
        """Serve clients with the new parts. The clock of liveness was set back by `set_back_ms`."""
        if self.services.journal is not None:
            self.services.journal.begin_anew(self.node_id)
        self.server.begin_anew(self.services, set_back_ms=set_back_ms)
        self.replica_manager.fetcher_manager.start()
        self.cleaner.ask()

    async def _close(self, *, clean: bool, keeps_data: bool = True) -> None:
        await self._stop_parts()
        if self._removals:
            await asyncio.wait(self._removals.values())
        if keeps_data:
            await in_thread(partial(self.logs.close, clean=clean))
        else:
            self.logs.close(clean=False)
        if self._owns_controller:
            self.controller.close(clean=clean)

    async def _stop_parts(self) -> None:
        """Stop everything but the server, the logs and the controller."""
        self.housekeeping.stop()
        self.maintenance.cancel()
        self.purgatory.close()
        await self.replica_manager.fetcher_manager.stop()
        await self.coordination.stop()
        await self.cleaner.stop()
        await self.clock.settle()
        self.replica_manager.lead_nothing()
        await self.maintenance.finish()

    # --- as others see it

    @property
    def features(self) -> list[Feature]:
        """The cluster's features, each at the level that is in force."""
        return self.services.features

    @property
    def groups(self) -> GroupCoordinator:
        """The coordinator of groups."""
        return self.coordination.groups

    @property
    def transactions(self) -> TransactionCoordinator:
        """The coordinator of transactions."""
        return self.coordination.transactions

    @property
    def marker_writer(self) -> MarkerWriter:
        """Ends transactions in the partitions that this broker leads."""
        return self.coordination.marker_writer

    @property
    def share_coordinator(self) -> ShareCoordinator:
        """The coordinator of the states of share partitions."""
        return self.coordination.share_coordinator

    def _transaction_version(self) -> int:
        return self.services.feature_level(TRANSACTION_VERSION)

    @property
    def address(self) -> str:
        """host:port of the first listener, as a client on this machine would say it."""
        return self.server.listeners[0].address

    def peer(self, node_id: int) -> BrokerServer | None:
        """The broker with this node id, if live and reachable; it may be this broker."""
        found = self if node_id == self.node_id else self.peers.get(node_id)
        return found if isinstance(found, BrokerServer) else None

    @property
    def is_cut_off(self) -> bool:
        """Whether this broker neither reaches the others nor is reached by them."""
        return self.peers.is_cut_off

    @property
    def address_for_brokers(self) -> tuple[str, int] | None:
        """Where other brokers reach this one; None while it does not listen."""
        ours = self.server.listener(inter_broker_listener(self.config.current))
        return None if ours is None else (ours.host, ours.port)

    def connect(self, protocol: asyncio.Protocol) -> None:
        """Connect another broker of this process to the listener for brokers, without a socket. Raises
        ConnectionRefusedError."""
        ours = self.server.listener(inter_broker_listener(self.config.current))
        if ours is None:
            raise ConnectionRefusedError(errno.ECONNREFUSED, os.strerror(errno.ECONNREFUSED))
        self.server.connect(protocol, ours)

    def address_for(self, listener: str, host: str, *, is_mapped: bool) -> tuple[str, int] | None:
        """The address of this broker for a client that connected to the same listener of another broker, at `host`, or
        through a published port; None if this broker has no such listener."""
        ours = self.server.listener(listener)
        return None if ours is None else self.server.advertised.address_elsewhere(ours, host, is_mapped=is_mapped)

    def forget_topics(self, topic_ids: Mapping[str, bytes]) -> None:
        """Topics were deleted, given as ids by name: forget their counters, and the committed offsets and transactions
        that name them."""
        for name in topic_ids:
            self.metrics.forget(name)
        self.coordination.forget_topics(topic_ids)

    def update_config(self, config: BrokerConfig) -> None:
        """Put other settings in force."""
        stores = self.config.current.per_listener
        self.config.current = config
        if config.per_listener != stores:
            self.server.renew_tls()
        self.logs.set_producer_id_expiration_ms(config.producer_id_expiration_ms)
        self.replica_manager.settings_changed()

    def update_quotas(self, entity: str) -> None:
        """Put the quotas in force that are stored for an entity, which is given by its key."""
        if self.services.quotas is None:
            from .quotas.client_quotas import ClientQuotas  # most brokers have none

            self.services.quotas = ClientQuotas(self.services)
        self.services.quotas.update(entity)
