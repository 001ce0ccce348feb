"""Every public method with a wrong type and a wrong value of each argument: a sentence says what was expected."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

import pytest

from kmini import Broker, BrokerNotRunning, Cluster, ConfigError
from kmini.protocol.errors import (
    InvalidConfig,
    InvalidReplicationFactor,
    InvalidTopic,
    KafkaError,
    RequestTimedOut,
    UnknownTopicOrPartition,
)
from support.for_each import for_each
from support.method_cases import GOOD, METHODS, Case, callers, check_sentence


def test_a_broker_is_paused_cut_off_reconnected_and_restarted_only_where_that_means_something() -> None:
    with Cluster(brokers=2) as cluster:
        with pytest.raises(ValueError, match="broker 1 is neither cut off nor paused"):
            cluster.reconnect(1)
        with pytest.raises(ValueError, match="broker 1 runs"):
            cluster.restart(1)
        cluster.pause(1)
        for method in (cluster.pause, cluster.cut_off):
            with pytest.raises(ValueError, match="broker 1 is cut off or paused already"):
                method(1)
        cluster.reconnect(1)


def test_a_fence_that_was_replaced_does_not_end_a_broker_that_is_back() -> None:
    with Cluster(brokers=2) as cluster:
        cluster.cut_off(1)
        with pytest.raises(ValueError, match="already"):
            cluster.pause(1)
        cluster.reconnect(1)
        cluster.advance_clock("1h", liveness=True)
        assert cluster._operations.core.controller.is_live(1)


def test_a_cluster_whose_brokers_all_died_says_so() -> None:
    with Cluster(brokers=2, topics=["orders"]) as cluster:
        for broker in cluster.brokers():
            cluster.kill(broker)
        told = "no broker of the cluster runs: restart one"
        calls: list[Callable[[], object]] = [
            lambda: cluster.create_topic("more"),
            lambda: cluster.delete_topic("orders"),
            lambda: cluster.produce("orders", b"v"),
            lambda: cluster.wait_for_records("orders", 1),
            lambda: cluster.coordinator("billing"),
            lambda: cluster.transaction_coordinator("billing-1"),
        ]
        for call in calls:
            with pytest.raises(RuntimeError, match=told):
                call()
        for call in (lambda: cluster.records("orders"), lambda: cluster.delete_records("orders")):
            with pytest.raises(KafkaError, match="no broker that runs leads orders-0"):
                call()
        with pytest.raises(RequestTimedOut, match="are in sync"):
            cluster.wait_until_in_sync("orders")
        assert (cluster.brokers(), cluster.leader("orders"), cluster.bootstrap_servers) == ([], -1, "")
        assert cluster.offsets("orders") == {}
        cluster.restart(1)
        cluster.create_topic("more")


@for_each(
    "case",
    [
        case
        for case in METHODS
        if case.path not in ("start", "stop", "close", "topic", "group") and not case.path.endswith(".expect")
    ],
    ids=str,
)
def test_a_method_of_what_does_not_run_says_so(case: Case) -> None:
    hosts: dict[str, Any] = {"broker": Broker(), "cluster": Cluster()}
    needed = [one.name for one in case.parameters if one.default is inspect.Parameter.empty]
    for call in callers(hosts, case):
        with pytest.raises(RuntimeError, match=f"the {case.host} does not run"):
            call(**{name: GOOD[name] for name in needed})


@pytest.mark.parametrize("cls", [Broker, Cluster])
def test_a_topic_that_cannot_be_made_fails_the_start_with_kafkas_error(cls: type) -> None:
    for topics, expected in [
        (["no spaces"], InvalidTopic),
        ({"orders": {"config": {"retenton.ms": 1}}}, InvalidConfig),
        ({"orders": {"replication_factor": 9}}, InvalidReplicationFactor),
    ]:
        host = cls(topics=topics)
        with pytest.raises(expected) as caught:
            host.start()
        check_sentence(caught.value)
        assert host.data_dir is None


def test_errors_and_records_are_imported_from_the_package() -> None:
    from kmini import ControllerError, KafkaError, PortTaken, Record

    assert issubclass(UnknownTopicOrPartition, KafkaError)
    assert issubclass(BrokerNotRunning, KeyError)
    assert all(issubclass(error, Exception) for error in (ConfigError, ControllerError, PortTaken))
    assert Record(0, 0, b"k", b"v").state == "committed"
