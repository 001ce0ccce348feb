"""The room of columns: the bytes of each part, and rooms that are refused."""

from __future__ import annotations

import pytest

from kmini.protocol.records.kernels.column_parts import GROUPS, MOST_BYTES, NOTES, PARTS, check_room, headers_in


def room_of(*groups: str, rows: int, headers: int = 0) -> dict[str, bytearray]:
    return {part: bytearray(PARTS[part].least_bytes(rows, headers)) for group in groups for part in GROUPS[group]}


@pytest.mark.parametrize(
    ("part", "least"),
    [
        ("offset", 8 * 9),
        ("size", 4 * 9),
        ("tombstone", 2),
        ("key_ends", 4 * 10),
        ("key", 0),
        ("notes", 8 * 9 * len(NOTES)),
        ("name_ends", 4 * 21),
        ("content_valid", 3),
    ],
)
def test_a_part_has_bytes_for_its_entries(part: str, least: int) -> None:
    assert PARTS[part].least_bytes(9, 20) == least


def test_every_part_is_in_one_group() -> None:
    assert sorted(part for parts in GROUPS.values() for part in parts) == sorted(PARTS)
    assert GROUPS["batch"] == ("batch", "notes")
    assert len(GROUPS["headers"]) == 7


@pytest.mark.parametrize("group", GROUPS)
def test_a_room_of_one_group_is_enough_with_the_least_bytes_and_not_with_less(group: str) -> None:
    room = room_of(group, rows=9, headers=20)
    check_room(room, 9)
    for part in room:
        if PARTS[part].per != "byte":
            with pytest.raises(ValueError, match="too few"):
                check_room(room | {part: room[part][:-1] if part != "name_ends" else b""}, 9)


def test_a_room_says_for_how_many_headers_it_has_space() -> None:
    assert headers_in(room_of("headers", rows=9, headers=20)) == 20
    assert headers_in(room_of("key", rows=9)) == 0


@pytest.mark.parametrize("rows", [-1, MOST_BYTES])
def test_a_number_of_rows_that_no_column_has_is_refused(rows: int) -> None:
    with pytest.raises(ValueError, match="there cannot be"):
        check_room({}, rows)
