"""The names that Protobuf makes from others, and what a name means in a scope."""

from __future__ import annotations

from collections.abc import Callable


def camel_case(name: str) -> str:
    """What a field is called in JSON, if its declaration does not say."""
    parts = []
    capital = False
    for character in name:
        if character == "_":
            capital = True
        else:
            parts.append(_upper(character) if capital else character)
            capital = False
    return "".join(parts)


def map_entry_name(field: str) -> str:
    """The message that the entries of a map field are."""
    return camel_case("_" + field) + "Entry"


def _upper(character: str) -> str:
    return character.upper() if "a" <= character <= "z" else character


def resolve(name: str, scope: str, kind_of: Callable[[str], str | None], accepted: tuple[str, ...]) -> str | None:
    """The full name, without a dot in front, that `name` means in the scope of that full name; None where it means
    nothing. `kind_of` gives what a full name is, such as "message" or "package". The innermost scope that has the
    first word of the name decides, as in C++."""
    if name.startswith("."):
        return name[1:] if kind_of(name[1:]) in accepted else None
    first, dot, rest = name.partition(".")
    while True:
        candidate = f"{scope}.{first}" if scope else first
        kind = kind_of(candidate)
        if not dot and kind in accepted:
            return candidate
        if dot and kind in ("message", "package", "enum", "service"):
            full = f"{candidate}.{rest}"
            return full if kind_of(full) in accepted else None
        if not scope:
            return None
        scope = scope.rpartition(".")[0]
