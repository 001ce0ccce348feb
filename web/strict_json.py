"""JSON texts of requests and answers: strictly as RFC 8259 has them, in UTF-8. What a request has to say in JSON is
checked in `control/arguments.py` and `control/json_types.py`.

Python's reader also takes NaN, Infinity and halves of surrogate pairs, which no other language's reader takes back.
"""

from __future__ import annotations

import json
import math
from typing import Any, NoReturn


class NotJson(ValueError):
    """A text is no JSON. The message says what is wrong with it."""


def read_json(text: bytes | str) -> Any:
    """The value of a JSON text. Raises NotJson."""
    try:
        if isinstance(text, bytes):
            text = text.decode()
        value = json.loads(text, parse_constant=_refuse_constant, parse_float=_finite)
        if "\\ud" in text or "\\uD" in text:
            json.dumps(value, ensure_ascii=False).encode()  # raises UnicodeEncodeError
    except UnicodeDecodeError as error:
        raise NotJson(f"the byte at {error.start} is no UTF-8") from None
    except UnicodeEncodeError:
        raise NotJson("a \\ud... escape is half of a surrogate pair, which stands for no character") from None
    except RecursionError:
        raise NotJson("it is nested too deeply") from None
    except ValueError as error:
        raise NotJson(str(error)) from None
    return value


def write_json(document: Any, *, is_compact: bool = False) -> bytes:
    """The text of a value, without spaces if it `is_compact`. A half of a surrogate pair, which a record's JSON may
    hold, is written as its escape."""
    separators = (",", ":") if is_compact else None
    try:
        return json.dumps(document, ensure_ascii=False, separators=separators).encode()
    except UnicodeEncodeError:
        return json.dumps(document, separators=separators).encode()


def _refuse_constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is no number in JSON")


def _finite(text: str) -> float:
    number = float(text)
    if math.isinf(number):
        raise ValueError(f"{text[:40]} is too large a number")
    return number
