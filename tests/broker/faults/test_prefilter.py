"""The cheap look lets pass what no rule can mean, and stops everything that a rule may mean."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from kmini import Broker
from kmini.broker.faults.prefilter import Screen
from kmini.protocol import messages as m
from kmini.protocol.schema import Request
from kmini.testing import Wire
from support.fault_rules import fetch, produce, produce_request, rule


def stops(api: str, request: Request, *whens: dict[str, Any], client_id: str | None = "app-1") -> bool:
    """Whether a screen of these rules stops a request, after the first ones."""
    screen = Screen(api, [rule(api, **when).when for when in whens])
    screen.looks = 0
    context: Any = SimpleNamespace(client_id=client_id)
    stopped = screen.stops(request, context)
    assert screen.passed == (not stopped)
    assert screen.look()(request, context) == stopped, "the quick look"
    return stopped


def by_id(api: str) -> Request:
    if api == "Produce":
        Topic = m.ProduceRequest.Topic
        return m.ProduceRequest(acks=1, timeout_ms=1, topic_data=[Topic(topic_id=b"1" * 16, partition_data=[])])
    request = fetch("")
    request.topics[0].topic_id = b"1" * 16
    return request


@pytest.mark.parametrize("api", ["Produce", "Fetch"])
def test_requests_about_other_topics_and_of_other_clients_pass(api: str) -> None:
    request = produce_request("orders") if api == "Produce" else fetch("orders")
    assert not stops(api, request, {"topic": "other"})
    assert not stops(api, request, {"client_id": "web-*"}, {"topic": "other"})
    assert not stops(api, request, {"client_id": "web-*", "topic": "orders"})
    assert stops(api, request, {"topic": "orders"}, {"topic": "other"})
    assert stops(api, request, {"topic": "other"}, {"topic": "orders"})
    assert stops(api, request, {"client_id": "app-*"})
    assert stops(api, request, {"client_id": "app-*", "topic": "orders"})
    assert stops(api, request, {"topic": "ord*"})
    assert stops(api, request, {"version": ">3"})
    assert stops(api, by_id(api), {"topic": "other"})


@pytest.mark.parametrize("api", ["Produce", "Fetch"])
def test_each_topic_of_a_request_is_looked_at(api: str) -> None:
    request = produce_request("orders", "other") if api == "Produce" else fetch("orders")
    if api == "Fetch":
        request.topics += fetch("other").topics
    assert stops(api, request, {"topic": "orders"})
    assert stops(api, request, {"topic": "other"})
    assert not stops(api, request, {"topic": "third"})


def test_a_fetch_of_a_session_is_looked_at_because_it_reads_more_than_it_names() -> None:
    request = fetch("orders")
    request.session_id, request.session_epoch = 1, 2
    assert stops("Fetch", request, {"topic": "other"})


def test_other_apis_are_told_apart_by_their_client() -> None:
    request = m.HeartbeatRequest(group_id="billing", generation_id=1, member_id="m")
    assert not stops("Heartbeat", request, {"client_id": "web"})
    assert stops("Heartbeat", request, {"group": "other"})
    assert stops("Heartbeat", request, {}, client_id=None)


def test_the_names_of_clients_that_a_screen_remembers_are_bounded() -> None:
    screen = Screen("Produce", [rule(client_id="web-*").when])
    screen.looks = 0
    for number in range(2_500):
        context: Any = SimpleNamespace(client_id=f"app-{number}")
        assert not screen.stops(produce_request(), context)
    assert len(screen._by_client) <= 1_000


@pytest.mark.sockets
def test_requests_that_pass_are_counted_beside_the_nearest_miss(broker: Broker, wire: Wire) -> None:
    broker.faults.on("Produce", topic="ordres", name="lost").drop()
    for _ in range(120):
        wire.ask(produce("orders"), 9)
    with pytest.raises(AssertionError) as missed:
        broker.faults.assert_all_hit()
    assert "120 Produce requests came; nearest, 100 of the first 100: topic was 'orders'" in str(missed.value)


@pytest.mark.sockets
def test_a_rule_acts_also_after_many_requests_have_passed(broker: Broker, wire: Wire) -> None:
    broker.faults.on("Produce", topic="orders", client_id="other").drop()
    rule = broker.faults.on("Produce", topic="other").error("NOT_LEADER_OR_FOLLOWER")
    for _ in range(120):
        wire.ask(produce("orders"), 9)
    answer = wire.ask(produce("other"), 9)
    assert answer.responses[0].partition_responses[0].error_code == 6
    rule.assert_hit(times=1)
