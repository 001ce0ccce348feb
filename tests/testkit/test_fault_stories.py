"""The stories that have a name are methods of `broker.faults`, and each puts its rule in force."""

from __future__ import annotations

import inspect

import pytest

from kmini import Broker
from kmini.broker.faults import recipes
from kmini.testkit.fault_stories import FaultStories

STORIES = [name for name, function in vars(recipes).items() if inspect.isfunction(function) and name[0] != "_"]


@pytest.mark.parametrize("name", STORIES)
def test_every_story_is_a_documented_method(name: str) -> None:
    assert inspect.getdoc(getattr(FaultStories, name))


def test_every_method_is_a_story() -> None:
    assert {name for name in vars(FaultStories) if name[0] != "_"} == {*STORIES}


def test_a_story_puts_its_rule_in_force() -> None:
    with Broker() as broker:
        rule = broker.faults.stale_leader("orders", leader=1, epoch=0, times=2)
        assert [one.name for one in broker.faults.rules()] == [rule.name] == ["stale_leader orders"]
        assert rule.to_json()["do"] == [{"leader": 1, "epoch": 0}]
