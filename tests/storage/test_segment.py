"""Segment: index entries, rolling, and finding batches. Reads, with a first batch that is too large: `test_log.py`."""

from __future__ import annotations

import contextlib

import pytest

from kmini.protocol.records.batch import build_batch, read_header
from kmini.protocol.records.record import Record
from kmini.storage.filesystem.faults import Faults
from kmini.storage.filesystem.memory_filesystem import MemoryFileSystem
from kmini.storage.indexes.index_file import CorruptIndex
from kmini.storage.indexes.offset_index import OffsetIndex
from kmini.storage.indexes.time_index import TimeIndex
from kmini.storage.log_config import LogConfig
from kmini.storage.segment import Segment

DIRECTORY = "/log"


@pytest.fixture
def filesystem() -> MemoryFileSystem:
    filesystem = MemoryFileSystem()
    filesystem.make_directory(DIRECTORY)
    return filesystem


def new_segment(filesystem: MemoryFileSystem, base_offset: int = 0, **config: object) -> Segment:
    return Segment(filesystem, DIRECTORY, base_offset, LogConfig(**config), 0, create=True)


def loaded(filesystem: MemoryFileSystem, next_offset: int | None = None, **config: object) -> Segment:
    return Segment(filesystem, DIRECTORY, 0, LogConfig(**config), 0, create=False, next_offset=next_offset)


def batch(base_offset: int, records: int = 1, *, size: int | None = None, timestamp: int = 100) -> bytearray:
    """A batch of `size` bytes, filled up in its first value."""
    smallest = _batch(base_offset, records, 0, timestamp)
    if size is None:
        return smallest
    for padding in range(size):
        built = _batch(base_offset, records, padding, timestamp)
        if len(built) == size:
            return built
    raise ValueError(size)


def _batch(base_offset: int, records: int, padding: int, timestamp: int) -> bytearray:
    values = [b"x" * padding, *[b""] * (records - 1)]
    return build_batch(
        [Record(base_offset + number, timestamp, None, value) for number, value in enumerate(values)],
        base_offset=base_offset,
    )


def append(segment: Segment, built: bytearray) -> None:
    header = read_header(built)
    segment.append(built, header.last_offset, header.max_timestamp)


def must_roll(segment: Segment, *, size: int = 10, timestamp: int = 100, now_ms: int = 0, **config: object) -> bool:
    return segment.must_roll(size, segment.next_offset, timestamp, LogConfig(**config), now_ms)


class TestIndexEntries:
    def test_six_batches_give_the_entries_that_kafka_4_3_writes(self, filesystem: MemoryFileSystem) -> None:
        segment = new_segment(filesystem, 1_000, segment_index_bytes=100, index_interval_bytes=200)
        for number in range(6):
            append(segment, batch(1_000 + 2 * number, 2, size=199, timestamp=100 + number))
        assert segment.offset_index.entries() == [(1_005, 398), (1_009, 796)]
        assert segment.time_index.entries() == [(102, 1_005), (104, 1_009)]
        segment.seal()
        segment.write_indexes()
        index = filesystem.read(f"{DIRECTORY}/00000000000000001000.index")
        time_index = filesystem.read(f"{DIRECTORY}/00000000000000001000.timeindex")
        assert index == bytes.fromhex("00000005 0000018e 00000009 0000031c")
        assert segment.time_index.entries() == [(102, 1_005), (104, 1_009), (105, 1_011)]
        assert len(time_index) == 36

    def test_every_batch_of_a_replicated_append_is_a_step_of_its_own(self, filesystem: MemoryFileSystem) -> None:
        segment = new_segment(filesystem, index_interval_bytes=100)
        batches = [batch(number, size=80) for number in range(4)]
        headers = [(80 * number, read_header(built)) for number, built in enumerate(batches)]
        segment.append_all(b"".join(batches), headers)
        assert segment.offset_index.entries() == [(2, 160)]

    @pytest.mark.parametrize("way", ["one by one", "at once", "noted"])
    def test_the_largest_timestamp_is_that_of_the_first_batch_that_had_it(
        self, filesystem: MemoryFileSystem, way: str
    ) -> None:
        segment = new_segment(filesystem)
        batches = [batch(number, timestamp=timestamp) for number, timestamp in enumerate((5, 9, 9, 3))]
        size = len(batches[0])
        headers = [(size * number, read_header(built)) for number, built in enumerate(batches)]
        if way == "one by one":
            for built in batches:
                append(segment, built)
        elif way == "at once":
            segment.append_all(b"".join(batches), headers)
        else:
            segment.note_batches(0, ((0, size, 2 * size, 3 * size), [size] * 4, range(4), (5, 9, 9, 3)))
        assert segment.max_timestamp == 9
        segment.seal()
        assert segment.time_index.last_entry == (9, 1)

    def test_without_timestamps_the_files_time_is_what_retention_goes_by(self, filesystem: MemoryFileSystem) -> None:
        filesystem.now_ms = 777
        segment = new_segment(filesystem)
        append(segment, batch(0, timestamp=-1))
        assert (segment.max_timestamp, segment.largest_timestamp) == (-1, 777)

    def test_full_indexes_take_no_entry_and_ask_for_a_roll(self, filesystem: MemoryFileSystem) -> None:
        segment = new_segment(filesystem, index_interval_bytes=0, segment_index_bytes=24)
        for number in range(6):
            append(segment, batch(number, timestamp=number))
        assert segment.indexes_are_full
        assert len(segment.offset_index) == 1
        assert must_roll(segment)
        assert segment.locate(5) is not None


class TestRolling:
    def test_a_segment_takes_exactly_its_size(self, filesystem: MemoryFileSystem) -> None:
        segment = new_segment(filesystem)
        append(segment, batch(0, size=100))
        assert not must_roll(segment, size=50, segment_bytes=150)
        assert must_roll(segment, size=51, segment_bytes=150)

    def test_age_is_counted_in_the_time_of_the_records(self, filesystem: MemoryFileSystem) -> None:
        segment = new_segment(filesystem)
        append(segment, batch(0, timestamp=1_000))
        assert not must_roll(segment, timestamp=1_500, now_ms=10**9, segment_ms=500)
        assert must_roll(segment, timestamp=1_501, segment_ms=500)

    def test_without_timestamps_age_is_counted_from_when_it_was_opened(self, filesystem: MemoryFileSystem) -> None:
        segment = new_segment(filesystem)
        append(segment, batch(0, timestamp=-1))
        assert not must_roll(segment, timestamp=10**9, now_ms=500, segment_ms=500)
        assert must_roll(segment, timestamp=-1, now_ms=501, segment_ms=500)

    def test_a_restart_counts_from_the_first_batch_again(self, filesystem: MemoryFileSystem) -> None:
        segment = new_segment(filesystem, index_interval_bytes=0)
        for number in range(4):
            append(segment, batch(number, timestamp=1_000 + number))
        segment.seal()
        segment.write_indexes()
        again = loaded(filesystem, index_interval_bytes=0)
        again.walk_tail()
        assert again.first_timestamp == 1_000

    def test_an_empty_segment_never_rolls_by_age(self, filesystem: MemoryFileSystem) -> None:
        assert not must_roll(new_segment(filesystem), timestamp=10**12, now_ms=10**12, segment_ms=1)

    def test_a_compacted_topic_rolls_by_the_max_compaction_lag(self, filesystem: MemoryFileSystem) -> None:
        segment = new_segment(filesystem)
        append(segment, batch(0, timestamp=1_000))
        compacted = {"cleanup_policy": frozenset({"compact"}), "max_compaction_lag_ms": 300}
        assert must_roll(segment, timestamp=1_301, **compacted)
        assert not must_roll(segment, timestamp=1_300, **compacted)
        assert not must_roll(segment, timestamp=1_301, max_compaction_lag_ms=300)

    def test_jitter_makes_it_earlier_by_less_than_itself(self, filesystem: MemoryFileSystem) -> None:
        assert new_segment(filesystem).roll_jitter_ms == 0
        assert all(0 <= new_segment(filesystem, segment_jitter_ms=5).roll_jitter_ms < 5 for _ in range(50))
        segment = new_segment(filesystem)
        append(segment, batch(0, timestamp=1_000))
        segment.roll_jitter_ms = 100
        assert must_roll(segment, timestamp=1_401, segment_ms=500)

    def test_offsets_beyond_the_reach_of_the_index_need_a_new_one(self, filesystem: MemoryFileSystem) -> None:
        segment = new_segment(filesystem, 10)
        assert not segment.must_roll(10, 10 + 2**31 - 1, 100, LogConfig(), 0)
        assert segment.must_roll(10, 10 + 2**31, 100, LogConfig(), 0)


class TestLocating:
    @pytest.mark.parametrize("interval", [0, 150, 10_000])
    @pytest.mark.parametrize("is_sealed", [False, True])
    def test_every_offset_is_found(self, filesystem: MemoryFileSystem, interval: int, is_sealed: bool) -> None:
        segment = new_segment(filesystem, 50, index_interval_bytes=interval)
        expected = {}
        for base in range(50, 200, 3):
            position = segment.size
            append(segment, batch(base, 3))
            expected.update(dict.fromkeys((base, base + 1, base + 2), (position, segment.size - position)))
        if is_sealed:
            segment.seal()
        assert {offset: segment.locate(offset) for offset in expected} == expected
        assert segment.locate(200) is None
        assert segment.locate(0) == (0, expected[50][1])

    def test_no_file_is_read_for_what_lies_beyond_the_last_index_entry(self, filesystem: MemoryFileSystem) -> None:
        segment = new_segment(filesystem)
        for number in range(20):
            append(segment, batch(number))
        filesystem.faults = Faults(operations={"read_at"})
        assert all(segment.locate(number) for number in range(20))
        assert filesystem.faults.count == 0

    def test_more_batches_than_are_remembered_are_found_all_the_same(self, filesystem: MemoryFileSystem) -> None:
        segment = new_segment(filesystem, index_interval_bytes=10**9)
        built = batch(0)
        for number in range(2_500):
            segment.append(batch(number), number, 100)
        for number in (0, 1_023, 1_024, 2_047, 2_048, 2_499):
            assert segment.locate(number) == (number * len(built), len(built))

    def test_batches_larger_than_a_chunk_are_walked_over(self, filesystem: MemoryFileSystem) -> None:
        segment = new_segment(filesystem, index_interval_bytes=10**9)
        for number in range(5):
            append(segment, _batch(number, 1, 20_000, 100))
        segment.seal()
        assert [segment.locate(number)[0] // 20_000 for number in range(5)] == [0, 1, 2, 3, 4]

    def test_a_damaged_index_is_rebuilt_when_it_is_met(self, filesystem: MemoryFileSystem) -> None:
        segment = new_segment(filesystem, index_interval_bytes=0)
        for number in range(10):
            append(segment, batch(number, timestamp=100 + number))
        segment.seal()
        segment.write_indexes()
        for kind in ("index", "timeindex"):
            with_zeros = filesystem.open(f"{DIRECTORY}/00000000000000000000.{kind}")
            with_zeros.truncate(0)
            with_zeros.append(bytes(96))
            with_zeros.close()
        again = loaded(filesystem, next_offset=10, index_interval_bytes=0)
        assert again.locate(7) == segment.locate(7)
        assert again.max_timestamp == 109


class TestWalkingTheTail:
    def test_a_loaded_segment_goes_on_where_it_was(self, filesystem: MemoryFileSystem) -> None:
        segment = new_segment(filesystem, index_interval_bytes=150)
        twin = Segment(MemoryFileSystem(), "/", 0, LogConfig(index_interval_bytes=150), 0, create=True)
        for number in range(7):
            append(segment, batch(number))
            append(twin, batch(number))
        segment.seal()
        segment.write_indexes()
        again = loaded(filesystem, index_interval_bytes=150)
        assert again.walk_tail() == 0
        assert again.next_offset == 7
        for number in range(7, 20):
            append(again, batch(number))
            append(twin, batch(number))
        assert again.offset_index.entries() == twin.offset_index.entries()

    def test_what_is_no_batch_is_cut_off_the_end(self, filesystem: MemoryFileSystem) -> None:
        segment = new_segment(filesystem)
        append(segment, batch(0))
        size = segment.size
        segment.log.append(bytes(100))
        segment.write_indexes()
        again = loaded(filesystem)
        assert again.walk_tail() == 100
        assert (again.size, again.next_offset) == (size, 1)

    @pytest.mark.parametrize("entry", [(3, 0), (1, 10_000)])
    def test_an_index_that_does_not_fit_the_log_is_refused(
        self, filesystem: MemoryFileSystem, entry: tuple[int, int]
    ) -> None:
        segment = new_segment(filesystem)
        append(segment, batch(0))
        append(segment, batch(1))
        segment.offset_index.append(*entry)
        segment.write_indexes()
        with pytest.raises(CorruptIndex):
            loaded(filesystem, index_interval_bytes=segment.size - 1).walk_tail()

    @pytest.mark.parametrize("content", [b"", b"rubbish", bytes(24), None])
    def test_of_a_log_too_small_for_an_entry_the_index_files_are_neither_read_nor_believed(
        self, filesystem: MemoryFileSystem, content: bytes | None
    ) -> None:
        segment = new_segment(filesystem, index_interval_bytes=150)
        append(segment, batch(0, timestamp=300))
        append(segment, batch(1, timestamp=200))
        interval = segment.size
        paths = [segment.offset_index.path, segment.time_index.path]
        for path in paths:
            with contextlib.closing(filesystem.open(path, create=True)) as file:
                file.append(content or b"")
            if content is None:
                filesystem.remove(path)
        filesystem.faults = Faults(fail_at=1, fail_for_good=True, operations={"read"})
        again = loaded(filesystem, index_interval_bytes=interval)
        assert again.walk_tail() == 0
        assert (again.next_offset, again.max_timestamp, again.first_timestamp) == (2, 300, 300)
        assert [again.position_of(offset) for offset in (0, 1)] == [0, interval // 2]
        assert [header.base_offset for _, header in again.headers_since(250, 0)] == [0]
        filesystem.faults = Faults()
        for number in range(2, 8):
            append(again, batch(number, timestamp=300 + number))
        again.seal()
        again.write_indexes()
        read = [OffsetIndex(filesystem, paths[0], 0), TimeIndex(filesystem, paths[1], 0)]
        assert [index.entries() for index in read] == [again.offset_index.entries(), again.time_index.entries()]
        assert [len(index) for index in read] == [2, 3]

    def test_a_log_large_enough_for_an_entry_is_walked_from_its_last_one(self, filesystem: MemoryFileSystem) -> None:
        segment = new_segment(filesystem, index_interval_bytes=100)
        for number in range(4):
            append(segment, batch(number))
        segment.write_indexes()
        again = loaded(filesystem, index_interval_bytes=100)
        again.walk_tail()
        assert again.offset_index.entries() == segment.offset_index.entries() != []


class TestRecovering:
    def filled(self, filesystem: MemoryFileSystem) -> Segment:
        segment = new_segment(filesystem, index_interval_bytes=150)
        for number in range(10):
            append(segment, batch(number, timestamp=100 + number))
        return segment

    def test_indexes_come_out_as_they_were(self, filesystem: MemoryFileSystem) -> None:
        segment = self.filled(filesystem)
        seen = []
        again = loaded(filesystem, index_interval_bytes=150)
        assert again.recover(lambda header, data: seen.append((header.base_offset, len(data)))) == 0
        assert again.offset_index.entries() == segment.offset_index.entries()
        assert again.time_index.entries() == segment.time_index.entries()
        assert (again.max_timestamp, again.next_offset) == (109, 10)
        assert seen == [(number, len(batch(number))) for number in range(10)]

    @pytest.mark.parametrize("damage", ["truncated", "flipped", "zeroed", "garbage"])
    def test_the_log_is_cut_at_the_first_damaged_batch(self, filesystem: MemoryFileSystem, damage: str) -> None:
        segment = self.filled(filesystem)
        size = segment.size // 10
        if damage == "truncated":
            segment.log.truncate(7 * size - 1)
        elif damage == "flipped":
            byte = segment.log.read_at(6 * size + 65, 1)[0]
            segment.log.write_at(6 * size + 65, bytes([byte ^ 1]))
        elif damage == "zeroed":
            segment.log.write_at(6 * size, bytes(4 * size))
        else:
            segment.log.write_at(6 * size, b"\xff" * size)
        again = loaded(filesystem, index_interval_bytes=150)
        cut = again.recover(lambda header, data: None)
        assert cut > 0
        assert (again.size, again.next_offset) == (6 * size, 6)

    def test_offsets_that_go_back_are_damage(self, filesystem: MemoryFileSystem) -> None:
        segment = new_segment(filesystem)
        for number in (0, 1, 1):
            append(segment, batch(number))
        again = loaded(filesystem)
        again.recover(lambda header, data: None)
        assert again.next_offset == 2

    def test_a_size_that_is_not_there_reserves_nothing(self, filesystem: MemoryFileSystem) -> None:
        segment = new_segment(filesystem)
        append(segment, batch(0))
        end = segment.size
        segment.log.append(batch(1))
        segment.log.write_at(end + 8, (2**31 - 1).to_bytes(4, "big"))
        filesystem.faults = Faults(operations={"read_at"})
        again = loaded(filesystem)
        again.recover(lambda header, data: None)
        assert again.next_offset == 1


class TestTruncating:
    def test_the_batch_that_contains_the_offset_goes_whole(self, filesystem: MemoryFileSystem) -> None:
        segment = new_segment(filesystem, index_interval_bytes=0)
        for number in range(4):
            append(segment, batch(3 * number, 3, timestamp=100 + number))
        segment.truncate_to(7)
        assert (segment.next_offset, segment.max_timestamp) == (6, 101)
        assert segment.offset_index.entries() == [(5, len(batch(0, 3)))]

    def test_to_nothing(self, filesystem: MemoryFileSystem) -> None:
        segment = new_segment(filesystem, 10, index_interval_bytes=0)
        for number in range(10, 14):
            append(segment, batch(number))
        segment.truncate_to(10)
        assert (segment.size, segment.next_offset, segment.max_timestamp) == (0, 10, -1)
        append(segment, batch(10, timestamp=7))
        assert (segment.first_timestamp, segment.max_timestamp) == (7, 7)
