"""What a log is after a clean shutdown, a killed process, a power loss, or damage to its files."""

from __future__ import annotations

import contextlib
import logging
from collections.abc import Callable
from typing import Any

import pytest

from kmini.protocol.records.batch import assign_offsets, build_batch
from kmini.protocol.records.control import EndTransactionMarker, build_end_transaction_marker
from kmini.protocol.records.record import Record
from kmini.storage.filenames import segment_path
from kmini.storage.filesystem.faults import Faults
from kmini.storage.recovery import settle_files

Bench = Any

DIRECTORY = "/data/orders-0"
INDEX, TIME_INDEX, LOG = "00000000000000000000.index", "00000000000000000000.timeindex", "00000000000000000000.log"
PRODUCER = {"producer_id": 7, "producer_epoch": 0}


def without_the_end_of_its_second_segment(make_bench: Callable[..., Bench], left: int) -> Bench:
    """Four segments of two batches, the second of which has only as many as are `left`."""
    bench = make_bench(segment_bytes=200)
    for number in range(8):
        bench.append(f"{number}")
    second = bench.filesystem.open(f"{DIRECTORY}/{2:020}.log")
    second.truncate(second.size // 2 * left)
    return bench


class TestAfterACleanShutdown:
    def test_everything_is_as_it_was(self, make_bench: Callable[..., Bench]) -> None:
        bench = make_bench(segment_bytes=400, index_interval_bytes=100)
        for number in range(30):
            bench.append(f"{number}", timestamp=1_000 + number, leader_epoch=number // 10)
        bench.log.raise_log_start_offset(7)
        before = bench.log
        bench.close()
        after = bench.reopen(is_clean=True, log_start_offset=7, recovery_point=30)
        assert after.log_end_offset == after.recovery_point == 30
        assert (after.log_start_offset, after.size_bytes) == (7, before.size_bytes)
        assert after.leader_epochs.entries == before.leader_epochs.entries == ((0, 7), (1, 10), (2, 20))
        assert bench.values() == [f"{number}" for number in range(7, 30)]
        assert bench.offset_for_timestamp(1_020)[:2] == (1_020, 20)
        assert bench.append("next").first_offset == 30

    def test_no_batch_is_verified_and_little_is_read(self, bench: Bench) -> None:
        for number in range(1_000):
            bench.append(f"value {number}")
        bench.close()
        reads = Faults(operations={"read_at"})
        bench.reopen(is_clean=True, faults=reads)
        assert reads.count <= 3

    def test_producers_are_remembered(self, bench: Bench) -> None:
        bench.append("a", **PRODUCER, base_sequence=0)
        bench.close()
        bench.reopen(is_clean=True)
        assert bench.append("a", **PRODUCER, base_sequence=0).is_duplicate
        assert bench.append("b", **PRODUCER, base_sequence=1).first_offset == 1

    def test_batches_after_the_newest_snapshot_are_replayed(self, bench: Bench) -> None:
        bench.append("a", **PRODUCER, base_sequence=0)
        bench.log.roll(bench.now_ms)
        bench.append("b", **PRODUCER, base_sequence=1)
        bench.close()
        bench.filesystem.remove(segment_path(DIRECTORY, 2, ".snapshot"))
        bench.reopen(is_clean=True)
        assert bench.append("b", **PRODUCER, base_sequence=1).is_duplicate

    def test_the_index_files_of_the_closed_log_are_exact(self, make_bench: Callable[..., Bench]) -> None:
        bench = make_bench(index_interval_bytes=100)
        for number in range(10):
            bench.append("x", timestamp=1_000 + number)
        bench.close()
        entries = bench.log.segments.active.offset_index.entries()
        assert len(bench.content(INDEX)) == 8 * len(entries) > 0
        assert bench.content(TIME_INDEX)[-12:] == (1_009).to_bytes(8, "big") + (9).to_bytes(4, "big")

    def test_opened_and_closed_again_nothing_is_written(self, bench: Bench) -> None:
        bench.append("a")
        bench.close()
        bench.reopen(is_clean=True)
        bench.filesystem.faults = Faults(
            operations={"append", "sync", "rename", "truncate", "sync_directory", "create"}
        )
        bench.close()
        assert bench.filesystem.faults.count == 0

    @pytest.mark.parametrize("gone", [INDEX, TIME_INDEX])
    def test_a_missing_index_costs_nothing_but_time(self, make_bench: Callable[..., Bench], gone: str) -> None:
        bench = make_bench(index_interval_bytes=100)
        for number in range(20):
            bench.append(f"{number}", timestamp=1_000 + number)
        bench.close()
        bench.filesystem.remove(f"{DIRECTORY}/{gone}")
        bench.reopen(is_clean=True)
        assert bench.values() == [f"{number}" for number in range(20)]
        assert bench.offset_for_timestamp(1_013)[:2] == (1_013, 13)

    @pytest.mark.parametrize("size", [96, 97, 8])
    def test_a_zeroed_index_costs_nothing_but_time(self, make_bench: Callable[..., Bench], size: int) -> None:
        bench = make_bench(index_interval_bytes=100)
        for number in range(20):
            bench.append(f"{number}")
        bench.close()
        bench.write(INDEX, bytes(size))
        bench.reopen(is_clean=True)
        assert bench.values() == [f"{number}" for number in range(20)]

    def test_a_zeroed_index_of_a_sealed_segment_neither(self, make_bench: Callable[..., Bench]) -> None:
        bench = make_bench(index_interval_bytes=100, segment_bytes=1_000)
        for number in range(40):
            bench.append(f"{number}")
        bench.close()
        bench.write(INDEX, bytes(96))
        bench.write(TIME_INDEX, bytes(96))
        bench.reopen(is_clean=True)
        assert bench.values() == [f"{number}" for number in range(40)]

    def test_an_aborted_transaction_survives_a_missing_offset_index(self, bench: Bench) -> None:
        bench.append("a", **PRODUCER, base_sequence=0, transactional=True)
        marker = build_end_transaction_marker(
            EndTransactionMarker(is_abort=True, coordinator_epoch=0),
            base_offset=1,
            producer_id=7,
            producer_epoch=0,
            timestamp=1,
        )
        bench.log.append_as_follower(marker, now_ms=1)
        bench.close()
        bench.filesystem.remove(f"{DIRECTORY}/{INDEX}")
        bench.reopen(is_clean=True)
        assert bench.log.segments.active.transaction_index.entries() == [(7, 0, 1, 2)]

    def test_a_damaged_epoch_checkpoint_is_made_anew_from_the_batches(self, bench: Bench) -> None:
        bench.append("a", leader_epoch=3)
        bench.append("b", leader_epoch=5)
        bench.close()
        bench.write("leader-epoch-checkpoint", b"0\n9\nrubbish")
        bench.reopen(is_clean=True)
        assert bench.log.leader_epochs.entries == ((3, 0), (5, 1))
        bench.close()
        assert bench.content("leader-epoch-checkpoint") == b"0\n2\n3 0\n5 1\n"

    def test_a_missing_log_file_is_an_empty_log_at_its_start(self, bench: Bench) -> None:
        bench.filesystem.remove(f"{DIRECTORY}/{LOG}")
        bench.reopen(is_clean=True, log_start_offset=5)
        assert (bench.log.log_start_offset, bench.log.log_end_offset) == (5, 5)
        assert bench.base_offsets() == [5]


class TestAfterAKill:
    def test_every_record_is_there(self, make_bench: Callable[..., Bench]) -> None:
        bench = make_bench(segment_bytes=400, index_interval_bytes=100)
        for number in range(30):
            bench.append(f"{number}", leader_epoch=number // 10, **PRODUCER, base_sequence=number)
        bench.reopen()
        assert bench.values() == [f"{number}" for number in range(30)]
        assert bench.log.leader_epochs.entries == ((0, 0), (1, 10), (2, 20))
        assert bench.append("29", **PRODUCER, base_sequence=29).is_duplicate
        assert bench.append("30", **PRODUCER, base_sequence=30).first_offset == 30

    def test_every_record_is_there_after_a_second_kill(self, make_bench: Callable[..., Bench]) -> None:
        bench = make_bench(segment_bytes=300)
        written = []
        for round_number in range(5):
            for number in range(5):
                written.append(f"{round_number}.{number}")
                bench.append(written[-1])
            bench.reopen()
        assert bench.values() == written

    @pytest.mark.parametrize("size", [1, 30, 60, 61, 66])
    def test_a_torn_batch_is_cut_off_and_logged(
        self, bench: Bench, size: int, caplog: pytest.LogCaptureFixture
    ) -> None:
        bench.append("a")
        torn = build_batch([Record(1, 1, None, b"b")], base_offset=1)[:size]
        bench.log.segments.active.log.append(torn)
        with caplog.at_level(logging.WARNING):
            bench.reopen()
        assert bench.values() == ["a"]
        assert f"cut {size} bytes" in caplog.text
        assert bench.append("b").first_offset == 1
        assert bench.values() == ["a", "b"]

    def test_damage_in_the_middle_cuts_there_and_later_segments_go(self, make_bench: Callable[..., Bench]) -> None:
        bench = make_bench(segment_bytes=200)
        for number in range(8):
            bench.append(f"{number}")
        assert bench.base_offsets() == [0, 2, 4, 6]
        second = bench.filesystem.open(f"{DIRECTORY}/{2:020}.log")
        second.write_at(second.size - 1, b"\xff")
        bench.reopen()
        assert bench.values() == ["0", "1", "2"]
        assert bench.base_offsets() == [0, 2]
        assert bench.append("3").first_offset == 3
        bench.environment.deletions.delete_due(10**9)
        assert bench.files(".deleted") == []

    @pytest.mark.parametrize("left", [0, 1])
    def test_a_sealed_segment_without_its_last_batches_ends_the_log(
        self, make_bench: Callable[..., Bench], left: int
    ) -> None:
        bench = without_the_end_of_its_second_segment(make_bench, left)
        bench.reopen(recovery_point=2, compacted_to=2)
        assert bench.values() == ["0", "1", "2"][: 2 + left]
        assert bench.log.log_end_offset == 2 + left
        assert bench.append("again").first_offset == 2 + left

    @pytest.mark.parametrize("left", [0, 1])
    def test_what_compaction_may_have_removed_is_not_missed(self, make_bench: Callable[..., Bench], left: int) -> None:
        bench = without_the_end_of_its_second_segment(make_bench, left)
        bench.reopen(recovery_point=2, compacted_to=4)
        assert bench.values() == ["0", "1", *["2"][:left], "4", "5", "6", "7"]

    def test_a_follower_whose_leader_has_compacted_the_end_of_a_segment_misses_nothing(
        self, make_bench: Callable[..., Bench]
    ) -> None:
        bench = make_bench(segment_bytes=200)
        for offset in (0, 1, 7, 8):
            batch = bytearray(build_batch([Record(0, 1_000, None, b"%d" % offset)]))
            assign_offsets(batch, 0, offset, leader_epoch=0)
            bench.log.append_as_follower(batch, now_ms=1_000)
        assert bench.base_offsets() == [0, 2]
        bench.reopen(compacted_to=0)
        assert bench.values() == ["0", "1", "7", "8"]

    def test_what_lies_below_the_recovery_point_is_not_verified_again(self, make_bench: Callable[..., Bench]) -> None:
        bench = make_bench(segment_bytes=200)
        for number in range(8):
            bench.append(f"{number}")
        bench.run_background()
        first = bench.filesystem.open(f"{DIRECTORY}/{LOG}")
        first.write_at(first.size - 1, b"\xff")
        bench.reopen(recovery_point=bench.log.recovery_point)
        assert bench.log.log_end_offset == 8
        assert bench.log.recovery_point == 6

    def test_the_segment_that_holds_the_recovery_point_is_verified(self, make_bench: Callable[..., Bench]) -> None:
        bench = make_bench(segment_bytes=200)
        for number in range(8):
            bench.append(f"{number}")
        bench.run_background()  # a segment whose index file is missing would be verified for that
        second = bench.filesystem.open(f"{DIRECTORY}/{2:020}.log")
        second.write_at(second.size - 1, b"\xff")
        bench.reopen(recovery_point=3)
        assert bench.values() == ["0", "1", "2"]

    def test_a_recovery_point_beyond_the_log_is_ignored(self, make_bench: Callable[..., Bench]) -> None:
        bench = make_bench(segment_bytes=200)
        for number in range(8):
            bench.append(f"{number}")
        first = bench.filesystem.open(f"{DIRECTORY}/{LOG}")
        first.write_at(first.size - 1, b"\xff")
        bench.reopen(recovery_point=100)
        assert bench.values() == ["0"]

    def test_recovered_indexes_reach_the_disk_with_the_next_flush(self, make_bench: Callable[..., Bench]) -> None:
        bench = make_bench(segment_bytes=200, index_interval_bytes=0)
        for number in range(8):
            bench.append(f"{number}")
        bench.reopen()
        bench.log.flush()
        assert bench.log.recovery_point == 8
        assert all(segment.indexes_are_on_disk for segment in list(bench.log.segments)[:-1])
        assert len(bench.content(INDEX)) == 8

    def test_a_log_start_in_the_checkpoint_is_kept(self, bench: Bench) -> None:
        for value in "abc":
            bench.append(value)
        bench.reopen(log_start_offset=2)
        assert bench.values() == ["c"]

    def test_a_log_that_ends_below_its_start_begins_anew_there(self, bench: Bench) -> None:
        bench.append("a", leader_epoch=3)
        bench.reopen(log_start_offset=10)
        assert (bench.log.log_start_offset, bench.log.log_end_offset) == (10, 10)
        assert bench.base_offsets() == [10]
        assert bench.log.leader_epochs.entries == ()
        assert bench.append("b").first_offset == 10

    def test_a_half_done_deletion_is_finished(self, bench: Bench) -> None:
        bench.fill(segments=2)
        bench.run_background()
        bench.log.raise_log_start_offset(2)
        bench.log.delete_segments_below_log_start()
        bench.filesystem.rename(f"{DIRECTORY}/{INDEX}.deleted", f"{DIRECTORY}/{INDEX}")
        bench.reopen(log_start_offset=2)
        assert bench.files(".deleted") == []
        assert bench.base_offsets() == [2, 4]
        assert INDEX not in bench.files()

    def test_leader_epochs_at_or_beyond_the_end_are_dropped(self, bench: Bench) -> None:
        bench.append("a", leader_epoch=1)
        bench.log.assign_leader_epoch(2)
        bench.log.flush()
        bench.reopen()
        assert bench.log.leader_epochs.entries == ((1, 0),)

    def test_a_damaged_snapshot_makes_way_for_an_older_one(self, bench: Bench) -> None:
        for sequence in range(3):
            bench.append(str(sequence), **PRODUCER, base_sequence=sequence)
            bench.log.roll(bench.now_ms)
        bench.write(f"{3:020}.snapshot", b"rubbish")
        bench.reopen(recovery_point=3)
        assert bench.append("2", **PRODUCER, base_sequence=2).is_duplicate

    def test_a_snapshot_of_the_last_process_stays_only_where_recovery_comes_to_the_same(self, bench: Bench) -> None:
        for sequence in range(3):
            bench.append(str(sequence), **PRODUCER, base_sequence=sequence)
        bench.close()
        at_end = f"{3:020}.snapshot"
        content = bench.content(at_end)
        bench.write(f"{2:020}.snapshot", content)
        bench.write(f"{7:020}.snapshot", content)
        bench.reopen(recovery_point=3)
        assert bench.files(".snapshot") == [at_end]
        assert bench.content(at_end) == content
        bench.close()
        bench.write(at_end, b"rubbish")
        bench.reopen(recovery_point=3)
        assert bench.content(at_end) == content

    def test_an_id_that_cannot_be_read_is_as_good_as_none(self, bench: Bench) -> None:
        bench.write("partition.metadata", b"")
        assert bench.reopen().topic_id == bytes(16)

    def test_files_that_are_not_ours_are_left_alone(self, bench: Bench) -> None:
        bench.write("notes.txt", b"mine")
        bench.write("42.log", b"mine")
        bench.append("a")
        bench.reopen()
        assert {"notes.txt", "42.log"} <= set(bench.files())


class TestSwaps:
    """Sem 2.6 and 2.8: what an interrupted replacement of segments leaves."""

    def write(self, bench: Bench, *names: str) -> None:
        """Segment files by short names such as 05.log.swap; a log holds five offsets and says its own name."""
        for name in names:
            base, kind = int(name[:2]), name[2:]
            content = build_batch([Record(base, 1, None, name.encode())], base_offset=base, last_offset=base + 4)
            bench.write(f"{base:020}{kind}", bytes(content) if ".log" in kind else b"")

    def settled(self, bench: Bench, *names: str) -> list[str]:
        self.write(bench, *names)
        return [f"{file.base_offset:02}{file.kind}{file.suffix}" for file in settle_files(bench.filesystem, DIRECTORY)]

    def test_a_swap_beside_a_cleaned_file_is_undone(self, bench: Bench) -> None:
        left = self.settled(bench, "00.log", "05.log", "00.log.cleaned", "05.log.swap")
        assert left == ["00.log", "05.log"]
        assert bench.files("cleaned") == bench.files("swap") == []

    def test_a_swap_below_the_lowest_cleaned_file_is_of_an_earlier_round_and_is_finished(self, bench: Bench) -> None:
        left = self.settled(bench, "00.log", "00.log.swap", "05.log", "05.log.cleaned")
        assert left == ["00.log", "05.log"]
        assert b"00.log.swap" in bench.content(f"{0:020}.log")

    def test_swaps_replace_everything_in_their_range(self, bench: Bench) -> None:
        left = self.settled(
            bench, "00.log.swap", "00.index.swap", "00.log", "02.log", "02.index", "04.snapshot", "05.log"
        )
        assert left == ["00.index", "00.log", "05.log"]

    def test_an_index_whose_log_was_swapped_in_already_follows(self, bench: Bench) -> None:
        assert self.settled(bench, "00.log", "00.index.swap", "05.log") == ["00.index", "00.log", "05.log"]

    def test_deleted_files_go(self, bench: Bench) -> None:
        assert self.settled(bench, "00.log.deleted", "00.index.deleted", "05.log", "05.snapshot.deleted") == [
            "00.log",  # made with the bench
            "05.log",
        ]

    def test_whenever_it_is_interrupted_the_outcome_is_the_same(self, make_bench: Callable[..., Bench]) -> None:
        names = ("00.log.swap", "00.index.swap", "05.log.swap", "00.log", "00.index", "03.log", "05.log", "10.log")
        for number in range(1, 100):
            bench = make_bench()
            self.write(bench, *names)
            faults = bench.filesystem.faults = Faults(fail_at=number)
            with contextlib.suppress(OSError):
                settle_files(bench.filesystem, DIRECTORY)
            bench.filesystem = bench.filesystem.kill()
            found = settle_files(bench.filesystem, DIRECTORY)
            assert [file.base_offset for file in found if file.kind == ".log"] == [0, 5, 10]
            assert b"00.log.swap" in bench.content(f"{0:020}.log")
            assert b"05.log.swap" in bench.content(f"{5:020}.log")
            if not faults.is_spent:
                return
        pytest.fail("it never ends")
