"""The table of compaction: the newest offset of every key, and the hashes of whole columns of keys."""

from __future__ import annotations

import random
from array import array
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kmini.protocol.records import load_kernel
from kmini.protocol.records.load_kernel import load

SECRET = bytes(range(16))


@pytest.fixture(params=["compiled", "interpreted"])
def sieve(request: pytest.FixtureRequest) -> Any:
    module = load_kernel.load("sieve", interpreted=request.param == "interpreted")
    if request.param == "compiled" and module.__file__.endswith(".py"):
        pytest.skip("the kernel is not compiled here")
    return module


class TestKeyTable:
    def test_the_last_offset_counts(self, sieve: Any) -> None:
        table = sieve.KeyTable(bytearray(24 * 10), SECRET, 5)
        assert table.get(b"a") == -1
        assert table.put(b"a", 0)
        assert table.put(b"a", 7)
        assert (table.get(b"a"), table.get(b"b"), table.size, table.latest_offset) == (7, -1, 1, 7)

    def test_a_full_table_turns_every_key_away(self, sieve: Any) -> None:
        table = sieve.KeyTable(bytearray(24 * 10), SECRET, 2)
        assert table.put(b"a", 0)
        assert table.put(b"b", 1)
        assert not table.put(b"c", 2)
        assert not table.put(b"a", 3)  # as in Kafka: it would not say how far the log was looked at
        assert (table.is_full, table.get(b"a"), table.latest_offset) == (True, 0, 1)

    def test_it_does_what_a_dict_does(self, sieve: Any) -> None:
        dice = random.Random(1)
        table = sieve.KeyTable(bytearray(24 * 200), SECRET, 199)
        model: dict[bytes, int] = {}
        for offset in range(2_000):
            key = b"%d" % dice.randrange(190)
            table.put(key, offset)
            model[key] = offset
        assert table.size == len(model)
        assert all(table.get(b"%d" % number) == model.get(b"%d" % number, -1) for number in range(400))


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
