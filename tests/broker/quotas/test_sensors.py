"""What is kept of clients that have quotas is bounded."""

from __future__ import annotations

import pytest

from kmini.broker.quotas import sensors
from kmini.broker.quotas.sensors import IDLE_MS, Sensors


def test_who_shares_a_quota_has_one_rate() -> None:
    kept: Sensors[list[int]] = Sensors(list)
    assert kept.get("ann", 0) is kept.get("ann", 1)
    assert kept.get("ann", 0) is not kept.get("eve", 0)


def test_what_is_not_used_for_an_hour_is_forgotten() -> None:
    kept: Sensors[list[int]] = Sensors(list)
    ann, eve = kept.get("ann", 0), kept.get("eve", 0)
    kept.get("ann", IDLE_MS - 1)
    kept.get("bob", IDLE_MS)
    assert len(kept) == 2
    assert kept.get("ann", IDLE_MS) is ann
    assert kept.get("eve", IDLE_MS) is not eve


def test_there_is_an_end_to_how_many_are_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sensors, "MAX_SENSORS", 3)
    kept: Sensors[list[int]] = Sensors(list)
    first = kept.get("0", 0)
    for number in range(1, 10):
        kept.get(str(number), 0)
        assert kept.get("0", 0) is first
        assert len(kept) <= 3
