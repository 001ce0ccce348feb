"""At append, header and bit are made one: in every codec and magic, and nothing else of a record changes."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kmini.protocol.errors import InvalidRecord, MessageTooLarge
from kmini.protocol.records import load_kernel, tombstones
from kmini.protocol.records.batch import is_crc_valid, read_header
from kmini.protocol.records.batch_records import decode_records
from kmini.protocol.records.compression import Codec
from kmini.protocol.records.old_formats.messages import build_messages, build_wrapper
from kmini.protocol.records.record import TOMBSTONE_BIT, Record
from kmini.protocol.records.tombstones import FLAG, HEADER, NULL, marked_pieces
from kmini.storage.log_config import LogConfig
from kmini.storage.old_formats.message_set_validation import validate_messages
from kmini.storage.tombstone_flag import must_be_flagged
from kmini.storage.validation import ValidatedRecords, validate
from support.batches import CODECS, Item, batch
from support.for_each import for_each

NOW = 1_700_000_000_000
NAME = b"kmini.tombstone"
ADDED = ("kmini.tombstone", b"")
BIT = Item(attributes=TOMBSTONE_BIT)
IN_HEADER = Item(headers=((NAME, b"x"),))
BOTH = Item(headers=((NAME, b"x"),), attributes=TOMBSTONE_BIT)
ITEMS = [BIT, Item(value=b"plain"), IN_HEADER, BOTH, Item(value=None), Item(value=b"")]
FLAGGED = FLAG | HEADER
MARKS = [FLAGGED, 0, FLAGGED, FLAGGED, NULL | FLAGGED, 0]


@pytest.fixture(params=["compiled", "interpreted"])
def kernel(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Any:
    module = load_kernel.load("flagging", interpreted=request.param == "interpreted")
    if request.param == "compiled" and module.__file__.endswith(".py"):
        pytest.skip("the kernel is not compiled here")
    monkeypatch.setattr(tombstones, "_kernel", module)
    return module


def checked(built: bytes, limit: int = 1 << 20, **config: Any) -> ValidatedRecords:
    settings = LogConfig(**{"kmini_tombstone_flag_enable": True, **config})
    return validate(bytearray(built), settings, NOW, max_decompressed_bytes=limit)


def records_in(validated: ValidatedRecords) -> list[Record]:
    """What a reader finds, in a batch that is in order."""
    header = read_header(validated.records)
    assert header == validated.header
    assert is_crc_valid(validated.records, 0, header)
    return decode_records(validated.records, 0, header)


def marks_in(validated: ValidatedRecords) -> list[int]:
    pieces = marked_pieces(validated.records, 0, validated.header, 1 << 30)
    return [mark for _, marks in pieces for mark in marks]


def content(built: bytes) -> list[Record]:
    return decode_records(built, 0, read_header(built))


@pytest.mark.parametrize("codec", CODECS)
def test_either_brings_the_other_and_a_null_value_both(kernel: Any, codec: str) -> None:
    built = batch(ITEMS, codec=codec)
    validated = checked(built)
    assert marks_in(validated) == MARKS
    assert [r.headers for r in records_in(validated)] == [
        (ADDED,),
        (),
        *[(("kmini.tombstone", b"x"),)] * 2,
        (ADDED,),
        (),
    ]
    assert [r._replace(headers=()) for r in records_in(validated)] == [r._replace(headers=()) for r in content(built)]
    assert validated.header.codec == CODECS[codec]


def test_what_is_stored_byte_by_byte(kernel: Any) -> None:
    """As storage/FORMAT.md has it."""
    stored = bytes(checked(batch([Item(b"k", b"why", attributes=TOMBSTONE_BIT)])).records[61:])
    assert stored.hex() == "36200000026b0677687902" + "1e" + NAME.hex() + "00"


@pytest.mark.parametrize("codec", CODECS)
def test_what_agrees_is_stored_as_it_was_sent(kernel: Any, codec: str) -> None:
    built = batch([BOTH, Item(), BOTH._replace(value=None)], codec=codec)
    assert bytes(checked(built).records) == built


@for_each("target", ["gzip", "snappy", "lz4", "zstd", "uncompressed"])
@for_each("codec", CODECS)
def test_a_topic_with_a_codec_of_its_own_keeps_the_flags(kernel: Any, codec: str, target: str) -> None:
    validated = checked(batch(ITEMS, codec=codec), compression_type=target)
    assert marks_in(validated) == MARKS
    assert validated.header.codec == {**CODECS, "uncompressed": 0}[target]
    assert [r.value for r in records_in(validated)] == [r.value for r in content(batch(ITEMS))]


@pytest.mark.parametrize("codec", CODECS)
def test_without_the_flag_a_batch_that_is_rebuilt_loses_all_attributes_as_in_kafka(kernel: Any, codec: str) -> None:
    target = "gzip" if codec != "gzip" else "lz4"
    validated = checked(batch(ITEMS, codec=codec), compression_type=target, kmini_tombstone_flag_enable=False)
    assert marks_in(validated) == [0, 0, HEADER, HEADER, NULL, 0]
    assert records_in(validated) == content(batch(ITEMS))


@pytest.mark.parametrize("codec", CODECS)
def test_without_the_flag_what_is_not_rebuilt_keeps_them(codec: str) -> None:
    built = batch(ITEMS, codec=codec)
    assert bytes(checked(built, kmini_tombstone_flag_enable=False).records) == built


@pytest.mark.parametrize(
    ("codec", "target"), [*((codec, codec) for codec in CODECS if codec != "none"), ("none", "gzip")]
)
def test_records_with_other_offsets_are_renumbered_and_keep_their_flags(kernel: Any, codec: str, target: str) -> None:
    moved = [item._replace(offset_delta=2 * n + 3) for n, item in enumerate(ITEMS)]
    validated = checked(batch(moved, codec=codec), compression_type=target)
    assert marks_in(validated) == MARKS
    assert [record.offset for record in records_in(validated)] == list(range(len(ITEMS)))
    assert [r.value for r in records_in(validated)] == [r.value for r in content(batch(ITEMS))]
    assert validated.header.codec == CODECS[target]


@for_each("codec", CODECS)
@for_each("claims", [False, True])
def test_timestamps_are_what_they_would_be_without_flags(kernel: Any, codec: str, claims: bool) -> None:
    """Of a producer's own batch, and of one that claims log append time."""
    late = [item._replace(timestamp_delta=n * 7) for n, item in enumerate([BIT, Item(), Item(value=None)])]
    agreed = [BOTH._replace(timestamp_delta=0), late[1], BOTH._replace(value=None, timestamp_delta=14)]
    flags = {"attributes": 0x08} if claims else {}
    other = {"compression_type": "lz4" if codec != "lz4" else "gzip"}  # so that both are rebuilt
    times = [
        [r.timestamp for r in records_in(checked(batch(items, codec=codec, **flags), **other))]
        for items in (late, agreed)
    ]
    assert times[0] == times[1]


@pytest.mark.parametrize("codec", CODECS)
def test_log_append_time_is_the_brokers(kernel: Any, codec: str) -> None:
    validated = checked(batch(ITEMS, codec=codec), message_timestamp_type="LogAppendTime")
    assert [record.timestamp for record in records_in(validated)] == [NOW] * len(ITEMS)
    assert validated.log_append_time_ms == NOW
    assert marks_in(validated) == MARKS


def test_the_producer_and_its_transaction_stay() -> None:
    built = batch([BIT, Item()], attributes=0x10, producer_id=7, producer_epoch=2, base_sequence=40)
    header = checked(built).header
    assert (header.producer_id, header.producer_epoch, header.base_sequence, header.last_sequence) == (7, 2, 40, 41)
    assert header.is_transactional


@for_each("codec", CODECS)
@for_each("size", [65_530, 65_536, 200_000])
def test_records_of_any_size_are_flagged(kernel: Any, codec: str, size: int) -> None:
    """They come in pieces of 64 KiB from a codec."""
    items = [Item(value=b"x" * size, attributes=TOMBSTONE_BIT), Item(value=b"y" * size), Item(value=None)] * 2
    validated = checked(batch(items, codec=codec), max_message_bytes=1 << 22)
    assert marks_in(validated) == [FLAGGED, 0, NULL | FLAGGED] * 2
    assert [record.value for record in records_in(validated)] == [item.value for item in items]


@pytest.mark.parametrize("codec", CODECS)
def test_a_batch_may_not_outgrow_the_largest_message(codec: str) -> None:
    built = batch([Item(value=None, key=b"%d" % n) for n in range(500)], codec=codec)
    stored = len(checked(built).records)
    assert stored > len(built)
    assert checked(built, max_message_bytes=stored)
    with pytest.raises(MessageTooLarge):
        checked(built, max_message_bytes=stored - 1)


def test_few_bytes_do_not_become_many() -> None:
    """A hundred thousand null values, compressed to nothing: they end where the largest message does."""
    built = batch([Item(key=None, value=None)] * 100_000, codec="zstd")
    with pytest.raises(MessageTooLarge):
        checked(built, max_message_bytes=len(built) + 1_000, compression_type="uncompressed")


class TestRefusals:
    @pytest.mark.parametrize("codec", CODECS)
    def test_null_values_are_refused_with_their_numbers(self, kernel: Any, codec: str) -> None:
        items = [Item(), Item(value=None), BIT, BIT._replace(value=None), Item(value=None)]
        with pytest.raises(InvalidRecord, match="2 records refused") as caught:
            checked(batch(items, codec=codec), kmini_tombstone_null_refuse=True)
        assert [number for number, _ in caught.value.record_errors] == [1, 4]

    def test_numbers_go_on_from_piece_to_piece(self) -> None:
        items = [Item(value=b"x" * 60_000)] * 5 + [Item(value=None)]
        with pytest.raises(InvalidRecord) as caught:
            checked(batch(items, codec="gzip"), kmini_tombstone_null_refuse=True)
        assert [number for number, _ in caught.value.record_errors] == [5]

    def test_no_more_than_a_thousand_are_named(self) -> None:
        with pytest.raises(InvalidRecord) as caught:
            checked(batch([Item(value=None)] * 1_001), kmini_tombstone_null_refuse=True)
        assert len(caught.value.record_errors) == 1_000

    def test_what_is_asked_of_records_anyway_comes_first(self) -> None:
        with pytest.raises(InvalidRecord, match="without a key") as caught:
            checked(
                batch([Item(value=None), Item(key=None)]), kmini_tombstone_null_refuse=True, cleanup_policy=("compact",)
            )
        assert [number for number, _ in caught.value.record_errors] == [1]

    def test_a_negative_header_is_refused_with_the_bit_too(self) -> None:
        with pytest.raises(InvalidRecord, match="says no"):
            checked(batch([BOTH._replace(headers=((NAME, b"false"),))]))

    @pytest.mark.parametrize("target", ["gzip", "producer"])
    def test_also_in_a_batch_that_is_rebuilt_anyway(self, target: str) -> None:
        with pytest.raises(InvalidRecord, match="says no"):
            checked(batch([Item(headers=((NAME, b"0"),))]), compression_type=target)


class TestOldFormats:
    @for_each("target", ["producer", "zstd"])
    @for_each("codec", [Codec.NONE, Codec.GZIP, Codec.SNAPPY, Codec.LZ4])
    @for_each("magic", [0, 1])
    @for_each("refuses", [False, True])
    def test_a_null_value_is_flagged_on_its_way_into_a_batch(
        self, kernel: Any, magic: int, codec: Codec, target: str, refuses: bool
    ) -> None:
        records = [Record(n, NOW, b"k", None if n % 3 == 0 else b"v") for n in range(700)]
        messages = build_wrapper([records], magic, codec) if codec else bytes(build_messages(records, magic))
        config = LogConfig(
            kmini_tombstone_flag_enable=True, kmini_tombstone_null_refuse=refuses, compression_type=target
        )
        validated = validate_messages(messages, config, NOW)
        assert marks_in(validated) == [NULL | FLAGGED if n % 3 == 0 else 0 for n in range(700)]
        found = records_in(validated)
        assert [(r.key, r.value) for r in found] == [(r.key, r.value) for r in records]
        assert found[0].headers == (ADDED,)

    @pytest.mark.parametrize("magic", [0, 1])
    def test_without_the_flag_it_is_a_null_value(self, magic: int) -> None:
        messages = bytes(build_messages([Record(0, NOW, b"k", None)], magic))
        validated = validate_messages(messages, LogConfig(), NOW)
        assert marks_in(validated) == [NULL]
        assert records_in(validated)[0].headers == ()


headers_of_any_kind = st.lists(
    st.tuples(st.sampled_from([NAME, b"h", b""]), st.sampled_from([None, b"", b"1"])), max_size=3
).map(tuple)
items_of_any_kind = st.lists(
    st.builds(
        Item,
        key=st.none() | st.binary(max_size=3),
        value=st.none() | st.binary(max_size=3) | st.just(b"x" * 40_000),
        timestamp_delta=st.integers(0, 1 << 33),
        headers=headers_of_any_kind,
        offset_delta=st.sampled_from([None, None, None, 7]),
        attributes=st.sampled_from([0, TOMBSTONE_BIT, 1]),
    ),
    min_size=1,
    max_size=6,
)


@given(items_of_any_kind, st.sampled_from(list(CODECS)), st.sampled_from(["producer", "uncompressed", "snappy"]))
def test_whatever_is_sent_bit_and_header_are_one_and_nothing_else_changes(
    items: list[Item], codec: str, target: str
) -> None:
    built = batch(items, codec=codec)
    if codec == "none" and target != "snappy" and any(item.offset_delta is not None for item in items):
        with pytest.raises(InvalidRecord, match="offset deltas"):
            checked(built, compression_type=target, message_timestamp_after_max_ms=1 << 40)
        return
    validated = checked(built, compression_type=target, message_timestamp_after_max_ms=1 << 40)
    rows = zip(items, content(built), records_in(validated), marks_in(validated), strict=True)
    for number, (item, before, after, mark) in enumerate(rows):
        is_tombstone = item.value is None or item.attributes & TOMBSTONE_BIT or NAME in dict(item.headers)
        assert mark & FLAGGED == (FLAGGED if is_tombstone else 0)
        has_header = any(name == ADDED[0] for name, _ in before.headers)
        added = () if has_header or not is_tombstone else (ADDED,)
        assert after == before._replace(offset=number, headers=before.headers + added)
    again = checked(bytes(validated.records), compression_type=target, message_timestamp_after_max_ms=1 << 40)
    assert bytes(again.records) == bytes(validated.records)
    assert not must_be_flagged(validated.records, validated.header, LogConfig(), 1 << 20)
