"""What a pass keeps and what it drops, record by record and batch by batch. `test_cleaned_segment.py`
tests how small segments become one."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from kmini.protocol.records.batch import MAGIC, build_batch
from kmini.protocol.records.compression import Codec
from kmini.protocol.records.old_formats.messages import build_messages, build_wrapper
from kmini.protocol.records.record import Record
from kmini.storage.cleaner.clean import MAX_GROUP
from kmini.storage.cleaner.cleanable_log import Limits
from kmini.storage.cleaner.rewrite import emptied

Bench = Any
DAY_MS = 86_400_000
PRODUCER = {"producer_id": 7, "producer_epoch": 0}
SMALL = Limits(buffer_bytes=100)

pytestmark = pytest.mark.usefixtures("sieve")


class TestRecords:
    def test_the_newest_record_of_every_key_stays_where_it_is(self, bench: Bench) -> None:
        bench.put(("a", "1"), ("b", "1"))
        bench.put(("a", "2"), ("c", "1"))
        report = bench.clean()
        assert bench.pairs() == [(1, "b", "1"), (2, "a", "2"), (3, "c", "1")]
        assert (report.records_read, report.superseded, report.records_kept) == (4, 1, 3)
        assert bench.read_all() == [1, 2, 3]

    def test_the_active_segment_is_left_alone(self, bench: Bench) -> None:
        bench.put(("a", "1"))
        bench.roll()
        bench.put(("a", "2"))
        bench.put(("a", "3"))
        bench.clean(roll=False)
        assert bench.pairs() == [(0, "a", "1"), (1, "a", "2"), (2, "a", "3")]

    def test_keys_of_a_later_pass_supersede_records_of_the_clean_part(self, bench: Bench) -> None:
        bench.put(("a", "1"), ("b", "1"))
        bench.clean()
        bench.put(("a", "2"))
        bench.clean()
        assert bench.pairs() == [(1, "b", "1"), (2, "a", "2")]

    def test_a_record_without_a_key_goes(self, bench: Bench) -> None:
        bench.put((None, "x"), ("a", "1"))
        assert bench.clean().keyless_records == 1
        assert bench.pairs() == [(1, "a", "1")]

    def test_an_empty_key_is_a_key(self, bench: Bench) -> None:
        bench.put(("", "1"), ("", "2"))
        bench.clean()
        assert bench.pairs() == [(1, "", "2")]

    def test_headers_and_timestamps_stay(self, bench: Bench) -> None:
        records = [
            Record(0, 500, b"a", b"1", (("trace", b"x"), ("null", None))),
            Record(0, 900, b"b", b"1"),
            Record(0, 700, b"a", b"2", (("trace", b"y"),)),
        ]
        bench.append(build_batch(records))
        bench.clean()
        kept = [records[1]._replace(offset=1), records[2]._replace(offset=2)]
        assert bench.records() == kept
        assert bench.batches()[0][0].max_timestamp == 900

    def test_the_largest_timestamp_is_that_of_the_records_that_stay(self, bench: Bench) -> None:
        bench.append(build_batch([Record(0, 900, b"a", b"1"), Record(0, 500, b"b", b"1")]))
        bench.put(("a", "2"))
        bench.clean()
        assert bench.batches()[0][0].max_timestamp == 500

    def test_with_log_append_time_the_timestamp_of_the_batch_stays(self, bench: Bench) -> None:
        bench.append(build_batch([Record(0, 900, b"a", b"1"), Record(0, 500, b"b", b"1")], log_append_time_ms=5_000))
        bench.put(("a", "2"))
        bench.clean()
        assert bench.records()[0].timestamp == 5_000

    @pytest.mark.parametrize("codec", Codec)
    def test_compressed_batches_keep_their_codec(self, bench: Bench, codec: Codec) -> None:
        bench.put(("a", "1"), ("b", "x" * 1_000), codec=codec)
        bench.put(("a", "2"), codec=codec)
        bench.clean()
        assert bench.pairs() == [(1, "b", "x" * 1_000), (2, "a", "2")]
        assert {header.codec for header, _ in bench.batches()} == {codec}

    @pytest.mark.parametrize("codec", [Codec.NONE, Codec.LZ4])
    def test_a_batch_that_loses_nothing_is_copied_as_it_is(self, bench: Bench, codec: Codec) -> None:
        bench.put(("a", "1"), ("b", "1"), codec=codec, **PRODUCER, base_sequence=0)
        before = bench.batches()
        bench.clean()
        assert bench.batches() == before

    @pytest.mark.parametrize("codec", [Codec.NONE, Codec.ZSTD])
    def test_a_batch_larger_than_the_buffer_is_cleaned(self, bench: Bench, codec: Codec) -> None:
        bench.put(*[(f"{n % 7}", "x" * 50) for n in range(40)], codec=codec)
        bench.put(("0", "new"), codec=codec)
        bench.clean(limits=SMALL)
        assert [(offset, key) for offset, key, _ in bench.pairs()] == [
            *((33, "5"), (34, "6"), (36, "1"), (37, "2"), (38, "3"), (39, "4"), (40, "0"))
        ]

    def test_messages_of_old_formats_become_batches(self, bench: Bench) -> None:
        old = [Record(0, -1, b"a", b"1"), Record(0, -1, b"b", b"1")]
        for magic in (0, 1):
            for record in old:
                at = bench.log.log_end_offset
                bench.append_old(build_messages([record._replace(offset=at, timestamp=300)], magic))
        at = bench.log.log_end_offset
        pair = [Record(at, 400, b"c", b"1"), Record(at + 1, 500, b"a", b"2")]
        bench.append_old(build_wrapper([pair], 1, Codec.GZIP))
        bench.clean()
        assert bench.pairs() == [(3, "b", "1"), (4, "c", "1"), (5, "a", "2")]
        assert [record.timestamp for record in bench.records()] == [300, 400, 500]
        assert {header.magic for header, _ in bench.batches()} == {2}

    @pytest.mark.parametrize("codec", [Codec.NONE, Codec.GZIP])
    def test_a_tombstone_of_an_old_format_gets_a_horizon_as_it_becomes_a_batch(
        self, bench: Bench, codec: Codec
    ) -> None:
        bench.filesystem.now_ms = 1_000
        records = [Record(0, 300, b"a", None)]
        old = build_messages(records, 1) if codec == Codec.NONE else build_wrapper([records], 1, codec)
        bench.append_old(old)
        report = bench.clean()
        horizon_ms = bench.now_ms + bench.config.delete_retention_ms
        assert (bench.horizons(), report.earliest_horizon_ms) == ({0: horizon_ms}, horizon_ms)
        assert [(record.timestamp, record.key, record.value) for record in bench.records()] == [(300, b"a", None)]
        bench.now_ms = horizon_ms
        bench.clean()
        assert bench.records() == []


class TestProducers:
    def test_the_last_batch_of_a_producer_stays_empty(self, bench: Bench) -> None:
        bench.put(("a", "1"), **PRODUCER, base_sequence=0)
        bench.put(("a", "2"), **PRODUCER, base_sequence=1)
        bench.put(("a", "3"))
        bench.clean()
        assert bench.pairs() == [(2, "a", "3")]
        headers = [header for header, _ in bench.batches()]
        assert [(h.base_offset, h.record_count, h.base_sequence) for h in headers] == [(1, 0, 1), (2, 1, -1)]
        bench.reopen()
        assert bench.put(("a", "2"), **PRODUCER, base_sequence=1).is_duplicate
        assert bench.put(("a", "4"), **PRODUCER, base_sequence=2).first_offset == 3

    def test_a_producer_that_is_gone_leaves_nothing(self, bench: Bench) -> None:
        bench.put(("a", "1"), **PRODUCER, base_sequence=0)
        bench.put(("a", "3"))
        bench.log.producers.expire(2 * DAY_MS)
        bench.clean()
        assert [header.base_offset for header, _ in bench.batches()] == [1]

    def test_the_last_batch_of_a_pass_stays_empty(self, bench: Bench) -> None:
        bench.put(("a", "1"))
        bench.put((None, "x"))
        bench.clean()
        assert [(h.base_offset, h.record_count) for h, _ in bench.batches()] == [(0, 1), (1, 0)]

    def test_a_group_of_which_nothing_stays_becomes_a_segment_of_0_bytes(
        self, make_cleaning_bench: Callable[..., Bench]
    ) -> None:
        bench = make_cleaning_bench(segment_bytes=100)
        bench.put(("a", "1"), ("b", "1"))
        bench.put(("a", "2"), ("b", "2"))
        bench.clean()
        for _ in range(2):
            sealed = [*bench.log.segments][:-1]
            assert [(each.base_offset, each.size > 0) for each in sealed] == [(0, False), (2, True)]
            assert bench.read_all() == [2, 3]
            assert bench.log.log_end_offset == 4
            bench.reopen()
            bench.log.update_high_watermark(4)

    def test_the_header_that_an_older_kmini_left_at_the_end_of_a_group_goes(
        self, bench: Bench, make_cleaning_bench: Callable[..., Bench]
    ) -> None:
        bench.put(("a", "1"))
        ((header, _),) = bench.batches()
        old = make_cleaning_bench()
        old.log.segments.active.append(emptied(header).batch, header.last_offset, header.max_timestamp)
        old.log.log_end_offset = old.log.producers.end_offset = 1
        old.log.update_high_watermark(1)
        old.roll()
        old.put(("a", "2"))
        assert old.read_all() == [1]
        old.clean()
        assert [(h.base_offset, h.record_count) for h, _ in old.batches()] == [(1, 1)]

    def test_the_last_message_of_an_old_format_in_a_pass_stays_as_an_empty_batch(
        self, make_cleaning_bench: Callable[..., Bench]
    ) -> None:
        """As a batch without records. Apache Kafka gives such a log up."""
        bench = make_cleaning_bench()
        bench.put(("a", "1"))
        bench.append_old(build_messages([Record(1, 300, None, b"1")], 1))
        bench.clean()
        assert [(h.base_offset, h.magic, h.record_count) for h, _ in bench.batches()] == [(0, MAGIC, 1), (1, MAGIC, 0)]


# --- segments that are made into one


def test_tiny_segments_are_swapped_a_few_at_a_time(make_cleaning_bench: Callable[..., Bench]) -> None:
    bench = make_cleaning_bench()
    for number in range(3 * MAX_GROUP + 1):
        bench.put((f"{number % 5}", f"{number}"))
        bench.roll()
    swaps = []
    replace = bench.log.segments.replace

    class Watched:
        def __getattr__(self, name: str) -> Any:
            return getattr(segments, name)

        def __iter__(self) -> Any:
            return iter(segments)

        def replace(self, old: Any, *arguments: Any) -> None:
            swaps.append(len(old))
            replace(old, *arguments)

    segments, bench.log.segments = bench.log.segments, Watched()
    before = bench.pairs()
    bench.clean(roll=False)
    assert swaps == [MAX_GROUP] * 3 + [1]
    assert bench.pairs() == before[-5:]


def test_a_later_pass_makes_one_of_what_is_left_of_them(make_cleaning_bench: Callable[..., Bench]) -> None:
    bench = make_cleaning_bench()
    for number in range(2 * MAX_GROUP):
        bench.put((f"{number % 5}", f"{number}"))
        bench.roll()
    bench.clean(roll=False)
    bench.put(("another", "1"))
    bench.clean()
    assert len(bench.base_offsets()) == 2  # that, and the active one
    assert len(bench.pairs()) == 6
