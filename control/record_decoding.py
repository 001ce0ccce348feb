"""How keys and values of records are written in answers: `?decode=`."""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Callable, Mapping
from typing import Any

from kmini.control.json_text import read_json
from kmini.control.json_types import WrongValue
from kmini.web.json_data import data_to_json


def _as_json(data: bytes | None) -> Any:
    """What the JSON in the data says; other data as text."""
    try:
        return None if data is None else read_json(data)
    except WrongValue:
        return data_to_json(data)


def _as_hex(data: bytes | None) -> str | None:
    return None if data is None else data.hex()


def _as_base64(data: bytes | None) -> str | None:
    return None if data is None else b64encode(data).decode("ascii")


DECODERS: Mapping[str, Callable[[bytes | None], Any]] = {
    "text": data_to_json,
    "json": _as_json,
    "hex": _as_hex,
    "base64": _as_base64,
}
"""By the name that a query gives: text, or {"base64": ...} where it is no UTF-8; JSON; hexadecimal digits; base64."""

BY_SCHEMA = "schema"
"""The name under which the schema registry decodes: `schema_decoding.py`."""

NAMES = (*DECODERS, BY_SCHEMA)
"""All names that a query may give."""
