"""Blocks that are no records: each way of being wrong, and any bytes at all."""

import random
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from kmini.protocol.errors import CorruptMessage, InvalidRecord
from kmini.protocol.records.batch import HEADER_SIZE, build_batch, read_header
from kmini.protocol.records.batch_records import check_records, decode_records
from kmini.protocol.records.compression import Codec, compress
from kmini.protocol.records.record import Record
from support.for_each import for_each

BatchOf = Callable[..., bytes]
WHOLE = b"\x1e\0\0\0\x04v1\x04v2\x02\x04h1\x02x"
assert WHOLE[0] == 2 * (len(WHOLE) - 1)

WRONG = {
    "a negative length": b"\x01" + WHOLE[1:],
    "a length of nothing": b"\0" + WHOLE[1:],
    "too short for a record": b"\x0a\0\0\0\x01\x01",
    "longer than the block": b"\x20" + WHOLE[1:],
    "a length of six bytes": b"\xff\xff\xff\xff\xff\x01" + WHOLE,
    "a timestamp delta of eleven bytes": b"\x1e\0" + b"\xff" * 10 + b"\x01\0\x01\x01",
    "an offset delta of six bytes": b"\x18\0\0" + b"\xff" * 5 + b"\x01\x01\x01\0\0",
    "a key longer than the record": b"\x1e\0\0\0\x40v1\x04v2\x02\x04h1\x02x",
    "a value longer than the record": b"\x1e\0\0\0\x04v1\x40v2\x02\x04h1\x02x",
    "a negative header count": b"\x0c\0\0\0\x01\x01\x01",
    "more headers than bytes": b"\x0c\0\0\0\x01\x01\x7e",
    "a header without a name": b"\x1e\0\0\0\x04v1\x04v2\x02\x01h1\x02x",
    "a header name longer than the record": b"\x1e\0\0\0\x04v1\x04v2\x02\x40h1\x02x",
    "a header value longer than the record": b"\x1e\0\0\0\x04v1\x04v2\x02\x04h1\x40x",
    "fewer headers than claimed": b"\x1e\0\0\0\x04v1\x04v2\x04\x04h1\x02x",
    "bytes left in the record": b"\x10\0\0\0\x01\x01\0zz",
    "bytes behind the last record": WHOLE + b"\0",
    "a second record": WHOLE + WHOLE,
}


def test_the_example_itself_is_a_record(kernel: Any, batch_of: BatchOf) -> None:
    batch = batch_of(WHOLE)
    assert decode_records(batch, 0, read_header(batch)) == [Record(0, 1000, b"v1", b"v2", (("h1", b"x"),))]


@for_each("codec", [Codec.NONE, Codec.GZIP])
@for_each("block", WRONG.values(), ids=WRONG)
def test_what_is_no_record_is_refused(kernel: Any, batch_of: BatchOf, block: bytes, codec: Codec) -> None:
    batch = batch_of(compress(codec, block), attributes=codec)
    header = read_header(batch)
    with pytest.raises(InvalidRecord):
        check_records(batch, 0, header)
    with pytest.raises(InvalidRecord):
        decode_records(batch, 0, header)


@pytest.mark.parametrize("codec", [Codec.NONE, Codec.LZ4])
def test_a_record_cut_at_any_byte_is_refused(kernel: Any, batch_of: BatchOf, codec: Codec) -> None:
    for cut in range(len(WHOLE)):
        batch = batch_of(compress(codec, WHOLE[:cut]), attributes=codec)
        with pytest.raises(InvalidRecord):
            check_records(batch, 0, read_header(batch))


@pytest.mark.parametrize("count", [-(2**31), -1, 0, 2, 3, 2**31 - 1])
def test_a_count_that_is_not_that_of_the_records_is_refused(kernel: Any, batch_of: BatchOf, count: int) -> None:
    batch = bytearray(batch_of(WHOLE))
    batch[57:61] = count.to_bytes(4, "big", signed=True)
    with pytest.raises(InvalidRecord):
        check_records(batch, 0, read_header(batch))


def test_a_negative_count_is_refused_although_nothing_follows(kernel: Any, batch_of: BatchOf) -> None:
    batch = bytearray(batch_of(b""))
    batch[57:61] = b"\xff" * 4
    with pytest.raises(InvalidRecord):
        check_records(batch, 0, read_header(batch))


def test_any_negative_key_or_value_length_is_null(kernel: Any, batch_of: BatchOf) -> None:
    batch = batch_of(b"\x0c\0\0\0\x05\x07\0")
    assert decode_records(batch, 0, read_header(batch)) == [Record(0, 1000, None, None)]
    assert check_records(batch, 0, read_header(batch)).null_keys == 1


def test_timestamps_wrap_as_java_adds_them(kernel: Any, batch_of: BatchOf) -> None:
    batch = batch_of(b"\x0c\0\x02\0\x01\x01\0", base_timestamp=2**63 - 1)
    assert decode_records(batch, 0, read_header(batch))[0].timestamp == -(2**63)
    assert check_records(batch, 0, read_header(batch)).max_timestamp == -(2**63)


@pytest.mark.parametrize("codec", Codec)
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None, max_examples=60)
@given(block=st.binary(max_size=200), count=st.integers(-2, 40))
def test_any_bytes_are_records_or_refused(
    kernel: Any, batch_of: BatchOf, codec: Codec, block: bytes, count: int
) -> None:
    for stored in (block, compress(codec, block)):
        _read(batch_of(stored, count, attributes=codec))


@pytest.mark.parametrize("codec", Codec)
def test_a_mutated_batch_is_read_or_refused(kernel: Any, codec: Codec) -> None:
    dice = random.Random(20 + codec)
    records = [Record(0, 1000 + n, b"k", bytes([n]) * n, (("h", None),)) for n in range(20)]
    good = build_batch(records, codec=codec)
    for _ in range(400):
        bad = bytearray(good)
        for _ in range(dice.randint(1, 4)):
            bad[dice.randrange(21, len(bad))] = dice.randrange(256)
        _read(bytes(bad[: dice.randint(HEADER_SIZE, len(bad))]))


def _read(batch: bytes) -> None:
    """Both readings come to an end, and to the same: records, or one of the two errors."""
    header = read_header(batch)
    try:
        facts = check_records(batch, 0, header, limit=1_000_000)
    except (InvalidRecord, CorruptMessage):
        with pytest.raises((InvalidRecord, CorruptMessage)):
            decode_records(batch, 0, header, limit=1_000_000)
    else:
        assert len(decode_records(batch, 0, header, limit=1_000_000)) == facts.record_count
