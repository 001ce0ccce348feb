"""Varints and tags. Lengths and counts that are larger than the message: `test_hostile_messages.py`."""

import random

import pytest

from kmini.protocol.errors import MalformedMessage
from kmini.protocol.primitives import read_tag, read_unsigned_varint, skip_tags, unsigned_varint


@pytest.mark.parametrize(
    ("value", "encoded"),
    [
        (0, "00"),
        (1, "01"),
        (127, "7f"),
        (128, "8001"),
        (300, "ac02"),
        (16_383, "ff7f"),
        (16_384, "808001"),
        ((1 << 31) - 1, "ffffffff07"),
        ((1 << 32) - 1, "ffffffff0f"),
    ],
)
def test_varints_are_seven_bits_a_byte_lowest_first(value: int, encoded: str) -> None:
    assert unsigned_varint(value).hex() == encoded
    assert read_unsigned_varint(bytes.fromhex("aa" + encoded + "bb"), 1) == (value, 1 + len(encoded) // 2)


def test_varints_survive_the_round_trip() -> None:
    dice = random.Random(1)
    for _ in range(1_000):
        value = dice.getrandbits(dice.randint(1, 32))
        encoded = unsigned_varint(value)
        assert read_unsigned_varint(memoryview(encoded), 0) == (value, len(encoded))


@pytest.mark.parametrize("value", [-1, 1 << 32])
def test_other_numbers_have_no_varint(value: int) -> None:
    with pytest.raises(ValueError, match="32-bit"):
        unsigned_varint(value)


@pytest.mark.parametrize("encoded", ["ffffffff1f", "8080808010", "8080808080", "808080808000", "ff" * 100])
def test_a_varint_of_more_than_32_bits_is_malformed(encoded: str) -> None:
    with pytest.raises(MalformedMessage, match="32 bits"):
        read_unsigned_varint(bytes.fromhex(encoded), 0)


def test_a_varint_that_the_buffer_cuts_off_is_an_index_error() -> None:
    with pytest.raises(IndexError):
        read_unsigned_varint(b"\x80\x80", 0)


def test_tags_are_skipped_by_their_size() -> None:
    section = bytes.fromhex("05 02 aabb  07 00") + b"rest"
    assert read_tag(section, 0) == (5, 4, 2)
    assert skip_tags(section, 0, 2) == 6


def test_a_tag_may_not_be_longer_than_what_is_left() -> None:
    with pytest.raises(MalformedMessage, match="longer"):
        skip_tags(bytes.fromhex("05 03 aabb"), 0, 1)


def test_a_struct_may_have_64_unknown_tags_and_no_more() -> None:
    assert skip_tags(b"\x01\x00" * 64, 0, 64) == 128
    with pytest.raises(MalformedMessage, match="too many"):
        skip_tags(b"\x01\x00" * 65, 0, 65)
