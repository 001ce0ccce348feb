"""Escape control characters, so that no record and no name can control the terminal."""

from __future__ import annotations

import re

_INVISIBLE = "[\x00-\x1f\x7f-\x9f\u2028\u2029\u202a-\u202e\u2066-\u2069\ud800-\udfff]"
"""Control characters, line separators, controls of the writing direction, and halves of surrogate pairs."""

_SHORT = {"\t": "\\t", "\n": "\\n", "\r": "\\r"}


def escaped(text: str) -> str:
    """The text on one line, with each control character as an escape sequence such as \\n, \\x1b or \\u202e."""
    return re.sub(_INVISIBLE, _escaped, text)


def visible_bytes(data: bytes) -> bytes:
    """Escape bytes, which are read as UTF-8; an invalid byte is escaped as \\xff."""
    return escaped(data.decode(errors="backslashreplace")).encode()


def visible_json(text: str) -> str:
    """JSON whose strings hold no raw control characters; existing escapes stay unchanged."""
    return re.sub(_INVISIBLE, lambda match: f"\\u{ord(match[0]):04x}", text)


def _escaped(match: re.Match[str]) -> str:
    character = match[0]
    code = ord(character)
    return _SHORT.get(character) or (f"\\x{code:02x}" if code < 0x100 else f"\\u{code:04x}")
