"""PartitionLog: appending, reading, and the offsets and what moves them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from kmini.protocol.errors import (
    CorruptMessage,
    KafkaStorageError,
    OffsetOutOfRange,
    OutOfOrderSequenceNumber,
    RecordListTooLarge,
)
from kmini.protocol.records.batch import build_batch, read_header
from kmini.protocol.records.control import EndTransactionMarker, build_end_transaction_marker
from kmini.protocol.records.record import Record
from kmini.storage.filesystem.faults import Faults
from kmini.storage.producers.producer_state_manager import Origin
from kmini.storage.validation import UnexpectedAppendOffset, ValidatedRecords

Bench = Any


def replicated(*base_offsets: int, leader_epoch: int = 0, timestamp: int = 1_000) -> bytes:
    """Batches of one record each, as a leader sends them."""
    batches = [
        build_batch([Record(offset, timestamp, None, b"v")], base_offset=offset, leader_epoch=leader_epoch)
        for offset in base_offsets
    ]
    return b"".join(batches)


class TestAppending:
    def test_records_get_consecutive_offsets(self, bench: Bench) -> None:
        assert bench.append("a", "b", "c")[:2] == (0, 2)
        assert bench.append("d")[:2] == (3, 3)
        assert bench.log.log_end_offset == 4

    def test_offset_and_leader_epoch_are_written_into_the_batch(self, bench: Bench) -> None:
        bench.append("a", leader_epoch=4)
        bench.append("b", "c", leader_epoch=5)
        header = read_header(bench.log.read(1, 10_000, limit_offset=3))
        assert (header.base_offset, header.partition_leader_epoch) == (1, 5)

    def test_a_new_leader_epoch_begins_where_its_first_batch_lies(self, bench: Bench) -> None:
        bench.append("a", leader_epoch=4)
        bench.append("b", leader_epoch=4)
        bench.append("c", leader_epoch=7)
        assert bench.log.leader_epochs.entries == ((4, 0), (7, 2))

    def test_an_append_does_not_move_the_high_watermark(self, bench: Bench) -> None:
        bench.append("a", commit=False)
        assert (bench.log.high_watermark, bench.log.log_end_offset) == (0, 1)

    def test_an_append_larger_than_a_segment_is_refused(self, make_bench: Callable[..., Bench]) -> None:
        bench = make_bench(segment_bytes=200)
        with pytest.raises(RecordListTooLarge):
            bench.append("x" * 200)
        assert bench.log.log_end_offset == 0

    def test_a_repeated_batch_is_answered_as_the_first_time_and_not_written(self, bench: Bench) -> None:
        producer = {"producer_id": 7, "producer_epoch": 0}
        bench.append("other")
        bench.append("a", "b", base_sequence=0, **producer, timestamp=555)
        size = bench.log.size_bytes
        again = bench.append("a", "b", base_sequence=0, **producer, timestamp=555)
        assert again == (1, 2, 555, True)
        assert (bench.log.log_end_offset, bench.log.size_bytes) == (3, size)

    def test_a_gap_in_a_producers_sequence_is_refused(self, bench: Bench) -> None:
        bench.append("a", producer_id=7, producer_epoch=0, base_sequence=0)
        with pytest.raises(OutOfOrderSequenceNumber):
            bench.append("c", producer_id=7, producer_epoch=0, base_sequence=2)
        assert bench.values() == ["a"]

    def test_a_duplicate_may_have_rolled_the_segment(self, make_bench: Callable[..., Bench], batch_size: Any) -> None:
        bench = make_bench(segment_bytes=batch_size("a") + 10)
        bench.append("a", producer_id=7, producer_epoch=0, base_sequence=0)
        assert bench.append("a", producer_id=7, producer_epoch=0, base_sequence=0).is_duplicate
        assert bench.base_offsets() == [0, 1]

    def test_a_refused_producer_leaves_no_trace(self, bench: Bench) -> None:
        bench.append("a", producer_id=7, producer_epoch=0, base_sequence=0)
        with pytest.raises(OutOfOrderSequenceNumber):
            bench.append("x", producer_id=7, producer_epoch=0, base_sequence=5)
        assert bench.append("b", producer_id=7, producer_epoch=0, base_sequence=1).first_offset == 1

    def test_a_full_disk_changes_nothing_and_room_makes_it_work_again(self, bench: Bench) -> None:
        bench.append("a", producer_id=7, producer_epoch=0, base_sequence=0, leader_epoch=1)
        before = bench.log.size_bytes
        bench.filesystem.faults = Faults(fail_at=1, operations={"append"})
        with pytest.raises(KafkaStorageError):
            bench.append("b", producer_id=7, producer_epoch=0, base_sequence=1, leader_epoch=2)
        log = bench.log
        assert (log.log_end_offset, log.size_bytes, log.leader_epochs.latest_epoch) == (1, before, 1)
        assert bench.append("b", producer_id=7, producer_epoch=0, base_sequence=1, leader_epoch=2).first_offset == 1
        assert bench.values() == ["a", "b"]

    def test_a_transaction_holds_back_the_last_stable_offset_until_it_ends(self, bench: Bench) -> None:
        bench.append("before")
        bench.append("in it", producer_id=7, producer_epoch=0, base_sequence=0, transactional=True)
        bench.append("beside it")
        assert bench.log.last_stable_offset == 1
        marker = build_end_transaction_marker(
            EndTransactionMarker(is_abort=True, coordinator_epoch=0), producer_id=7, producer_epoch=0, timestamp=1_000
        )
        bench.log.append_as_leader(
            ValidatedRecords.of(marker), leader_epoch=0, now_ms=bench.now_ms, origin=Origin.COORDINATOR
        )
        assert bench.log.last_stable_offset == 1  # the marker is not below the high watermark yet
        bench.log.update_high_watermark(4)
        assert bench.log.last_stable_offset == 4
        [aborted] = bench.log.segments.active.transaction_index.entries()
        assert aborted == (7, 1, 3, 4)


class TestAppendingAsFollower:
    def test_batches_keep_the_leaders_offsets_and_epochs(self, bench: Bench) -> None:
        bench.log.append_as_follower(replicated(0, 1, 5, leader_epoch=3), now_ms=1_000)
        assert bench.log.log_end_offset == 6
        assert bench.log.leader_epochs.entries == ((3, 0),)
        assert bench.offsets_of(bench.log.read(0, 10_000, limit_offset=6)) == [0, 1, 5]

    def test_an_incomplete_batch_at_the_end_is_left_out(self, bench: Bench) -> None:
        bench.log.append_as_follower(replicated(0, 1)[:-1], now_ms=1_000)
        assert bench.log.log_end_offset == 1

    def test_only_an_incomplete_batch_is_nothing(self, bench: Bench) -> None:
        assert bench.log.append_as_follower(replicated(0)[:-1], now_ms=1_000) is None

    def test_batches_of_a_later_epoch_than_the_replicas_are_left_out(self, bench: Bench) -> None:
        sent = replicated(0, leader_epoch=3) + replicated(1, leader_epoch=4) + replicated(2, leader_epoch=3)
        bench.log.append_as_follower(sent, now_ms=1_000, leader_epoch=3)
        assert bench.log.log_end_offset == 1

    def test_batches_below_the_log_end_are_unexpected(self, bench: Bench) -> None:
        bench.append("a")
        with pytest.raises(UnexpectedAppendOffset):
            bench.log.append_as_follower(replicated(0), now_ms=1_000)

    def test_batches_out_of_order_are_unexpected(self, bench: Bench) -> None:
        with pytest.raises(UnexpectedAppendOffset):
            bench.log.append_as_follower(replicated(3, 2), now_ms=1_000)

    def test_a_damaged_batch_is_not_written_nor_any_beside_it(self, bench: Bench) -> None:
        sent = bytearray(replicated(0, 1))
        sent[-1] ^= 1
        with pytest.raises(CorruptMessage):
            bench.log.append_as_follower(bytes(sent), now_ms=1_000)
        assert bench.log.log_end_offset == 0

    def test_a_roll_begins_where_the_log_ends_unless_that_is_too_far_for_an_index(
        self, make_bench: Callable[..., Bench]
    ) -> None:
        bench = make_bench(segment_bytes=100)
        bench.log.append_as_follower(replicated(0), now_ms=1_000)
        bench.log.append_as_follower(replicated(9), now_ms=1_000)
        bench.log.append_as_follower(replicated(2**31 + 10), now_ms=1_000)
        assert bench.base_offsets() == [0, 1, 2**31 + 10]

    def test_what_a_producer_did_wrong_is_accepted_from_the_leader(self, bench: Bench) -> None:
        for offset, sequence in ((0, 0), (1, 9)):
            sent = build_batch(
                [Record(offset, 1, None, b"")],
                base_offset=offset,
                producer_id=7,
                producer_epoch=0,
                base_sequence=sequence,
            )
            bench.log.append_as_follower(sent, now_ms=1_000)
        entry = bench.log.producers.get(7)
        assert entry is not None
        assert entry.last_sequence == 9


class TestReading:
    def test_a_read_begins_with_the_batch_that_contains_the_offset(self, bench: Bench) -> None:
        bench.append("a")
        bench.append("b", "c", "d")
        bench.append("e")
        assert bench.offsets_of(bench.log.read(2, 10_000, limit_offset=5)) == [1, 4]

    def test_every_offset_is_found_whatever_the_index_interval(self, make_bench: Callable[..., Bench]) -> None:
        for interval in (0, 100, 1_000):
            bench = make_bench(index_interval_bytes=interval)
            for number in range(100):
                bench.append(*["x"] * (number % 3 + 1))
            for offset in range(bench.log.log_end_offset):
                header = read_header(bench.log.read(offset, 1, limit_offset=bench.log.log_end_offset))
                assert header.base_offset <= offset <= header.last_offset

    def test_nothing_is_read_at_the_limit_or_beyond(self, bench: Bench) -> None:
        bench.append("a")
        bench.append("b", commit=False)
        assert bench.log.read(1, 10_000, limit_offset=1) == b""
        assert bench.log.read(2, 10_000, limit_offset=1) == b""

    def test_nothing_is_read_at_the_log_end(self, bench: Bench) -> None:
        bench.append("a")
        assert bench.log.read(1, 10_000, limit_offset=1) == b""

    @pytest.mark.parametrize("offset", [-1, 1, 5])
    def test_offsets_outside_the_log_are_out_of_range(self, bench: Bench, offset: int) -> None:
        for value in "abcd":
            bench.append(value)
        bench.log.raise_log_start_offset(2)
        with pytest.raises(OffsetOutOfRange):
            bench.log.read(offset, 10_000, limit_offset=4)
        with pytest.raises(OffsetOutOfRange):
            bench.log.bytes_between(offset, 4)

    def test_a_read_ends_below_the_limit(self, bench: Bench) -> None:
        for value in "abcd":
            bench.append(value)
        assert bench.offsets_of(bench.log.read(0, 10_000, limit_offset=2)) == [0, 1]

    def test_a_limit_within_a_batch_leaves_the_batch_out(self, bench: Bench) -> None:
        bench.append("a")
        bench.append("b", "c", "d")
        assert bench.offsets_of(bench.log.read(0, 10_000, limit_offset=2)) == [0]
        assert bench.log.read(1, 10_000, limit_offset=2) == b""

    def test_max_bytes_cuts_the_last_batch_off(self, bench: Bench, batch_size: Callable[..., int]) -> None:
        bench.append("a")
        bench.append("b")
        size = batch_size("a")
        assert len(bench.log.read(0, size + 10, limit_offset=2)) == size + 10

    def test_the_first_batch_is_whole_however_large(self, bench: Bench, batch_size: Callable[..., int]) -> None:
        bench.append("a" * 500)
        bench.append("b")
        assert len(bench.log.read(0, 1, limit_offset=2)) == batch_size("a" * 500)

    def test_without_min_one_batch_a_first_batch_that_does_not_fit_is_left_out(self, bench: Bench) -> None:
        bench.append("a" * 500)
        assert bench.log.read(0, 10, limit_offset=1, min_one_batch=False) == b""
        assert bench.log.read(0, 0, limit_offset=1, min_one_batch=False) == b""

    def test_a_read_never_crosses_a_segment(self, bench: Bench) -> None:
        bench.fill(segments=2, records=2)
        bench.append("last")
        assert bench.offsets_of(bench.log.read(1, 10_000, limit_offset=5)) == [1]

    def test_a_segment_that_compaction_emptied_at_its_end_is_passed_over(self, bench: Bench) -> None:
        bench.log.append_as_follower(replicated(0), now_ms=1_000)
        bench.log.append_as_follower(replicated(9), now_ms=1_000)
        bench.log.roll(bench.now_ms, base_offset=20)
        bench.log.append_as_follower(replicated(20), now_ms=1_000)
        bench.reopen()
        for offset, expected in ((1, 9), (9, 9), (10, 20), (19, 20)):
            assert bench.offsets_of(bench.log.read(offset, 10_000, limit_offset=21))[0] == expected

    def test_a_failing_disk_is_a_storage_error(self, bench: Bench) -> None:
        bench.append("a")
        bench.filesystem.faults = Faults(fail_at=1)
        with pytest.raises(KafkaStorageError):
            bench.log.read(0, 100, limit_offset=1)
        assert bench.values() == ["a"]


class TestOffsets:
    def test_the_high_watermark_only_rises_and_ends_at_the_log_end(self, bench: Bench) -> None:
        for value in "abc":
            bench.append(value, commit=False)
        assert bench.log.update_high_watermark(2)
        assert not bench.log.update_high_watermark(1)
        assert bench.log.high_watermark == 2
        bench.log.update_high_watermark(99)
        assert bench.log.high_watermark == 3

    def test_the_log_start_only_rises(self, bench: Bench) -> None:
        for value in "abc":
            bench.append(value)
        assert bench.log.raise_log_start_offset(2)
        assert not bench.log.raise_log_start_offset(2)
        assert not bench.log.raise_log_start_offset(1)
        assert bench.log.log_start_offset == 2
        assert bench.values() == ["c"]

    def test_the_log_start_stays_at_or_below_the_high_watermark(self, bench: Bench) -> None:
        bench.append("a")
        bench.append("b", commit=False)
        with pytest.raises(OffsetOutOfRange):
            bench.log.raise_log_start_offset(2)
        assert bench.log.log_start_offset == 0

    def test_recovery_point_and_leader_epochs_follow_the_log_start(self, bench: Bench) -> None:
        bench.append("a", leader_epoch=1)
        bench.append("b", leader_epoch=2)
        bench.append("c", leader_epoch=2)
        bench.log.raise_log_start_offset(2)
        assert bench.log.recovery_point == 2
        assert bench.log.leader_epochs.entries == ((2, 2),)

    def test_producers_survive_a_raised_log_start(self, bench: Bench) -> None:
        bench.append("a", producer_id=7, producer_epoch=0, base_sequence=0)
        bench.log.raise_log_start_offset(1)
        assert bench.append("b", producer_id=7, producer_epoch=0, base_sequence=1).first_offset == 1

    def test_an_open_transaction_below_the_log_start_holds_nothing_before_it(self, bench: Bench) -> None:
        bench.append("a", producer_id=7, producer_epoch=0, base_sequence=0, transactional=True)
        bench.append("b")
        bench.log.raise_log_start_offset(1)
        assert bench.log.last_stable_offset == 1


class TestRolling:
    def test_a_segment_rolls_before_it_would_grow_beyond_its_size(
        self, make_bench: Callable[..., Bench], batch_size: Callable[..., int]
    ) -> None:
        bench = make_bench(segment_bytes=2 * batch_size("a"))
        for value in "abcde":
            bench.append(value)
        assert bench.base_offsets() == [0, 2, 4]
        assert bench.values() == list("abcde")

    def test_a_roll_leaves_the_flush_of_what_it_sealed_to_the_background(self, bench: Bench) -> None:
        bench.append("a")
        bench.log.roll(bench.now_ms)
        assert bench.log.recovery_point == 0
        assert bench.run_background() == 1
        assert bench.log.recovery_point == 1
        assert bench.files("000.index") == ["00000000000000000000.index"]

    def test_rolling_an_empty_segment_does_nothing(self, bench: Bench) -> None:
        bench.log.roll(bench.now_ms)
        assert bench.base_offsets() == [0]
        assert bench.run_background() == 0

    def test_a_roll_writes_a_producer_snapshot(self, bench: Bench) -> None:
        bench.append("a", producer_id=7, producer_epoch=0, base_sequence=0)
        bench.log.roll(bench.now_ms)
        assert bench.files(".snapshot") == ["00000000000000000001.snapshot"]

    def test_a_roll_that_fails_changes_nothing(self, make_bench: Callable[..., Bench], batch_size: Any) -> None:
        bench = make_bench(segment_bytes=batch_size("a"))
        bench.append("a")
        bench.filesystem.faults = Faults(fail_at=1, operations={"create"})
        with pytest.raises(KafkaStorageError):
            bench.append("b")
        assert bench.base_offsets() == [0]
        bench.append("b")
        assert bench.values() == ["a", "b"]

    def test_no_room_for_a_snapshot_does_not_stop_a_roll(self, bench: Bench) -> None:
        bench.append("a")
        bench.filesystem.faults = Faults(fail_at=2, operations={"create"})
        bench.log.roll(bench.now_ms)
        bench.append("b")
        assert bench.values() == ["a", "b"]


class TestTruncating:
    def test_everything_at_and_beyond_the_offset_goes(self, bench: Bench) -> None:
        bench.fill(segments=3, records=2)
        bench.append("6")
        assert bench.log.truncate_to(3)
        assert bench.base_offsets() == [0, 2]
        assert bench.values() == ["value 0", "value 1", "value 2"]
        assert bench.append("again").first_offset == 3
        assert bench.values()[-1] == "again"

    def test_truncating_at_the_base_of_a_segment_keeps_it_empty(self, bench: Bench) -> None:
        bench.fill(segments=2, records=2)
        bench.append("4")
        bench.log.truncate_to(2)
        assert bench.base_offsets() == [0, 2]
        assert bench.append("again").first_offset == 2

    def test_at_or_beyond_the_log_end_only_epochs_are_clipped(self, bench: Bench) -> None:
        bench.append("a", leader_epoch=1)
        bench.log.assign_leader_epoch(4)
        assert not bench.log.truncate_to(1)
        assert bench.log.leader_epochs.entries == ((1, 0),)
        assert bench.values() == ["a"]

    def test_leader_epochs_that_began_in_truncated_records_are_removed(self, bench: Bench) -> None:
        """Else the replica would tell a leader of an epoch that its log no longer holds."""
        bench.append("a", leader_epoch=1)
        bench.append("b", leader_epoch=1)
        bench.append("c", leader_epoch=4)
        bench.log.truncate_to(2)
        assert bench.log.leader_epochs.entries == ((1, 0),)
        bench.append("d", leader_epoch=6)
        bench.log.truncate_to(1)
        assert bench.log.leader_epochs.entries == ((1, 0),)

    def test_high_watermark_recovery_point_and_log_start_follow(self, bench: Bench) -> None:
        for value in "abcd":
            bench.append(value)
        bench.log.flush()
        bench.log.raise_log_start_offset(2)
        bench.log.truncate_to(1)
        log = bench.log
        assert (log.log_start_offset, log.high_watermark, log.recovery_point, log.log_end_offset) == (1, 1, 1, 1)

    def test_producers_are_as_they_were_at_that_offset(self, bench: Bench) -> None:
        for sequence in range(4):
            bench.append(str(sequence), producer_id=7, producer_epoch=0, base_sequence=sequence)
            bench.log.roll(bench.now_ms)
        bench.log.truncate_to(2)
        assert bench.append("2", producer_id=7, producer_epoch=0, base_sequence=2).first_offset == 2

    def test_below_the_first_segment_the_log_starts_anew(self, bench: Bench) -> None:
        bench.fill(segments=2, records=2)
        bench.log.raise_log_start_offset(4)
        bench.log.delete_segments_below_log_start()
        bench.log.truncate_to(1)
        assert (bench.log.log_start_offset, bench.log.log_end_offset) == (1, 1)

    def test_starting_anew_forgets_everything(self, bench: Bench) -> None:
        bench.append("a", producer_id=7, producer_epoch=0, base_sequence=0)
        bench.log.truncate_fully_and_start_at(100)
        log = bench.log
        assert (log.log_start_offset, log.high_watermark, log.log_end_offset, log.size_bytes) == (100, 100, 100, 0)
        assert log.leader_epochs.entries == ()
        assert log.producers.get(7) is None
        assert bench.append("b").first_offset == 100

    def test_a_failing_disk_makes_the_log_refuse_appends(self, bench: Bench) -> None:
        bench.fill(segments=1)
        bench.append("c")
        bench.filesystem.faults = Faults(fail_at=1, operations={"truncate"})
        with pytest.raises(KafkaStorageError):
            bench.log.truncate_to(1)
        with pytest.raises(KafkaStorageError):
            bench.append("d")
