"""Batches as messages of magic 0 and 1: what stays, what is lost, how much comes at once."""

from __future__ import annotations

import pytest

from kmini.protocol.errors import CorruptMessage, MessageTooLarge, UnsupportedCompressionType
from kmini.protocol.records import tombstones
from kmini.protocol.records.batch import build_batch, iter_batches, read_header, rewrite_header
from kmini.protocol.records.batch_records import decode_all
from kmini.protocol.records.compression import Codec, compress
from kmini.protocol.records.control import EndTransactionMarker, build_end_transaction_marker
from kmini.protocol.records.old_formats import down_conversion as module
from kmini.protocol.records.old_formats.down_conversion import down_convert, sign_of_a_larger_batch
from kmini.protocol.records.old_formats.messages import build_messages, build_wrapper
from kmini.protocol.records.record import TOMBSTONE_HEADER, Record

LIMIT = 1 << 20
CODECS = [Codec.NONE, Codec.GZIP, Codec.SNAPPY, Codec.LZ4]


def records_from(first: int, count: int = 3) -> list[Record]:
    return [Record(first + n, 1000 + first + n, b"k%d" % n, b"v%d" % n, (("h", b"x"),)) for n in range(count)]


def batch(first: int, count: int = 3, **options: object) -> bytes:
    return bytes(build_batch(records_from(first, count), base_offset=first, **options))  # type: ignore[arg-type]


def marker(offset: int) -> bytes:
    return bytes(
        build_end_transaction_marker(
            EndTransactionMarker(is_abort=False, coordinator_epoch=0),
            producer_id=7,
            producer_epoch=0,
            timestamp=1,
            base_offset=offset,
        )
    )


def convert(batches: bytes, magic: int = 1, offset: int = 0, limit: int = LIMIT) -> list[Record]:
    return decode_all(down_convert(batches, magic, offset, limit=limit).records)


def as_old(records: list[Record], magic: int) -> list[Record]:
    return [record._replace(headers=(), **{} if magic else {"timestamp": -1}) for record in records]


@pytest.mark.parametrize("codec", CODECS)
@pytest.mark.parametrize("magic", [0, 1])
def test_offsets_keys_values_and_codec_stay(magic: int, codec: Codec) -> None:
    room = batch(150, 100, codec=codec)  # for what becomes larger
    converted = down_convert(batch(100, 50, codec=codec) + room, magic, 100, limit=LIMIT)
    assert converted.next_offset == 150
    got = decode_all(converted.records)
    assert got == as_old(records_from(100, 50) + records_from(150, 100), magic)[: len(got)]
    assert len(got) == 50 or codec == Codec.NONE
    assert {(header.magic, header.codec) for _, header in iter_batches(converted.records)} == {(magic, codec)}
    rest = decode_all(down_convert(room, magic, 150, limit=LIMIT).records)
    assert rest == as_old(records_from(150, 100), magic)


@pytest.mark.parametrize("codec", CODECS)
def test_gaps_that_compaction_left_stay(codec: Codec) -> None:
    kept = [records_from(100, 9)[n] for n in (2, 3, 7)]
    data = bytes(build_batch(kept, base_offset=100, last_offset=108, codec=codec))
    converted = down_convert(data, 1, 100, limit=LIMIT)
    assert [record.offset for record in decode_all(converted.records)] == [102, 103, 107]
    assert converted.next_offset == 109


@pytest.mark.parametrize("codec", CODECS)
def test_append_time_stays_in_magic_1(codec: Codec) -> None:
    data = down_convert(batch(0, codec=codec, log_append_time_ms=77), 1, 0, limit=LIMIT).records
    assert all(header.is_log_append_time for _, header in iter_batches(data))
    assert {record.timestamp for record in decode_all(data)} == {77}


@pytest.mark.parametrize("codec", CODECS)
@pytest.mark.parametrize("magic", [0, 1])
@pytest.mark.parametrize("size", [1, 70_000])
def test_explicit_tombstones_get_a_null_value_where_the_topic_has_them(magic: int, codec: Codec, size: int) -> None:
    """KIP-87: old consumers know no other. The large records come in several chunks from their codec."""
    records = [Record(n, 5, b"k%d" % n, b"v" * size, ((TOMBSTONE_HEADER, b""),) * (n % 2)) for n in range(5)]
    block = bytes(build_batch(records)[61:])
    flagged = tombstones.flagged(block, tombstones.marks_of(block)[1])
    data = bytearray(build_batch(records, codec=codec)[:61]) + compress(codec, flagged)
    rewrite_header(data, 0, read_header(data)._replace(batch_length=len(data) - 12))
    told = decode_all(down_convert(data, magic, 0, limit=LIMIT, without_flagged_values=True).records)
    expected = [record._replace(value=None) if record.headers else record for record in records]
    assert told == as_old(expected, magic)[: len(told)]
    assert len(told) == 5 or codec == Codec.NONE
    assert convert(bytes(data), magic) == as_old(records, magic)[: len(told)]


def test_what_is_below_the_offset_is_left_out_where_nothing_is_compressed() -> None:
    assert [record.offset for record in convert(batch(0), offset=1)] == [1, 2]
    assert [record.offset for record in convert(batch(0, codec=Codec.GZIP), offset=1)] == [0, 1, 2]


def test_messages_of_that_magic_or_less_come_as_they_are() -> None:
    old = bytes(build_messages(records_from(0), 0)) + build_wrapper([records_from(3)], 1, Codec.GZIP)
    assert down_convert(old, 1, 2, limit=LIMIT).records == old
    assert [record.timestamp for record in convert(old, magic=0)] == [-1] * 6


def test_a_log_of_all_formats_comes_as_one() -> None:
    old = bytes(build_messages(records_from(0), 0)) + build_wrapper([records_from(3)], 1, Codec.LZ4)
    data = old + batch(6, codec=Codec.SNAPPY) + batch(9)
    converted = down_convert(data, 0, 0, limit=LIMIT)
    assert [record.offset for record in decode_all(converted.records)] == list(range(12))
    assert {header.magic for _, header in iter_batches(converted.records)} == {0}


class TestWhatOldReadersDoNotGet:
    def test_control_batches(self) -> None:
        assert [record.offset for record in convert(batch(0) + marker(3) + batch(4))] == [0, 1, 2, 4, 5, 6]

    def test_nothing_but_control_batches_is_nothing_and_read_past(self) -> None:
        assert down_convert(marker(3) + marker(4), 1, 3, limit=LIMIT) == (b"", 5)

    def test_a_batch_that_compaction_has_emptied(self) -> None:
        emptied = bytes.fromhex(
            "0000000000000000000000310000000502fe578f57000000000001ffffffffffffffff00000000000003ed"
            "000000000000000700030000000a00000000"
        )
        assert down_convert(emptied, 1, 0, limit=LIMIT) == (b"", 2)

    def test_zstd_ends_the_answer_and_is_an_error_where_it_begins(self) -> None:
        squeezed = batch(3, codec=Codec.ZSTD)
        converted = down_convert(batch(0) + squeezed, 1, 0, limit=LIMIT)
        assert (len(decode_all(converted.records)), converted.next_offset) == (3, 3)
        with pytest.raises(UnsupportedCompressionType):
            down_convert(squeezed + batch(6), 1, 3, limit=LIMIT)
        with pytest.raises(UnsupportedCompressionType):
            down_convert(marker(2) + squeezed, 1, 2, limit=LIMIT)

    def test_damage_ends_the_answer_and_is_an_error_where_it_begins(self) -> None:
        damaged = bytearray(batch(3, codec=Codec.GZIP))
        damaged[70:80] = bytes(10)
        assert len(convert(batch(0) + damaged)) == 3
        with pytest.raises(CorruptMessage):
            down_convert(damaged, 1, 0, limit=LIMIT)


class TestHowMuchComes:
    def test_a_batch_that_is_cut_off_does_not(self) -> None:
        data = batch(0) + batch(3)
        assert len(convert(data[:-1])) == 3
        assert down_convert(data[:50], 1, 0, limit=LIMIT) == (b"", 0)

    def test_the_first_batch_comes_whole_however_large_it_becomes(self) -> None:
        tiny = bytes(build_batch([Record(0, 1, None, b"")] * 100))
        converted = down_convert(tiny, 1, 0, limit=LIMIT)
        assert len(converted.records) > 2 * len(tiny)
        assert (len(decode_all(converted.records)), converted.next_offset) == (100, 100)

    def test_more_only_as_far_as_it_has_room_where_the_batches_were(self) -> None:
        data = b"".join(bytes(build_batch([Record(0, 1, None, b"")] * 10, base_offset=n * 10)) for n in range(20))
        converted = down_convert(data, 1, 0, limit=LIMIT)
        assert len(converted.records) <= len(data)
        assert 0 < converted.next_offset < 200

    def test_messages_fill_the_room_and_the_last_is_cut_off(self) -> None:
        data = b"".join(bytes(build_batch([Record(0, 1, None, b"")] * 10, base_offset=n * 10)) for n in range(20))
        converted = down_convert(data, 1, 0, limit=LIMIT)
        assert len(converted.records) == len(data)
        assert converted.next_offset < len(decode_all(converted.records)) < converted.next_offset + 10

    def test_a_wrapper_is_not_cut_off(self) -> None:
        data = b"".join(bytes(build_batch([Record(0, 1, None, b"")] * 9, base_offset=n * 9, codec=1)) for n in range(9))
        converted = down_convert(data, 1, 0, limit=LIMIT)
        assert sum(header.size for _, header in iter_batches(converted.records)) == len(converted.records)

    def test_not_many_more_records_than_are_enough(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(module, "_ENOUGH_RECORDS", 5)
        assert len(convert(batch(0) + batch(3) + batch(6))) == 6

    def test_not_a_batch_of_very_many(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(module, "MAX_RECORDS", 2)
        with pytest.raises(MessageTooLarge):
            convert(batch(0))

    @pytest.mark.parametrize("max_bytes", [0, 1, 11, 12, 1 << 20])
    def test_what_tells_of_a_larger_batch_is_no_message(self, max_bytes: int) -> None:
        told = sign_of_a_larger_batch(max_bytes)
        assert len(told) == min(max_bytes, 12)
        assert list(iter_batches(told)) == []
