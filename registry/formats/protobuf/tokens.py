"""The tokens of a .proto text, after Protobuf's language specification. Comments and white space are left out."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import NamedTuple

from kmini.registry.formats.schema_format import InvalidSchema

_TOKEN = re.compile(
    r"""
    (?P<space>[ \t\r\n\f\v]+|//[^\n]*|/\*.*?\*/)
    |(?P<float>(?:\d+\.\d*|\.\d+)(?:[eE][+-]?\d+)?|\d+[eE][+-]?\d+)
    |(?P<int>0[xX][0-9a-fA-F]+|\d+)
    |(?P<ident>[A-Za-z_][A-Za-z0-9_]*)
    |(?P<string>"(?:[^"\\\n\0]|\\.)*"|'(?:[^'\\\n\0]|\\.)*')
    |(?P<symbol>[][(){}<>;,.=:+-]|/(?!\*))
    """,
    re.VERBOSE | re.DOTALL,
)
_ESCAPE = re.compile(rb"\\(?:([xX][0-9a-fA-F]{1,2})|([0-7]{1,3})|u([0-9a-fA-F]{4})|U([0-9a-fA-F]{8})|(.))", re.DOTALL)
_SIMPLE_ESCAPES = {b"a": 7, b"b": 8, b"f": 12, b"n": 10, b"r": 13, b"t": 9, b"v": 11, b"\\": 92, b"'": 39, b'"': 34}
_SIMPLE_ESCAPES[b"?"] = 63


_MOST_PARTS = 200
"""Words and dots of a name: looking a name up takes a turn for each word of its scope."""


class Token(NamedTuple):
    kind: str
    """float, int, ident, string, symbol, or end."""
    text: str
    position: int


class Tokens:
    """The tokens of a text and a place among them."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._rest = _tokens(text)
        self._ahead: list[Token] = []

    def peek(self, ahead: int = 0) -> Token:
        """The token `ahead` of the next one; that of the end for every place after the text."""
        while len(self._ahead) <= ahead:
            self._ahead.append(next(self._rest))
        return self._ahead[ahead]

    def take(self) -> Token:
        token = self.peek()
        del self._ahead[0]
        return token

    def sees(self, text: str) -> bool:
        """Whether the next token is this word or symbol."""
        token = self.peek()
        return token.text == text and token.kind in ("ident", "symbol")

    def skips(self, text: str) -> bool:
        """Takes the next token if it is this word or symbol, and says whether it was."""
        if self.sees(text):
            del self._ahead[0]
            return True
        return False

    def expect(self, text: str) -> None:
        """Take this word or symbol. Raises InvalidSchema if another token comes."""
        if not self.skips(text):
            raise self.unexpected(f'"{text}"')

    def identifier(self, meaning: str) -> str:
        """Take a word."""
        if self.peek().kind != "ident":
            raise self.unexpected(meaning)
        return self.take().text

    def type_name(self, meaning: str) -> str:
        """Take words with dots between them, and perhaps one in front."""
        parts = ["."] if self.skips(".") else []
        parts.append(self.identifier(meaning))
        while self.skips("."):
            parts += [".", self.identifier(meaning)]
            if len(parts) > _MOST_PARTS:
                raise self.wrong(self.peek(), f"A name has more than {_MOST_PARTS // 2} parts, the most there may be")
        return "".join(parts)

    def integer(self, meaning: str) -> int:
        """Take a number in decimal, hexadecimal or octal digits, without a sign."""
        token = self.peek()
        if token.kind != "int":
            raise self.unexpected(meaning)
        return self.read_integer(self.take())

    def signed_integer(self, meaning: str) -> int:
        return -self.integer(meaning) if self.skips("-") else self.integer(meaning)

    def read_integer(self, token: Token) -> int:
        text = token.text
        if len(text) > 40:  # more digits than any number of Protobuf has, and than Python converts fast
            raise self.wrong(token, f"The number {text[:20]}… has too many digits")
        try:
            if text[:2] in ("0x", "0X"):
                return int(text, 16)
            return int(text, 8) if text[0] == "0" and len(text) > 1 else int(text)
        except ValueError:
            raise self.wrong(token, f'The number "{text}" begins with 0, so is octal, and has other digits') from None

    def string(self, meaning: str) -> bytes:
        """Take string literals; neighbours are one string. Returns its bytes: UTF-8, and what escapes say."""
        if self.peek().kind != "string":
            raise self.unexpected(meaning)
        parts = []
        while self.peek().kind == "string":
            token = self.take()
            parts.append(unescaped(token.text[1:-1]))
        return b"".join(parts)

    def text_string(self, meaning: str) -> str:
        """Take a string that is text, such as the path of an import."""
        token = self.peek()
        try:
            return self.string(meaning).decode()
        except UnicodeDecodeError:
            raise self.wrong(token, f"The string of {meaning} is not UTF-8") from None

    def unexpected(self, expected: str) -> InvalidSchema:
        token = self.peek()
        found = "the end of the text" if token.kind == "end" else token.text[:60]
        return self.wrong(token, f"Expected {expected}, found {found}")

    def wrong(self, token: Token, told: str) -> InvalidSchema:
        """The error that says where the token is."""
        return _wrong(self._text, token.position, told)


def _tokens(text: str) -> Iterator[Token]:
    """The tokens, and that of the end without end. They are made as they are asked for: a list of them would take a
    hundred times the memory of the text."""
    position = 1 if text.startswith("\ufeff") else 0
    while position < len(text):
        match = _TOKEN.match(text, position)
        if match is None:
            raise _wrong(text, position, _told_unreadable(text, position))
        kind = match.lastgroup or ""
        if kind != "space":
            yield Token(kind, match.group(), position)
        position = match.end()
    while True:
        yield Token("end", "", position)


def _told_unreadable(text: str, position: int) -> str:
    if text.startswith("/*", position):
        return "A comment begins with /* and has no end"
    if text[position] in "\"'":
        return "A string has no end on its line"
    return f"The character {text[position]!r} has no place in a .proto text"


def _wrong(text: str, position: int, told: str) -> InvalidSchema:
    line = text.count("\n", 0, position) + 1
    column = position - text.rfind("\n", 0, position)
    return InvalidSchema(f"{told} (line {line}, column {column}).")


def unescaped(text: str) -> bytes:
    """The bytes that a string literal stands for, without its quotes."""
    return _ESCAPE.sub(_unescaped, text.encode("utf-8", "surrogatepass"))


def _unescaped(match: re.Match[bytes]) -> bytes:
    hexadecimal, octal, short, long, simple = match.groups()
    if hexadecimal:
        return bytes([int(hexadecimal[1:], 16)])
    if octal:
        return bytes([int(octal, 8) & 0xFF])
    if short or long:
        number = int(short or long, 16)
        if number > 0x10FFFF:
            raise InvalidSchema(f"The escape \\U{number:08x} is beyond the last character of Unicode, \\U0010ffff.")
        return chr(number).encode("utf-8", "surrogatepass")
    if simple in _SIMPLE_ESCAPES:
        return bytes([_SIMPLE_ESCAPES[simple]])
    raise InvalidSchema(f"The escape \\{simple.decode('latin-1')} is none that Protobuf's strings have.")
