"""Flushes: what they put on the disk, what a failing disk costs, and how they overlap."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from kmini.protocol.errors import (
    KafkaStorageError,
)
from kmini.storage.filesystem.faults import Faults

Bench = Any


class TestFlushing:
    def test_flush_messages_asks_for_a_flush(self, make_bench: Callable[..., Bench]) -> None:
        bench = make_bench(flush_messages=2)
        bench.append("a")
        assert not bench.log.flush_is_due()
        bench.append("b")
        assert bench.log.flush_is_due()
        bench.log.flush()
        assert not bench.log.flush_is_due()
        assert bench.log.recovery_point == 2

    def test_flush_ms_asks_for_a_flush_when_something_has_waited_so_long(
        self, make_bench: Callable[..., Bench]
    ) -> None:
        bench = make_bench(flush_ms=100)
        bench.now_ms += 500
        assert not bench.log.flush_is_due()
        bench.append("a")
        assert bench.log.flush_is_due()
        bench.log.flush()
        bench.append("b")
        bench.now_ms += 99
        assert not bench.log.flush_is_due()
        bench.now_ms += 1
        assert bench.log.flush_is_due()

    def test_a_flush_covers_what_was_there_when_it_was_made(self, bench: Bench) -> None:
        bench.append("a")
        work = bench.log.flush_work()
        bench.append("b")
        work.run()
        assert bench.log.recovery_point == 0
        work.finish()
        assert bench.log.recovery_point == 1

    def test_flushes_may_finish_in_any_order(self, bench: Bench) -> None:
        bench.append("a")
        first = bench.log.flush_work()
        bench.append("b")
        second = bench.log.flush_work()
        for work in (second, first):
            work.run()
            work.finish()
        assert bench.log.recovery_point == 2

    def test_flushes_that_queue_up_are_done_by_the_first_that_covers_them(self, bench: Bench) -> None:
        bench.append("a")
        bench.log.flush()
        waiting = []
        for number in range(5):
            bench.append(f"{number}")
            waiting.append(bench.log.flush_work())
        bench.filesystem.faults = Faults(operations={"sync"})
        for work in reversed(waiting):
            work.run()
            work.finish()
        assert bench.filesystem.faults.count == 1
        assert bench.log.recovery_point == 6

    def test_a_flush_that_a_truncation_overtook_proves_nothing(self, bench: Bench) -> None:
        for value in "abc":
            bench.append(value)
        work = bench.log.flush_work()
        work.run()
        bench.log.truncate_to(1)
        bench.append("other")
        bench.append("records")
        work.finish()
        assert bench.log.recovery_point <= 1

    def test_after_a_failed_sync_nothing_is_appended_any_more(self, bench: Bench) -> None:
        bench.append("a")
        bench.filesystem.faults = Faults(fail_at=2, operations={"sync"})  # after that of leader-epoch-checkpoint.tmp
        with pytest.raises(KafkaStorageError):
            bench.log.flush()
        assert bench.log.storage_error is not None
        with pytest.raises(KafkaStorageError):
            bench.append("b")
        assert bench.values() == ["a"]

    def test_after_a_failed_sync_no_flush_that_waited_succeeds(self, bench: Bench) -> None:
        bench.append("a")
        bench.log.flush()
        first = bench.log.flush_work()
        bench.append("b")
        second = bench.log.flush_work()
        bench.filesystem.faults = Faults(fail_at=1, operations={"sync"})
        second.run()
        first.run()
        with pytest.raises(KafkaStorageError):
            second.finish()
        assert bench.log.recovery_point == 1

    def test_no_room_for_a_checkpoint_loses_nothing_and_the_next_flush_succeeds(self, bench: Bench) -> None:
        bench.append("a")
        bench.filesystem.faults = Faults(fail_at=1, operations={"create"})
        with pytest.raises(KafkaStorageError):
            bench.log.flush()
        assert bench.log.recovery_point == 0
        bench.append("b")
        bench.log.flush()
        assert bench.log.recovery_point == 2
        assert bench.content("leader-epoch-checkpoint") == b"0\n1\n0 0\n"

    def test_a_flush_under_way_does_not_mind_that_its_segment_is_deleted(self, bench: Bench) -> None:
        bench.append("a")
        work = bench.log.flush_work()
        bench.log.raise_log_start_offset(1)
        bench.log.delete_segments_below_log_start()
        bench.environment.deletions.delete_due(bench.now_ms + bench.config.file_delete_delay_ms)
        work.run()
        work.finish()
        assert bench.log.storage_error is None

    def test_a_flush_under_way_does_not_mind_that_its_log_is_deleted(self, bench: Bench) -> None:
        bench.append("a")
        work = bench.log.flush_work()
        bench.log.abandon()
        bench.filesystem.remove_tree("/data/orders-0")
        work.run()
        work.finish()

    def test_the_leader_epochs_are_written_with_a_flush(self, bench: Bench) -> None:
        bench.append("a", leader_epoch=3)
        assert bench.files("checkpoint") == []
        bench.log.flush()
        assert bench.content("leader-epoch-checkpoint") == b"0\n1\n3 0\n"
