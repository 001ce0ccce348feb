"""Rules come into force, end, and leave no trace."""

from __future__ import annotations

from typing import Any

import pytest

from kmini import Broker, Cluster
from kmini.protocol import messages as m
from kmini.testing import Wire
from support.fault_rules import codes_of, fetch, produce
from support.until import until

pytestmark = pytest.mark.sockets


def core(broker: Broker) -> Any:
    return broker._operations.any_broker()


def test_no_rule_is_no_interceptor_no_gate_and_no_trace_in_the_file_system(broker: Broker) -> None:
    services, server, logs = core(broker).services, core(broker).server, core(broker).logs
    sound = [*services.interceptors], server.gate, type(logs.filesystem)
    for arm in (
        lambda: broker.faults.on("Produce").drop(),
        lambda: broker.faults.on("connect").refuse(),
        lambda: broker.faults.on("disk").full(),
    ):
        with arm():
            assert ([*services.interceptors], server.gate, type(logs.filesystem)) != sound
        assert ([*services.interceptors], server.gate, type(logs.filesystem)) == sound


def test_a_rule_ends_with_the_first_request_of_an_api(broker: Broker, wire: Wire) -> None:
    rule = broker.faults.on("Produce").until("ListGroups").error("REQUEST_TIMED_OUT")
    for _ in range(2):
        assert codes_of(wire.ask(produce("orders"), 9)) == {"orders": 7}
    wire.ask(m.ListGroupsRequest(), 2)
    assert codes_of(wire.ask(produce("orders"), 9)) == {"orders": 0}
    assert (rule.hits, rule.seen) == (2, 3)


def test_a_rule_ends_with_its_time(broker: Broker, wire: Wire) -> None:
    broker.faults.on("Produce").for_("10s").error("REQUEST_TIMED_OUT")
    assert codes_of(wire.ask(produce("orders"), 9)) == {"orders": 7}
    broker.clock.advance("10s", liveness=True)
    assert codes_of(wire.ask(produce("orders"), 9)) == {"orders": 0}


def test_loading_rules_replaces_those_of_the_same_names_and_a_second_one_of_a_name_is_refused(broker: Broker) -> None:
    rule = {"name": "lost", "when": {"api": ["Produce"]}, "do": [{"drop": True}]}
    broker.faults.load([rule])
    broker.faults.load([{**rule, "do": [{"error": "REQUEST_TIMED_OUT"}]}])
    assert [one.to_json()["do"] for one in broker.faults.rules()] == [[{"error": "REQUEST_TIMED_OUT"}]]
    with pytest.raises(ValueError, match="there is a fault rule 'lost' already"):
        broker.faults.on("Fetch", name="lost").drop()


def test_a_list_with_a_wrong_rule_changes_nothing(broker: Broker) -> None:
    good = {"name": "good", "when": {"api": ["Produce"]}, "do": [{"drop": True}]}
    with pytest.raises(ValueError, match=r"rules\[1\]"):
        broker.faults.load([good, {**good, "name": "bad", "do": [{"error": "NONE"}]}])
    assert broker.faults.rules() == []


def test_rules_about_all_apis_act_on_each(broker: Broker, wire: Wire) -> None:
    rule = broker.faults.on("*").delay(0)
    wire.ask(produce("orders"), 9)
    wire.ask(fetch(), 12)
    assert rule.hits == 2


def test_a_rule_that_nothing_came_near_tells_what_came(broker: Broker, wire: Wire) -> None:
    broker.faults.on("Produce", name="lost ack").drop()
    for _ in range(2):
        wire.ask(m.ListGroupsRequest(), 2)
    with pytest.raises(AssertionError) as missed:
        broker.faults.assert_all_hit()
    assert str(missed.value) == (
        "fault rule 'lost ack' never acted: no request that it is about came; 2 ListGroups came"
    )


def test_rules_stay_in_force_when_a_broker_starts_again() -> None:
    with Broker(topics=["orders"]) as broker:
        rule = broker.faults.on("Produce").error("REQUEST_TIMED_OUT")
        broker.stop()
        broker.start()
        with Wire(broker.bootstrap_servers) as wire:
            assert codes_of(wire.ask(produce("orders"), 9)) == {"orders": 7}
        assert rule.hits == 1


def test_a_rule_is_about_one_broker_of_a_cluster_and_not_about_its_followers() -> None:
    topics = {"orders": {"partitions": 1, "replication_factor": 2}}
    with Cluster(brokers=2, topics=topics) as cluster:
        leader = cluster.leader("orders")
        follower = 3 - leader
        fetches = cluster.faults.on("Fetch").error("OFFSET_OUT_OF_RANGE")
        elsewhere = cluster.faults.on("Produce", broker=follower).error("REQUEST_TIMED_OUT")
        here = cluster.faults.on("Produce", broker=leader).once().error("NOT_ENOUGH_REPLICAS")
        with Wire(cluster.address_of(leader)) as wire:
            assert codes_of(wire.ask(produce("orders", acks=-1), 9)) == {"orders": 19}
            assert codes_of(wire.ask(produce("orders", acks=-1), 9)) == {"orders": 0}
        assert (fetches.hits, elsewhere.hits, here.hits) == (0, 0, 1)
        with pytest.raises(ValueError, match="there is no broker 9; there are: 1, 2"):
            cluster.faults.on("Produce", broker=9).drop()


def test_rules_act_on_a_broker_of_a_cluster_that_starts_again() -> None:
    with Cluster(brokers=2, topics={"orders": {"partitions": 1, "replication_factor": 2}}) as cluster:
        rule = cluster.faults.on("ListGroups").error("COORDINATOR_NOT_AVAILABLE")
        cluster.stop_broker(1)
        cluster.restart(1)
        with Wire(cluster.address_of(1)) as wire:
            assert wire.ask(m.ListGroupsRequest(), 2).error_code == 15
        until(lambda: rule.hits == 1)
