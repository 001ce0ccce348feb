"""JSON values as JSON Schema tells them apart: 1 equals 1.0, and true does not equal 1."""

from __future__ import annotations

from collections.abc import Hashable
from typing import Any, Final

TYPES: Final = frozenset({"null", "boolean", "object", "array", "string", "integer", "fraction"})
"""The types of values, none of which holds a value of another: "number" is "integer" and "fraction"."""

NUMBERS: Final = frozenset({"integer", "fraction"})


def type_of(value: Any) -> str:
    """The type of a value, one of `TYPES`."""
    if value is None:
        return "null"
    if isinstance(value, bool):
        return "boolean"
    if isinstance(value, (int, float)):
        return "integer" if value == int(value) else "fraction"
    return "string" if isinstance(value, str) else "array" if isinstance(value, list) else "object"


def identity(value: Any) -> Hashable:
    """A key that two values share when JSON Schema calls them equal."""
    if isinstance(value, dict):
        return "object", frozenset((name, identity(inner)) for name, inner in value.items())
    if isinstance(value, list):
        return "array", tuple(map(identity, value))
    if isinstance(value, bool):
        return "boolean", value
    scalar: Hashable = value
    return scalar


def pointer(*steps: str | int) -> str:
    """A way into a JSON document as the end of a JSON pointer: "/properties/a~1b"."""
    return "".join("/" + str(step).replace("~", "~0").replace("/", "~1") for step in steps)
