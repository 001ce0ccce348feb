"""What one character of a text may be: classes of RE2, and letters in both cases."""

from __future__ import annotations

import unicodedata
from bisect import bisect_right
from collections.abc import Callable, Iterable
from functools import cache, lru_cache

Test = Callable[[str], bool]
"""Whether a character is one of a class."""


def ANY(character: str) -> bool:
    return True


def of_ranges(ranges: Iterable[tuple[str, str]]) -> Test:
    """The test for the characters of ranges, given as the first and the last of each. It takes as many steps as the
    number of ranges has digits."""
    starts: list[str] = []
    ends: list[str] = []
    for first, last in sorted(ranges):
        if ends and first <= ends[-1]:
            ends[-1] = max(ends[-1], last)
        else:
            starts.append(first)
            ends.append(last)
    if len(starts) == 1:
        only_start, only_end = starts[0], ends[0]
        return lambda character: only_start <= character <= only_end

    def is_in(character: str) -> bool:
        place = bisect_right(starts, character) - 1
        return place >= 0 and character <= ends[place]

    return is_in


def _of(ranges: str) -> Test:
    """The test for ranges without a separator: "az09"."""
    return of_ranges(zip(ranges[::2], ranges[1::2], strict=True))


_WORD = _of("09AZ__az")
PERL: dict[str, Test] = {"d": _of("09"), "s": _of("\t\n\f\r  "), "w": _WORD}
"""Perl's classes by their letter: of ASCII only."""

POSIX: dict[str, Test] = {
    name: _of(ranges)
    for name, ranges in {
        "alnum": "09AZaz",
        "alpha": "AZaz",
        "ascii": "\0\x7f",
        "blank": "\t\t  ",
        "cntrl": "\0\x1f\x7f\x7f",
        "digit": "09",
        "graph": "!~",
        "lower": "az",
        "print": " ~",
        "punct": "!/:@[`{~",
        "space": "\t\r  ",
        "upper": "AZ",
        "word": "09AZ__az",
        "xdigit": "09AFaf",
    }.items()
}
"""The classes that stand in [:name:]."""


def is_word(character: str) -> bool:
    """Whether this is a letter, a digit or _ of ASCII; the empty text is none."""
    return bool(character) and _WORD(character)


_CATEGORIES = (
    *("L", "Lu", "Ll", "Lt", "Lm", "Lo", "M", "Mn", "Mc", "Me", "N", "Nd", "Nl", "No"),
    *("P", "Pc", "Pd", "Ps", "Pe", "Pi", "Pf", "Po", "S", "Sm", "Sc", "Sk", "So"),
    *("Z", "Zs", "Zl", "Zp", "C", "Cc", "Cf", "Cs", "Co"),
)


@cache
def of_unicode(name: str) -> Test | None:
    """The test for a general category of Unicode, or "Any"; None if the name is none of these."""
    if name == "Any":
        return ANY
    if name not in _CATEGORIES:
        return None
    if name == "C":  # characters that are not assigned are not in it
        return lambda character: unicodedata.category(character) in ("Cc", "Cf", "Cs", "Co")
    return lambda character: unicodedata.category(character).startswith(name)


@lru_cache(1_000)
def negated(test: Test) -> Test:
    return lambda character: not test(character)


def any_of(tests: Iterable[Test]) -> Test:
    """The test for characters that one of these accepts."""
    together = list(tests)
    return together[0] if len(together) == 1 else lambda character: any(test(character) for test in together)


@lru_cache(1_000)
def folded(test: Test) -> Test:
    """The test that ignores case: whether a character is of the class in one of its cases."""
    return lambda character: any(map(test, in_all_cases(character)))


def in_all_cases(character: str) -> set[str]:
    """The characters that differ from this one in case only."""
    alike = {character}
    while True:
        more = {each for one in alike for each in (one.lower(), one.upper(), *_SPECIAL.get(one, "")) if len(each) == 1}
        if more <= alike:
            return alike
        alike |= more


_SPECIAL = {
    "k": "\u212a",
    "s": "\u017f",
    "\u00e5": "\u212b",
    "\u03c9": "\u2126",
    "\u03bc": "\u00b5",
    "\u03c3": "\u03c2",
}
"""Characters whose lower case is another one, which does not lead back to them: the sign of Kelvin, the long s, ..."""
