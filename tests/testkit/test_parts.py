"""What a broker and a cluster give: the same names, signatures and docstrings, blocking and to be awaited."""

from __future__ import annotations

import inspect
from typing import Any

import pytest

import kmini
from kmini import AsyncBroker, AsyncCluster, Broker, Cluster
from kmini.testkit.parts import AsyncParts, Parts

PAIRS = [
    (getattr(kmini, name), getattr(kmini, f"Async{name}")) for name in kmini.__all__ if f"Async{name}" in kmini.__all__
]
"""Each public class whose methods block, with the one whose methods are awaited."""

ONLY_OF_A_CLUSTER = {
    "address_of": "a broker has one address",
    "coordinator": "a broker coordinates all groups",
    "cut_off": "a broker has no others from which it could be cut off",
    "hold": "a broker follows no leader",
    "isr": "a broker has no followers",
    "kill": "a broker has `crash`, which starts it again, and `stop`",
    "restart": "a broker has `start`",
    "leader": "a broker leads all partitions",
    "limit_fetch_version": "a broker follows no leader",
    "move_coordinator": "a broker coordinates all groups",
    "move_leader": "a broker has no followers",
    "move_transaction_coordinator": "a broker coordinates all transactions",
    "release": "a broker follows no leader",
    "replicas": "a broker has no followers",
    "stop_broker": "it is `stop` of a broker",
    "transaction_coordinator": "a broker coordinates all transactions",
    "wait_until_in_sync": "a broker has no followers",
}
"""The names of a cluster that would mean nothing on a broker, with the reason."""

DIFFERENT = {
    "pause": "a cluster is told which broker",
    "reconnect": "a cluster is told which broker",
    "create_topic": "the order of its arguments was published",
    "metrics_text": "a cluster is asked for one broker",
    "offsets": "a cluster tells those of each replica",
}
"""The names that a broker and a cluster have with other signatures, with the reason."""


def members(cls: type) -> dict[str, Any]:
    """The public methods and properties of a class, properties as their getters."""
    found = {name: inspect.getattr_static(cls, name) for name in dir(cls) if not name.startswith("_")}
    return {name: one.fget if isinstance(one, property) else one for name, one in found.items()}


def parameters(function: Any) -> list[inspect.Parameter]:
    return [*inspect.signature(function).parameters.values()][1:]


@pytest.mark.parametrize(("blocking", "awaiting"), PAIRS, ids=lambda cls: cls.__name__)
def test_what_is_awaited_has_the_names_signatures_and_docstrings_of_what_blocks(blocking: type, awaiting: type) -> None:
    blocks, awaits = members(blocking), members(awaiting)
    assert blocks.keys() == awaits.keys()
    for name in blocks.keys() - {"aio"}:  # what is awaited gives itself
        method = blocks[name]
        if not inspect.isfunction(method):
            assert method == awaits[name], name
            continue
        assert parameters(method) == parameters(awaits[name]), name
        mine, other = inspect.getdoc(method), inspect.getdoc(awaits[name])
        assert mine == other or other == f"See `Host.{name}`.", name
        assert mine, name


def test_every_handle_has_a_blocking_and_an_awaiting_class_under_public_names() -> None:
    broker = Broker()
    for host, parts in ((broker, Parts), (broker.aio, AsyncParts)):
        for name, member in vars(parts).items():
            if isinstance(member, property):
                cls = type(getattr(host, name))
                assert getattr(kmini, cls.__name__) is cls
                assert cls.__name__.startswith("Async") == (parts is AsyncParts)


@pytest.mark.parametrize(("broker", "cluster"), [(Broker, Cluster), (AsyncBroker, AsyncCluster)])
def test_a_cluster_has_what_a_broker_has(broker: type, cluster: type) -> None:
    one, several = members(broker), members(cluster)
    assert several.keys() - one.keys() == ONLY_OF_A_CLUSTER.keys()
    assert one.keys() - several.keys() == set()
    for name in one.keys() - DIFFERENT.keys():
        if inspect.isfunction(one[name]) and name not in ("start", "stop", "close"):
            assert parameters(one[name]) == parameters(several[name]), name


def test_a_cluster_has_the_options_of_a_broker() -> None:
    one, several = parameters(Broker.__init__), parameters(Cluster.__init__)
    only_of_a_cluster = {"brokers", "racks"}
    assert {option for option in several if option.name not in only_of_a_cluster} == {*one}


def test_the_options_of_a_cluster_do_what_those_of_a_broker_do() -> None:
    with Cluster(brokers=2, as_version="3.9", timestamps="append") as cluster:
        assert cluster.topic("orders").produce(b"v", timestamp_ms=1).timestamp > 1
        configs = [broker.config.current for broker in cluster._operations.running]
        assert [config.kmini_as_version for config in configs] == ["3.9", "3.9"]


def test_the_handles_of_a_cluster_do_what_those_of_a_broker_do(hosts: dict[str, Any]) -> None:
    for host in hosts.values():
        host.create_topic("handled", config={"cleanup.policy": "compact"})
        for value in (b"1", b"2"):
            host.produce("handled", value, key=b"k")
        (report,) = host.topic("handled").compact()
        assert report.end_offset == 2
        assert [record.value for record in host.records("handled")] == [b"2"]
        host.topic("handled").roll()
        host.topic("handled").apply_retention()
        host.apply_retention()
        assert "kafka_" in host.metrics_text()
