"""Each story is a documented method of `broker.faults`, and one rule that says what it tells."""

from __future__ import annotations

import inspect
from typing import Any

import pytest

from kmini import Broker
from kmini.broker.faults.rule_checks import rule_from_json
from kmini.testing import ConnectionClosed, Wire
from kmini.testkit.fault_stories import FaultStories
from support.fault_rules import ALL_APIS, codes_of, produce

pytestmark = pytest.mark.sockets

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
STORIES = [name for name in vars(FaultStories) if name[0] != "_"]
OF_COORDINATORS = ["no_coordinator", "coordinator_load_in_progress", "coordinator_moved"]


class Documents(FaultStories[dict[str, Any]]):
    def _load_one(self, document: dict[str, Any]) -> dict[str, Any]:
        return document


def document(name: str, **given: Any) -> dict[str, Any]:
    """The rule of a story, with these arguments in place of the usual ones."""
    story = getattr(Documents(), name)
    return dict(story(**{key: (GIVEN | given)[key] for key in inspect.signature(story).parameters}))


@pytest.mark.parametrize("name", STORIES)
def test_every_story_is_documented(name: str) -> None:
    assert inspect.getdoc(getattr(FaultStories, name))


@pytest.mark.parametrize("name", STORIES)
def test_a_story_is_a_rule_of_its_name(name: str) -> None:
    given = {"transactional_id": None} if name in OF_COORDINATORS else {}
    rule = rule_from_json(document(name, **given), ALL_APIS)
    assert rule.name.partition(" ")[0] == name
    assert rule_from_json(rule.to_json(), ALL_APIS) == rule


@pytest.mark.parametrize("name", OF_COORDINATORS)
def test_a_coordinator_is_that_of_a_group_or_of_a_transactional_id(name: str) -> None:
    of_group = rule_from_json(document(name, transactional_id=None), ALL_APIS)
    assert (of_group.name, of_group.when.group) == (f"{name} billing", "billing")
    of_transactions = rule_from_json(document(name, group=None), ALL_APIS)
    assert (of_transactions.name, of_transactions.when.transactional_id) == (f"{name} payments", "payments")
    for given in ({}, {"group": None, "transactional_id": None}):
        with pytest.raises(ValueError, match=f"{name} needs a group or a transactional id"):
            document(name, **given)


def test_a_story_puts_its_rule_in_force() -> None:
    with Broker() as broker:
        rule = broker.faults.stale_leader("orders", leader=1, epoch=0, times=2)
        assert [one.name for one in broker.faults.rules()] == [rule.name] == ["stale_leader orders"]
        assert rule.to_json()["do"] == [{"leader": 1, "epoch": 0}]


def test_a_leader_that_moved_is_told_and_nothing_is_written() -> None:
    with Broker(topics=["orders", "other"]) as broker, Wire(broker.bootstrap_servers) as wire:
        rule = broker.faults.leader_moved("orders", times=2)
        for code in (6, 6, 0):
            assert codes_of(wire.ask(produce("orders", "other"), 9)) == {"orders": code, "other": 0}
        rule.assert_hit(times=2)


def test_an_outage_ends_connections_for_its_time() -> None:
    with Broker(topics=["orders", "other"]) as broker:
        rule = broker.faults.outage(for_ms="10s")
        with Wire(broker.bootstrap_servers) as wire, pytest.raises(ConnectionClosed):
            wire.ask(produce("orders"), 9)
        broker.clock.advance("10s", liveness=True)
        with Wire(broker.bootstrap_servers) as wire:
            assert codes_of(wire.ask(produce("orders"), 9)) == {"orders": 0}
        rule.assert_hit(times=1)
