"""What may enter a log, in which form, and with which error it is refused."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest

from kmini.protocol.errors import (
    CorruptMessage,
    InvalidRecord,
    InvalidTimestamp,
    KafkaError,
    MessageTooLarge,
    RecordsRefused,
    UnknownServerError,
)
from kmini.protocol.records.batch import BatchHeader, build_batch, is_crc_valid, read_header, rewrite_header
from kmini.protocol.records.batch_records import decode_records
from kmini.protocol.records.compression import Codec
from kmini.protocol.records.load_kernel import IS_COMPILED
from kmini.protocol.records.record import Record
from kmini.storage.log_config import LogConfig
from kmini.storage.validation import ValidatedRecords, is_cheap, validate
from support.for_each import for_each

NOW = 1_700_000_000_000
CODECS = list(Codec)
COMPACT = frozenset({"compact"})


def record(value: bytes = b"v", *, key: bytes | None = b"k", timestamp: int = NOW, offset: int = 0) -> Record:
    return Record(offset, timestamp, key, value, (("h", b"1"), ("n", None)))


def batch(*records: Record, **arguments: Any) -> bytearray:
    return build_batch(records or (record(),), **arguments)


def with_header(built: bytearray, **changes: int) -> bytearray:
    """The batch with other fields in its header, and the checksum that goes with them."""
    rewrite_header(built, 0, read_header(built)._replace(**changes))
    return built


def checked(built: bytearray, limit: int = 1 << 20, **config: Any) -> ValidatedRecords:
    return validate(memoryview(built), LogConfig(**config), NOW, max_decompressed_bytes=limit)


def stored(validated: ValidatedRecords) -> tuple[BatchHeader, list[Record]]:
    """What a reader of the log finds: the header in the bytes is the one that was returned, checksum included."""
    header = read_header(validated.records)
    assert header == validated.header
    assert len(validated.records) == header.size
    assert is_crc_valid(validated.records, 0, header)
    return header, decode_records(validated.records, 0, header)


def refusal(built: bytearray, **config: Any) -> RecordsRefused:
    with pytest.raises(RecordsRefused) as caught:
        checked(built, **config)
    return caught.value


DELTAS = [(1, 0, 2), (0, 5, 9), (0, 0, 0), (1, 2, 3)]
"""Offset deltas of three records that are not 0, 1, 2."""


def batch_with_deltas(codec: Codec, deltas: tuple[int, ...]) -> bytearray:
    records = [record(b"%d" % number, offset=delta) for number, delta in enumerate(deltas)]
    if not any(deltas):  # build_batch takes all zeros for consecutive
        built = batch(*[one._replace(offset=1) for one in records], base_offset=1, codec=codec)
        built[:8] = bytes(8)
    else:
        built = batch(*records, codec=codec)
    return with_header(built, last_offset_delta=len(deltas) - 1)


class TestBatches:
    @pytest.mark.parametrize("codec", CODECS)
    def test_a_good_batch_is_stored_as_it_was_sent(self, codec: Codec) -> None:
        built = batch(record(b"a"), record(b"b", timestamp=NOW + 1), codec=codec)
        validated = checked(built)
        assert bytes(validated.records) == bytes(built)
        assert (validated.record_count, validated.log_append_time_ms) == (2, -1)

    def test_bytes_that_make_no_second_batch_are_left_out(self) -> None:
        built = batch()
        assert bytes(checked(built + batch()[:-1]).records) == bytes(built)

    @pytest.mark.parametrize("size", [0, 1, 16, 17, 61])
    def test_less_than_a_batch_is_invalid(self, size: int) -> None:
        with pytest.raises(InvalidRecord):
            checked(batch()[:size])

    def test_a_second_batch_is_invalid(self) -> None:
        with pytest.raises(InvalidRecord):
            checked(batch() + batch())

    def test_a_size_that_no_batch_has_is_corrupt(self) -> None:
        built = batch()
        built[8:12] = (13).to_bytes(4, "big")
        with pytest.raises(CorruptMessage):
            checked(built)

    def test_a_base_offset_other_than_zero_is_invalid(self) -> None:
        with pytest.raises(InvalidRecord):
            checked(with_header(batch(), base_offset=1))

    def test_a_batch_above_max_message_bytes_is_too_large(self) -> None:
        built = batch(record(b"x" * 100))
        assert checked(built, max_message_bytes=len(built))
        with pytest.raises(MessageTooLarge):
            checked(built, max_message_bytes=len(built) - 1)

    def test_a_wrong_checksum_is_corrupt(self) -> None:
        built = batch()
        built[-1] ^= 1
        with pytest.raises(CorruptMessage):
            checked(built)

    @pytest.mark.parametrize("codec", [5, 6, 7])
    def test_a_codec_there_is_not_is_an_error_of_the_server_as_in_kafka(self, codec: int) -> None:
        with pytest.raises(UnknownServerError):
            checked(with_header(batch(), attributes=codec))

    @pytest.mark.parametrize("changes", [{"record_count": 2}, {"record_count": 0}, {"record_count": -1}])
    def test_a_count_that_does_not_fit_the_offsets_is_invalid(self, changes: dict[str, int]) -> None:
        with pytest.raises(InvalidRecord):
            checked(with_header(batch(), **changes))

    @pytest.mark.parametrize("delta", [-1, -2, 5, 2**31 - 1])
    def test_offsets_that_do_not_fit_the_count_are_invalid(self, delta: int) -> None:
        with pytest.raises(InvalidRecord):
            checked(with_header(batch(), last_offset_delta=delta))

    @pytest.mark.parametrize("codec", CODECS)
    @pytest.mark.parametrize("claimed", [1, 3])
    def test_a_count_that_does_not_fit_the_records_is_invalid(self, codec: Codec, claimed: int) -> None:
        built = batch(record(), record(), codec=codec)
        with pytest.raises(InvalidRecord):
            checked(with_header(built, record_count=claimed, last_offset_delta=claimed - 1))

    def test_a_control_batch_is_invalid(self) -> None:
        with pytest.raises(InvalidRecord):
            checked(batch(control=True))

    def test_a_producer_without_a_sequence_is_invalid(self) -> None:
        with pytest.raises(InvalidRecord):
            checked(batch(producer_id=1, producer_epoch=0, base_sequence=-1))

    @pytest.mark.parametrize("codec", CODECS)
    def test_damaged_records_under_a_good_checksum_are_refused(self, codec: Codec) -> None:
        built = batch(record(b"some value"), codec=codec)
        damaged = built[:61] + bytes(byte ^ 0x55 for byte in built[61:])
        with pytest.raises((InvalidRecord, CorruptMessage)):
            checked(with_header(damaged))

    def test_the_order_of_checks_is_kafkas(self) -> None:
        """Each batch has all the faults of those after it."""
        faults: Sequence[tuple[dict[str, int], type[KafkaError]]] = (
            ({"base_offset": 1}, InvalidRecord),
            ({}, MessageTooLarge),
            ({"attributes": 5, "record_count": 9}, CorruptMessage),
        )
        for changes, error in faults:
            built = with_header(batch(), **changes)
            if error is not CorruptMessage:
                with pytest.raises(error):
                    checked(built, max_message_bytes=10)
            built[-1] ^= 1
            with pytest.raises(error):
                checked(built, max_message_bytes=10 if error is not CorruptMessage else 1_000)
        with pytest.raises(UnknownServerError):
            checked(with_header(batch(), attributes=5, record_count=9))


class TestRecords:
    @pytest.mark.parametrize("codec", CODECS)
    def test_a_compacted_topic_takes_no_record_without_a_key(self, codec: Codec) -> None:
        built = batch(record(), record(key=None), record(), record(key=None), codec=codec)
        error = refusal(built, cleanup_policy=COMPACT)
        assert type(error) is InvalidRecord
        assert [index for index, _ in error.record_errors] == [1, 3]
        assert "record 1" in error.message
        assert checked(built)

    def test_an_empty_key_is_a_key(self) -> None:
        assert checked(batch(record(key=b"")), cleanup_policy=COMPACT)

    @pytest.mark.parametrize("codec", CODECS)
    @pytest.mark.parametrize("timestamp", [NOW - 101, NOW + 51])
    def test_a_timestamp_too_far_from_now_is_refused(self, codec: Codec, timestamp: int) -> None:
        limits = {"message_timestamp_before_max_ms": 100, "message_timestamp_after_max_ms": 50}
        assert checked(batch(record(timestamp=NOW - 100), record(timestamp=NOW + 50), codec=codec), **limits)
        error = refusal(batch(record(), record(timestamp=timestamp), codec=codec), **limits)
        assert type(error) is InvalidTimestamp
        assert [index for index, _ in error.record_errors] == [1]

    def test_a_record_without_a_timestamp_is_not_measured(self) -> None:
        validated = checked(batch(record(timestamp=-1), record()), message_timestamp_before_max_ms=100)
        assert stored(validated)[0].max_timestamp == NOW
        assert stored(checked(batch(record(timestamp=-1))))[0].max_timestamp == -1

    def test_beside_one_without_a_timestamp_the_others_are_measured(self) -> None:
        built = batch(record(timestamp=-1), record(timestamp=NOW - 101), record())
        error = refusal(built, message_timestamp_before_max_ms=100)
        assert [index for index, _ in error.record_errors] == [1]

    def test_a_wrong_timestamp_behind_very_many_missing_ones_is_not_searched_for(
        self, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr("kmini.storage.validation._MAX_SUSPECTS", 3)
        built = batch(*[record(timestamp=-1)] * 3, record(timestamp=NOW - 101))
        error = refusal(built, message_timestamp_before_max_ms=100)
        assert type(error) is InvalidTimestamp
        assert error.record_errors == []

    def test_a_wrong_timestamp_outweighs_a_missing_key(self) -> None:
        built = batch(record(key=None), record(timestamp=0))
        error = refusal(built, cleanup_policy=COMPACT, message_timestamp_before_max_ms=100)
        assert type(error) is InvalidTimestamp
        assert [index for index, _ in error.record_errors] == [0, 1]

    def test_each_record_is_refused_for_one_thing(self) -> None:
        built = batch(record(key=None, timestamp=0))
        error = refusal(built, cleanup_policy=COMPACT, message_timestamp_before_max_ms=100)
        assert len(error.record_errors) == 1

    def test_the_broker_stamps_whatever_timestamp_records_have(self) -> None:
        built = batch(record(timestamp=5), record(timestamp=NOW * 2))
        assert checked(built, message_timestamp_type="LogAppendTime", message_timestamp_before_max_ms=1)

    def test_a_topic_that_stamps_refuses_a_batch_that_claims_to_be_stamped(self) -> None:
        error = refusal(batch(record(), record(), log_append_time_ms=NOW), message_timestamp_type="LogAppendTime")
        assert type(error) is InvalidTimestamp
        assert len(error.record_errors) == 2

    def test_one_that_does_not_stamp_clears_the_claim(self) -> None:
        header, records = stored(checked(batch(record(timestamp=NOW - 5), log_append_time_ms=NOW)))
        assert not header.is_log_append_time
        assert (header.max_timestamp, records[0].timestamp) == (NOW, NOW - 5)

    def test_unless_the_claim_is_no_timestamp_at_all(self) -> None:
        assert type(refusal(batch(record(), log_append_time_ms=-1))) is InvalidTimestamp

    def test_or_one_too_far_from_now(self) -> None:
        built = batch(record(), log_append_time_ms=NOW - 101)
        assert type(refusal(built, message_timestamp_before_max_ms=100)) is InvalidTimestamp

    def test_the_answer_names_a_limited_number_of_records(self) -> None:
        built = batch(*[record(key=None)] * 3_000, codec=Codec.GZIP)
        error = refusal(built, cleanup_policy=COMPACT)
        assert len(error.record_errors) == 1_000
        assert len(error.message) < 500


class TestStoredForm:
    def test_a_wrong_max_timestamp_is_put_right(self) -> None:
        built = with_header(batch(record(timestamp=NOW), record(timestamp=NOW - 7)), max_timestamp=5)
        assert stored(checked(built))[0].max_timestamp == NOW

    @pytest.mark.parametrize("codec", CODECS)
    def test_log_append_time_is_now(self, codec: Codec) -> None:
        validated = checked(
            batch(record(timestamp=5), record(timestamp=6), codec=codec), message_timestamp_type="LogAppendTime"
        )
        header, records = stored(validated)
        assert validated.log_append_time_ms == header.max_timestamp == NOW
        assert header.is_log_append_time
        assert [found.timestamp for found in records] == [NOW, NOW]
        assert header.base_timestamp == 5

    @pytest.mark.parametrize("attributes", [0x40, 0x80, 0x4000, -0x8000])
    def test_attributes_that_are_not_a_producers_to_set_are_cleared(self, attributes: int) -> None:
        header, records = stored(checked(with_header(batch(record(timestamp=NOW - 1)), attributes=attributes)))
        assert header.attributes == 0
        assert records[0].timestamp == NOW - 1

    def test_a_transactional_batch_stays_one(self) -> None:
        built = batch(producer_id=1, producer_epoch=0, base_sequence=0, transactional=True)
        assert bytes(checked(built).records) == bytes(built)

    @for_each("sent", CODECS)
    @for_each("wanted", ["uncompressed", "gzip", "snappy", "lz4", "zstd"])
    @for_each("timestamp_type", ["CreateTime", "LogAppendTime"])
    def test_the_topics_codec_is_forced(self, sent: Codec, wanted: str, timestamp_type: str) -> None:
        records = [record(b"value %d" % number, timestamp=NOW - 50 + number) for number in range(100)]
        built = batch(*records, codec=sent, producer_id=3, producer_epoch=1, base_sequence=7, transactional=True)
        validated = checked(built, compression_type=wanted, message_timestamp_type=timestamp_type)
        header, found = stored(validated)
        assert header.codec == (Codec.NONE if wanted == "uncompressed" else Codec[wanted.upper()])
        assert (header.producer_id, header.producer_epoch, header.base_sequence) == (3, 1, 7)
        assert header.is_transactional
        assert [one.value for one in found] == [one.value for one in records]
        assert [one.headers for one in found] == [one.headers for one in records]
        stamped = timestamp_type == "LogAppendTime"
        assert [one.timestamp for one in found] == [NOW if stamped else one.timestamp for one in records]

    def test_producer_keeps_what_was_sent(self) -> None:
        built = batch(codec=Codec.LZ4)
        assert bytes(checked(built, compression_type="producer").records) == bytes(built)

    @pytest.mark.parametrize("deltas", DELTAS)
    @pytest.mark.parametrize("wanted", ["producer", "uncompressed"])
    @pytest.mark.parametrize("flagged", [False, True])
    def test_an_uncompressed_batch_with_other_offset_deltas_is_invalid(
        self, wanted: str, flagged: bool, deltas: tuple[int, ...]
    ) -> None:
        built = batch_with_deltas(Codec.NONE, deltas)
        with pytest.raises(InvalidRecord):
            checked(built, compression_type=wanted, kmini_tombstone_flag_enable=flagged)

    @for_each("deltas", DELTAS)
    @for_each(
        ("codec", "wanted"),
        [*((codec, "producer") for codec in CODECS[1:]), (Codec.NONE, "gzip"), (Codec.GZIP, "uncompressed")],
    )
    def test_offset_deltas_of_a_batch_that_is_rebuilt_are_made_consecutive(
        self, codec: Codec, wanted: str, deltas: tuple[int, ...]
    ) -> None:
        header, found = stored(checked(batch_with_deltas(codec, deltas), compression_type=wanted))
        assert [one.offset for one in found] == [0, 1, 2]
        assert [one.value for one in found] == [b"0", b"1", b"2"]
        assert header.last_offset_delta == 2

    def test_too_many_to_renumber_are_invalid(self) -> None:
        count = 65_537
        built = batch(*[record(b"", key=None, offset=number * 2) for number in range(count)], codec=Codec.LZ4)
        with pytest.raises(InvalidRecord, match="too many"):
            checked(with_header(built, last_offset_delta=count - 1), max_message_bytes=1 << 24)

    def test_a_rebuilt_batch_is_measured_again(self) -> None:
        built = batch(record(b"x" * 5_000), codec=Codec.GZIP)
        assert checked(built, max_message_bytes=1_000)
        with pytest.raises(MessageTooLarge):
            checked(built, max_message_bytes=1_000, compression_type="uncompressed")


class TestLimits:
    @pytest.mark.parametrize("codec", CODECS[1:])
    def test_a_record_larger_than_the_limit_is_invalid(self, codec: Codec) -> None:
        built = batch(record(b"\0" * 20_000_000), codec=codec)
        with pytest.raises(InvalidRecord):
            checked(built, limit=1_000_000)

    @pytest.mark.parametrize("codec", CODECS[1:])
    def test_many_records_may_together_be_larger(self, codec: Codec) -> None:
        built = batch(*[record(b"\0" * 100_000)] * 20, codec=codec)
        assert checked(built, limit=200_000).record_count == 20

    def test_but_not_if_the_batch_has_to_be_rebuilt(self) -> None:
        built = batch(*[record(b"\0" * 100_000)] * 20, codec=Codec.GZIP)
        with pytest.raises(InvalidRecord):
            checked(built, limit=200_000, compression_type="zstd")

    def test_small_and_uncompressed_is_cheap(self) -> None:
        assert is_cheap(batch())
        assert is_cheap(batch(record(b"x" * (100_000 if IS_COMPILED else 30_000))))
        assert is_cheap(batch(codec=Codec.ZSTD))

    def test_large_or_compressed_is_not(self) -> None:
        assert not is_cheap(batch(record(b"x" * 2_000_000)))
        assert not is_cheap(batch(*[record(bytes([number])) for number in range(256)], codec=Codec.SNAPPY))

    def test_many_records_in_few_bytes_are_not(self) -> None:
        built = batch(*[record(offset=1)] * 2_000, codec=Codec.ZSTD)
        assert len(built) < 512
        assert not is_cheap(built)

    def test_with_the_tombstone_flag_less_is_cheap(self) -> None:
        built = batch(record(b"x" * (300_000 if IS_COMPILED else 10_000)))
        assert is_cheap(built)
        assert not is_cheap(built, has_tombstone_flag=True)
        assert is_cheap(batch(), has_tombstone_flag=True)

    @pytest.mark.parametrize("size", [0, 1, 22, 23])
    def test_the_question_itself_stands_any_bytes(self, size: int) -> None:
        assert is_cheap(memoryview(bytes(size)))
