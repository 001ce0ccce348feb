"""Messages of magic 0 and 1: read, refused, built."""

from __future__ import annotations

import struct
import zlib
from collections.abc import Callable
from itertools import chain

import pytest

from kmini.protocol.errors import CorruptMessage, InvalidRecord
from kmini.protocol.records.batch import BatchHeader, build_batch, is_crc_valid, iter_batches
from kmini.protocol.records.batch_records import (
    check_records,
    decode_all,
    decode_records,
    first_record_since,
    iter_records,
)
from kmini.protocol.records.compression import Codec, compress
from kmini.protocol.records.old_formats import messages
from kmini.protocol.records.old_formats.messages import (
    build_messages,
    build_wrapper,
    messages_as_sent,
    read_message_header,
)
from kmini.protocol.records.record import Record
from support.for_each import for_each

V0 = bytes.fromhex("0000000000000064 00000010 1fecd70a 00 00 00000001 6b 00000001 76")
V1 = bytes.fromhex("0000000000000064 00000018 e4e321bc 01 00 00000000000003e8 00000001 6b 00000001 76")
CODECS = [Codec.GZIP, Codec.SNAPPY, Codec.LZ4]
LIMIT = 1 << 20


def message(
    magic: int,
    offset: int,
    value: bytes | None,
    *,
    attributes: int = 0,
    timestamp: int = 1000,
    key: bytes | None = None,
) -> bytes:
    """A message written by hand, with whatever in it."""
    fields = b"".join(
        struct.pack(">i", -1) if field is None else struct.pack(">i", len(field)) + field for field in (key, value)
    )
    content = struct.pack(">BB", magic, attributes) + (struct.pack(">q", timestamp) if magic else b"") + fields
    return struct.pack(">qiI", offset, len(content) + 4, zlib.crc32(content)) + content


def wrapper(magic: int, offset: int, inner: bytes, *, attributes: int = Codec.GZIP, timestamp: int = 1000) -> bytes:
    return message(
        magic, offset, compress(attributes & 7, inner), attributes=attributes, timestamp=timestamp
    )  # of lz4 with a right checksum


def header_of(data: bytes) -> BatchHeader:
    ((position, header),) = iter_batches(data)
    assert (position, header.size) == (0, len(data))
    return header


def read(data: bytes) -> list[Record]:
    return decode_records(data, 0, header_of(data))


def some_messages(count: int, *, first: int = 0, step: int = 1) -> list[Record]:
    return [Record(first + n * step, 1000 + n, None if n % 3 else b"k%d" % n, b"v%d" % n) for n in range(count)]


class TestWhatKafkaWrote:
    """Golden vectors, from the classes of Apache Kafka 4.3.1."""

    def test_is_read(self) -> None:
        assert read(V0) == [Record(100, -1, b"k", b"v")]
        assert read(V1) == [Record(100, 1000, b"k", b"v")]

    def test_is_what_we_build(self) -> None:
        assert build_messages([Record(100, 1000, b"k", b"v")], 0) == V0
        assert build_messages([Record(100, 1000, b"k", b"v")], 1) == V1

    @pytest.mark.parametrize("data", [V0, V1])
    def test_every_byte_behind_the_checksum_counts(self, data: bytes) -> None:
        assert is_crc_valid(data, 0, header_of(data))
        for position in range(16, len(data)):
            damaged = bytearray(data)
            damaged[position] ^= 1
            assert not is_crc_valid(damaged, 0, header_of(data)), position


class TestHeaders:
    def test_a_message_is_a_batch_of_one_record(self) -> None:
        header = read_message_header(V1)
        assert (header.base_offset, header.last_offset, header.next_offset) == (100, 100, 101)
        assert (header.record_count, header.max_timestamp, header.codec) == (1, 1000, Codec.NONE)
        assert (header.producer_id, header.base_sequence, header.partition_leader_epoch) == (-1, -1, -1)

    def test_a_wrapper_says_where_it_ends(self) -> None:
        header = header_of(build_wrapper([some_messages(3, first=7)], 1, Codec.GZIP))
        assert (header.last_offset, header.next_offset) == (9, 10)
        assert (header.record_count, header.max_timestamp, header.codec) == (messages.UNKNOWN_COUNT, 1002, Codec.GZIP)

    @pytest.mark.parametrize("magic", [0, 1])
    def test_bits_without_meaning_mean_nothing(self, magic: int) -> None:
        header = header_of(message(magic, 5, b"v", attributes=0xF8))
        assert not header.is_control
        assert not header.is_transactional
        assert not header.has_delete_horizon
        assert header.is_log_append_time == bool(magic)

    def test_messages_and_batches_are_met_in_any_order(self) -> None:
        batch = bytes(build_batch([Record(0, 1, None, b"b")], base_offset=102))
        records = decode_all(V0 + V1.replace(b"\x64", b"\x65", 1) + batch + V1.replace(b"\x64", b"\x67", 1))
        assert [record.offset for record in records] == [100, 101, 102, 103]

    @for_each("cut", range(1, len(V1)))
    def test_an_incomplete_message_is_the_end(self, cut: int) -> None:
        assert [header.magic for _, header in iter_batches(V0 + V1[:cut])] == [0]

    @pytest.mark.parametrize(("magic", "size"), [(0, 13), (1, 21), (1, 14), (0, -1), (1, -(2**31))])
    def test_a_size_that_no_message_has_is_corrupt(self, magic: int, size: int) -> None:
        data = bytearray((V0, V1)[magic] * 2)
        data[8:12] = struct.pack(">i", size)
        with pytest.raises(CorruptMessage):
            list(iter_batches(data))


@pytest.mark.parametrize("codec", CODECS)
@pytest.mark.parametrize("magic", [0, 1])
class TestWrappers:
    def test_come_back_as_they_went_in(self, magic: int, codec: Codec) -> None:
        records = some_messages(2000, first=40, step=2)
        data = build_wrapper([records[:3], [], records[3:]], magic, codec)
        expected = records if magic else [record._replace(timestamp=-1) for record in records]
        header = header_of(data)
        assert is_crc_valid(data, 0, header)
        assert decode_records(data, 0, header) == expected
        assert list(chain.from_iterable(iter_records(data, 0, header))) == expected

    def test_are_checked(self, magic: int, codec: Codec) -> None:
        data = build_wrapper([some_messages(9, first=40)], magic, codec)
        facts = check_records(data, 0, header_of(data))
        assert (facts.record_count, facts.null_keys, facts.is_sequential) == (9, 6, True)
        assert (facts.min_timestamp, facts.max_timestamp) == ((1000, 1008) if magic else (-1, -1))

    def test_are_searched(self, magic: int, codec: Codec) -> None:
        data = build_wrapper([some_messages(9, first=40)], magic, codec)
        assert first_record_since(data, 0, header_of(data), 1005, 0) == ((1005, 45) if magic else None)
        assert first_record_since(data, 0, header_of(data), 1000, 43) == ((1003, 43) if magic else None)
        assert first_record_since(data, 0, header_of(data), 1009, 0) is None

    def test_hold_one_message_at_least(self, magic: int, codec: Codec) -> None:
        with pytest.raises(InvalidRecord, match="no message"):
            read(wrapper(magic, 0, b"", attributes=codec))
        with pytest.raises(ValueError, match="at least one"):
            build_wrapper([[]], magic, codec)

    def test_may_not_hold_wrappers(self, magic: int, codec: Codec) -> None:
        inner = wrapper(magic, 0, message(magic, 0, b"v"), attributes=codec)
        with pytest.raises(InvalidRecord, match="in a wrapper"):
            read(wrapper(magic, 0, inner, attributes=codec))

    def test_end_where_a_message_is_cut_off(self, magic: int, codec: Codec) -> None:
        inner = message(magic, 0, b"a") + message(magic, 1, b"b")[:-1]
        assert [record.value for record in read(wrapper(magic, 0, inner, attributes=codec))] == [b"a"]

    def test_of_what_is_no_such_data_are_corrupt(self, magic: int, codec: Codec) -> None:
        with pytest.raises(CorruptMessage):
            read(message(magic, 0, b"\xffnothing that could be decompressed", attributes=codec))


class TestOffsetsInWrappers:
    def test_of_magic_0_are_their_own(self) -> None:
        inner = message(0, 7, b"a") + message(0, 3, b"b")
        assert [record.offset for record in read(wrapper(0, 9, inner))] == [7, 3]

    def test_of_magic_1_end_where_the_wrapper_says(self) -> None:
        inner = message(1, 0, b"a") + message(1, 4, b"b")
        assert [record.offset for record in read(wrapper(1, 104, inner))] == [100, 104]

    def test_of_a_wrapper_without_offset_are_as_they_are(self) -> None:
        """Some versions of librdkafka send them so."""
        inner = message(1, 0, b"a") + message(1, 1, b"b")
        assert [record.offset for record in read(wrapper(1, 0, inner))] == [0, 1]

    def test_that_do_not_fit_below_the_wrapper_are_invalid(self) -> None:
        with pytest.raises(InvalidRecord, match="cannot end with message 5"):
            read(wrapper(1, 4, message(1, 5, b"a")))


class TestTimestamps:
    def test_append_time_is_that_of_every_message(self) -> None:
        inner = message(1, 0, b"a", timestamp=5) + message(1, 1, b"b", timestamp=6)
        data = wrapper(1, 11, inner, attributes=Codec.GZIP | 8, timestamp=77)
        assert [record.timestamp for record in read(data)] == [77, 77]

    def test_append_time_is_built(self) -> None:
        records = some_messages(2)
        for data in (
            build_wrapper([records], 1, Codec.GZIP, log_append_time_ms=77),
            bytes(build_messages(records[:1], 1, log_append_time_ms=77)),
        ):
            assert header_of(data).is_log_append_time
            assert {record.timestamp for record in read(data)} == {77}

    def test_messages_of_magic_0_have_none(self) -> None:
        data = build_wrapper([some_messages(2)], 0, Codec.GZIP, log_append_time_ms=77)
        assert not header_of(data).is_log_append_time
        assert {record.timestamp for record in read(data)} == {-1}

    def test_what_no_message_may_have_becomes_none(self) -> None:
        assert read(bytes(build_messages([Record(0, -5, None, b"")], 1)))[0].timestamp == -1


class TestRefusals:
    def test_a_wrapper_without_value(self) -> None:
        with pytest.raises(InvalidRecord, match="no value"):
            read(message(1, 0, None, attributes=Codec.GZIP))

    def test_zstd(self) -> None:
        with pytest.raises(InvalidRecord, match="zstd"):
            read(wrapper(1, 0, message(1, 0, b"a"), attributes=Codec.ZSTD))
        with pytest.raises(ValueError, match="zstd"):
            build_wrapper([some_messages(1)], 1, Codec.ZSTD)

    def test_a_codec_that_there_is_not(self) -> None:
        with pytest.raises(CorruptMessage, match="no codec 6"):
            read(message(1, 0, b"value", attributes=6))

    @pytest.mark.parametrize("field", ["key", "value"])
    def test_a_field_longer_than_its_message(self, field: str) -> None:
        data = bytearray(V1)
        data[26:30] = struct.pack(">i", 0x7FFFFFFF if field == "key" else 0)
        with pytest.raises(InvalidRecord, match=r"longer|before"):
            read(bytes(data))

    @pytest.mark.parametrize("size", [0, 1, 13, -1, -(2**31)])
    def test_a_size_in_a_wrapper_that_no_message_has(self, size: int) -> None:
        with pytest.raises(CorruptMessage, match="cannot have a length"):
            read(wrapper(1, 0, message(1, 0, b"a") + struct.pack(">qi", 1, size) + bytes(40)))

    def test_a_batch_in_a_wrapper(self) -> None:
        with pytest.raises(InvalidRecord, match="magic 2"):
            read(wrapper(1, 0, bytes(build_batch([Record(0, 1, None, b"b")]))))

    def test_what_a_producer_sends_has_one_magic_and_right_checksums_inside(self) -> None:
        other = wrapper(1, 0, message(0, 0, b"a"))
        assert [record.timestamp for record in read(other)] == [-1]
        damaged = wrapper(1, 0, message(1, 0, b"a")[:-1] + b"b")
        assert [record.value for record in read(damaged)] == [b"b"]
        for data, error in ((other, InvalidRecord), (damaged, CorruptMessage)):
            with pytest.raises(error):
                list(messages_as_sent(data, 0, header_of(data), LIMIT, LIMIT, is_strict=True))


class TestLimits:
    def test_a_message_is_as_large_as_it_may_be(self) -> None:
        data = wrapper(1, 0, message(1, 0, bytes(100_000)))
        assert len(read(data)[0].value or b"") == 100_000
        with pytest.raises(InvalidRecord, match="more than 100000 bytes"):
            check_records(data, 0, header_of(data), limit=100_000)

    @pytest.mark.parametrize("codec", CODECS)
    def test_a_wrapper_is_not_decompressed_further_than_it_may(self, codec: Codec) -> None:
        data = wrapper(1, 0, message(1, 0, bytes(60_000)) * 40, attributes=codec)
        with pytest.raises(InvalidRecord, match="decompressed"):
            check_records(data, 0, header_of(data), limit=100_000)

    def test_an_announced_size_reserves_nothing(self) -> None:
        data = wrapper(1, 0, struct.pack(">qi", 0, 0x7FFFFFFF) + bytes(100))
        with pytest.raises(InvalidRecord, match="more than"):
            read(data)

    def test_messages_are_counted(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(messages, "MAX_MESSAGES", 100)
        data = wrapper(1, 100, message(1, 0, b"") * 101)
        with pytest.raises(InvalidRecord, match="more than 100 messages"):
            read(data)

    def test_a_message_over_many_chunks_is_put_together_once(self) -> None:
        """Not once for every chunk, which would take time that grows with the square of its size."""
        data = wrapper(1, 1, message(1, 0, bytes(20_000_000)) + message(1, 1, b"end"))
        assert [len(record.value or b"") for record in read(data)] == [20_000_000, 3]


class TestTheOldChecksumOfLz4:
    """That of the frame's header: wrong in magic 0 on purpose (KIP-57)."""

    @pytest.fixture
    def frame(self) -> Callable[[int], bytes]:
        def of(magic: int) -> bytes:
            data = build_wrapper([some_messages(1)], magic, Codec.LZ4)
            return data[data.index(b"\x04\x22\x4d\x18") :]

        return of

    def test_is_written_in_magic_0_only(self, frame: Callable[[int], bytes]) -> None:
        assert frame(0)[:6] == frame(1)[:6]
        assert (frame(0)[6], frame(1)[6]) == (0x1A, 0x82)

    @pytest.mark.parametrize("checksum", [0x1A, 0x82, 0])
    def test_is_not_looked_at_in_magic_0(self, checksum: int) -> None:
        data = bytearray(build_wrapper([some_messages(3)], 0, Codec.LZ4))
        data[data.index(b"\x04\x22\x4d\x18") + 6] = checksum
        assert [record.offset for record in read(bytes(data))] == [0, 1, 2]

    def test_is_asked_for_in_magic_1(self) -> None:
        data = bytearray(build_wrapper([some_messages(3)], 1, Codec.LZ4))
        data[data.index(b"\x04\x22\x4d\x18") + 6] = 0x1A
        with pytest.raises(CorruptMessage):
            read(bytes(data))

    @pytest.mark.parametrize("options", [{"store_size": True}, {"store_size": False, "content_checksum": True}])
    def test_frames_of_any_kind_are_read(self, options: dict[str, bool]) -> None:
        import lz4.frame

        frame = bytearray(lz4.frame.compress(message(0, 3, b"a"), **options))
        frame[14 if options["store_size"] else 6] ^= 0xFF
        assert [record.offset for record in read(message(0, 3, bytes(frame), attributes=Codec.LZ4))] == [3]

    @pytest.mark.parametrize("value", [b"", b"\x04\x22\x4d\x18", b"\x04\x22\x4d\x18\xff\xff"])
    def test_what_is_no_frame_is_corrupt(self, value: bytes) -> None:
        with pytest.raises((CorruptMessage, InvalidRecord)):
            read(message(0, 3, value, attributes=Codec.LZ4))
