"""Misspelt topics, missing partitions and stopped brokers in calls of public methods: errors list the existing ones."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import pytest

from kmini import Broker, BrokerNotRunning, Cluster
from kmini.protocol.errors import (
    InvalidConfig,
    InvalidReplicationFactor,
    InvalidTopic,
    KafkaError,
    OffsetOutOfRange,
    PolicyViolation,
    RequestTimedOut,
    TopicAlreadyExists,
    UnknownTopicOrPartition,
)
from support.for_each import for_each
from support.method_cases import TAKING, Case, arguments, callers, check_documented, check_sentence

TOPIC_METHODS = [
    case
    for case in TAKING
    if any(one.name == "topic" for one in case.parameters) and case.path not in ("produce", "load")
]


NO_TOPIC = re.escape("there is no topic ordres; there are: orders")


@for_each("case", TOPIC_METHODS, ids=str)
def test_a_misspelt_topic_is_told_with_those_that_exist(hosts: dict[str, Any], case: Case) -> None:
    waits = case.path == "wait_for_records" or case.path.endswith(".caught_up")
    expected = RequestTimedOut if waits else UnknownTopicOrPartition
    check_documented(hosts, case, expected)
    for call in callers(hosts, case):
        with pytest.raises(expected, match=NO_TOPIC):
            call(**arguments(case, "topic", "ordres"), **({"timeout_ms": 1} if waits else {}))


@pytest.mark.parametrize(
    "method", ["compact", "roll", "apply_retention", "partitions", "offsets", "records", "delete_records"]
)
def test_a_misspelt_topic_of_a_handle_is_told_with_those_that_exist(hosts: dict[str, Any], method: str) -> None:
    with pytest.raises(UnknownTopicOrPartition, match=NO_TOPIC):
        getattr(hosts["broker"].topic("ordres"), method)()


def test_a_topic_to_be_deleted_or_produced_to_is_told_in_the_same_way(hosts: dict[str, Any]) -> None:
    for host in hosts.values():
        with pytest.raises(UnknownTopicOrPartition, match=NO_TOPIC):
            host.delete_topic("ordres")
    with (
        Broker(config={"auto.create.topics.enable": False}) as broker,
        pytest.raises(UnknownTopicOrPartition) as caught,
    ):
        broker.produce("ordres", b"v")
    assert str(caught.value).endswith("there is no topic ordres; there are none")


def test_of_many_topics_the_most_similar_are_named() -> None:
    names = [*(f"unrelated-{number}" for number in range(20)), "orders"]
    with Broker(topics=names) as broker, pytest.raises(UnknownTopicOrPartition) as caught:
        broker.records("ordres")
    assert re.search(r"there are: orders, .*, and 11 more$", str(caught.value))


def test_internal_topics_are_not_suggested(hosts: dict[str, Any]) -> None:
    hosts["cluster"].coordinator("billing")
    with pytest.raises(UnknownTopicOrPartition, match=r"there are: orders$"):
        hosts["cluster"].records("ordres")


@for_each(
    "case",
    [
        case
        for case in TAKING
        if any(one.name == "partition" for one in case.parameters) and not case.path.endswith("expect")
    ],
    ids=str,
)
def test_a_partition_that_a_topic_does_not_have_is_told_with_those_it_has(hosts: dict[str, Any], case: Case) -> None:
    check_documented(hosts, case, UnknownTopicOrPartition)
    for call in callers(hosts, case):
        with pytest.raises(UnknownTopicOrPartition, match="there is no partition 7 of orders; it has 0 only"):
            call(**arguments(case, "partition", 7))


@pytest.mark.parametrize(
    "case", [case for case in TAKING if any(one.name in ("broker", "to") for one in case.parameters)], ids=str
)
def test_a_broker_that_the_cluster_does_not_have_is_told_with_those_that_run(hosts: dict[str, Any], case: Case) -> None:
    name = next(one.name for one in case.parameters if one.name in ("broker", "to"))
    check_documented(hosts, case, BrokerNotRunning)
    for call in callers(hosts, case):
        with pytest.raises(BrokerNotRunning) as caught:
            call(**arguments(case, name, 9))
        has = "the cluster has 1, 2, of which run: 1, 2" if case.host == "cluster" else "this one is 1"
        assert str(caught.value) == f"there is no broker 9; {has}"


def test_a_broker_that_does_not_run_is_told_with_those_that_do() -> None:
    with Cluster(brokers=2) as cluster:
        cluster.kill(2)
        for method in (cluster.kill, cluster.pause, cluster.hold, cluster.address_of, cluster.reconnect):
            with pytest.raises(KeyError, match="broker 2 does not run; there run: 1"):
                method(2)


def test_what_breaks_a_rule_of_kafkas_has_kafkas_error_with_a_sentence(hosts: dict[str, Any]) -> None:
    for host in hosts.values():
        calls: list[tuple[type[KafkaError], Callable[[], object]]] = [
            (TopicAlreadyExists, lambda host=host: host.create_topic("orders")),  # type: ignore[misc]
            (InvalidTopic, lambda host=host: host.create_topic("no spaces")),  # type: ignore[misc]
            (InvalidTopic, lambda host=host: host.create_topic("")),  # type: ignore[misc]
            (InvalidTopic, lambda host=host: host.produce("a/b", b"v")),  # type: ignore[misc]
            (InvalidConfig, lambda host=host: host.create_topic("t", config={"retention.ms": "x"})),  # type: ignore[misc]
            (InvalidConfig, lambda host=host: host.create_topic("t", config={"retenton.ms": 1})),  # type: ignore[misc]
            (InvalidReplicationFactor, lambda host=host: host.create_topic("t", replication_factor=3)),  # type: ignore[misc]
            (OffsetOutOfRange, lambda host=host: host.delete_records("orders", 99)),  # type: ignore[misc]
        ]
        for expected, call in calls:
            with pytest.raises(expected) as caught:
                call()
            check_sentence(caught.value)
    with pytest.raises(PolicyViolation, match=r"cleanup\.policy of orders is not compact"):
        hosts["broker"].compact("orders")
