"""The error codes of an answer, wherever they are in it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import cache
from typing import Any

from ...protocol.schema import Response, Struct


def error_codes(response: Response) -> list[int]:
    """The error codes of an answer that are not NONE, in the order of its fields; the same one as often as it is
    there."""
    return _reader(type(response))(response)


def first_error(response: Response) -> int:
    """The first error code of an answer, or NONE."""
    codes = error_codes(response)
    return codes[0] if codes else 0


@cache
def _reader(cls: type[Response]) -> Callable[[Response], list[int]]:
    """A function of nested loops over the fields that lead to error codes: large answers have many."""
    lines = ["def read(v0):", "    found = []", *_lines(cls, 0, "    "), "    return found"]
    namespace: dict[str, Any] = {}
    exec("\n".join(lines), namespace)
    read: Callable[[Response], list[int]] = namespace["read"]
    return read


def _lines(cls: type[Struct], depth: int, indent: str) -> Iterator[str]:
    for described in cls.__fields__:
        value, inner = f"v{depth}.{described.name}", f"v{depth + 1}"
        if described.name == "error_code":
            yield f"{indent}if {value}: found.append({value})"
            continue
        held = described.type.element or described.type
        lines = [] if held.struct is None else [*_lines(held.struct, depth + 1, indent + "    ")]
        if lines:
            items = value if described.type.element is not None else f"{value} and ({value},)"
            yield f"{indent}for {inner} in {items} or ():"
            yield from lines
