"""Decodes what a serializer wrote, by the schema that it wrote it with, into data that JSON has a form for."""

from __future__ import annotations

from typing import Any, Final

from kmini.registry.formats.schema_format import Schema

MOST_BYTES: Final = 1 << 20
"""Bytes of a key or a value that are decoded."""
MOST_LEVELS: Final = 100
"""Objects and arrays inside each other that decoded data and the text of a JSON Schema may have."""

LARGEST_EXACT: Final = 2**53
"""Whole numbers beyond it are texts in decoded Avro and Protobuf, as browsers would round them."""


class Undecodable(ValueError):
    """Data do not have the form of their schema. The message says why."""


def decoded(schema: Schema, data: bytes, place: list[int]) -> Any:
    """The data as JSON has them. `place` is that of a Protobuf message in its file.

    Raises Undecodable, also where the data or what they stand for are too large.
    """
    if len(data) > MOST_BYTES:
        raise Undecodable(f"The data have {len(data):,} bytes, and at most {MOST_BYTES:,} are decoded.")
    value = schema.value_of(data, place)
    if is_deeper(value, MOST_LEVELS):
        raise Undecodable(f"The data have more than {MOST_LEVELS} objects and arrays inside each other.")
    return value


def is_deeper(value: Any, levels: int) -> bool:
    """Whether objects and arrays inside a JSON value are on more levels than that."""
    level = [value]
    for _ in range(levels + 1):
        level = [inner for outer in level for inner in _members(outer)]
    return bool(level)


def _members(value: Any) -> list[Any]:
    """The objects and arrays directly inside a value."""
    inner = value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
    return [member for member in inner if isinstance(member, (dict, list))]
