"""Decodes what a serializer for Avro wrote, by Apache's `avro`."""

from __future__ import annotations

import math
from collections.abc import Callable
from datetime import date, datetime, time
from decimal import Decimal
from io import BytesIO
from typing import Any, Final
from uuid import UUID

from avro.errors import AvroException
from avro.io import BinaryDecoder, DatumReader

from kmini.registry.formats.avro_format import AvroSchema
from kmini.registry.formats.schema_format import Schema
from kmini.registry.formats.values import LARGEST_EXACT, Undecodable
from kmini.web.json_data import data_to_json

FREE_PARTS: Final = 10_000
PARTS_PER_BYTE: Final = 20
"""Values inside the data: a null takes no byte, so ten bytes can announce more of them than there is memory."""

_WRONG: Final = (AvroException, ArithmeticError, LookupError, TypeError, ValueError, AssertionError, EOFError)
"""What Apache's reader raises for bytes that are no value of the schema."""


def decode(schema: Schema, data: bytes, place: list[int]) -> Any:
    """The value as JSON has it: a record as an object, a union as its value, bytes as text or {"base64": ...}, and of
    logical types a decimal and a UUID as text, times as ISO 8601. Raises Undecodable."""
    assert isinstance(schema, AvroSchema)
    reader = _BoundedReader(schema.types, FREE_PARTS + PARTS_PER_BYTE * len(data))
    try:
        return _plain(reader.read(BinaryDecoder(BytesIO(data))))
    except Undecodable:
        raise
    except RecursionError:
        raise Undecodable("The data have too many values inside each other.") from None
    except _WRONG as problem:
        raise Undecodable(f"The data are no value of the Avro schema: {str(problem)[:200]}.") from None


class _BoundedReader(DatumReader):
    """Reads one value, and gives up where it has too many values inside."""

    def __init__(self, types: Any, parts: int) -> None:
        super().__init__(types)
        self._parts = parts

    def read_data(self, writers_schema: Any, readers_schema: Any, decoder: Any) -> Any:
        self._parts -= 1
        if self._parts < 0:
            raise Undecodable("The data announce more values than their bytes can have.")
        return super().read_data(writers_schema, readers_schema, decoder)


def _plain(value: Any) -> Any:
    """What Apache's reader gives, as JSON has it."""
    if isinstance(value, dict):
        return {str(name): _plain(inner) for name, inner in value.items()}
    if isinstance(value, list):
        return [_plain(inner) for inner in value]
    return next((form(value) for kind, form in _FORMS if isinstance(value, kind)), value)


def _number(value: float) -> Any:
    """A number as JSON has it: one that it does not have, or that a browser would round, as text."""
    if isinstance(value, float):
        return value if math.isfinite(value) else {math.inf: "Infinity", -math.inf: "-Infinity"}.get(value, "NaN")
    return value if isinstance(value, bool) or abs(value) <= LARGEST_EXACT else str(value)


_FORMS: tuple[tuple[Any, Callable[[Any], Any]], ...] = (
    ((int, float), _number),
    (bytes, data_to_json),
    ((Decimal, UUID), str),
    ((datetime, date, time), lambda value: value.isoformat()),
)
