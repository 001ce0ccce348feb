"""Rules about the schema registry: what they may say. What they do is in
tests/registry/test_observed_requests.py."""

from __future__ import annotations

from typing import Any

import pytest

from kmini.broker.faults.registry_rules import status_of
from kmini.broker.faults.rule_checks import Possible, rule_from_json
from kmini.broker.handlers import HANDLERS

CAN = Possible({}, [1])


def rule(do: Any, **when: Any) -> dict[str, Any]:
    return {"when": {"api": "registry", **when}, "do": [do]}


@pytest.mark.parametrize(
    "do",
    [
        {"error": "40901"},
        {"error": "503", "message": "down"},
        {"error": "42201", "applied": True},
        {"delay": 200, "when": "after"},
        {"hold": "before"},
        {"drop": True},
        {"disconnect": True, "rst": True},
        {"silent": True},
    ],
)
def test_a_rule_is_the_same_in_json_again(do: Any) -> None:
    document = rule(do, method="POST", subject="orders-*", client_id="python*")
    made = rule_from_json(document, CAN)
    assert rule_from_json(made.to_json(), CAN) == made
    assert made.when.target == "registry"
    assert (made.when.method, made.when.subject) == ("POST", "orders-*")


def test_a_number_is_an_error_too() -> None:
    assert rule_from_json(rule({"error": 40901}), CAN) == rule_from_json(rule({"error": "40901"}), CAN)


@pytest.mark.parametrize(
    ("document", "told"),
    [
        (rule({"error": "NOT_COORDINATOR"}), "the schema registry cannot answer NOT_COORDINATOR"),
        (rule({"error": "200"}), "the schema registry cannot answer 200"),
        (rule({"error": "1"}), "the schema registry cannot answer 1:"),
        (rule({"error": 99901}), "the schema registry cannot answer 99901"),
        (rule({"error": 10**30}), "the schema registry cannot answer"),
        (rule({"error": 500, "record_errors": {"0": "x"}}), "have no record_errors"),
        (
            rule({"throttle": 5}),
            "throttle is no act on a request to the schema registry; there are: error, delay, hold",
        ),
        (rule({"refuse": True}), "refuse is no act on a request to the schema registry"),
        (rule({"error": 500}, topic="orders"), "a request to the schema registry has no topic"),
        (rule({"error": 500}, broker=1), "a request to the schema registry has no broker"),
        (rule({"error": 500}, subject=""), "subject='': must be a str that is not empty"),
        ({"when": {"api": ["registry", "connect"]}, "do": [{"delay": 5}]}, "the API 'registry' does not exist"),
    ],
)
def test_a_rule_that_can_never_match_or_act_is_refused(document: Any, told: str) -> None:
    with pytest.raises((ValueError, TypeError)) as refused:
        rule_from_json(document, CAN)
    assert told in str(refused.value)


def test_requests_of_kafka_have_no_subject_and_no_number_as_an_error() -> None:
    can = Possible(HANDLERS, [1])
    for document, told in (
        ({"when": {"api": "Produce", "subject": "a"}, "do": [{"delay": 5}]}, "a request of Kafka has no subject"),
        ({"when": {"api": "Produce", "method": "POST"}, "do": [{"delay": 5}]}, "a request of Kafka has no method"),
        ({"when": {"api": "Produce"}, "do": [{"error": 40901}]}, "there is no error '40901'"),
        ({"when": {"api": "disk", "subject": "a"}, "do": [{"slow": 5}]}, "an operation on a file has no subject"),
    ):
        with pytest.raises(ValueError, match=told):
            rule_from_json(document, can)


def test_a_registry_that_is_not_beside_a_broker_of_kmini_is_out_of_reach() -> None:
    with pytest.raises(ValueError, match="needs a broker of kmini beside it"):
        rule_from_json(rule({"error": 500}), Possible({}, None, has_disk=False))


@pytest.mark.parametrize(("code", "status"), [(404, 404), (40401, 404), (50002, 500)])
def test_a_code_begins_with_its_status(code: int, status: int) -> None:
    assert status_of(code) == status
