"""Decodes what a serializer for JSON Schema wrote: JSON."""

from __future__ import annotations

from typing import Any

from kmini.registry.formats.schema_format import Schema
from kmini.registry.formats.values import Undecodable
from kmini.web.strict_json import NotJson, read_json


def decode(schema: Schema, data: bytes, place: list[int]) -> Any:
    """The JSON value. It is not checked by its schema, as serializers check it only where they are told to. Raises
    Undecodable."""
    try:
        return read_json(data)
    except NotJson as problem:
        raise Undecodable(f"The data are no JSON: {problem}.") from None
