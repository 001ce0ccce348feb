"""The lives of a broker and of a cluster: what outlasts a stop, a crash and a start (ports, data, the moved clock)."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from kmini.broker.broker import BrokerServer
from kmini.broker.clock import MovableClock
from kmini.broker.journal.request_journal import RequestJournal
from kmini.broker.network.listeners import Endpoint
from kmini.broker.settings.broker_config import BrokerConfig
from kmini.testkit.embedded_registry import EmbeddedRegistry
from kmini.testkit.operations import Operations
from kmini.testkit.shared_operations import SharedOperations

if TYPE_CHECKING:
    from kmini.testkit.cluster_operations import ClusterOperations

Table = TypeVar("Table", bound=SharedOperations)
PlaceFaults = Callable[[BrokerServer], None]
"""Has the fault rules act on a broker that starts, before clients can connect."""


class Lifecycle(ABC, Generic[Table]):
    """Starts and stops a broker or a cluster."""

    def __init__(
        self,
        create_topics: Callable[[SharedOperations], None],
        place_faults: PlaceFaults,
        *,
        journal: RequestJournal | None = None,
        cluster_id: str = "",
        registry: EmbeddedRegistry | None = None,
    ) -> None:
        """`create_topics` creates the missing ones of the topics that were given for the start. `registry` is served
        in front of what runs."""
        self._create_topics = create_topics
        self._place_faults = place_faults
        self._journal = journal
        self._cluster_id = cluster_id
        self.registry = registry
        self._ahead_ms = 0
        """Milliseconds that the clock was moved: time does not go back when what runs is stopped and started again."""

    async def begin(self, data_dir: str, *, is_temporary: bool) -> Table:
        """Start; return the table of operations. Raises what a broker's start does."""
        running = await self._start(data_dir, is_temporary=is_temporary)
        if self.registry is not None:
            try:
                await self.registry.begin(running)
            except BaseException:
                await self.finish(running, keeps_data=True)
                raise
        return running

    async def finish(self, running: Table, *, keeps_data: bool) -> None:
        """Stop what `begin` has started."""
        try:
            if self.registry is not None:
                await self.registry.end()
            await self._stop(running, keeps_data=keeps_data)
        finally:
            self._ahead_ms = running.clock.ahead_ms

    @abstractmethod
    async def _start(self, data_dir: str, *, is_temporary: bool) -> Table:
        """What `begin` does but for the registry."""

    @abstractmethod
    async def _stop(self, running: Table, *, keeps_data: bool) -> None:
        """What `finish` does but for the clock and the registry."""


class BrokerLifecycle(Lifecycle[Operations]):
    """The life of one broker."""

    def __init__(self, config: BrokerConfig, *given: Any, **options: Any) -> None:
        """The rest is that of `Lifecycle`."""
        super().__init__(*given, **options)
        self._config = config

    async def _start(self, data_dir: str, *, is_temporary: bool) -> Operations:
        clock = MovableClock(self._ahead_ms)
        has_topics = False

        def before_open(core: BrokerServer) -> None:
            self._place_faults(core)
            if not has_topics:  # after a crash the topics are those that were there
                self._create_topics(Operations(core, start))

        async def start() -> BrokerServer:
            return await BrokerServer.start(
                self._config,
                data_dir,
                clock=clock,
                is_temporary=is_temporary,
                cluster_id=self._cluster_id,
                journal=self._journal,
                before_open=before_open,
            )

        async def start_again() -> BrokerServer:
            nonlocal has_topics
            has_topics = True
            try:
                return await start()
            finally:
                has_topics = False

        core = await start()
        # After a restart the broker listens on the port that its clients know.
        bound = tuple(Endpoint(listener.name, listener.host, listener.port) for listener in core.server.listeners)
        self._config = self._config.replace(listeners=bound)
        return Operations(core, start_again)

    async def _stop(self, running: Operations, *, keeps_data: bool) -> None:
        if not running.is_down:
            await running.core.stop(keeps_data=keeps_data)


class ClusterLifecycle(Lifecycle["ClusterOperations"]):
    """The life of several brokers."""

    def __init__(self, configs: Sequence[BrokerConfig], *given: Any, **options: Any) -> None:
        """The rest is that of `Lifecycle`."""
        super().__init__(*given, **options)
        self.configs = configs
        """The configuration of each broker, once it runs with the ports that it has bound."""

    async def _start(self, data_dir: str, *, is_temporary: bool) -> ClusterOperations:
        from kmini.broker.local_cluster import LocalCluster  # one broker starts without them
        from kmini.testkit.cluster_operations import ClusterOperations

        core = LocalCluster(
            self.configs,
            data_dir,
            clock=MovableClock(self._ahead_ms),
            is_temporary=is_temporary,
            cluster_id=self._cluster_id,
            journal=self._journal,
        )
        core.before_open = self._place_faults
        await core.start(before_open=lambda: self._create_topics(ClusterOperations(core)))
        self.configs = core.configs  # after a restart the brokers listen on the ports that clients know
        return ClusterOperations(core)

    async def _stop(self, running: ClusterOperations, *, keeps_data: bool) -> None:
        await running.core.stop(keeps_data=keeps_data)
