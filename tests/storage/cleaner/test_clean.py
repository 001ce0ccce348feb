"""What a pass keeps and what it drops, record by record and batch by batch."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from kmini.protocol.records.batch import MAGIC, build_batch
from kmini.protocol.records.compression import Codec
from kmini.protocol.records.old_formats.messages import build_messages, build_wrapper
from kmini.protocol.records.record import Record
from kmini.storage.cleaner.cleanable_log import Limits
from support.batches import with_crc

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
                _append_old(bench, build_messages([record._replace(offset=at, timestamp=300)], magic))
        at = bench.log.log_end_offset
        pair = [Record(at, 400, b"c", b"1"), Record(at + 1, 500, b"a", b"2")]
        _append_old(bench, build_wrapper([pair], 1, Codec.GZIP))
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
        _append_old(bench, old)
        report = bench.clean()
        horizon_ms = bench.now_ms + bench.config.delete_retention_ms
        assert (bench.horizons(), report.earliest_horizon_ms) == ({0: horizon_ms}, horizon_ms)
        assert [(record.timestamp, record.key, record.value) for record in bench.records()] == [(300, b"a", None)]
        bench.now_ms = horizon_ms
        bench.clean()
        assert bench.records() == []


class TestTombstones:
    def test_a_tombstone_gets_a_horizon_and_goes_when_it_has_passed(self, bench: Bench) -> None:
        bench.put(("a", "1"))
        bench.put(("a", None), ("b", "1"))
        report = bench.clean()
        horizon = 1_000 + DAY_MS
        assert bench.pairs() == [(1, "a", None), (2, "b", "1")]
        assert bench.horizons() == {1: horizon}
        assert (report.tombstones_waiting, report.earliest_horizon_ms) == (1, horizon)
        assert [record.timestamp for record in bench.records()] == [1_000, 1_000]

        bench.now_ms = horizon - 1
        report = bench.clean()
        assert report.is_horizon_pass
        assert [key for _, key, _ in bench.pairs()] == ["a", "b"]
        bench.now_ms = horizon
        assert bench.clean().expired_tombstones == 1
        assert bench.pairs() == [(2, "b", "1")]
        assert bench.records()[0].timestamp == 1_000

    def test_a_horizon_never_moves(self, make_cleaning_bench: Callable[..., Bench]) -> None:
        bench = make_cleaning_bench(delete_retention_ms=500)
        bench.put(("a", None), ("b", None), ("c", "1"))
        bench.clean()
        bench.now_ms = 1_200
        bench.log.config = bench.config.replace(delete_retention_ms=9_000)
        bench.put(("b", "2"))
        bench.clean()
        assert bench.horizons() == {0: 1_500}
        assert bench.pairs() == [(0, "a", None), (2, "c", "1"), (3, "b", "2")]

    @pytest.mark.parametrize("codec", [Codec.NONE, Codec.SNAPPY])
    def test_a_horizon_survives_a_restart(self, bench: Bench, codec: Codec) -> None:
        bench.put(("a", None), ("b", "1"), codec=codec)
        bench.clean()
        bench.close()
        bench.reopen(is_clean=True)
        assert bench.horizons() == {0: 1_000 + DAY_MS}
        bench.now_ms = 1_000 + DAY_MS
        bench.clean()
        assert bench.pairs() == [(1, "b", "1")]

    def test_with_log_append_time_a_horizon_leaves_timestamps_alone(self, bench: Bench) -> None:
        bench.append(build_batch([Record(0, 5, b"a", None), Record(0, 6, b"b", b"1")], log_append_time_ms=5_000))
        bench.clean()
        assert [record.timestamp for record in bench.records()] == [5_000, 5_000]

    def test_a_batch_may_outgrow_the_largest_message(self, make_cleaning_bench: Callable[..., Bench]) -> None:
        bench = make_cleaning_bench(max_message_bytes=100)
        bench.put(*[(f"{n}", None) for n in range(4)])
        before = len(bench.batches()[0][1])
        bench.clean()
        assert len(bench.batches()[0][1]) > max(before, 100)
        assert bench.read_all() == [0, 1, 2, 3]

    def test_a_batch_beyond_the_reach_of_the_map_gets_no_horizon(self, bench: Bench) -> None:
        bench.put(("a", "1"))
        bench.put(("b", "1"), ("a", None))
        bench.clean(limits=Limits(map_bytes=24 * 3))
        assert bench.horizons() == {}
        assert [offset for offset, _, _ in bench.pairs()] == [0, 1, 2]

    def test_an_explicit_tombstone_deletes_although_it_has_a_value(
        self, make_cleaning_bench: Callable[..., Bench]
    ) -> None:
        bench = make_cleaning_bench(kmini_tombstone_flag_enable=True)
        batch = build_batch([Record(0, 1_000, b"a", b"who deleted it")])
        batch[62] |= 0x20
        bench.put(("a", "1"), ("b", "1"))
        bench.append(with_crc(batch))
        bench.clean()
        assert bench.pairs() == [(1, "b", "1"), (2, "a", "who deleted it")]
        bench.now_ms += DAY_MS
        bench.clean()
        assert bench.pairs() == [(1, "b", "1")]

    def test_tombstones_of_old_formats_stay_while_their_file_is_young(self, bench: Bench) -> None:
        bench.filesystem.now_ms = 1_000
        _append_old(bench, build_messages([Record(0, 300, b"a", None)], 1))
        bench.clean()
        assert bench.pairs() == [(0, "a", None)]

    def test_tombstones_of_old_formats_go_once_a_younger_part_of_the_log_is_clean(self, bench: Bench) -> None:
        bench.filesystem.now_ms = 1_000
        bench.put(("z", "1"))
        bench.roll()
        _append_old(bench, build_messages([Record(1, 300, b"a", None)], 1))
        bench.filesystem.now_ms = 1_000 + DAY_MS
        bench.roll()
        bench.put(("y", "1"))
        bench.roll()
        bench.checkpoint = 3
        bench.clean()
        assert bench.pairs() == [(0, "z", "1"), (2, "y", "1")]


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

    def test_the_last_batch_of_a_group_stays_empty(self, bench: Bench) -> None:
        bench.put(("a", "1"))
        bench.put((None, "x"))
        bench.clean()
        assert [(h.base_offset, h.record_count) for h, _ in bench.batches()] == [(0, 1), (1, 0)]

    def test_the_last_message_of_an_old_format_in_a_group_stays_as_an_empty_batch(
        self, make_cleaning_bench: Callable[..., Bench]
    ) -> None:
        """As a batch without records. Apache Kafka gives such a log up."""
        bench = make_cleaning_bench(segment_bytes=120)
        bench.put(("a", "1"))
        _append_old(bench, build_messages([Record(1, 300, b"b", b"1")], 1))
        bench.put(("b", "2"))
        bench.clean()
        assert [(h.base_offset, h.magic, h.record_count) for h, _ in bench.batches()] == [
            *((0, MAGIC, 1), (1, MAGIC, 0), (2, MAGIC, 1))
        ]


def _append_old(bench: Bench, messages: bytes) -> None:
    """As a log of an old Kafka has them."""
    from kmini.protocol.records.batch import iter_batches
    from kmini.protocol.records.batch_records import decode_records

    (_, header), *_ = iter_batches(messages)
    last = decode_records(messages, 0, header)[-1].offset
    bench.log.segments.active.append(messages, last, header.max_timestamp)
    bench.log.log_end_offset = bench.log.producers.end_offset = last + 1
    bench.log.update_high_watermark(last + 1)
