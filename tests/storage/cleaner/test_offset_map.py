"""How much memory a map takes, and what it holds."""

from __future__ import annotations

import pytest

from kmini.storage.cleaner import offset_map
from kmini.storage.cleaner.offset_map import ENTRY_BYTES, MapTooSmall, OffsetMap


def test_no_more_memory_than_the_keys_need() -> None:
    few = OffsetMap(1_000, budget_bytes=1 << 30)
    assert few.capacity >= 1_000
    assert few.size_bytes <= 1_000 * ENTRY_BYTES / 0.9 + 2 * ENTRY_BYTES


def test_no_more_memory_than_the_budget() -> None:
    many = OffsetMap(10**9, budget_bytes=10_000)
    assert many.size_bytes <= 10_000
    assert many.capacity == int(10_000 // ENTRY_BYTES * 0.9)


@pytest.mark.parametrize("load_factor", [0.1, 0.5, 0.9, 1.0])
def test_it_takes_as_many_keys_as_its_capacity(load_factor: float) -> None:
    keys = OffsetMap(100, budget_bytes=1 << 20, load_factor=load_factor)
    for offset in range(keys.capacity):
        assert keys.put(b"%d" % offset, offset)
    assert not keys.put(b"one more", 1_000)
    assert keys.is_full
    assert len(keys) == keys.capacity >= 99
    assert keys.utilization <= load_factor + 0.02
    assert all(keys.get(b"%d" % offset) == offset for offset in range(keys.capacity))
    assert keys.get(b"one more") == -1


@pytest.mark.parametrize(("budget", "load_factor"), [(0, 0.9), (24, 0.9), (47, 0.5), (10_000, 0.0)])
def test_a_budget_without_room_for_a_key_is_an_error_that_names_the_settings(budget: int, load_factor: float) -> None:
    with pytest.raises(
        MapTooSmall, match=r"log\.cleaner\.dedupe\.buffer\.size.*log\.cleaner\.io\.buffer\.load\.factor"
    ):
        OffsetMap(10, budget_bytes=budget, load_factor=load_factor)


def test_a_map_for_nothing_takes_no_key_s_place() -> None:
    assert OffsetMap(0, budget_bytes=1 << 20).size_bytes == 2 * ENTRY_BYTES


def test_secrets_differ_from_map_to_map() -> None:
    one, other = OffsetMap(1, budget_bytes=1 << 20), OffsetMap(1, budget_bytes=1 << 20)
    assert one.table.hash_of(b"key") != other.table.hash_of(b"key")


def test_the_memory_goes_with_the_map() -> None:
    keys = OffsetMap(1_000, budget_bytes=1 << 20)
    keys.put(b"a", 1)
    keys.close()
    assert len(keys) == 0


def test_what_it_has_looked_at_grows_only() -> None:
    keys = OffsetMap(10, budget_bytes=1 << 20)
    keys.reach(7)
    keys.put(b"a", 9)
    keys.reach(3)
    assert keys.latest_offset == 9


@pytest.mark.parametrize("has_large_pages", [True, False])
def test_a_map_of_several_large_pages_begins_empty_and_keeps_its_keys(
    has_large_pages: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also on a system without large pages."""
    if not has_large_pages:
        monkeypatch.delattr(offset_map.mmap, "MADV_HUGEPAGE", raising=False)
    many = OffsetMap(300_000, budget_bytes=1 << 30)
    assert many.size_bytes > 3 * 2**21
    assert many.get(b"0") == -1
    for offset in range(0, 300_000, 1_000):
        assert many.put(b"%d" % offset, offset)
    assert all(many.get(b"%d" % offset) == offset for offset in range(0, 300_000, 1_000))
    many.close()
