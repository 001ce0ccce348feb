r"""Java properties files, the format of Kafka's server.properties.

One `key=value` a line; `=`, `:` or blanks separate the two; `#` and `!` begin a comment; a line that ends in an odd
number of backslashes goes on in the next one, whose leading blanks are dropped; `\t \n \r \f \uXXXX` and a backslash
before any other character are escapes. The last of several lines with one key wins.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

_BLANKS = " \t\f"
_LINE_END = re.compile(r"\r\n|\n|\r")  # splitlines() would also break at \f, which is a blank here
_ESCAPE = re.compile(r"\\(u[0-9A-Fa-f]{4}|u|.|$)", re.DOTALL)
_CONTROL = {"t": "\t", "n": "\n", "r": "\r", "f": "\f"}
_SEPARATOR = re.compile(r"((?:\\.|[^\\=: \t\f])*)(?:[ \t\f]*[=:][ \t\f]*|[ \t\f]+|$)(.*)", re.DOTALL)


def parse_properties(text: str) -> dict[str, str]:
    """Keys and values in the order of the file. Raises ValueError, naming the line, for a broken Unicode escape."""
    properties: dict[str, str] = {}
    for number, line in _logical_lines(text):
        match = _SEPARATOR.match(line)
        assert match is not None, "every line has a key, if an empty one"
        try:
            name, value = map(_unescape, match.groups())
        except ValueError as error:
            raise ValueError(f"line {number}: {error}") from None
        properties.pop(name, None)
        properties[name] = value
    return properties


def property_text(value: str | int | bool) -> str:
    """A value as such a file has it."""
    return str(value).lower() if isinstance(value, bool) else str(value)


def _logical_lines(text: str) -> Iterator[tuple[int, str]]:
    """Lines that carry a property, continuations joined, each with the number of its first line."""
    joined, first = "", 0
    for number, line in enumerate(_LINE_END.split(text), 1):
        line = line.lstrip(_BLANKS)
        if not first:
            if not line or line[0] in "#!":
                continue
            first = number
        backslashes = len(line) - len(line.rstrip("\\"))
        if backslashes % 2:
            joined += line[:-1]
            continue
        yield first, joined + line
        joined, first = "", 0
    if first:
        yield first, joined


def _unescape(text: str) -> str:
    def character(match: re.Match[str]) -> str:
        escaped = match[1]
        if escaped == "u":
            raise ValueError("\\u must be followed by four hexadecimal digits")
        return chr(int(escaped[1:], 16)) if len(escaped) == 5 else _CONTROL.get(escaped, escaped)

    if "\\" not in text:
        return text
    units = _ESCAPE.sub(character, text)  # Java writes a character beyond \uFFFF as two escapes
    return units.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
