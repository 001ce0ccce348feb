"""Which message sets of magic 0 and 1 a log takes, and the batch they become."""

from __future__ import annotations

import struct
import zlib
from collections.abc import Sequence

import pytest

from kmini.protocol.errors import (
    CorruptMessage,
    InvalidRecord,
    InvalidTimestamp,
    KafkaError,
    MessageTooLarge,
    UnknownServerError,
)
from kmini.protocol.records.batch import build_batch, is_crc_valid, read_header
from kmini.protocol.records.batch_records import decode_records
from kmini.protocol.records.compression import Codec, compress
from kmini.protocol.records.old_formats import messages
from kmini.protocol.records.old_formats.messages import build_messages, build_wrapper
from kmini.protocol.records.record import Record
from kmini.storage.log_config import LogConfig
from kmini.storage.old_formats import message_set_validation
from kmini.storage.old_formats.message_set_validation import first_message, is_cheap, validate_messages
from kmini.storage.validation import ValidatedRecords

NOW_MS = 1_700_000_000_000
COMPACTED = LogConfig.parse({"cleanup.policy": "compact"})
STAMPED = LogConfig.parse({"message.timestamp.type": "LogAppendTime"})
CODECS = [Codec.GZIP, Codec.SNAPPY, Codec.LZ4]


def sent(count: int = 3, *, timestamp: int = NOW_MS) -> list[Record]:
    return [Record(n, timestamp + n, b"k%d" % n, b"v%d" % n) for n in range(count)]


def message_set(records: Sequence[Record], magic: int, codec: Codec = Codec.NONE) -> bytes:
    return bytes(build_messages(records, magic)) if codec == Codec.NONE else build_wrapper([records], magic, codec)


def wrapper(magic: int, offset: int, value: bytes, attributes: int = Codec.GZIP) -> bytes:
    """A wrapper around whatever."""
    fields = struct.pack(">ii", -1, len(value)) + value
    content = struct.pack(">BB", magic, attributes) + (struct.pack(">q", NOW_MS) if magic else b"") + fields
    return struct.pack(">qiI", offset, len(content) + 4, zlib.crc32(content)) + content


def gzipped(inner: bytes) -> bytes:
    return compress(Codec.GZIP, inner)


def stored(validated: ValidatedRecords) -> list[Record]:
    header = read_header(validated.records)
    assert header == validated.header
    assert header.size == len(validated.records)
    assert is_crc_valid(validated.records, 0, header)
    return decode_records(validated.records, 0, header)


def refused(data: bytes, config: LogConfig | None = None) -> type[KafkaError]:
    with pytest.raises(KafkaError) as caught:
        validate_messages(data, config or LogConfig(), NOW_MS, max_decompressed_bytes=1 << 20)
    return type(caught.value)


class TestWhatIsStored:
    @pytest.mark.parametrize("codec", [Codec.NONE, *CODECS])
    @pytest.mark.parametrize("magic", [0, 1])
    def test_a_set_becomes_one_batch_in_its_codec(self, magic: int, codec: Codec) -> None:
        validated = validate_messages(message_set(sent(5000), magic, codec), LogConfig(), NOW_MS)
        header = validated.header
        assert (header.codec, header.record_count, header.last_offset_delta) == (codec, 5000, 4999)
        assert (header.producer_id, header.producer_epoch, header.base_sequence) == (-1, -1, -1)
        expected = sent(5000) if magic else [record._replace(timestamp=-1) for record in sent(5000)]
        assert stored(validated) == expected
        assert (header.base_timestamp, header.max_timestamp) == ((NOW_MS, NOW_MS + 4999) if magic else (-1, -1))
        assert validated.log_append_time_ms == -1

    @pytest.mark.parametrize("codec", [Codec.NONE, Codec.GZIP])
    @pytest.mark.parametrize("name", ["uncompressed", "gzip", "snappy", "lz4", "zstd"])
    def test_the_topics_codec_counts(self, codec: Codec, name: str) -> None:
        config = LogConfig.parse({"compression.type": name})
        validated = validate_messages(message_set(sent(), 1, codec), config, NOW_MS)
        assert validated.header.codec == ["uncompressed", "gzip", "snappy", "lz4", "zstd"].index(name)
        assert stored(validated) == sent()

    @pytest.mark.parametrize("codec", [Codec.NONE, Codec.GZIP])
    @pytest.mark.parametrize("magic", [0, 1])
    def test_the_brokers_time_is_that_of_every_record(self, magic: int, codec: Codec) -> None:
        validated = validate_messages(message_set(sent(timestamp=5), magic, codec), STAMPED, NOW_MS)
        assert validated.header.is_log_append_time
        assert validated.header.base_timestamp == (5 if magic else -1)
        assert {record.timestamp for record in stored(validated)} == {NOW_MS}
        assert validated.log_append_time_ms == NOW_MS

    @pytest.mark.parametrize("codec", [Codec.NONE, Codec.GZIP])
    def test_offsets_mean_nothing(self, codec: Codec) -> None:
        records = [record._replace(offset=offset) for record, offset in zip(sent(), (7, 9, 12), strict=True)]
        assert stored(validate_messages(message_set(records, 1, codec), LogConfig(), NOW_MS)) == sent()

    def test_tombstones_and_empty_values_stay_what_they_are(self) -> None:
        records = [Record(0, NOW_MS, b"", None), Record(1, NOW_MS, b"k", b""), Record(2, NOW_MS, None, b"v")]
        assert stored(validate_messages(message_set(records, 1), LogConfig(), NOW_MS)) == records

    def test_a_message_that_is_cut_off_is_left_out(self) -> None:
        assert len(stored(validate_messages(message_set(sent(), 1)[:-1], LogConfig(), NOW_MS))) == 2

    def test_a_set_may_hold_no_whole_message(self) -> None:
        assert first_message(b"") is None
        assert first_message(message_set(sent(1), 1)[:-1]) is None
        first = first_message(message_set(sent(1), 1))
        assert first is not None
        assert first.magic == 1


class TestWhatIsRefused:
    """In Kafka 3.9's words."""

    @pytest.mark.parametrize("magic", [3, 0x7F, 0xFF])
    def test_a_magic_that_there_is_not(self, magic: int) -> None:
        data = bytearray(message_set(sent(1), 1))
        data[16] = magic
        assert refused(bytes(data)) is CorruptMessage

    def test_a_size_that_there_is_not(self) -> None:
        data = bytearray(message_set(sent(2), 1))
        data[8:12] = bytes(4)
        assert refused(bytes(data)) is CorruptMessage

    def test_a_message_too_large_and_before_its_checksum(self) -> None:
        config = LogConfig.parse({"max.message.bytes": "100"})
        data = message_set([Record(0, NOW_MS, None, bytes(100))], 1)
        assert refused(data, config) is MessageTooLarge
        assert refused(data[:-1] + b"x", config) is MessageTooLarge

    def test_messages_that_together_are_too_large_for_a_batch(self) -> None:
        config = LogConfig.parse({"max.message.bytes": "200"})
        assert refused(message_set([Record(0, NOW_MS, None, bytes(60))] * 3, 1), config) is MessageTooLarge

    @pytest.mark.parametrize("codec", [Codec.NONE, Codec.GZIP])
    def test_a_wrong_checksum(self, codec: Codec) -> None:
        assert refused(message_set(sent(), 1, codec)[:-1] + b"x") is CorruptMessage

    def test_a_codec_that_there_is_not(self) -> None:
        assert refused(wrapper(1, 0, b"x", attributes=7)) is UnknownServerError

    def test_zstd(self) -> None:
        assert refused(wrapper(1, 0, compress(Codec.ZSTD, message_set(sent(), 1)), Codec.ZSTD)) is InvalidRecord

    def test_a_wrapper_that_is_not_alone(self) -> None:
        squeezed, plain = message_set(sent(), 1, Codec.GZIP), message_set(sent(1), 1)
        for data in (squeezed + plain, plain + squeezed, squeezed * 2):
            assert refused(data) is InvalidRecord

    def test_two_magics(self) -> None:
        assert refused(message_set(sent(1), 1) + message_set(sent(1), 0)) is InvalidRecord
        assert refused(message_set(sent(1), 1) + build_batch(sent(1))) is InvalidRecord

    def test_two_magics_in_a_wrapper(self) -> None:
        assert refused(wrapper(1, 0, gzipped(message_set(sent(1), 0)))) is InvalidRecord

    def test_a_wrapper_in_a_wrapper(self) -> None:
        assert refused(wrapper(1, 0, gzipped(message_set(sent(), 1, Codec.GZIP)))) is InvalidRecord

    def test_a_wrong_checksum_in_a_wrapper(self) -> None:
        assert refused(wrapper(1, 0, gzipped(message_set(sent(), 1)[:-1] + b"x"))) is CorruptMessage

    def test_an_empty_wrapper(self) -> None:
        assert refused(wrapper(1, 0, gzipped(b""))) is InvalidRecord

    def test_an_offset_that_does_not_fit_below_the_wrappers(self) -> None:
        assert refused(wrapper(1, 1, gzipped(message_set(sent(), 1)))) is InvalidRecord
        assert len(stored(validate_messages(wrapper(1, 0, gzipped(message_set(sent(), 1))), LogConfig(), NOW_MS))) == 3

    @pytest.mark.parametrize("codec", [Codec.NONE, Codec.GZIP])
    @pytest.mark.parametrize("magic", [0, 1])
    def test_a_missing_key_where_the_topic_is_compacted(self, magic: int, codec: Codec) -> None:
        data = message_set([*sent(2), Record(2, NOW_MS, None, b"v")], magic, codec)
        assert refused(data, COMPACTED) is InvalidRecord

    @pytest.mark.parametrize("codec", [Codec.NONE, Codec.GZIP])
    def test_a_timestamp_far_from_now(self, codec: Codec) -> None:
        config = LogConfig.parse({"message.timestamp.before.max.ms": "100", "message.timestamp.after.max.ms": "100"})
        for timestamp in (NOW_MS - 101, NOW_MS + 101):
            assert refused(message_set(sent(1, timestamp=timestamp), 1, codec), config) is InvalidTimestamp
        for timestamp in (NOW_MS - 100, NOW_MS + 100, -1):
            validate_messages(message_set(sent(1, timestamp=timestamp), 1, codec), config, NOW_MS)
        validate_messages(message_set(sent(1, timestamp=0), 0, codec), config, NOW_MS)

    def test_a_negative_timestamp(self) -> None:
        content = struct.pack(">BBqiiB", 1, 0, -2, -1, 1, 0)
        data = struct.pack(">qiI", 0, len(content) + 4, zlib.crc32(content)) + content
        for config in (LogConfig(), STAMPED):
            assert refused(data, config) is InvalidTimestamp

    @pytest.mark.parametrize("codec", [Codec.NONE, Codec.GZIP])
    def test_a_claim_of_append_time_where_the_topic_stamps_itself(self, codec: Codec) -> None:
        if codec == Codec.NONE:
            data = bytes(build_messages(sent(1), 1, log_append_time_ms=NOW_MS))
        else:
            data = build_wrapper([sent(1)], 1, codec, log_append_time_ms=NOW_MS)
        assert refused(data, STAMPED) is InvalidTimestamp
        validated = validate_messages(data, LogConfig(), NOW_MS)
        assert not validated.header.is_log_append_time

    def test_a_bad_timestamp_beside_a_missing_key_in_a_wrapper_is_the_error(self) -> None:
        config = LogConfig.parse({"message.timestamp.before.max.ms": "100", "cleanup.policy": "compact"})
        records = [Record(n, NOW_MS, None, b"v") for n in range(5)] + [Record(5, 1, b"k", b"v")]
        assert refused(message_set(records, 1, Codec.GZIP), config) is InvalidTimestamp
        assert refused(message_set(records, 1), config) is InvalidRecord  # uncompressed, the first message counts

    def test_the_message_has_the_number_of_refused_messages_and_some_reasons(self) -> None:
        data = message_set([Record(n, NOW_MS, None, b"v") for n in range(9)], 1, Codec.GZIP)
        with pytest.raises(InvalidRecord, match=r"9 messages refused: [^;]*key; [^;]*key; [^;]*key$"):
            validate_messages(data, COMPACTED, NOW_MS)


class TestLimits:
    def test_a_wrapper_is_decompressed_as_far_as_it_may_be(self) -> None:
        for inner in ([bytes(200_000)], [bytes(60_000)] * 30):
            records = [Record(n, NOW_MS, b"k", value) for n, value in enumerate(inner)]
            with pytest.raises(InvalidRecord, match="decompressed"):
                validate_messages(message_set(records, 1, Codec.GZIP), LogConfig(), 0, max_decompressed_bytes=100_000)

    def test_messages_are_counted(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(messages, "MAX_MESSAGES", 100)
        monkeypatch.setattr(message_set_validation, "MAX_MESSAGES", 100)
        for codec in (Codec.NONE, Codec.GZIP):
            validate_messages(message_set(sent(100), 1, codec), LogConfig(), NOW_MS)
            assert refused(message_set(sent(101), 1, codec)) is InvalidRecord

    def test_only_little_that_is_not_compressed_is_cheap(self) -> None:
        for data, expected in (
            (message_set(sent(3), 1), True),
            (message_set(sent(3), 1, Codec.GZIP), False),
            (message_set(sent(3), 1) * 100, False),
        ):
            first = first_message(data)
            assert first is not None
            assert is_cheap(data, first) is expected
