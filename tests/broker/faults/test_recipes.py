"""Each story is one rule that says what it tells."""

from __future__ import annotations

import inspect
from typing import Any

import pytest

from kmini import Broker
from kmini.broker.faults import recipes
from kmini.broker.faults.rule_checks import rule_from_json
from kmini.testing import ConnectionClosed, Wire
from support.fault_rules import ALL_APIS, codes_of, produce

GIVEN: dict[str, Any] = {
    "topic": "orders",
    "group": "billing",
    "transactional_id": "payments",
    "client_id": "app-*",
    "partition": None,
    "broker": 1,
    "times": 2,
    "leader": 1,
    "epoch": 0,
    "for_ms": "2s",
    "until": None,
    "delay": "10ms",
}
STORIES = {
    name: function for name, function in vars(recipes).items() if inspect.isfunction(function) and name[0] != "_"
}


@pytest.mark.parametrize("name", STORIES)
def test_a_story_is_a_rule_of_its_name(name: str) -> None:
    story = STORIES[name]
    rule = rule_from_json(story(**{key: GIVEN[key] for key in inspect.signature(story).parameters}), ALL_APIS)
    assert rule.name.partition(" ")[0] == name
    assert rule_from_json(rule.to_json(), ALL_APIS) == rule


def test_a_leader_that_moved_is_told_and_nothing_is_written(broker: Broker, wire: Wire) -> None:
    rule = broker.faults.leader_moved("orders", times=2)
    for code in (6, 6, 0):
        assert codes_of(wire.ask(produce("orders", "other"), 9)) == {"orders": code, "other": 0}
    rule.assert_hit(times=2)


def test_an_outage_ends_connections_for_its_time(broker: Broker) -> None:
    rule = broker.faults.outage(for_ms="10s")
    with Wire(broker.bootstrap_servers) as wire, pytest.raises(ConnectionClosed):
        wire.ask(produce("orders"), 9)
    broker.clock.advance("10s", liveness=True)
    with Wire(broker.bootstrap_servers) as wire:
        assert codes_of(wire.ask(produce("orders"), 9)) == {"orders": 0}
    rule.assert_hit(times=1)
