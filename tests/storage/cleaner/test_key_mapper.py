"""Filling the offset map: how far it reaches, and what it leaves to the next pass."""

from __future__ import annotations

from typing import Any

import pytest

from kmini.storage.cleaner.cleanable_log import Limits
from kmini.storage.cleaner.offset_map import MapTooSmall

Bench = Any


DAY_MS = 86_400_000


PRODUCER = {"producer_id": 7, "producer_epoch": 0}


SMALL = Limits(buffer_bytes=100)


pytestmark = pytest.mark.usefixtures("sieve")


class TestTheMap:
    def test_what_has_no_room_stays_for_the_next_pass(self, bench: Bench) -> None:
        for round_ in range(3):
            for key in "abcdef":
                bench.put((key, f"{round_}"))
        four_keys = Limits(map_bytes=24 * 5, load_factor=0.9)
        report = bench.clean(limits=four_keys)
        assert (report.keys, report.end_offset) == (4, 4)
        assert [offset for offset, _, _ in bench.pairs()] == list(range(18))
        passes = 0
        while bench.checkpoint < 18:
            bench.clean(roll=False, limits=four_keys)
            passes += 1
            assert passes < 20
        newest = {key: (offset, value) for offset, key, value in bench.pairs()}
        assert newest == {key: (12 + n, "2") for n, key in enumerate("abcdef")}

    def test_no_room_at_all_names_the_setting(self, bench: Bench) -> None:
        bench.put(("a", "1"))
        with pytest.raises(MapTooSmall, match=r"log\.cleaner\.dedupe\.buffer\.size"):
            bench.clean(limits=Limits(map_bytes=24))

    def test_a_gap_in_the_offsets_does_not_stall_the_pass(self, bench: Bench) -> None:
        bench.put(("a", "1"))
        bench.log.roll(bench.now_ms, base_offset=100)
        bench.run_background()
        bench.log.log_end_offset = 100
        bench.put(("a", "2"))
        assert bench.clean().end_offset == 101
        assert bench.pairs() == [(100, "a", "2")]
