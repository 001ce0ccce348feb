"""Acts as JSON. What they do: `test_faulted_request.py`."""

from __future__ import annotations

from typing import Any

import pytest

from kmini.broker.faults.acts import ACTS
from kmini.broker.faults.rule_checks import act_from_json

DOCUMENTS: list[dict[str, Any]] = [
    {"error": "REQUEST_TIMED_OUT", "applied": True},
    {"error": "INVALID_RECORD", "message": "no totals", "record_errors": {"0": "no total", "10": "no sign"}},
    {"delay": 200, "jitter": 50, "when": "after"},
    {"hold": "after"},
    {"throttle": 500},
    {"drop": True, "applied": True},
    {"disconnect": True, "rst": True},
    {"truncate": 120},
    {"trickle": 1_000},
    {"corrupt": "codec"},
    {"no_records": True},
    {"leader": 1, "epoch": 0},
    {"without_broker": 1},
    {"expired_token": True},
    {"refuse": True},
    {"wrong_certificate": True},
    {"silent": True},
    {"disk": "full"},
    {"slow": 50},
    {"slow_fsync": 50},
]


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda document: next(iter(document)))
def test_an_act_comes_back_from_its_json(document: dict[str, Any]) -> None:
    act = act_from_json(document)
    assert act.to_json() == document
    assert act_from_json(act.to_json()) == act


def test_every_act_that_json_can_say_is_tried() -> None:
    assert {next(iter(document)) for document in DOCUMENTS} == {*ACTS} - {"respond"}
