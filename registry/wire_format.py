"""How a record says which schema its key or its value has: Confluent's wire format.

In front of the data are a zero byte and the id of the schema (4 bytes, big-endian). Newer serializers leave the data as
they are and write a header instead: a one byte and the schema's GUID (16 bytes). Either is followed, for Protobuf, by
the place of the message in its file.
"""

from __future__ import annotations

import uuid
from collections.abc import Sequence
from typing import Final, Literal, NamedTuple

Which = Literal["key", "value"]

ID_MAGIC: Final = 0
GUID_MAGIC: Final = 1
ID_END: Final = 5
GUID_END: Final = 17
MOST_INDEXES: Final = 100
"""Messages inside each other that the place of a Protobuf message may name."""


class SchemaMark(NamedTuple):
    """Which schema the data have, and the data themselves."""

    id: int
    """-1 where the schema is named by its GUID."""
    guid: str
    """In small letters; empty where the schema is named by its id."""
    place: bytes
    """Begins with the place of a Protobuf message: in front of the data, or behind the GUID of the header."""
    data: bytes
    """The data behind the id; they begin with the place where the header does not have it."""
    is_in_header: bool


def schema_mark(which: Which, data: bytes, headers: Sequence[tuple[str, bytes | None]]) -> SchemaMark | None:
    """What the key or the value of a record says of its schema; None where it says nothing."""
    name = f"__{which}_schema_id"
    header = next((value for header, value in reversed(headers) if header == name), None)
    if header is not None and len(header) >= GUID_END and header[0] == GUID_MAGIC:
        return SchemaMark(-1, str(uuid.UUID(bytes=header[1:GUID_END])), header[GUID_END:], data, True)
    if header is not None and len(header) >= ID_END and header[0] == ID_MAGIC:
        return SchemaMark(int.from_bytes(header[1:ID_END], "big"), "", header[ID_END:], data, True)
    if len(data) >= ID_END and data[0] == ID_MAGIC:
        return SchemaMark(int.from_bytes(data[1:ID_END], "big"), "", data[ID_END:], data[ID_END:], False)
    return None


def message_place(data: bytes) -> tuple[list[int], int]:
    """The place of a Protobuf message, such as [1, 0] for the first message inside the second, and the number of bytes
    that it took. Raises ValueError."""
    count, at = _number(data, 0)
    if count == 0:
        return [0], at
    if not 0 < count <= MOST_INDEXES:
        raise ValueError(f"the place of the message has {count} numbers")
    indexes = []
    for _ in range(count):
        index, at = _number(data, at)
        indexes.append(index)
    return indexes, at


def _number(data: bytes, at: int) -> tuple[int, int]:
    """A zigzag number of variable length, and where it ends. Raises ValueError."""
    raw = 0
    for shift in range(0, 35, 7):
        if at >= len(data):
            raise ValueError("the place of the message is cut off")
        byte = data[at]
        at += 1
        raw |= (byte & 0x7F) << shift
        if byte < 0x80:
            return (raw >> 1) ^ -(raw & 1), at
    raise ValueError("a number in the place of the message is too long")
