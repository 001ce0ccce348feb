"""Logs that an old Kafka wrote: messages of magic 0 and 1, alone, in wrappers, and with batches behind them."""

from __future__ import annotations

import zlib
from collections.abc import Callable
from typing import Any

import pytest

from kmini.protocol.records.batch import build_batch, iter_batches
from kmini.protocol.records.batch_records import decode_all
from kmini.protocol.records.compression import Codec
from kmini.protocol.records.old_formats.messages import build_messages, build_wrapper
from kmini.protocol.records.record import Record
from kmini.storage.inspect.dump import Damage, dump

Bench = Any

DIRECTORY = "/data/orders-0"
LOG = "00000000000000000000.log"
A_SET = 5


def records_from(first: int) -> list[Record]:
    return [Record(first + n, 1_000 + first + n, b"k", b"v%d" % (first + n)) for n in range(A_SET)]


def plain(magic: int, first: int) -> bytes:
    return bytes(build_messages(records_from(first), magic))


def wrapped(magic: int, first: int, codec: Codec = Codec.GZIP) -> bytes:
    return build_wrapper([records_from(first)], magic, codec)


def batch(first: int) -> bytes:
    return bytes(build_batch(records_from(first), base_offset=first, leader_epoch=3))


def every_kind(rounds: int = 3) -> bytes:
    """Sets of five records, of every format in turn."""
    data, first = b"", 0
    for _ in range(rounds):
        for magic in (0, 1):
            for codec in (Codec.NONE, Codec.GZIP, Codec.SNAPPY, Codec.LZ4):
                data += plain(magic, first) if codec == Codec.NONE else wrapped(magic, first, codec)
                first += A_SET
        data += batch(first)
        first += A_SET
    return data


RECORDS = A_SET * 9 * 3


@pytest.fixture
def old_log(make_bench: Callable[..., Bench]) -> Bench:
    """A log of every kind of message, as a kill left it: without any index."""
    bench = make_bench(index_interval_bytes=200)
    bench.write(LOG, every_kind())
    bench.reopen()
    return bench


class TestAnOldLog:
    def test_is_read_and_goes_on(self, old_log: Bench) -> None:
        assert old_log.values() == [f"v{n}" for n in range(RECORDS)]
        assert (old_log.log.log_end_offset, old_log.log.leader_epochs.entries) == (RECORDS, ((3, 40),))
        assert old_log.append("new").first_offset == RECORDS
        assert old_log.values()[-1] == "new"

    def test_is_read_from_every_offset(self, old_log: Bench) -> None:
        for offset in range(RECORDS):
            data = old_log.log.read(offset, 1, limit_offset=RECORDS)
            assert offset in [record.offset for record in decode_all(data)], offset
            assert len([*iter_batches(data)]) == 1

    def test_comes_back_after_a_clean_shutdown(self, old_log: Bench) -> None:
        entries = old_log.log.segments.active.offset_index.entries()
        assert len(entries) > 5
        old_log.close()
        old_log.reopen(is_clean=True)
        assert old_log.log.segments.active.offset_index.entries() == entries
        assert old_log.values() == [f"v{n}" for n in range(RECORDS)]
        assert old_log.append("new").first_offset == RECORDS

    def test_comes_back_where_its_last_index_entry_is_of_a_wrapper(self, make_bench: Callable[..., Bench]) -> None:
        bench = make_bench(index_interval_bytes=1)
        bench.write(LOG, plain(1, 0) + wrapped(1, 5) + wrapped(1, 10))
        bench.reopen()
        assert bench.log.segments.active.offset_index.entries()[-1][0] == 14
        bench.close()
        bench.reopen(is_clean=True)
        assert bench.values() == [f"v{n}" for n in range(15)]
        assert bench.append("new").first_offset == 15

    def test_rolls_as_any(self, old_log: Bench) -> None:
        old_log.log.roll(old_log.now_ms)
        old_log.append("new")
        old_log.close()
        old_log.reopen(is_clean=True)
        assert old_log.base_offsets() == [0, RECORDS]
        assert old_log.values() == [*(f"v{n}" for n in range(RECORDS)), "new"]

    def test_is_truncated_where_a_wrapper_begins(self, old_log: Bench) -> None:
        old_log.log.truncate_to(35)
        old_log.log.update_high_watermark(35)
        assert old_log.values() == [f"v{n}" for n in range(35)]
        assert old_log.append("new").first_offset == 35

    def test_is_what_a_follower_gets_of_it(self, old_log: Bench, bench: Bench) -> None:
        data = old_log.log.read(0, 1 << 20, limit_offset=RECORDS)
        appended = bench.log.append_as_follower(data, now_ms=1)
        assert appended.last_offset == RECORDS - 1
        bench.log.update_high_watermark(RECORDS)
        assert bench.values() == old_log.values()
        bench.reopen()
        assert bench.values() == old_log.values()


class TestTimestamps:
    def test_are_searched_in_messages_of_magic_1_and_in_batches(self, old_log: Bench) -> None:
        for offset in (20, 23, 26, 34, 39, 40, 44):
            assert old_log.offset_for_timestamp(1_000 + offset)[:2] == (1_000 + offset, offset)
        assert old_log.offset_for_timestamp(1_045)[:2] == (1_065, 65)  # there is none in the magic 0 between
        assert old_log.offset_for_timestamp(0)[:2] == (1_020, 20)
        assert old_log.max_timestamp_offset()[:2] == (1_000 + RECORDS - 1, RECORDS - 1)

    def test_of_a_wrapper_stamped_by_its_broker_are_all_the_same(self, bench: Bench) -> None:
        bench.write(LOG, plain(0, 0) + build_wrapper([records_from(5)], 1, Codec.LZ4, log_append_time_ms=77))
        bench.reopen()
        assert bench.offset_for_timestamp(77)[:2] == (77, 5)
        assert bench.offset_for_timestamp(78) is None

    def test_there_are_none_in_magic_0(self, bench: Bench) -> None:
        bench.write(LOG, plain(0, 0) + wrapped(0, 5))
        bench.reopen()
        assert bench.offset_for_timestamp(0) is None
        assert bench.log.segments.active.max_timestamp == -1
        modified_ms = bench.filesystem.modified_ms(f"{DIRECTORY}/{LOG}")
        assert bench.log.segments.active.largest_timestamp == modified_ms


class TestDamage:
    @pytest.mark.parametrize("kind", ["plain", "wrapped"])
    @pytest.mark.parametrize("magic", [0, 1])
    def test_cuts_the_log(self, bench: Bench, magic: int, kind: str) -> None:
        good = batch(0)
        bad = bytearray(plain(magic, 5)[: len(plain(magic, 5)) // A_SET] if kind == "plain" else wrapped(magic, 5))
        bad[-1] ^= 1
        bench.write(LOG, good + bad + batch(10))
        bench.reopen()
        assert bench.log.log_end_offset == 5
        assert bench.content(LOG) == good

    @pytest.mark.parametrize("cut", [1, 12, 16, 17, 18, 25, 26, 30])
    def test_a_torn_message_is_cut_off(self, bench: Bench, cut: int) -> None:
        good = plain(1, 0)
        bench.write(LOG, good + plain(1, 5)[:cut])
        bench.reopen()
        assert bench.content(LOG) == good
        assert bench.append("new").first_offset == 5

    def test_a_size_that_no_message_has_is_cut_off(self, bench: Bench) -> None:
        good = plain(0, 0)
        bench.write(LOG, good + (5).to_bytes(8, "big") + (13).to_bytes(4, "big") + bytes(100))
        bench.reopen()
        assert bench.content(LOG) == good

    def test_an_offset_that_goes_back_is_cut_off(self, bench: Bench) -> None:
        bench.write(LOG, plain(1, 5) + plain(1, 2))
        bench.reopen()
        assert bench.log.log_end_offset == 10


class TestDump:
    def lines(self, bench: Bench, *, records: bool = False) -> list[str | Damage]:
        return list(dump(bench.filesystem, f"{DIRECTORY}/{LOG}", records=records))[1:]

    def test_shows_messages_wrappers_and_batches(self, old_log: Bench) -> None:
        lines = self.lines(old_log)
        assert not [line for line in lines if isinstance(line, Damage)]
        assert len(lines) == 3 * (2 * (5 + 3) + 1)
        wrapper = dict(field.split("=") for field in str(lines[5]).split())
        assert (wrapper["offset"], wrapper["magic"], wrapper["codec"]) == ("9", "0", "gzip")

    def test_shows_the_records_in_them(self, old_log: Bench) -> None:
        shown = [str(line).split() for line in self.lines(old_log, records=True) if str(line).startswith("    ")]
        assert [line[0] for line in shown] == [f"offset={n}" for n in range(RECORDS)]
        assert shown[0][1:] == ["time=none", 'key="k"', 'value="v0"']
        assert shown[39][1:] == ["time=1970-01-01T00:00:01.039Z", 'key="k"', 'value="v39"']

    def test_finds_the_indexes_right(self, old_log: Bench) -> None:
        old_log.close()
        shown = list(dump(old_log.filesystem, DIRECTORY))
        assert not [line for line in shown if isinstance(line, Damage)]

    @pytest.mark.parametrize("data", [plain(1, 0), wrapped(0, 0)])
    def test_tells_a_wrong_checksum_and_reads_on(self, bench: Bench, data: bytes) -> None:
        bench.write(LOG, data[:-1] + b"x" + plain(1, 5))
        shown = self.lines(bench)
        (problem,) = [line for line in shown if isinstance(line, Damage)]
        assert problem.reason.startswith("the CRC of the batch from offset 4 is ")
        assert sum("magic=1" in str(line) for line in shown[-A_SET:]) == A_SET

    def test_tells_what_cannot_be_decompressed(self, bench: Bench) -> None:
        message = bytearray(build_messages([Record(7, 1, None, b"rubbish")], 1))
        message[17] = Codec.GZIP
        message[12:16] = zlib.crc32(message[16:]).to_bytes(4, "big")
        bench.write(LOG, bytes(message))
        (problem,) = [line for line in self.lines(bench) if isinstance(line, Damage)]
        assert problem.reason.startswith("the batch from offset 7: the records are no gzip data")
