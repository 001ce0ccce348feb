"""Clusters of brokers in the process of a test, on the test's own event loop."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from kmini.broker.clock import Clock
from kmini.broker.local_cluster import LocalCluster
from kmini.broker.settings.broker_config import BrokerConfig


def broker_configs(
    brokers: int = 3,
    properties: Mapping[str, object] | None = None,
    *,
    racks: Mapping[int, str] | None = None,
    **settings: object,
) -> list[BrokerConfig]:
    """Configurations for brokers 1, 2, …, each on a free port of the loopback interface.

    All of them have `properties`, and `settings`, which are written with underscores for dots.
    """
    common = {"listeners": "PLAINTEXT://127.0.0.1:0", **(properties or {})}
    common |= {name.replace("_", "."): value for name, value in settings.items()}
    own = {node_id: {"broker.rack": rack} for node_id, rack in (racks or {}).items()}
    return [
        BrokerConfig.parse(
            {name: str(value) for name, value in {**common, "node.id": node_id, **own.get(node_id, {})}.items()}
        )
        for node_id in range(1, brokers + 1)
    ]


class Clusters:
    """The clusters that one test starts. The fixture `clusters` stops those that still run at its end."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._running: list[LocalCluster] = []
        self._count = 0

    async def start(
        self,
        brokers: int = 3,
        properties: Mapping[str, object] | None = None,
        *,
        clock: Clock | None = None,
        racks: Mapping[int, str] | None = None,
        **settings: object,
    ) -> LocalCluster:
        """Start a cluster over a new directory. `broker_configs` says what its brokers are configured to."""
        configs = broker_configs(brokers, properties, racks=racks, **settings)
        self._count += 1
        directory = self._directory / f"cluster-{self._count}"
        directory.mkdir()
        cluster = LocalCluster(configs, str(directory), clock=clock, is_temporary=True)
        await cluster.start()
        self._running.append(cluster)
        return cluster

    async def stop(self, cluster: LocalCluster) -> None:
        self._running.remove(cluster)
        await cluster.stop()

    async def stop_all(self) -> None:
        for cluster in [*self._running]:
            await self.stop(cluster)
