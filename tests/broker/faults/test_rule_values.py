"""Values of fault rules: what is taken, in which form it is kept, and what is refused."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

from kmini.broker.faults.rule_checks import act_from_json
from kmini.broker.faults.rule_values import choices, duration, flag, integer, nearest


@pytest.mark.parametrize(("text", "rate"), [("1KB/s", 1_000), ("2 KiB/s", 2_048), ("0.5MB/s", 500_000), (7, 7)])
def test_a_rate_may_be_text(text: Any, rate: int) -> None:
    assert act_from_json({"trickle": text}).to_json() == {"trickle": rate}


@pytest.mark.parametrize(("given", "ms"), [(5, 5), ("1h30m", 5_400_000), (timedelta(seconds=2), 2_000)])
def test_a_duration_is_kept_in_milliseconds(given: Any, ms: int) -> None:
    assert duration("for", given) == ms


def test_a_truth_value_is_no_number_and_no_duration() -> None:
    for wrong in (lambda: integer("times", True, 1), lambda: duration("for", True), lambda: flag("applied", 1)):
        with pytest.raises(TypeError):
            wrong()


def test_a_number_below_the_least_one_is_refused() -> None:
    assert integer("times", 1, 1) == 1
    with pytest.raises(ValueError, match="times=0: must be 1 or more"):
        integer("times", 0, 1)


def test_a_wrong_name_is_answered_with_the_nearest_and_all() -> None:
    assert nearest("topik", ["topic", "group"]) == "; did you mean topic?"
    assert nearest("x", ["topic", "group"]) == ""
    assert choices("topik", ["topic", "group"], "It has") == "; did you mean topic? It has: topic, group"
    assert choices("x", ["topic"], "It has") == "; it has: topic"
