"""The hashes of a column of keys are those of the keys one by one, compiled and interpreted."""

from __future__ import annotations

from array import array

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kmini.protocol.records.load_kernel import load

SECRET = bytes(range(16))


@pytest.mark.parametrize("interpreted", [False, True])
@settings(deadline=None)
@given(keys=st.lists(st.binary(max_size=30), max_size=20))
def test_a_column_is_hashed_key_by_key(keys: list[bytes], interpreted: bool) -> None:
    sieve = load("sieve", interpreted=interpreted)
    bounds = array("i", [0])
    for key in keys:
        bounds.append(bounds[-1] + len(key))
    lows, highs = array("Q", bytes(8 * len(keys))), array("Q", bytes(8 * len(keys)))
    sieve.KeyTable(bytearray(24), SECRET, 1).hash_column(b"".join(keys), bounds, lows, highs)
    hashes = [low.to_bytes(8, "little") + high.to_bytes(8, "little") for low, high in zip(lows, highs, strict=True)]
    assert hashes == [sieve.sip_hash_128(SECRET, key) for key in keys]


@pytest.mark.parametrize("interpreted", [False, True])
def test_hashes_need_their_room(interpreted: bool) -> None:
    table = load("sieve", interpreted=interpreted).KeyTable(bytearray(24), SECRET, 1)
    with pytest.raises(ValueError, match="no room"):
        table.hash_column(b"ab", array("i", [0, 1, 2]), array("Q", [0]), array("Q", [0, 0]))
