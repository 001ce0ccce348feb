"""Reading a segment that is damaged: the pass ends and names file and position."""

from __future__ import annotations

from typing import Any

import pytest

from kmini.protocol.errors import CorruptMessage
from kmini.protocol.records.batch import build_batch
from kmini.protocol.records.compression import Codec
from kmini.protocol.records.record import Record
from kmini.storage.cleaner.cleanable_log import Limits
from support.batches import with_crc

Bench = Any


DAY_MS = 86_400_000


PRODUCER = {"producer_id": 7, "producer_epoch": 0}


SMALL = Limits(buffer_bytes=100)


pytestmark = pytest.mark.usefixtures("sieve")


class TestDamage:
    @pytest.mark.parametrize("codec", [Codec.NONE, Codec.GZIP])
    def test_a_wrong_checksum_ends_the_pass_with_file_and_position(self, bench: Bench, codec: Codec) -> None:
        bench.put(("a", "1"), codec=codec)
        bench.put(("b", "2"), codec=codec)
        bench.roll()
        log = bench.log.segments.oldest.log
        second = bench.batches()[0][0].size
        log.write_at(second + 66, b"!")
        before = bench.batches()
        with pytest.raises(CorruptMessage, match=rf"00000000000000000000\.log.* position {second}"):
            bench.clean()
        assert bench.batches() == before
        assert bench.files(".cleaned") == []

    def test_a_file_that_ends_within_a_batch_ends_the_pass(self, bench: Bench) -> None:
        bench.put(("a", "1"))
        bench.roll()
        log = bench.log.segments.oldest.log
        log.truncate(log.size - 1)
        with pytest.raises(CorruptMessage, match="position 0"):
            bench.clean()

    def test_bytes_that_are_no_record_end_the_pass(self, bench: Bench) -> None:
        batch = build_batch([Record(0, 1_000, b"a", b"1")])
        batch[61] = 0x7E
        bench.append(with_crc(batch))
        with pytest.raises(CorruptMessage, match="position 0"):
            bench.clean()
