"""Whether the default of a field is a value of its type, as Avro's specification writes defaults in JSON."""

from __future__ import annotations

from typing import Any

from avro.schema import ArraySchema, EnumSchema, FixedSchema, MapSchema, RecordSchema, Schema, UnionSchema

_BITS = {"int": 31, "long": 63}


MAX_STEPS = 200_000
"""Pairs of a value and a type that the check of a schema's defaults looks at, each as often as it meets it. Records of
a union that refer to each other double the pairs with each level of a default."""


class TooManySteps(Exception):
    """The defaults of a schema take more than MAX_STEPS steps to check."""


class DefaultCheck:
    """Checks the defaults of one schema."""

    def __init__(self) -> None:
        self._left = MAX_STEPS

    def fits(self, schema: Schema, value: Any) -> bool:
        """Whether a JSON value may be the default of a field of this type. A union takes what one of its branches takes
        (since Avro 1.12; before, the first branch). Raises TooManySteps."""
        self._left -= 1
        if self._left < 0:
            raise TooManySteps
        if isinstance(schema, UnionSchema):
            return any(self.fits(branch, value) for branch in schema.schemas)
        if isinstance(schema, RecordSchema):
            return isinstance(value, dict) and all(
                self.fits(field.type, value[field.name]) if field.name in value else field.has_default
                for field in schema.fields
            )
        if isinstance(schema, EnumSchema):
            return value in schema.symbols
        if isinstance(schema, ArraySchema):
            return isinstance(value, list) and all(self.fits(schema.items, one) for one in value)
        if isinstance(schema, MapSchema):
            return isinstance(value, dict) and all(self.fits(schema.values, one) for one in value.values())
        if isinstance(schema, FixedSchema):
            return _are_bytes(value) and len(value) == schema.size
        return _fits_primitive(schema.type, value)


def _fits_primitive(kind: str, value: Any) -> bool:
    if kind == "null":
        return value is None
    if kind == "boolean":
        return isinstance(value, bool)
    if kind == "string":
        return isinstance(value, str)
    if kind == "bytes":
        return _are_bytes(value)
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        return False
    bits = _BITS.get(kind)
    return bits is None or (isinstance(value, int) and -(1 << bits) <= value < 1 << bits)


def _are_bytes(value: Any) -> bool:
    """Whether a value is a text whose characters each stand for a byte."""
    return isinstance(value, str) and all(ord(character) < 256 for character in value)
