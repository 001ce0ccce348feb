"""Counts of the parts of a log are added up in any order; a report has the same totals."""

from __future__ import annotations

import random

import pytest

pytest.importorskip("pyarrow")

import numpy as np

from kmini.pipeline.audit.report import PartitionReport, RecordTotals
from kmini.pipeline.audit.tally import BINS, Damage, Example, Match, Tally, bin_start_s, bins_of, oldest_of


def test_a_bin_holds_the_durations_from_its_start_to_the_next_one() -> None:
    for number in range(BINS - 1):
        start_ms, end_ms = bin_start_s(number) * 1000, bin_start_s(number + 1) * 1000
        inside = np.array([start_ms * (1 + 1e-9), end_ms * (1 - 1e-9)])
        assert bins_of(inside).tolist() == [number, number]
    assert bins_of(np.array([-5, 1 << 62])).tolist() == [0, BINS - 1]


def test_the_oldest_record_is_the_first_by_time_then_by_file_and_offset() -> None:
    since, file, offset, written = map(np.array, ([7, 5, 5, 5], [1, 3, 2, 2], [0, 0, 9, 8], [1, 2, 3, 4]))
    assert oldest_of(since, file, offset, written) == Example(5, 2, 8, 4)


def part(number: int) -> Tally:
    tally = Tally(records=number, dead_records=1, dead_bytes=10 * number, tombstones=2, below_start_bytes=3)
    tally.uncompacted[number] += 100
    tally.note_horizon(1000 - number)
    tally.note_late("superseded", 1, 10, Example(50 - number, 0, number, 0))
    tally.note_dead(Example(50 - number, 0, number, 0))
    tally.matches.append(Match(0, number, 5, 0, 0, False, 1, -1))
    tally.match_counts[0, number, False] += 1
    tally.damages.append(Damage(number, 0, 1, "torn"))
    tally.unread.append((number, "gone"))
    return tally


def test_parts_are_added_in_any_order() -> None:
    totals = []
    for seed in range(5):
        parts = [part(number) for number in range(4)]
        random.Random(seed).shuffle(parts)
        whole = Tally()
        for each in parts:
            whole.add(each)
        whole.sort()
        totals.append(whole)
    first = totals[0]
    assert (first.records, first.dead_records, first.dead_bytes, first.tombstones) == (6, 4, 60, 8)
    assert (first.below_start_bytes, first.earliest_horizon_ms) == (12, 997)
    assert first.uncompacted.tolist() == [100] * 4 + [0] * (BINS - 4)
    assert (first.late["superseded"], first.late_bytes["superseded"]) == (4, 40)
    assert first.oldest == {"superseded": Example(47, 0, 3, 0)}
    assert first.oldest_dead == Example(47, 0, 3, 0)
    assert [match.file for match in first.matches] == [0, 1, 2, 3]
    for other in totals[1:]:
        assert {**vars(other), "uncompacted": None, "dead": None} == {**vars(first), "uncompacted": None, "dead": None}
        assert other.uncompacted.tolist() == first.uncompacted.tolist()


def test_a_report_takes_the_totals_of_its_tally() -> None:
    report = PartitionReport(
        topic="t",
        partition=0,
        path="/t-0",
        mark="",
        is_compacted=True,
        is_read=True,
        bound_ms=None,
        segments=1,
        size_bytes=1,
    )
    tally = part(3)
    report.add_totals(tally)
    assert all(getattr(report, name) == getattr(tally, name) for name in vars(RecordTotals()))
    assert report.name == "t-0"
