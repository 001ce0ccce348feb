"""A broker or a cluster that a process serves and that a control server steers."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable, Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Literal

from kmini.broker.broker import BrokerServer
from kmini.broker.journal.request_journal import RequestJournal
from kmini.broker.settings.broker_config import BrokerConfig
from kmini.testkit.lifecycle import Lifecycle
from kmini.testkit.operations import Operations

if TYPE_CHECKING:
    from kmini.broker.faults.active_rules import ActiveRules
    from kmini.registry.registry import Registry


def table_of(kind: Literal["broker", "cluster"]) -> type[Operations]:
    """The class of the table of operations of a broker, or of several."""
    if kind == "broker":
        from kmini.testkit.embedded import BrokerOperations

        return BrokerOperations
    from kmini.testkit.cluster import ClusterOperations

    return ClusterOperations


class ManagedBrokers:
    """What `kmini serve` runs where it has a control API: with a journal, fault rules and a clock that moves. Without
    one it runs `Plain` of cli/serve.py."""

    def __init__(
        self,
        configs: Sequence[BrokerConfig],
        data_dir: str,
        create_topics: Callable[[BrokerServer], None],
        *,
        is_temporary: bool,
        cluster_id: str = "",
    ) -> None:
        """A broker for each configuration. `create_topics` creates the missing ones of the topics that were asked for,
        before clients can connect."""
        self.kind: Literal["broker", "cluster"] = "broker" if len(configs) == 1 else "cluster"
        self.missing: Sequence[str] = ()
        self.registry_port: int | None = None
        """The port of the schema registry beside it, once that is served."""
        self.registry: Registry | None = None
        """That schema registry."""
        self.data_dir = os.path.abspath(data_dir)
        self._is_temporary = is_temporary
        self._running: Operations | None = None
        self._before_rules: list[BrokerServer] = []
        """The brokers that started before `rules` was first asked for."""
        self._one_at_a_time = asyncio.Lock()
        """Held by a start and by a stop."""

        def create(operations: Operations) -> None:
            create_topics(operations.any_broker())

        journal = RequestJournal()
        self._lifecycle: Lifecycle[Operations] = Lifecycle(
            table_of(self.kind),
            configs,
            create,
            self._place_faults,
            journal=journal,
            cluster_id=cluster_id,
        )

    @cached_property
    def rules(self) -> ActiveRules:
        """The fault rules. They are made when they are first asked for: the first answer to a client comes earlier."""
        from kmini.broker.faults.active_rules import ActiveRules

        rules = ActiveRules()
        for broker in self._before_rules:
            rules.attach(broker)
        self._before_rules.clear()
        return rules

    def _place_faults(self, broker: BrokerServer) -> None:
        """Have the fault rules act on a broker that starts."""
        if "rules" in vars(self):
            self.rules.attach(broker)
        else:
            self._before_rules.append(broker)

    @property
    def brokers(self) -> list[BrokerServer]:
        """The running brokers, by node id."""
        running = () if self._running is None else self._running.running
        return sorted(running, key=lambda broker: broker.node_id)

    @property
    def is_running(self) -> bool:
        return self._running is not None

    @property
    def operations(self) -> Operations:
        if self._running is None:
            raise RuntimeError("the broker was stopped: POST /api/v1/start starts it")
        return self._running

    async def start(self) -> None:
        async with self._one_at_a_time:
            if self._running is not None:
                raise RuntimeError("the broker runs already")
            self._running = await self._lifecycle.begin(self.data_dir, is_temporary=self._is_temporary)

    async def stop(self) -> None:
        async with self._one_at_a_time:
            running, self._running = self._running, None
            if running is not None:
                await self._lifecycle.finish(running, keeps_data=True)
