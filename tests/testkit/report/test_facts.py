"""How facts are said."""

from __future__ import annotations

import pytest

from kmini.testkit.report.facts import duration, moved_by


@pytest.mark.parametrize(
    ("ms", "text"), [(0, "0ms"), (250, "250ms"), (30_990, "31s"), (90_000, "1m30s"), (2_591_999_990, "30d")]
)
def test_a_duration_is_in_its_two_largest_units(ms: int, text: str) -> None:
    assert duration(ms) == text


@pytest.mark.parametrize(("ahead_ms", "text"), [(90_000, "moved ahead by 1m30s"), (-3_600_000, "turned back by 1h")])
def test_a_clock_is_ahead_or_behind(ahead_ms: int, text: str) -> None:
    assert moved_by(ahead_ms) == text
