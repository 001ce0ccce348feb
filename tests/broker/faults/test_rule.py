"""A rule is data: its JSON makes the same rule again."""

from __future__ import annotations

import json
from typing import Any

import pytest

from kmini.broker.faults.rule_checks import rule_from_json
from support.fault_rules import ALL_APIS, rule

WHOLE: dict[str, Any] = {
    "name": "lost-ack",
    "when": {
        "api": ["Produce"],
        "topic": "orders",
        "partition": 0,
        "client_id": "order-*",
        "version": "<9",
        "broker": 1,
    },
    "which": {"skip": 1, "times": 1, "for": 10_000, "until": "EndTxn", "probability": 0.5, "seed": 7},
    "do": [{"delay": 100, "jitter": 50}, {"disconnect": True, "applied": True, "rst": True}],
}


def test_a_rule_comes_back_from_its_json_as_it_was() -> None:
    made = rule_from_json(WHOLE, ALL_APIS)
    assert made.to_json() == WHOLE
    assert rule_from_json(json.loads(json.dumps(made.to_json())), ALL_APIS) == made


def test_options_of_an_act_may_stand_inside_and_durations_may_be_text() -> None:
    document = {**WHOLE, "do": [{"delay": "100ms", "jitter": "50ms"}, {"disconnect": {"applied": True, "rst": True}}]}
    document["which"] = {**WHOLE["which"], "for": "10s"}
    assert rule_from_json(document, ALL_APIS) == rule_from_json(WHOLE, ALL_APIS)


def test_json_leaves_out_what_a_rule_does_not_say() -> None:
    assert rule(do=[{"error": "REQUEST_TIMED_OUT"}]).to_json() == {
        "name": "rule",
        "when": {"api": ["Produce"]},
        "do": [{"error": "REQUEST_TIMED_OUT"}],
    }
    assert rule(which={"on_call": 3}).to_json()["which"] == {"on_call": [3]}


def test_a_rule_with_a_python_function_has_no_json() -> None:
    with pytest.raises(ValueError, match="for Python only"):
        rule(where=lambda asked: True).to_json()
    with pytest.raises(ValueError, match="for Python only"):
        rule(do=[{"respond": lambda request, answer: answer}]).to_json()


def test_a_rule_tells_itself() -> None:
    assert str(rule(topic="orders", do=[{"drop": True}], name="lost")) == "lost (Produce, topic='orders': drop)"


@pytest.mark.parametrize(("api", "target"), [("connect", "connect"), ("disk", "disk"), ("*", "request")])
def test_a_rule_is_about_requests_connections_or_the_disk(api: str, target: str) -> None:
    act = {"connect": {"refuse": True}, "disk": {"disk": "full"}, "request": {"drop": True}}[target]
    assert rule(api, do=[act]).when.target == target
