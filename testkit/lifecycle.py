"""The life of brokers inside a program: what outlasts a stop and a start (ports, data, the moved clock)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Generic, TypeVar

from kmini.broker.broker import BrokerServer
from kmini.broker.clock import MovableClock
from kmini.broker.journal.request_journal import RequestJournal
from kmini.broker.local_cluster import LocalCluster
from kmini.broker.settings.broker_config import BrokerConfig
from kmini.testkit.embedded_registry import EmbeddedRegistry
from kmini.testkit.operations import Operations

if TYPE_CHECKING:
    from kmini.broker.quick_security import QuickSecurity
    from kmini.testkit.embedded_issuer import EmbeddedIssuer

Table = TypeVar("Table", bound=Operations)
PlaceFaults = Callable[[BrokerServer], None]
"""Has the fault rules act on a broker that starts, before clients can connect."""


class Lifecycle(Generic[Table]):
    """Starts and stops brokers."""

    def __init__(
        self,
        table: Callable[[LocalCluster], Table],
        configs: Sequence[BrokerConfig],
        prepare: Callable[[Table], None],
        place_faults: PlaceFaults,
        *,
        security: QuickSecurity | None = None,
        issuer: EmbeddedIssuer | None = None,
        journal: RequestJournal | None = None,
        cluster_id: str = "",
        registry: EmbeddedRegistry | None = None,
    ) -> None:
        """`prepare` creates what is missing of the users and topics that were given for the start. `registry` is served
        in front of what runs."""
        self._table = table
        self.configs = configs
        """The configuration of each broker, once it runs with the ports that it has bound."""
        self._prepare = prepare
        self._security = security
        self.issuer = issuer
        self._place_faults = place_faults
        self._journal = journal
        self._cluster_id = cluster_id
        self.registry = registry
        self._ahead_ms = 0
        """Milliseconds that the clock was moved: time does not go back when what runs is stopped and started again."""

    async def begin(self, data_dir: str, *, is_temporary: bool) -> Table:
        """Start; return the table of operations. Raises what a broker's start does."""
        if self._security is not None:
            self.configs = [self._security.renewed(config) for config in self.configs]
            if self.issuer is not None:
                await self.issuer.begin()
                self.configs = [self.issuer.trusted(config, self._security) for config in self.configs]
        core = LocalCluster(
            self.configs,
            data_dir,
            clock=MovableClock(self._ahead_ms),
            is_temporary=is_temporary,
            cluster_id=self._cluster_id,
            journal=self._journal,
        )
        core.before_open = self._place_faults
        running = self._table(core)
        try:
            await core.start(before_open=lambda: self._prepare(running))
        except BaseException:
            if self.issuer is not None:
                await self.issuer.end()
            raise
        if self._security is not None:
            self._security.keep_renewed(core.brokers.values)
        self.configs = core.configs  # after a restart the brokers listen on the ports that clients know
        if self.registry is not None:
            try:
                await self.registry.begin(running)
            except BaseException:
                await self.finish(running, keeps_data=True)
                raise
        return running

    async def finish(self, running: Table, *, keeps_data: bool) -> None:
        """Stop what `begin` has started."""
        if self._security is not None:
            self._security.end()
        if self.issuer is not None:
            await self.issuer.end()
        try:
            if self.registry is not None:
                await self.registry.end()
            await running.core.stop(keeps_data=keeps_data)
        finally:
            self._ahead_ms = running.clock.ahead_ms
