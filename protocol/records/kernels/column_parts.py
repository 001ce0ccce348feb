"""The parts of the room that `columns` fills: a buffer each, laid out as Apache Arrow lays out columns."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

NOTES = (
    "position",
    "size",
    "base_offset",
    "attributes",
    "base_timestamp",
    "max_timestamp",
    "producer_id",
    "producer_epoch",
    "base_sequence",
    "leader_epoch",
    "magic",
)
"""The notes of a batch, 8 bytes each."""

BIT = 0
"""The width of a part that has a bit an entry."""

MOST_BYTES = 0x7FFFFFFF
"""Bytes of a column, and headers, that its 32-bit offsets reach."""


class Part(NamedTuple):
    """One buffer of a room."""

    width: int
    """Bytes an entry; BIT for a bit."""
    per: str
    """The thing that has an entry: a "row", a "header", a "byte" of data, or a "note" of each row's batch."""
    group: str
    """Parts of one group are given together."""
    is_ends: bool = False
    """Whether there is one entry more: the first is 0, and each other one is where an element ends."""

    def least_bytes(self, rows: int, headers: int) -> int:
        """Bytes of the buffer for so many rows and headers; 0 for a part that has an entry for every byte of data."""
        entries = {"row": rows, "header": headers, "byte": 0, "note": rows * len(NOTES)}[self.per] + self.is_ends
        return self.width * entries if self.width else entries + 7 >> 3


PARTS = {
    "offset": Part(8, "row", "offset"),
    "timestamp": Part(8, "row", "timestamp"),
    "size": Part(4, "row", "size"),
    "value_size": Part(4, "row", "value_size"),
    "tombstone": Part(BIT, "row", "tombstone"),
    "batch": Part(4, "row", "batch"),
    "notes": Part(8, "note", "batch"),
    "key_valid": Part(BIT, "row", "key"),
    "key_ends": Part(4, "row", "key", is_ends=True),
    "key": Part(1, "byte", "key"),
    "value_valid": Part(BIT, "row", "value"),
    "value_ends": Part(4, "row", "value", is_ends=True),
    "value": Part(1, "byte", "value"),
    "headers_valid": Part(BIT, "row", "headers"),
    "headers_ends": Part(4, "row", "headers", is_ends=True),
    "name_ends": Part(4, "header", "headers", is_ends=True),
    "name": Part(1, "byte", "headers"),
    "content_valid": Part(BIT, "header", "headers"),
    "content_ends": Part(4, "header", "headers", is_ends=True),
    "content": Part(1, "byte", "headers"),
}
"""`batch` is the number of the row's batch among the `notes`, which have one column of `max_rows` entries after the
other, in the order of NOTES. `name` and `content` are the names and the values of headers."""

GROUPS: dict[str, tuple[str, ...]] = {
    group: tuple(name for name, part in PARTS.items() if part.group == group)
    for group in dict.fromkeys(part.group for part in PARTS.values())
}
"""The parts of each group."""


def headers_in(room: Mapping[str, Any]) -> int:
    """The number of headers for which a room has space."""
    return _bytes_of(room["name_ends"]) // PARTS["name_ends"].width - 1 if "name_ends" in room else 0


def check_room(room: Mapping[str, Any], max_rows: int) -> None:
    """ValueError for a room with part of a group, or with a buffer too small for the rows or too large for its ends."""
    for parts in GROUPS.values():
        if 0 < sum(part in room for part in parts) < len(parts):
            raise ValueError(f"{', '.join(parts)} go together")
    if not 0 <= max_rows <= MOST_BYTES >> 1:
        raise ValueError(f"there cannot be {max_rows} rows")
    headers = headers_in(room)
    for name, buffer in room.items():
        size = _bytes_of(buffer)
        if headers < 0 or size < PARTS[name].least_bytes(max_rows, headers):
            raise ValueError(f"{size} bytes are too few for {name}")
        if PARTS[name].per == "byte" and size > MOST_BYTES:
            raise ValueError(f"{size} bytes are too many for {name}")


def _bytes_of(buffer: Any) -> int:
    return memoryview(buffer).nbytes
