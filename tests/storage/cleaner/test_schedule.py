"""Which log is cleaned next."""

from __future__ import annotations

from typing import Any

import pytest

from kmini.storage.cleaner import schedule
from kmini.storage.cleaner.cleaning_states import State
from kmini.storage.cleaner.dirtiness import assess
from kmini.storage.cleaner.schedule import Reason

Bench = Any

DIRECTORY = "/data"
BACKOFF_MS = 15_000


Logs = Any


def test_the_dirtiest_goes_first(logs: Logs) -> None:
    logs.add("half", clean=2, dirty=3)
    logs.add("all", dirty=3)
    logs.add("hardly", clean=5, dirty=1)
    assert [logs.picked(), logs.picked(), logs.picked()] == ["all", "half", None]
    assert logs.schedule.gauges(logs.logs, logs.now_ms).max_dirty_percent == pytest.approx(100 / 6)


def test_exactly_the_minimum_ratio_is_not_enough(logs: Logs) -> None:
    logs.add("half", clean=1, dirty=1)
    assert logs.picked() is None


@pytest.mark.parametrize(("ratio", "picked"), [(0.0, "x"), (1.0, None)])
def test_a_ratio_of_0_is_always_and_of_1_never(logs: Logs, ratio: float, picked: str | None) -> None:
    logs.add("x", dirty=1, min_cleanable_dirty_ratio=ratio)
    assert logs.picked() == picked
    assert logs.picked() is None


def test_a_log_that_is_not_compacted_is_left_alone(logs: Logs) -> None:
    logs.add("x", dirty=1, cleanup_policy=("delete",))
    logs.add("both", dirty=1, cleanup_policy=("compact", "delete"))
    assert [logs.picked(), logs.picked()] == ["both", None]


def test_records_past_the_bound_go_first_by_must_clean_ratio(logs: Logs) -> None:
    logs.now_ms = 5_000
    logs.add("dirtier", dirty=9, timestamp=5_000)
    logs.add("late", clean=8, dirty=1, timestamp=1_000, max_compaction_lag_ms=100)
    logs.add("later", clean=4, dirty=1, timestamp=1_000, max_compaction_lag_ms=100)
    assert [logs.picked(), logs.picked(), logs.picked(), logs.picked()] == ["later", "late", "dirtier", None]


def test_the_delay_is_that_of_the_latest_log(logs: Logs) -> None:
    logs.now_ms = 5_000
    logs.add("x", dirty=1, timestamp=1_000, max_compaction_lag_ms=500)
    logs.add("y", dirty=1, timestamp=4_000, max_compaction_lag_ms=500)
    assert logs.schedule.gauges(logs.logs, logs.now_ms).max_compaction_delay_secs == 3.5


def test_what_is_being_cleaned_or_paused_is_not_picked_again(logs: Logs) -> None:
    x = logs.add("x", dirty=1)
    y = logs.add("y", dirty=1)
    logs.schedule.states.pause(y)
    job = logs.pick()
    assert job is not None
    assert (job.partition, logs.schedule.states[x]) == (x, State.IN_PROGRESS)
    assert logs.pick() is None
    logs.schedule.states.resume(y)
    assert logs.picked() == "y"


def test_many_logs_are_ranked_once(logs: Logs, monkeypatch: pytest.MonkeyPatch) -> None:
    names = [f"log-{number:02}" for number in range(20)]
    for name in names:
        logs.add(name, dirty=1)
    looks: list[object] = []
    monkeypatch.setattr(schedule, "assess", lambda log, *rest: looks.append(log) or assess(log, *rest))
    assert [logs.picked() for _ in range(21)] == [*names, None]
    assert len(looks) == 3 * 20  # at the beginning, when its turn came, and at the end


def test_a_log_that_is_not_to_be_cleaned_any_more_when_its_turn_comes_is_passed_over(logs: Logs) -> None:
    logs.add("x", dirty=3)
    y, z = logs.add("y", dirty=2), logs.add("z", dirty=1)
    assert logs.picked() == "x"
    logs.schedule.checkpoint.set(y, 2)
    del logs.benches[z]
    assert logs.picked() is None


def test_what_passes_the_bound_meanwhile_goes_first_a_back_off_later(logs: Logs) -> None:
    for name in ("a", "b", "c"):
        logs.add(name, dirty=1)
    assert logs.picked() == "a"
    logs.add("late", dirty=1, max_compaction_lag_ms=500)
    logs.now_ms += BACKOFF_MS
    assert [logs.picked() for _ in range(4)] == ["late", "b", "c", None]


def test_an_aborted_pass_moves_no_checkpoint(logs: Logs) -> None:
    x = logs.add("x", dirty=1)
    job = logs.pick()
    assert job is not None
    logs.schedule.states.pause(x)
    assert not logs.end(job)
    assert logs.schedule.checkpoint.get(x) is None
    assert logs.schedule.states[x] is State.PAUSED


def test_a_pass_that_fails_costs_its_log_and_no_other(logs: Logs) -> None:
    x = logs.add("x", dirty=2)
    logs.add("y", clean=1, dirty=2)
    job = logs.pick()
    assert job is not None
    assert not logs.schedule.ended(job, None, ValueError("no batch at position 7"), logs.now_ms)
    assert logs.schedule.uncleanable() == {x: "no batch at position 7"}
    standing = logs.schedule.gauges(logs.logs, logs.now_ms)
    assert (standing.uncleanable_partitions, standing.uncleanable_bytes) == (1, logs.logs[x].size_bytes)
    assert [logs.picked(), logs.picked()] == ["y", None]
    assert logs.schedule.pick_this(x, logs.logs[x], logs.now_ms) is None


def test_a_log_whose_files_cannot_be_looked_at_is_uncleanable(logs: Logs) -> None:
    x = logs.add("x", dirty=2, max_compaction_lag_ms=100)
    logs.benches[x].log.segments.oldest.log.write_at(16, b"\x09")
    logs.add("y", dirty=1)
    assert logs.picked() == "y"
    assert x in logs.schedule.uncleanable()
    assert logs.schedule.gauges(logs.logs, logs.now_ms).uncleanable_bytes == logs.logs[x].size_bytes
    assert logs.schedule.next_due_ms(logs.logs, logs.now_ms) is None


class TestHorizons:
    def test_a_horizon_that_has_passed_is_reason_enough(self, logs: Logs) -> None:
        logs.add("x", dirty=1)
        job = logs.pick()
        assert job is not None
        logs.end(job, earliest_horizon_ms=50_000)
        logs.now_ms = 49_999
        assert logs.picked() is None
        logs.now_ms = 50_000
        job = logs.pick()
        assert job is not None
        assert job.reason is Reason.HORIZON
        logs.end(job)
        assert logs.picked() is None

    @pytest.mark.parametrize(("seconds", "spacing_ms"), [(0.1, BACKOFF_MS), (3.0, 30_000)])
    def test_such_passes_of_a_log_keep_their_distance(self, logs: Logs, seconds: float, spacing_ms: int) -> None:
        logs.add("x", dirty=1)
        job = logs.pick()
        assert job is not None
        logs.end(job, earliest_horizon_ms=1_001, seconds=seconds)
        logs.now_ms += spacing_ms - 1
        assert logs.picked() is None
        logs.now_ms += 1
        assert logs.picked() == "x"

    def test_after_a_start_a_log_is_to_be_scanned_for_horizons(self, logs: Logs) -> None:
        x = logs.add("x", clean=1)
        assert logs.schedule.without_horizon(logs.logs) == [x]
        assert logs.picked() is None
        logs.schedule.note_horizon(x, 500)
        assert logs.schedule.without_horizon(logs.logs) == []
        assert logs.picked() == "x"

    def test_dirty_logs_go_first(self, logs: Logs) -> None:
        x = logs.add("x", clean=1)
        logs.schedule.note_horizon(x, 500)
        logs.add("y", dirty=1)
        assert [logs.picked(), logs.picked()] == ["y", "x"]


class TestWhatIsDueNext:
    def test_nothing_is_due_in_an_empty_schedule(self, logs: Logs) -> None:
        logs.add("x", dirty=1)
        assert logs.schedule.next_due_ms(logs.logs, logs.now_ms) is None

    def test_a_horizon_a_bound_a_roll_a_minimum_lag(self, logs: Logs) -> None:
        x = logs.add("x", clean=1)
        logs.schedule.note_horizon(x, 90_000)
        assert logs.schedule.next_due_ms(logs.logs, 1_000) == 90_000
        logs.add("bound", dirty=1, max_compaction_lag_ms=80_000)
        assert logs.schedule.next_due_ms(logs.logs, 1_000) == 81_001
        roll = logs.add("roll", segment_ms=70_000)
        logs.benches[roll].put(("a", "1"))
        assert logs.schedule.next_due_ms(logs.logs, 1_000) == 71_001
        logs.add("lag", dirty=1, min_compaction_lag_ms=60_000)
        assert logs.schedule.next_due_ms(logs.logs, 1_000) == 61_000
        assert logs.schedule.next_due_ms(logs.logs, 61_000) == 71_001
