"""Keys and values in JSON: a text, null, or {"base64": ...} for bytes that are no UTF-8."""

from __future__ import annotations

import json
from base64 import b64decode, b64encode
from typing import Any


def data_to_json(data: bytes | None) -> str | dict[str, str] | None:
    """The data as JSON has them."""
    if data is None:
        return None
    try:
        return data.decode()
    except UnicodeDecodeError:
        return {"base64": b64encode(data).decode("ascii")}


def data_from_json(value: Any) -> bytes | None:
    """The data that a text, {"base64": ...} or null stand for; any other JSON stands for its text. Raises ValueError
    for what is no base64."""
    if value is None:
        return None
    if isinstance(value, str):
        return value.encode()
    if isinstance(value, dict) and value.keys() == {"base64"}:
        return b64decode(value["base64"], validate=True)
    return json.dumps(value, separators=(",", ":"), ensure_ascii=False).encode()
