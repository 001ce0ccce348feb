"""Each word of a draft is a part of the rule, and each act puts it in force."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from kmini.broker.faults.acts import ACTS
from kmini.testkit.fault_draft import FaultDraft
from support.for_each import for_each


def draft(**conditions: Any) -> FaultDraft[Any]:
    """A draft whose acts return the selection and the JSON of the act."""
    return FaultDraft(lambda draft, act: (draft.selection, act.to_json()), "Produce", None, conditions, {}, set())


def told(value: object) -> str | None:
    """The part of a test's id for a value; workers of xdist must agree on it, so it is none for a function, whose text
    has its address."""
    return None if callable(value) else str(value or "all")


SELECTIONS: list[tuple[Callable[[Any], Any], dict[str, Any]]] = [
    (lambda one: one.once(), {"times": 1}),
    (lambda one: one.times(3).skip(2), {"times": 3, "skip": 2}),
    (lambda one: one.on_call(1, 4), {"on_call": (1, 4)}),
    (lambda one: one.every(5), {"every": 5}),
    (lambda one: one.always(), {}),
    (lambda one: one.with_probability(0.5), {"probability": 0.5}),
    (lambda one: one.with_probability(0.5, seed=7), {"probability": 0.5, "seed": 7}),
    (lambda one: one.for_("10s").until("EndTxn"), {"for": "10s", "until": "EndTxn"}),
]


@pytest.mark.parametrize(("choose", "selection"), SELECTIONS, ids=told)
def test_words_that_select_are_kept_until_the_act(choose: Callable[[Any], Any], selection: dict[str, Any]) -> None:
    assert choose(draft()).drop()[0] == selection


ARMING: list[tuple[Callable[[Any], Any], dict[str, Any]]] = [
    (lambda one: one.error("REQUEST_TIMED_OUT"), {"error": "REQUEST_TIMED_OUT"}),
    (lambda one: one.error("INVALID_RECORD", message="bad"), {"error": "INVALID_RECORD", "message": "bad"}),
    (
        lambda one: one.error("INVALID_RECORD", record_errors={1: "no total"}),
        {"error": "INVALID_RECORD", "record_errors": {"1": "no total"}},
    ),
    (lambda one: one.apply_then_error("REQUEST_TIMED_OUT"), {"error": "REQUEST_TIMED_OUT", "applied": True}),
    (lambda one: one.throttle("1s"), {"throttle": 1_000}),
    (lambda one: one.no_records(), {"no_records": True}),
    (lambda one: one.delay("1s", jitter=5, when="after"), {"delay": 1_000, "jitter": 5, "when": "after"}),
    (lambda one: one.hold(), {"hold": "before"}),
    (lambda one: one.drop(applied=True), {"drop": True, "applied": True}),
    (lambda one: one.silent(), {"silent": True}),
    (lambda one: one.disconnect(rst=True), {"disconnect": True, "rst": True}),
    (lambda one: one.apply_then_disconnect(), {"disconnect": True, "applied": True}),
    (lambda one: one.truncate(9), {"truncate": 9}),
    (lambda one: one.trickle("1KB/s"), {"trickle": 1_000}),
    (lambda one: one.corrupt(), {"corrupt": "crc"}),
    (lambda one: one.leader(2), {"leader": 2}),
    (lambda one: one.leader(2, epoch=0), {"leader": 2, "epoch": 0}),
    (lambda one: one.without_broker(2), {"without_broker": 2}),
    (lambda one: one.expired_token(), {"expired_token": True}),
    (lambda one: one.refuse(), {"refuse": True}),
    (lambda one: one.wrong_certificate(), {"wrong_certificate": True}),
    (lambda one: one.slow("5ms"), {"slow": 5}),
    (lambda one: one.slow_fsync("5ms"), {"slow_fsync": 5}),
    (lambda one: one.full(), {"disk": "full"}),
    (lambda one: one.read_only(), {"disk": "read_only"}),
    (lambda one: one.fail(), {"disk": "fail"}),
    (lambda one: one.fail_fsync(), {"disk": "fail_fsync"}),
]


@for_each(("arm", "act"), ARMING, ids=told)
def test_a_word_that_acts_is_the_act_of_the_rule(arm: Callable[[Any], Any], act: dict[str, Any]) -> None:
    assert arm(draft()) == ({}, act)


def test_every_act_has_a_word() -> None:
    assert {next(iter(act)) for _, act in ARMING} | {"respond"} == {*ACTS}


def test_a_wrong_value_is_refused_by_the_act() -> None:
    with pytest.raises(ValueError, match="did you mean REQUEST_TIMED_OUT"):
        draft().error("REQUEST_TIMEOUT")
    with pytest.raises(TypeError, match="must be a function"):
        draft().respond(None)  # type: ignore[arg-type]
