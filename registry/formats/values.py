"""Decodes what a serializer wrote, by the schema that it wrote it with, into data that JSON has a form for."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from importlib import import_module
from typing import Any, Final

from kmini.registry.formats.schema_format import Schema

MOST_BYTES: Final = 1 << 20
"""Bytes of a key or a value that are decoded."""
MOST_LEVELS: Final = 100
"""Objects and arrays inside each other that decoded data may have."""

LARGEST_EXACT: Final = 2**53
"""Whole numbers beyond it are texts in decoded Avro and Protobuf, as browsers would round them."""

_MODULES = {"AVRO": "avro_values", "JSON": "json_values", "PROTOBUF": "protobuf_values"}
"""The module of each format. Its function `decode` takes the schema, the data and the place of a Protobuf message."""


class Undecodable(ValueError):
    """Data do not have the form of their schema. The message says why."""


Decode = Callable[[Schema, bytes, list[int]], Any]


@cache
def _decode_of(kind: str) -> Decode:
    decode: Decode = import_module(f"kmini.registry.formats.{_MODULES[kind]}").decode
    return decode


def decoded(kind: str, schema: Schema, data: bytes, place: list[int]) -> Any:
    """The data as JSON has them. `kind` is the name of the format, `place` that of a Protobuf message in its file.

    Raises Undecodable, also where the data or what they stand for are too large.
    """
    if len(data) > MOST_BYTES:
        raise Undecodable(f"The data have {len(data):,} bytes, and at most {MOST_BYTES:,} are decoded.")
    value = _decode_of(kind)(schema, data, place)
    level = [value]
    for _ in range(MOST_LEVELS + 1):
        level = [inner for outer in level for inner in _members(outer)]
        if not level:
            return value
    raise Undecodable(f"The data have more than {MOST_LEVELS} objects and arrays inside each other.")


def _members(value: Any) -> list[Any]:
    """The objects and arrays directly inside a value."""
    inner = value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
    return [member for member in inner if isinstance(member, (dict, list))]
