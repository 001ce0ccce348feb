"""Regular expressions from peers match what they match elsewhere, and soon in any case."""

from __future__ import annotations

import random
import re

import pytest

from kmini.broker.regular_expressions import Pattern
from kmini.broker.scheduler import Turn

EXPRESSIONS = [
    *("", "a", "ab", "a|b", "a*", "a+b?", "(ab)*", "(a|b)*ab", "a{2}", "a{1,3}b", "a{2,}", ".", ".*", "a.b", "[ab]+"),
    *("[^a]*", "[a-c]{2}", r"\d+", r"\D*", r"\w+-\d", r"\s", r"[\w-]+", "^a$", "^(a|b)*$", "a*?b", "(?:ab)+"),
    *("(?P<n>a)", r"a\.b", "(a*)*", "(a|a)*", "((a|b)(a|b))*", "a||b", "^", "$", "a^b", "(|a)b"),
]


@pytest.mark.parametrize("expression", EXPRESSIONS)
async def test_they_match_what_pythons_match(expression: str) -> None:
    chance = random.Random(expression)
    pattern, theirs = Pattern(expression), re.compile(expression, re.ASCII)
    texts = ["".join(chance.choices("aabbc.-1 \n", k=chance.randrange(7))) for _ in range(300)]
    for text in [*texts, "", "ab", "abab", "aaab", "a-1"]:
        if expression.endswith("$") and text.endswith("\n"):
            continue  # only Python's $ is also before that
        assert await pattern.matches(text, Turn()) == (theirs.fullmatch(text) is not None), (expression, text)


async def test_what_was_learned_from_one_text_holds_for_others() -> None:
    pattern = Pattern(r"(?:orders|payments)-\d+")
    names = [f"{name}-{number}" for name in ("orders", "payments", "users") for number in range(600)]
    expected = [not name.startswith("users") for name in names]
    for _ in range(2):
        assert [await pattern.matches(name, Turn()) for name in names] == expected
    assert len(pattern._steps) < 60, "each step is computed once"


async def test_many_different_texts_take_bounded_memory() -> None:
    pattern = Pattern(".*")
    for number in range(5_000):
        assert await pattern.matches(chr(0x4E00 + number), Turn())
    assert len(pattern._steps) <= 1_000


@pytest.mark.parametrize("expression", ["(a*)*b", "(a|aa)+b", "(.*)(.*)(.*)(.*)(.*)b", "(a?){300}a{300}"])
async def test_no_expression_takes_for_ever(expression: str) -> None:
    assert not await Pattern(expression).matches("a" * 250, Turn())
