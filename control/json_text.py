"""The JSON texts that the control API takes and gives, with its own error for what is none."""

from __future__ import annotations

from typing import Any

from kmini.control.json_types import WrongValue
from kmini.web import strict_json
from kmini.web.strict_json import write_json

__all__ = ["read_json", "write_json"]


def read_json(text: bytes | str) -> Any:
    """The value of a JSON text. Raises WrongValue, which says what is wrong with it."""
    try:
        return strict_json.read_json(text)
    except strict_json.NotJson as error:
        raise WrongValue(str(error)) from None
