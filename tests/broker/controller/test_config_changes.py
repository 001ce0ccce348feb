"""Changing settings while brokers run: what is put in force where."""

from __future__ import annotations

from kmini.broker.controller.config_changes import Alteration, Change, alter
from kmini.broker.local_cluster import LocalCluster
from kmini.protocol.messages.describe_configs import BROKER
from kmini.protocol.messages.incremental_alter_configs import DELETE, SET
from support.broker.clusters import Clusters

KEY = "max.connections"


async def change(cluster: LocalCluster, name: str, operation: int, value: str | None) -> None:
    broker = cluster.brokers[1]
    alteration = Alteration(BROKER, name, [Change(KEY, operation, value)])
    assert await alter(broker, cluster.controller, [alteration], replaces=False, validate_only=False) == [None]


def in_force(cluster: LocalCluster) -> dict[int, int]:
    return {node_id: broker.config.current.max_connections for node_id, broker in cluster.brokers.items()}


async def test_a_setting_for_all_brokers_is_in_force_at_each_until_it_is_taken_back(clusters: Clusters) -> None:
    cluster = await clusters.start(2)
    before = in_force(cluster)
    await change(cluster, "", SET, "7")
    assert in_force(cluster) == {1: 7, 2: 7}
    await change(cluster, "", DELETE, None)
    assert in_force(cluster) == before


async def test_a_setting_of_one_broker_is_in_force_there_only(clusters: Clusters) -> None:
    cluster = await clusters.start(2)
    before = in_force(cluster)
    await change(cluster, "1", SET, "7")
    assert in_force(cluster) == {**before, 1: 7}


async def test_a_changed_setting_reaches_every_part_that_holds_the_configuration(clusters: Clusters) -> None:
    cluster = await clusters.start(1)
    broker = cluster.brokers[1]
    await change(cluster, "", SET, "7")
    manager = broker.replica_manager
    for config in (broker.services.config, manager.config, manager.fetcher_manager.config):
        assert config.current.max_connections == 7
