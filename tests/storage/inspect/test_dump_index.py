"""A dump of the indexes of a segment: entries, and entries that contradict the log."""

from __future__ import annotations

import struct

import pytest

from support.dumps import batch, damage, lines, segment_of_six, write


def test_indexes_are_shown_with_absolute_offsets(filesystem) -> None:
    path = segment_of_six(filesystem)
    size = len(batch(0, 2))
    assert lines(filesystem, f"{path}.index")[1:] == [
        f"  offset={1000 + 2 * number + 1} position={size * number}" for number in (1, 3, 5)
    ]
    assert lines(filesystem, f"{path}.timeindex")[1] == "  time=1970-01-01T00:00:00.103Z timestamp=103 offset=1003"


def test_place_that_kafka_reserves_in_an_index_is_no_damage(filesystem) -> None:
    path = segment_of_six(filesystem)
    for kind, size in ((".index", 8), (".timeindex", 12)):
        file = filesystem.open(path + kind)
        file.append(bytes(10 * size))
        assert lines(filesystem, path + kind)[-1].startswith("  10 entries of zeros")
    write(filesystem, "fresh-0/00000000000000000000.index", bytes(80))
    assert lines(filesystem, "fresh-0/00000000000000000000.index")[0].endswith("0 entries")


@pytest.mark.parametrize(
    ("kind", "entries", "position", "reason"),
    [
        (".index", [(3, 99999)], 0, "position 99999 is beyond the batches of the log"),
        (".index", [(3, 7)], 0, "at position 7 of the log there is no whole batch"),
        (".index", [(2, 150)], 0, "at position 150"),
        (".index", [(11, 0), (3, 0)], 8, "(1003 at 0) comes after (1011 at 0)"),
        (".index", [(0, 0)], 0, "the batch at position 0 ends at offset 1001, not at 1000"),
        (".timeindex", [(103, 3), (103, 5)], 12, "(103, 1005) comes after (103, 1003)"),
        (".timeindex", [(103, 3), (105, 1)], 12, "(105, 1001) comes after (103, 1003)"),
        (".timeindex", [(103, 3), (104, 7)], 12, "up to offset 1007 there is a timestamp of 107, after 104"),
    ],
)
def test_an_entry_that_contradicts_its_log_or_its_neighbour_is_named(
    filesystem, kind: str, entries: list[tuple[int, int]], position: int, reason: str
) -> None:
    path = segment_of_six(filesystem)
    filesystem.remove(path + kind)
    packing = ">ii" if kind == ".index" else ">qi"
    write(filesystem, path + kind, b"".join(struct.pack(packing, *entry) for entry in entries) + b"\x01")
    found = damage(filesystem, path + kind)
    assert found[0][0] == position
    assert reason in found[0][1]
    assert found[-1] == (len(entries) * struct.calcsize(packing), "a rest of 1 byte is no whole entry")


def test_an_index_without_its_log_is_shown_all_the_same(filesystem) -> None:
    write(filesystem, "orders-0/00000000000000001000.index", struct.pack(">ii", 3, 7))
    assert lines(filesystem, "orders-0/00000000000000001000.index")[1] == "  offset=1003 position=7"


def test_aborted_transactions_are_shown_and_checked(filesystem) -> None:
    path = "orders-0/00000000000000000000.txnindex"
    good = struct.pack(">hqqqq", 0, 7, 90, 110, 105)
    write(filesystem, path, good)
    assert lines(filesystem, path)[1] == "  producer=7 first_offset=90 marker=110 last_stable_offset=105"
    file = filesystem.open(path)
    file.append(good, struct.pack(">hqqqq", 1, 7, 90, 120, 105), struct.pack(">hqqqq", 0, 7, 130, 125, 105), b"tail")
    assert damage(filesystem, path) == [
        (34, "the marker at 110 comes after 110"),
        (68, "there is no version 1"),
        (102, "the transaction begins at 130, after its marker at 125"),
        (136, "a rest of 4 bytes is no whole entry"),
    ]
