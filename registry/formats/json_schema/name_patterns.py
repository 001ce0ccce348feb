"""Tells whether a property's name matches a pattern of `patternProperties`, for plain patterns.

A pattern of a schema is foreign input, and a regular expression may run for years. This module reads the plain part of
the language alone (anchors, characters, classes, and repeats of one of them). It never backtracks: each element of the
pattern moves all positions in the name where it may stand at once. Anything else is not told.
"""

from __future__ import annotations

import re
from functools import lru_cache
from typing import Final, NamedTuple

LONGEST: Final = 100
"""Characters of a pattern or a name, and repeats that a pattern counts."""
UNBOUNDED: Final = LONGEST + 1

ELEMENT: Final = re.compile(
    r"(?P<characters>\\[dwDW]|\\[^a-zA-Z0-9\n]|\[\^?(?:\\[dw]|\\[^a-zA-Z0-9]|[^\\\[\]])+\]|[^\\\[\](){}*+?|^$\n])"
    r"(?P<repeat>[*+?]|\{[0-9]{1,2}(?:,[0-9]{0,2})?\})?(?![*+?{])"
)
"""One element of a plain pattern: a character, an escaped one or a class, and how often it stands there."""


class Element(NamedTuple):
    """One element of a pattern, matched between `least` and `most` times."""

    characters: re.Pattern[str]
    """Matches one character: no repeat is inside."""
    least: int
    most: int


@lru_cache(maxsize=4096)
def matches(pattern: str, name: str) -> bool | None:
    """Whether the pattern matches somewhere in the name, as `patternProperties` asks. None where it is not told."""
    if len(pattern) > LONGEST or len(name) > LONGEST:
        return None
    inner = pattern.removeprefix("^")
    ends = inner.endswith("$") and not inner.endswith("\\$")
    elements = _elements(inner[:-1] if ends else inner)
    if elements is None:
        return None
    after = 1 << len(name)
    positions = 1 if pattern.startswith("^") else 2 * after - 1
    for element in elements:
        positions = _moved(element, name, positions)
    return bool(positions & after) if ends else bool(positions)


@lru_cache(maxsize=1024)
def _elements(text: str) -> tuple[Element, ...] | None:
    """The elements of a pattern without its anchors; None where the pattern is not plain."""
    elements = []
    at = 0
    while at < len(text):
        found = ELEMENT.match(text, at)
        if found is None:
            return None
        try:
            characters = re.compile(found["characters"], re.ASCII)
        except re.error:
            return None
        elements.append(Element(characters, *_times(found["repeat"] or "{1}")))
        at = found.end()
    return tuple(elements)


def _times(repeat: str) -> tuple[int, int]:
    """How often an element stands there at least and at most: (1, `UNBOUNDED`) for "+"."""
    plain = {"*": (0, UNBOUNDED), "+": (1, UNBOUNDED), "?": (0, 1)}
    if repeat in plain:
        return plain[repeat]
    least, comma, most = repeat[1:-1].partition(",")
    return int(least), int(most) if most else UNBOUNDED if comma else int(least)


def _moved(element: Element, name: str, positions: int) -> int:
    """The positions in the name behind the element, from those before it: bit n stands for n characters on."""
    here = sum(1 << at for at, character in enumerate(name) if element.characters.match(character))
    reached = positions if element.least == 0 else 0
    for times in range(1, min(element.most, len(name)) + 1):
        positions = (positions & here) << 1
        if times >= element.least:
            reached |= positions
        if not positions:
            break
    return reached
