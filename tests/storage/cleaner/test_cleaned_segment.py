"""The segments that a pass writes: their sizes, indexes, times and files."""

from __future__ import annotations

import errno
import random
from array import array
from collections.abc import Callable
from itertools import accumulate
from typing import Any

import pytest

from kmini.protocol.records.batch import build_batch, read_header
from kmini.protocol.records.record import Record
from kmini.storage.cleaner import cleaned_segment
from kmini.storage.cleaner.cleanable_log import CleaningAborted, Limits
from kmini.storage.cleaner.cleaned_segment import CleanedSegment
from kmini.storage.filesystem import Buffer, memory_filesystem
from kmini.storage.filesystem.faults import Faults
from kmini.storage.filesystem.memory_filesystem import MemoryFileSystem
from kmini.storage.log_config import LogConfig

Bench = Any


DAY_MS = 86_400_000


PRODUCER = {"producer_id": 7, "producer_epoch": 0}


SMALL = Limits(buffer_bytes=100)


pytestmark = pytest.mark.usefixtures("sieve")


class TestSegments:
    def test_small_ones_become_one(self, bench: Bench) -> None:
        for number in range(5):
            bench.put((f"{number}", "1"))
            bench.roll()
        report = bench.clean()
        assert (report.segments_before, report.segments_after) == (5, 1)
        assert bench.base_offsets() == [0, 5]

    def test_none_becomes_larger_than_allowed(self, make_cleaning_bench: Callable[..., Bench]) -> None:
        bench = make_cleaning_bench(segment_bytes=300)
        for number in range(30):
            bench.put((f"{number}", "1"))
        bench.clean()
        bench.put(("0", "2"))
        bench.clean()
        assert all(segment.size <= 300 for segment in bench.log.segments)
        assert [key for _, key, _ in bench.pairs()] == [f"{n}" for n in range(1, 30)] + ["0"]

    def test_indexes_find_what_is_left(self, make_cleaning_bench: Callable[..., Bench]) -> None:
        bench = make_cleaning_bench(index_interval_bytes=200)
        for number in range(60):
            bench.put((f"{number % 40}", "x" * 20), timestamp=1_000 + number)
        bench.clean()
        segment = bench.log.segments.oldest
        assert len(segment.offset_index) > 5
        for offset in range(60):
            located = segment.locate(offset)
            expected = max(offset, 20)
            assert segment.log.read_at(located[0], 8) == expected.to_bytes(8, "big")
        assert segment.max_timestamp == 1_059
        bench.close()
        bench.reopen(is_clean=True)
        assert bench.read_all() == list(range(20, 60))

    def test_indexes_longer_than_the_setting_do_not_end_the_pass(
        self, make_cleaning_bench: Callable[..., Bench]
    ) -> None:
        """Apache Kafka gives such a log up."""
        bench = make_cleaning_bench()
        for number in range(50):
            bench.put((f"{number}", "x" * 50), timestamp=1_000 + number)
        bench.put(("0", "new"))
        assert bench.log.segments.active.time_index.size_bytes > 100
        bench.log.config = LogConfig(cleanup_policy=("compact",), index_interval_bytes=100, segment_index_bytes=100)
        bench.clean()
        first, _ = bench.log.segments
        assert 0 < first.offset_index.size_bytes <= 100
        assert 0 < first.time_index.size_bytes <= 100
        assert bench.read_all() == [*range(1, 51)]

    def test_they_are_as_old_as_what_they_were_made_from(self, bench: Bench) -> None:
        bench.put(("a", "1"), timestamp=-1)
        bench.filesystem.now_ms = 55_000
        bench.roll()
        modified = bench.log.segments.oldest.modified_ms
        bench.filesystem.now_ms = 77_000
        bench.clean()
        assert bench.log.segments.oldest.modified_ms == modified

    def test_snapshots_of_segments_that_are_gone_go_too(self, bench: Bench) -> None:
        for sequence in range(4):
            bench.put((f"{sequence}", "1"), **PRODUCER, base_sequence=sequence)
            bench.roll()
        assert len(bench.files(".snapshot")) == 4
        bench.clean()
        assert bench.files(".snapshot") == ["00000000000000000004.snapshot"]

    def test_nothing_is_left_of_a_pass_that_is_stopped(self, bench: Bench) -> None:
        class Stop:
            def on_bytes(self, count: int) -> None:
                nonlocal left
                left -= 1
                if not left:
                    raise CleaningAborted

        for number in range(20):
            bench.put((f"{number % 3}", "1"))
        bench.roll()
        before, files = bench.batches(), bench.files()
        for stop_at in (1, 2, 3):  # when mapping, reading, writing
            left = stop_at
            with pytest.raises(CleaningAborted):
                bench.clean(watch=Stop())
            assert (bench.batches(), bench.files()) == (before, files)


class TestWrites:
    """Batches come one by one, or many at a time from a sieve."""

    BUFFER_BYTES = 1_000

    @pytest.fixture
    def batches(self) -> list[bytes]:
        """Small ones, and some larger than the buffer."""
        chance = random.Random(1)
        sizes = [chance.choice((10, 100, 300, 900, 1_000, 2_500)) for _ in range(100)]
        return [
            build_batch([Record(offset, 1_000 + offset, b"key", bytes(size))], base_offset=offset)
            for offset, size in enumerate(sizes)
        ]

    @pytest.fixture
    def filesystem(self) -> MemoryFileSystem:
        filesystem = MemoryFileSystem()
        filesystem.make_directory("/data")
        return filesystem

    def cleaned(self, filesystem: MemoryFileSystem) -> CleanedSegment:
        config = LogConfig(index_interval_bytes=500)
        return CleanedSegment(filesystem, "/data", 0, config, 1_000, self.BUFFER_BYTES)

    def append_sifted(self, cleaned: CleanedSegment, batches: list[bytes]) -> None:
        notes = array("q")
        at = 0
        for batch in batches:
            header = read_header(batch)
            notes.extend((at, header.size, header.last_offset, header.max_timestamp))
            at += header.size
        cleaned.append_sifted(memoryview(b"".join(batches)), notes, len(batches))

    def append_four_at_a_time(self, cleaned: CleanedSegment, batches: list[bytes]) -> None:
        for first in range(0, len(batches), 4):
            self.append_sifted(cleaned, batches[first : first + 4])

    @pytest.mark.parametrize("at_a_time", [0, 1, 2, 7, 100])
    def test_every_batch_is_in_the_file_and_found_by_the_index(
        self, filesystem: MemoryFileSystem, batches: list[bytes], at_a_time: int
    ) -> None:
        """`at_a_time`: 0 for one by one, not from a sieve."""
        cleaned, size = self.cleaned(filesystem), 0
        for first in range(0, len(batches), at_a_time or 1):
            if at_a_time:
                self.append_sifted(cleaned, batches[first : first + at_a_time])
            else:
                cleaned.append(batches[first], read_header(batches[first]))
            size += sum(map(len, batches[first : first + (at_a_time or 1)]))
            assert cleaned.size == size
        segment = cleaned.finish(5_000)
        assert segment.log.read_at(0, 1_000_000) == b"".join(batches)
        assert len(segment.offset_index) > 20
        starts = [0, *accumulate(map(len, batches))]
        assert all(starts[entry.offset] == entry.position for entry in segment.offset_index.entries())
        assert all(entry.timestamp == 1_000 + entry.offset for entry in segment.time_index.entries())
        assert (segment.next_offset, segment.max_timestamp) == (100, 1_099)

    def test_both_ways_may_take_turns(self, filesystem: MemoryFileSystem, batches: list[bytes]) -> None:
        cleaned = self.cleaned(filesystem)
        for first in range(0, 100, 5):
            self.append_sifted(cleaned, batches[first : first + 3])
            for batch in batches[first + 3 : first + 5]:
                cleaned.append(batch, read_header(batch))
        segment = cleaned.finish(5_000)
        assert segment.log.read_at(0, 1_000_000) == b"".join(batches)
        positions = [entry.position for entry in segment.offset_index.entries()]
        assert set(positions) <= {0, *accumulate(map(len, batches))}
        assert positions == sorted(set(positions))

    def test_every_write_but_the_last_is_of_whole_pieces(
        self, filesystem: MemoryFileSystem, batches: list[bytes], monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(cleaned_segment, "_PIECE_BYTES", 400)
        sizes: list[int] = []

        class Written(memory_filesystem.MemoryFile):
            def append(self, *buffers: Buffer) -> None:
                sizes.append(sum(map(len, buffers)))
                super().append(*buffers)

        monkeypatch.setattr(memory_filesystem, "MemoryFile", Written)
        cleaned = self.cleaned(filesystem)
        self.append_four_at_a_time(cleaned, batches)
        assert len(sizes) > 10
        assert not any(size % 400 for size in sizes)
        cleaned.finish(5_000)

    def test_a_write_that_the_disk_refuses_is_an_error_and_leaves_no_file(
        self, filesystem: MemoryFileSystem, batches: list[bytes]
    ) -> None:
        for nth in (1, 2, 5):
            cleaned = self.cleaned(filesystem)
            filesystem.faults = Faults(fail_at=nth, error=errno.ENOSPC, operations={"append"})
            with pytest.raises(OSError, match="No space"):
                self.append_four_at_a_time(cleaned, batches)
            cleaned.discard()
            assert filesystem.list("/data") == []
