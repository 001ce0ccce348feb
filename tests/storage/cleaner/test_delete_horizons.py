"""When a pass gives a tombstone its delete horizon, and when the tombstone goes (KIP-534)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from kmini.protocol.records.batch import build_batch
from kmini.protocol.records.compression import Codec
from kmini.protocol.records.old_formats.messages import build_messages
from kmini.protocol.records.record import Record
from kmini.storage.cleaner.cleanable_log import Limits
from kmini.storage.cleaner.delete_horizons import delete_horizons
from support.batches import with_crc

Bench = Any
DAY_MS = 86_400_000

pytestmark = pytest.mark.usefixtures("sieve")


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
        bench.append_old(build_messages([Record(0, 300, b"a", None)], 1))
        bench.clean()
        assert bench.pairs() == [(0, "a", None)]

    def test_tombstones_of_old_formats_go_once_a_younger_part_of_the_log_is_clean(self, bench: Bench) -> None:
        bench.filesystem.now_ms = 1_000
        bench.put(("z", "1"))
        bench.roll()
        bench.append_old(build_messages([Record(1, 300, b"a", None)], 1))
        bench.filesystem.now_ms = 1_000 + DAY_MS
        bench.roll()
        bench.put(("y", "1"))
        bench.roll()
        bench.checkpoint = 3
        bench.clean()
        assert bench.pairs() == [(0, "z", "1"), (2, "y", "1")]


class TestTheHorizonsOfALog:
    @pytest.mark.parametrize("codec", [Codec.NONE, Codec.GZIP])
    def test_each_is_found_once_in_order(self, bench: Bench, codec: Codec) -> None:
        for number in range(2):
            bench.put((f"{number}", None), (f"kept {number}", "1"), codec=codec)
            bench.clean()
            bench.now_ms += 10
        bench.put(("later", "1"))
        bench.clean()
        assert delete_horizons([*bench.log.segments][:-1]) == [1_000 + DAY_MS, 1_010 + DAY_MS]

    def test_an_empty_segment_has_none(self, bench: Bench) -> None:
        assert delete_horizons([bench.log.segments.active]) == []
