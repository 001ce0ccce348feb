"""A pass in which the n-th file operation fails, is torn, or is the last before power is lost, for every n.

Afterwards the log is what it was, and up to some group what the pass makes of it. The last segments of that group may
still be as they were, if nothing of them stays: recovery learns from the last batch of a cleaned segment how far it
reaches. They go with the next pass, as in Apache Kafka, and have no value that is the newest of its key.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from typing import Any

import pytest

from kmini.storage.filesystem.faults import CHANGES, READS, Faults, PowerLoss

Bench = Any

PRODUCER = {"producer_id": 7, "producer_epoch": 0}
SEEDS = range(3)


@pytest.fixture
def a_dirty_log(make_cleaning_bench: Callable[..., Bench]) -> Callable[[], Bench]:
    """The same log each time: cleaned once, then written to; several groups of several segments; values that are
    superseded, in segments of which nothing will be left; tombstones to be stamped and to be dropped; a transaction
    that was aborted in another group than it ended in."""

    def make() -> Bench:
        bench = make_cleaning_bench(segment_bytes=420, delete_retention_ms=100)
        bench.put(("old", "1"), ("dead", "1"), **PRODUCER, base_sequence=0)
        bench.put(("dead", None))
        bench.clean()
        bench.now_ms += 200
        for number in range(2):
            bench.put(("a", f"{number}"), (f"b{number}", "1"))
            bench.put(("c", f"{number}"))
            bench.roll()
        for number in range(2):
            bench.put(("f", f"{number}" * 140))
            bench.roll()
        bench.put(("a", "undone"), **PRODUCER, base_sequence=2, transactional=True)
        for number in range(3):
            bench.put(("c", f"{number}" * 20))
            bench.put(("d", None))
            bench.roll()
        bench.end_transaction(7, abort=True)
        bench.put(("a", "9"), ("f", "9"))
        bench.put(("c", "9"))
        bench.roll()
        bench.put(("e", "1"))
        bench.log.flush()
        for path in ("/", "/data", "/data/orders-0"):
            bench.filesystem.sync_directory(path)
        return bench

    return make


def _versions(bench: Bench) -> list[list[Any]]:
    """The batches of the log before the pass, and after each group of it, complete or up to a segment that nothing is
    left of."""
    versions = [bench.batches()]
    replace = bench.log.segments.replace

    class Recorded:
        def __init__(self, segments: Any) -> None:
            self._segments = segments

        def __getattr__(self, name: str) -> Any:
            return getattr(self._segments, name)

        def __iter__(self) -> Any:
            return iter(self._segments)

        def replace(self, old: Any, new: Any, due_ms: int) -> None:
            before, end, bases = bench.batches(), new.next_offset, [segment.base_offset for segment in old]
            replace(old, new, due_ms)
            after = bench.batches()
            for base in bases[1:]:
                if base >= end:
                    kept = [each for each in after if each[0].base_offset < base]
                    versions.append(kept + [each for each in before if each[0].base_offset >= base])
            versions.append(after)

    bench.log.segments = Recorded(bench.log.segments)
    bench.clean(roll=False)
    return versions


def _newest(bench: Bench) -> dict[str, str]:
    """What a reader of committed records knows at the end."""
    values = {key: value for _, key, value in bench.pairs() if value != "undone"}
    return {key: value for key, value in values.items() if value is not None}


def test_the_story_has_groups_of_several_segments(a_dirty_log: Callable[[], Bench]) -> None:
    bench = a_dirty_log()
    report = bench.clean(roll=False)
    assert 1 < report.segments_after < report.segments_before
    assert report.superseded > 5
    assert (report.expired_tombstones, report.aborted_records, report.tombstones_waiting) == (1, 1, 1)
    assert any(segment.size == 0 for segment in [*bench.log.segments][:-1])


@pytest.mark.parametrize("kind", ["fail_at", "tear_at", "power_loss_at"])
def test_the_log_is_as_before_or_after_some_group(a_dirty_log: Callable[[], Bench], kind: str) -> None:
    done = a_dirty_log()
    versions = _versions(done)
    newest, left, next_offset = _newest(done), done.pairs(), done.log.log_end_offset
    for number in range(1, 1_000):
        bench = a_dirty_log()
        operations = CHANGES | READS if kind == "fail_at" else CHANGES
        faults = bench.break_at(**{kind: number}, operations=operations)
        with contextlib.suppress(OSError, PowerLoss):
            bench.clean(roll=False)
        bench.filesystem.faults = Faults()
        checkpoint = bench.checkpoint
        outcomes = [bench.filesystem.kill()]
        if kind != "fail_at":
            outcomes = [bench.filesystem.crash(seed) for seed in SEEDS]
        for filesystem in outcomes:
            bench.reopen(filesystem=filesystem)
            assert bench.batches() in versions, faults
            assert bench.files(".cleaned") == bench.files(".swap") == []
            assert _newest(bench) == newest, faults
            assert bench.put(("next", "1")).first_offset == next_offset
        bench.checkpoint = checkpoint
        bench.clean(roll=False)
        assert bench.pairs() == [*left, (next_offset, "next", "1")], faults
        if not faults.is_spent:
            break
    else:
        pytest.fail("the pass has no end")
    assert number > 50


def test_a_crash_in_the_recovery_from_a_crash_does_no_harm(a_dirty_log: Callable[[], Bench]) -> None:
    versions = _versions(a_dirty_log())
    for number in range(1, 1_000):
        bench = a_dirty_log()
        faults = bench.break_at(power_loss_at=number, operations={"rename", "sync_directory"})
        with contextlib.suppress(PowerLoss):
            bench.clean(roll=False)
        bench.filesystem.faults = Faults()
        interrupted = bench.filesystem.crash(number)
        for again in range(1, 100):
            filesystem = interrupted.kill(Faults(power_loss_at=again, operations={"rename", "remove"}))
            with contextlib.suppress(PowerLoss):
                bench.reopen(filesystem=filesystem)
            is_spent = filesystem.faults.is_spent
            filesystem.faults = Faults()
            bench.reopen(filesystem=filesystem.crash(again))
            assert bench.batches() in versions, (faults, again)
            if not is_spent:
                break
        if not faults.is_spent:
            break


def test_a_disk_that_refuses_while_the_pass_writes_changes_nothing(a_dirty_log: Callable[[], Bench]) -> None:
    bench = a_dirty_log()
    before, files = bench.batches(), bench.files()
    bench.break_at(fail_at=1, fail_for_good=True, operations={"append"})
    with pytest.raises(OSError):
        bench.clean(roll=False)
    bench.filesystem.faults = Faults()
    assert (bench.batches(), bench.files()) == (before, files)
    bench.clean(roll=False)
    assert bench.batches() != before
