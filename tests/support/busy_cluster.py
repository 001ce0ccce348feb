"""Three brokers with something for every view of the page: a group that rebalances, an open transaction, fault rules, a
compacted topic that is dirty, a topic with a misspelled name."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from typing import NamedTuple

import kmini
from kmini.control.connected import ConnectedCluster
from support.control_api import ControlApi, control_api
from support.small_client import SmallClient

COMPACTED = {"cleanup.policy": "compact", "min.cleanable.dirty.ratio": 0.95}
"""The cleaner leaves the topic alone until a test or a click asks for a pass."""
TOPICS: dict[str, tuple[int, dict[str, str | float]]] = {
    "orders": (3, {}),
    "profiles": (1, COMPACTED),
    "payments": (1, {}),
}
"""Partitions and settings, by name."""


class BusyCluster(NamedTuple):
    server: ControlApi
    cluster: ConnectedCluster
    shop: SmallClient
    """A producer."""
    consumers: tuple[SmallClient, SmallClient]
    """Of group billing: the first one is a member and does not join again, for which the second one waits."""


@contextmanager
def busy_cluster(token: str | None = None) -> Iterator[BusyCluster]:
    with ExitStack() as stack:
        config = {"group.initial.rebalance.delay.ms": "0", "default.replication.factor": "3"}
        server = stack.enter_context(control_api(3, topics={}, config=config, token=token))
        cluster = kmini.connect(server.url, token=token)
        assert isinstance(cluster, ConnectedCluster)
        stack.enter_context(cluster)
        for name, (partitions, configs) in TOPICS.items():
            cluster.create_topic(name, partitions, 3, configs)
        _fill(cluster)
        address = _address(cluster, cluster.coordinator("billing"))
        first = stack.enter_context(SmallClient(address, "billing-1"))
        first.subscribe("billing", "orders")
        first.commit("billing", "orders", 5)
        second = stack.enter_context(SmallClient(address, "billing-2"))
        second.join("billing", "orders", waits=False)
        shop = stack.enter_context(SmallClient(_address(cluster, cluster.leader("orders")), "web-shop"))
        shop.metadata("oders")
        _faults(cluster, shop)
        _transaction(stack, cluster)
        yield BusyCluster(server, cluster, shop, (first, second))


def _address(cluster: ConnectedCluster, number: int) -> str:
    return cluster.bootstrap_servers.split(",")[number - 1]


def _fill(cluster: ConnectedCluster) -> None:
    orders, profiles = cluster.topic("orders"), cluster.topic("profiles")
    for number in range(40):
        value = f'{{"id": {number}, "state": "placed", "total": {number * 7}.50}}'
        orders.produce(value.encode(), key=b"customer-%d" % (number % 7), headers={"trace": b"%08x" % (number * 7919)})
    for day in range(4):
        for number in range(12):
            name = b"person-%d" % ((number * 5 + day) % 9)
            profiles.produce(None if number == 7 else b'{"name": "%s", "day": %d}' % (name, day), key=name)
        profiles.roll()
        if day == 1:
            profiles.compact()
    profiles.produce(b'{"name": "newest"}', key=b"person-3")


def _faults(cluster: ConnectedCluster, shop: SmallClient) -> None:
    rule = {
        "name": "moved",
        "when": {"api": ["Produce"], "topic": "orders", "client_id": "web-*"},
        "which": {"times": 2},
        "do": [{"error": "NOT_LEADER_OR_FOLLOWER"}],
    }
    lost = [{"disconnect": True, "applied": True}]
    never = {"name": "lost ack", "when": {"api": ["Produce"], "topic": "order"}, "do": lost}
    cluster.faults.load([rule, never])
    for _ in range(4):
        shop.produce("orders", b'{"id": 41, "state": "placed"}', key=b"customer-1")


def _transaction(stack: ExitStack, cluster: ConnectedCluster) -> None:
    address = _address(cluster, cluster.transaction_coordinator("payments-1"))
    leader = _address(cluster, cluster.leader("payments"))
    producer = stack.enter_context(SmallClient(address, "payments"))
    producer.begin("payments-1", "payments")
    writer = stack.enter_context(SmallClient(leader, "payments"))
    writer.producer = producer.producer
    assert writer.produce("payments", b'{"amount": 100}') == 0
