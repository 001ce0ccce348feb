"""The numbers in records: what one function writes another reads, and the sizes are the bytes."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kmini.protocol.records.kernels import numbers
from kmini.protocol.records.layout import VARINT_BITS, VARLONG_BITS

LONGS = st.integers(-(2**63), 2**63 - 1)
INTS = st.integers(-(2**31), 2**31 - 1)


@given(value=LONGS)
def test_a_varlong_is_read_as_it_was_written(value: int) -> None:
    out = bytearray()
    numbers.append_number(out, value)
    assert numbers.read_number(out, 0, len(out), VARLONG_BITS) == (value, len(out))
    assert numbers.number_size(value) == len(out) <= 10
    room = bytearray(12)
    assert numbers.write_number(room, 1, value) == 1 + len(out)
    assert room[1 : 1 + len(out)] == out


@given(value=INTS)
def test_a_varint_is_read_as_it_was_written(value: int) -> None:
    out = bytearray(b"\0")
    numbers.append_number(out, value)
    assert numbers.read_number(out, 1, len(out), VARINT_BITS) == (value, len(out))


@pytest.mark.parametrize(
    ("value", "encoded"), [(0, "00"), (-1, "01"), (1, "02"), (63, "7e"), (-64, "7f"), (64, "8001"), (300, "d804")]
)
def test_small_numbers_of_either_sign_have_few_bytes(value: int, encoded: str) -> None:
    out = bytearray()
    numbers.append_number(out, value)
    assert out.hex() == encoded


@pytest.mark.parametrize("data", [b"", b"\x80", b"\xff" * 4, b"\xff" * 5 + b"\x01"])
def test_a_varint_that_has_no_end_ends_beyond_the_bytes(data: bytes) -> None:
    assert numbers.read_number(data, 0, len(data), VARINT_BITS)[1] == len(data) + 1


@given(value=INTS)
def test_fixed_numbers_are_big_endian(value: int) -> None:
    data = b"\7" + value.to_bytes(4, "big", signed=True)
    assert numbers.int32_at(data, 1) == value
    room = bytearray(5)
    numbers.put_int32(room, 1, value)
    assert room[1:] == data[1:]
    assert numbers.int16_at(data, 3) == int.from_bytes(data[3:5], "big", signed=True)


@given(value=LONGS)
def test_numbers_of_64_bits_are_big_endian(value: int) -> None:
    data = value.to_bytes(8, "big", signed=True)
    assert numbers.int64_at(data, 0) == value
    room = bytearray(8)
    numbers.put_int64(room, 0, value)
    assert room == data


@given(a=LONGS, b=LONGS)
def test_sums_wrap_as_in_java(a: int, b: int) -> None:
    assert (numbers.wrapping_sum(a, b) - a - b) % 2**64 == 0
    assert -(2**63) <= numbers.wrapping_sum(a, b) < 2**63
