"""Fault rules as JSON: put in force, told of with what they met, and taken back."""

from __future__ import annotations

import threading
from typing import Any

import pytest

from kmini.protocol import messages as m
from kmini.testing import Wire
from support.control_api import ControlApi

METADATA = {"when": {"api": ["Metadata"]}}


def rule(name: str | None = None, **do: Any) -> dict[str, Any]:
    """A rule about Metadata; by default it fails the request."""
    document: dict[str, Any] = {**METADATA, "do": [do or {"error": "UNKNOWN_SERVER_ERROR"}]}
    return document if name is None else {"name": name, **document}


def load(api: ControlApi, *rules: dict[str, Any], **more: Any) -> list[str]:
    return [status["name"] for status in api.done("POST", "/faults", {"rules": rules, **more})]


def names(api: ControlApi) -> list[str]:
    return [status["name"] for status in api.done("GET", "/faults")]


def ask(api: ControlApi) -> None:
    """One request that the rules mean."""
    with Wire(api.any_broker.address) as wire:
        wire.ask(m.MetadataRequest(topics=None), 12)


def test_a_rule_tells_what_it_has_met(api: ControlApi) -> None:
    load(api, rule("lost"))
    before = api.done("GET", "/faults/lost")
    assert (before["hits"], before["seen"], before["held"]) == (0, 0, [])
    assert before["why"]
    ask(api)
    after = api.done("GET", "/faults/lost")
    assert (after["hits"], after["seen"], after["why"]) == (1, 1, "")
    assert "acted" in after["summary"]
    assert api.done("POST", "/faults/lost/wait-hit", {"count": 1}) is None
    assert api.done("POST", "/faults/assert-all-hit") is None


def test_the_json_of_a_rule_makes_the_same_rule(api: ControlApi) -> None:
    load(api, rule("lost"))
    told = api.done("GET", "/faults/lost")["rule"]
    api.done("PUT", "/faults", {"rules": [told]})
    assert api.done("GET", "/faults/lost")["rule"] == told


def test_a_rule_without_a_name_gets_one_that_is_free(api: ControlApi) -> None:
    first, second = load(api, rule())[0], load(api, rule())[0]
    assert first != second
    assert names(api) == [first, second]


def test_a_taken_name_is_replaced_or_refused(api: ControlApi) -> None:
    load(api, rule("lost"))
    load(api, rule("lost", drop=True))
    assert api.done("GET", "/faults/lost")["rule"]["do"] == [{"drop": True}]
    problem = api.problem("POST", "/faults", {"rules": [rule("other"), rule("lost")], "replaces": False})
    assert "lost" in problem["detail"]
    assert names(api) == ["lost"]


def test_put_replaces_all_rules_and_is_the_same_twice(api: ControlApi) -> None:
    load(api, rule("one"), rule("two"))
    for _ in range(2):
        api.done("PUT", "/faults", {"rules": [rule("three")]})
        assert names(api) == ["three"]
    api.done("PUT", "/faults", {"rules": []})
    assert names(api) == []


@pytest.mark.parametrize("verb", ["POST", "PUT"])
@pytest.mark.parametrize(
    ("wrong", "told"),
    [
        ({**METADATA, "do": [{"error": "NOT_LEADER"}]}, "rules[1]"),
        ({**METADATA, "on": "x", "do": []}, "a rule has no 'on'"),
        ({"when": {"api": ["Nothing"]}, "do": [{"drop": True}]}, "Nothing"),
        ({**METADATA, "do": "drop"}, "must be a list of acts"),
    ],
)
def test_a_wrong_rule_is_refused_with_its_place_and_changes_nothing(
    api: ControlApi, verb: str, wrong: dict[str, Any], told: str
) -> None:
    load(api, rule("kept"))
    problem = api.problem(verb, "/faults", {"rules": [rule("good"), wrong]})
    assert problem["status"] == 422
    assert told in problem["detail"]
    assert "rules[1]" in problem["detail"]
    assert problem["errors"] == [{"pointer": "/rules/1", "message": problem["detail"]}]
    assert names(api) == ["kept"]


def test_a_rule_that_is_not_there_is_told_with_those_that_are(api: ControlApi) -> None:
    load(api, rule("lost"))
    for verb, path in (("GET", ""), ("DELETE", ""), ("POST", "/release"), ("POST", "/wait-hit")):
        problem = api.problem(verb, f"/faults/missing{path}")
        assert (problem["status"], problem["kafka_error"]) == (404, "RESOURCE_NOT_FOUND")
        assert problem["detail"] == "there is no fault rule missing; there are: lost"


def test_a_removed_rule_tells_what_it_had_met(api: ControlApi) -> None:
    load(api, rule("lost"))
    ask(api)
    assert api.done("DELETE", "/faults/lost")["hits"] == 1
    assert names(api) == []


def test_a_held_request_is_told_and_released(api: ControlApi) -> None:
    load(api, rule("gate", hold="before"))
    client = threading.Thread(target=ask, args=[api])
    client.start()
    api.done("POST", "/faults/gate/wait-arrived", {"count": 1, "timeout_ms": 60_000})
    assert len(api.done("GET", "/faults/gate")["held"]) == 1
    assert "gate" in api.done("GET", "/faults/held")[0]
    assert api.done("POST", "/faults/gate/release") == 1
    client.join(60)
    assert not client.is_alive()
    assert api.done("GET", "/faults/held") == []


def test_a_rule_that_never_acted_fails_the_assertion(api: ControlApi) -> None:
    load(api, rule("lost"))
    problem = api.problem("POST", "/faults/assert-all-hit")
    assert (problem["type"], problem["status"]) == ("urn:kmini:problem:assertion", 417)
    assert "lost" in problem["detail"]
    assert len(api.done("GET", "/faults/unhit")) == 1
    assert api.problem("POST", "/faults/lost/wait-hit", {"timeout_ms": 0})["status"] == 408
