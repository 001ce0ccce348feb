"""Checks of the parts of a record: each returns the value as the log stores it, or raises a sentence.

A wrong type is a TypeError and a wrong value a ValueError; both name the argument, show the value and state the
expected one.
"""

from __future__ import annotations

import reprlib
from collections.abc import Iterable, Mapping
from typing import Any

Headers = Iterable["tuple[str, bytes | str | None]"] | Mapping[str, "bytes | str | None"]
"""Pairs of name and value, or a mapping; text becomes UTF-8."""


def wrong(argument: str, value: object, expected: str, *, kind: type[Exception] = ValueError) -> Exception:
    """Make the error for a wrong argument."""
    return kind(f"{argument}={reprlib.repr(value)}: must be {expected}")


def data(argument: str, value: Any) -> bytes | None:
    """Check a key or a value."""
    if value is None:
        return None
    if not isinstance(value, bytes | bytearray | memoryview):
        expected = "bytes or None" + (": encode text with .encode()" if isinstance(value, str) else "")
        raise wrong(argument, value, expected, kind=TypeError)
    return bytes(value)


def headers(argument: str, value: Any) -> tuple[tuple[str, bytes | None], ...]:
    """Check headers; return pairs of name and bytes or None."""
    expected = "a mapping of names to values, or pairs of them; a name is a str, a value is bytes, a str or None"
    if isinstance(value, str | bytes) or not isinstance(value, Iterable):
        raise wrong(argument, value, expected, kind=TypeError)
    pairs = list(value.items() if isinstance(value, Mapping) else value)
    found = []
    for pair in pairs:
        if not isinstance(pair, tuple | list) or len(pair) != 2 or not isinstance(pair[0], str):
            raise wrong(argument, pairs, expected, kind=TypeError)
        name, content = pair
        found.append((name, content.encode() if isinstance(content, str) else data(f"{argument}[{name!r}]", content)))
    return tuple(found)
