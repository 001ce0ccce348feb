"""Which of the requests that a rule means it acts on."""

from __future__ import annotations

from typing import Any

import pytest

from kmini.broker.faults.rule_counts import RuleCounts
from support.fault_rules import rule


def taken(which: dict[str, Any], count: int = 10, *, name: str = "rule", seed: int = 0) -> list[int]:
    """The numbers of the requests, from 1, on which a rule acts."""
    counts = RuleCounts(rule(which=which, name=name), seed=seed, now_ms=0)
    found = []
    for number in range(1, count + 1):
        if counts.takes(0):
            counts.acted()
            found.append(number)
    assert counts.seen == count
    assert counts.hits == len(found)
    return found


@pytest.mark.parametrize(
    ("which", "numbers"),
    [
        ({}, [*range(1, 11)]),
        ({"times": 2}, [1, 2]),
        ({"skip": 3, "times": 2}, [4, 5]),
        ({"on_call": 3}, [3]),
        ({"on_call": [2, 5]}, [2, 5]),
        ({"skip": 1, "on_call": [1]}, [2]),
        ({"every": 3}, [3, 6, 9]),
        ({"skip": 1, "every": 3, "times": 2}, [4, 7]),
    ],
    ids=str,
)
def test_a_rule_acts_on_the_requests_that_it_names(which: dict[str, Any], numbers: list[int]) -> None:
    assert taken(which) == numbers


def test_chance_is_the_same_for_the_same_seed_and_another_for_another_rule() -> None:
    half = {"probability": 0.5}
    assert taken(half, 200) == taken(half, 200)
    assert taken(half, 200) != taken(half, 200, name="another")
    assert taken(half, 200) != taken(half, 200, seed=1)
    assert taken({**half, "seed": 1}, 200) == taken({**half, "seed": 1}, 200, seed=5)
    assert 60 < len(taken(half, 200)) < 140


def test_a_rule_that_did_not_act_has_not_used_up_its_times() -> None:
    counts = RuleCounts(rule(which={"times": 1}), seed=0, now_ms=0)
    assert counts.takes(0)
    assert counts.takes(0)
    counts.acted()
    assert not counts.takes(0)


def test_a_rule_ends_with_its_time_and_with_the_request_that_it_waits_for() -> None:
    counts = RuleCounts(rule(which={"for": "10ms"}), seed=0, now_ms=100)
    assert counts.takes(109)
    assert not counts.takes(110)
    waiting = RuleCounts(rule(which={"until": "EndTxn"}), seed=0, now_ms=0)
    assert waiting.until == "EndTxn"
    assert waiting.takes(0)
    waiting.end()
    assert waiting.until is None
    assert not waiting.takes(0)


@pytest.mark.parametrize(
    ("which", "seen", "why"),
    [
        ({"skip": 5}, 3, "skip is 5"),
        ({"on_call": 4}, 3, "it acts on number 4 first"),
        ({"every": 4}, 3, "it acts on every 4th"),
        ({"for": 1}, 1, "its 1 ms were over"),
        ({}, 1, "newer rules acted in its place"),
    ],
    ids=str,
)
def test_a_rule_that_never_acted_says_why(which: dict[str, Any], seen: int, why: str) -> None:
    counts = RuleCounts(rule(which=which), seed=0, now_ms=0)
    for _ in range(seen):
        counts.takes(5)
    assert counts.why_never(5) == why


def test_jitter_stays_within_its_bounds() -> None:
    counts = RuleCounts(rule(), seed=0, now_ms=0)
    drawn = {counts.jitter_ms(3) for _ in range(100)}
    assert drawn == {0, 1, 2, 3}
    assert counts.jitter_ms(0) == 0
