"""One rule in force: it holds requests, counts, and tells what it has met."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from kmini import Broker, KafkaError
from kmini.broker.faults.active_rule import ActiveRule, wait_at
from kmini.protocol import messages as m
from kmini.testing import Wire
from support.fault_rules import rule
from support.until import until

pytestmark = pytest.mark.sockets


def test_held_requests_go_on_in_their_order_when_they_are_released(broker: Broker) -> None:
    wires = [Wire(broker.bootstrap_servers) for _ in range(3)]
    with broker.faults.on("ListGroups").hold() as held:
        for count, wire in enumerate(wires, 1):
            wire.send(m.ListGroupsRequest(), 2)
            held.arrived(count)
        assert len(held.blocked) == 3
        assert held.blocked[0].startswith("ListGroups of wire (127.0.0.1:")
        assert held.release(1) == 1
        assert len(held.blocked) == 2
        assert held.release() == 2
        assert held.blocked == []
    for wire in wires:
        wire.close()


def test_a_client_that_leaves_is_held_no_more(broker: Broker) -> None:
    held = broker.faults.on("ListGroups").hold()
    with Wire(broker.bootstrap_servers) as wire:
        wire.send(m.ListGroupsRequest(), 2)
        held.arrived()
    until(lambda: not held.blocked)


def test_a_rule_that_is_removed_lets_its_requests_go_on(broker: Broker, wire: Wire) -> None:
    with broker.faults.on("ListGroups").hold(when="after") as held:
        wire.send(m.ListGroupsRequest(), 2)
        held.arrived()
    until(lambda: held.blocked == [])


async def test_the_delays_of_all_rules_at_one_place_add_up() -> None:
    waits: list[int] = []

    async def wait(operation: object, timeout_ms: int) -> None:
        waits.append(timeout_ms)

    exchange: Any = SimpleNamespace(context=SimpleNamespace(wait=wait))
    rules = [
        ActiveRule(rule(name=f"rule {number}", do=do), seed=1, now_ms=lambda: 0)
        for number, do in enumerate(([{"delay": 10}, {"delay": 20}], [{"delay": 5}, {"delay": 7, "when": "after"}]))
    ]
    for place in ("before", "after"):
        await wait_at(place, exchange, rules)
    assert waits == [35, 7]


def test_waiting_for_a_rule_that_does_not_act_tells_the_nearest_miss(broker: Broker, wire: Wire) -> None:
    rule = broker.faults.on("ListGroups", client_id="app", name="held up").hold()
    wire.ask(m.ListGroupsRequest(), 2)
    with pytest.raises(KafkaError) as late:
        rule.arrived(timeout_ms=1)
    assert "fault rule 'held up' did not hold 1 request after 1 ms; it never acted: 1 ListGroups request came" in str(
        late.value
    )
    assert "client_id was 'wire', the rule says client_id 'app'" in str(late.value)
    with pytest.raises(KafkaError):
        rule.wait_hit(timeout_ms=1)


def test_an_assertion_about_hits_tells_how_often_the_rule_acted(broker: Broker, wire: Wire) -> None:
    rule = broker.faults.on("ListGroups", name="slow").once().delay(0)
    with pytest.raises(AssertionError, match="fault rule 'slow' never acted: no request that it is about came"):
        rule.assert_hit()
    rule.assert_hit(times=0)
    for _ in range(2):
        wire.ask(m.ListGroupsRequest(), 2)
    rule.assert_hit()
    rule.assert_hit(times=1)
    with pytest.raises(AssertionError, match="was to act 2 times: it acted once on 2 requests that it means"):
        rule.assert_hit(times=2)


def test_a_rule_that_is_skipped_says_so(broker: Broker, wire: Wire) -> None:
    rule = broker.faults.on("ListGroups", name="late").skip(3).delay(0)
    wire.ask(m.ListGroupsRequest(), 2)
    with pytest.raises(AssertionError, match="never acted: it means 1 request that came, but skip is 3"):
        rule.assert_hit()
