"""Options of a .proto text to `UninterpretedOption`, as they stand there."""

from __future__ import annotations

from typing import Any

from google.protobuf import descriptor_pb2 as pb

from kmini.registry.formats.protobuf.tokens import Token, Tokens
from kmini.registry.formats.schema_format import InvalidSchema

MOST_NESTED = 32
"""How deep messages, groups and the values of options may nest, as protoc has it."""

_BRACKETS = {"{": "}", "<": ">", "[": "]"}


def parse_option_statement(tokens: Tokens, options: Any) -> None:
    """Read what follows `option`, the semicolon included, into an options message."""
    _assignment(tokens, options)
    tokens.expect(";")


def parse_options_in_brackets(tokens: Tokens, options: Any) -> list[Any]:
    """Read `[a = b, …]` into an options message if it comes. Returns the options that were read."""
    if not tokens.skips("["):
        return []
    read = [_assignment(tokens, options)]
    while tokens.skips(","):
        read.append(_assignment(tokens, options))
    tokens.expect("]")
    return read


def _assignment(tokens: Tokens, options: Any) -> Any:
    option = options.uninterpreted_option.add()
    _name(tokens, option)
    while tokens.skips("."):
        _name(tokens, option)
    tokens.expect("=")
    _value(tokens, option)
    return option


def _name(tokens: Tokens, option: Any) -> None:
    """Read a part of an option's name: a word, or an extension's name in parentheses."""
    part = option.name.add()
    part.is_extension = tokens.skips("(")
    if part.is_extension:
        part.name_part = tokens.type_name("the name of an extension")
        tokens.expect(")")
    else:
        part.name_part = tokens.identifier("the name of an option")


def _value(tokens: Tokens, option: pb.UninterpretedOption) -> None:
    if tokens.sees("{"):
        option.aggregate_value = _aggregate(tokens)
        return
    negative = tokens.skips("-")
    token = tokens.peek()
    if token.kind == "int":
        _integer(tokens, option, tokens.read_integer(tokens.take()), negative)
    elif token.kind == "float":
        tokens.take()
        option.double_value = -float(token.text) if negative else float(token.text)
    elif token.kind == "ident":
        tokens.take()
        if not negative:
            option.identifier_value = token.text
        elif token.text in ("inf", "nan"):
            option.double_value = -float(token.text)
        else:
            raise tokens.wrong(token, f'A minus stands before "{token.text}", which is no number')
    elif token.kind == "string" and not negative:
        option.string_value = tokens.string("the value of an option")
    else:
        raise tokens.unexpected("the value of an option")


def _integer(tokens: Tokens, option: pb.UninterpretedOption, number: int, negative: bool) -> None:
    if negative and number <= 1 << 63:
        option.negative_int_value = -number
    elif not negative and number < 1 << 64:
        option.positive_int_value = number
    else:
        option.double_value = float(-number if negative else number)


def _aggregate(tokens: Tokens) -> str:
    """The tokens between two braces with spaces between them, as protoc keeps a message in text format. None follows a
    minus: the library that reads the format wants it at its number."""
    tokens.expect("{")
    open_brackets = ["}"]
    parts: list[str] = []
    while True:
        token = tokens.peek()
        if token.kind == "end":
            raise tokens.unexpected("the end of an option's value, }")
        tokens.take()
        closes = _follow_brackets(tokens, token, open_brackets)
        if closes and not open_brackets:
            return " ".join(parts)
        if parts and parts[-1] == "-":
            parts[-1] = f"-{token.text}"
        else:
            parts.append(token.text)


def _follow_brackets(tokens: Tokens, token: Token, open_brackets: list[str]) -> bool:
    if token.kind != "symbol":
        return False
    if token.text in _BRACKETS:
        if len(open_brackets) == MOST_NESTED:
            raise InvalidSchema(
                f"The value of an option nests deeper than {MOST_NESTED} levels, the most there may be."
            )
        open_brackets.append(_BRACKETS[token.text])
    elif token.text in _BRACKETS.values():
        if token.text != open_brackets.pop():
            raise tokens.wrong(token, f"The bracket {token.text} closes none that was opened before it")
        return True
    return False
