"""A job from the schedule, done as the broker does it, but in one thread."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from kmini.protocol.errors import KafkaStorageError
from kmini.protocol.topics import TopicPartition
from kmini.storage.cleaner.cleanable_log import Limits
from kmini.storage.cleaner.cleaner_checkpoint import CleanerCheckpoint
from kmini.storage.cleaner.schedule import Job, Schedule
from kmini.storage.cleaner.throttle import Throttle
from kmini.storage.cleaner.worker import CleaningWork, swap_in
from kmini.storage.filesystem.faults import Faults

Bench = Any
P = TopicPartition("orders", 0)
DIRECTORY = "/data/orders-0"


@pytest.fixture
def dirty(make_cleaning_bench: Callable[..., Bench]) -> Bench:
    """Three groups to come."""
    bench = make_cleaning_bench(segment_bytes=400)
    for number in range(24):
        bench.put((f"{number % 4}", f"{number}"))
    bench.roll()
    bench.schedule = Schedule(CleanerCheckpoint(bench.filesystem, "/data"), backoff_ms=15_000)
    return bench


def _job(bench: Bench) -> Job:
    job = bench.schedule.pick({P: bench.log}, bench.now_ms)
    assert job is not None
    return job


def _work(bench: Bench, job: Job) -> CleaningWork:
    return CleaningWork(
        job, bench.now_ms, Limits(), Throttle(1e300), lambda: bench.schedule.states.is_aborted(job.partition)
    )


def _leftovers(bench: Bench) -> list[str]:
    return bench.files(".cleaned") + bench.files(".swap")


def test_a_job_ends_with_a_clean_log_and_a_checkpoint(dirty: Bench) -> None:
    job = _job(dirty)
    work = _work(dirty, job)
    work.run(lambda group: swap_in(dirty.log, group))
    assert work.error is None
    assert dirty.schedule.ended(job, work.report, work.error, dirty.now_ms)
    assert [key for _, key, _ in dirty.pairs()] == ["0", "1", "2", "3"]
    assert dirty.schedule.checkpoint.get(P) == 24
    assert dirty.schedule.pick({P: dirty.log}, dirty.now_ms) is None
    assert dirty.read_all() == [20, 21, 22, 23]


def test_the_files_it_replaced_wait_to_be_deleted(dirty: Bench) -> None:
    _work(dirty, _job(dirty)).run(lambda group: swap_in(dirty.log, group))
    assert dirty.files(".deleted")
    dirty.environment.deletions.delete_due(dirty.now_ms + 59_999)
    assert dirty.files(".deleted")
    dirty.environment.deletions.delete_due(dirty.now_ms + 60_000)
    assert not dirty.files(".deleted")


def test_readers_of_a_replaced_segment_go_on(dirty: Bench) -> None:
    reading = dirty.log.segments.oldest.batches()
    first = bytes(next(reading)[2])
    _work(dirty, _job(dirty)).run(lambda group: swap_in(dirty.log, group))
    assert first[:8] == bytes(8)
    assert len(list(reading)) > 0


def test_an_aborted_job_ends_at_the_next_read(dirty: Bench) -> None:
    job = _job(dirty)
    work = _work(dirty, job)
    before = dirty.pairs()
    dirty.schedule.states.pause(P)
    work.run(lambda group: swap_in(dirty.log, group))
    assert (work.report, work.error, dirty.pairs(), _leftovers(dirty)) == (None, None, before, [])
    assert not dirty.schedule.ended(job, work.report, work.error, dirty.now_ms)


@pytest.mark.parametrize("change", ["truncate", "truncate all", "delete records"])
def test_a_log_that_changes_under_a_job_is_left_as_it_is(dirty: Bench, change: str) -> None:
    job = _job(dirty)
    work = _work(dirty, job)
    swaps = 0

    def swap(group: Any) -> None:
        nonlocal swaps
        swaps += 1
        if swaps == 2:
            if change == "truncate":
                dirty.log.truncate_to(group.sources[0].base_offset + 1)
            elif change == "truncate all":
                dirty.log.truncate_fully_and_start_at(100)
            else:
                dirty.log.raise_log_start_offset(24)
                dirty.log.delete_segments_below_log_start()
            nonlocal before
            before = dirty.pairs()
        swap_in(dirty.log, group)

    before: Any = None
    work.run(swap)
    assert swaps == 2
    assert (work.report, work.error) == (None, None)
    assert dirty.pairs() == before
    assert _leftovers(dirty) == []
    dirty.schedule.ended(job, work.report, work.error, dirty.now_ms)
    assert dirty.schedule.uncleanable() == {}


def test_a_disk_that_refuses_makes_the_log_uncleanable(dirty: Bench) -> None:
    job = _job(dirty)
    work = _work(dirty, job)
    dirty.break_at(fail_at=3, operations={"append"}, fail_for_good=True)
    work.run(lambda group: swap_in(dirty.log, group))
    dirty.filesystem.faults = Faults()
    assert isinstance(work.error, OSError)
    dirty.schedule.ended(job, work.report, work.error, dirty.now_ms)
    assert P in dirty.schedule.uncleanable()
    assert dirty.put(("next", "1")).first_offset == 24


def test_a_disk_that_refuses_to_swap_leaves_the_log_to_a_restart(dirty: Bench) -> None:
    before = dirty.pairs()
    work = _work(dirty, _job(dirty))
    dirty.break_at(fail_at=7, operations={"rename"})
    work.run(lambda group: swap_in(dirty.log, group))
    dirty.filesystem.faults = Faults()
    assert isinstance(work.error, KafkaStorageError)
    with pytest.raises(KafkaStorageError):
        dirty.put(("next", "1"))
    dirty.reopen()
    assert _leftovers(dirty) == []
    assert {key: value for _, key, value in dirty.pairs()} == {key: value for _, key, value in before}
    assert dirty.put(("next", "1")).first_offset == 24
