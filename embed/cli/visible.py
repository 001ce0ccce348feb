"""Text for a terminal: control characters become visible, so that no record and no name can drive the terminal."""

from __future__ import annotations

import re

_INVISIBLE = re.compile("[\x00-\x1f\x7f-\x9f\u2028\u2029\u202a-\u202e\u2066-\u2069\ud800-\udfff]")
"""Control characters, line separators, the controls of writing direction, and halves of surrogate pairs."""

_SHORT = {"\t": "\\t", "\n": "\\n", "\r": "\\r"}


def visible(text: str) -> str:
    """The text on one line, with each control character as an escape sequence such as \\n, \\x1b or \\u202e."""
    return _INVISIBLE.sub(_escaped, text)


def visible_bytes(data: bytes) -> bytes:
    """The same for bytes, which are read as UTF-8; a byte that is none is escaped too, as \\xff."""
    return visible(data.decode(errors="backslashreplace")).encode()


def visible_json(text: str) -> str:
    """JSON in which strings hold no control character as such; what was escaped already stays as it is."""
    return _INVISIBLE.sub(lambda match: f"\\u{ord(match[0]):04x}", text)


def _escaped(match: re.Match[str]) -> str:
    character = match[0]
    code = ord(character)
    return _SHORT.get(character) or (f"\\x{code:02x}" if code < 0x100 else f"\\u{code:04x}")
