"""Keys of the records of groups: the bytes that Apache Kafka 4.3.1 writes, and damaged ones."""

from __future__ import annotations

import pytest

from kmini.broker.coordinators.internal_records import CorruptRecord
from kmini.broker.groups.modern import record_format


@pytest.mark.parametrize("key_type", [3, 4, 6])
def test_the_key_of_a_group_is_its_type_and_its_name(key_type: int) -> None:
    key = record_format.group_key(key_type, "grüße")
    assert key == key_type.to_bytes(2, "big") + b"\0\7" + "grüße".encode()
    assert record_format.decode_key(key) == (key_type, "grüße", "")


@pytest.mark.parametrize("key_type", [5, 7, 8, 16])
def test_the_key_of_a_member_or_an_expression_has_its_name_too(key_type: int) -> None:
    key = record_format.member_key(key_type, "g", "m-1")
    assert key == key_type.to_bytes(2, "big") + b"\0\1g\0\3m-1"
    assert record_format.decode_key(key) == (key_type, "g", "m-1")


@pytest.mark.parametrize(
    "key",
    [
        b"",
        b"\0",
        b"\0\3",
        b"\0\3\0",
        b"\0\3\0\2g",
        b"\0\3\xff\xffg",
        b"\0\3\0\1gx",
        b"\0\5\0\1g",
        b"\0\5\0\1g\0\4m-1",
        b"\0\5\0\1g\0\3m-1x",
        b"\0\3\0\1\xff",
    ],
)
def test_a_damaged_key_is_corrupt(key: bytes) -> None:
    with pytest.raises(CorruptRecord):
        record_format.decode_key(key)
