"""Regular expressions from peers: they match what Python's do, in any case soon."""

from __future__ import annotations

import random
import re

import pytest

from kmini.broker.scheduler import Turn
from kmini.broker.transactions.regular_expressions import Pattern
from kmini.protocol.errors import InvalidRegularExpression

EXPRESSIONS = [
    *("", "a", "ab", "a|b", "a*", "a+b?", "(ab)*", "(a|b)*ab", "a{2}", "a{1,3}b", "a{2,}", ".", ".*", "a.b", "[ab]+"),
    *(
        "[^a]*",
        "[a-c]{2}",
        r"\d+",
        r"\D*",
        r"\w+-\d",
        r"\s",
        r"[\w-]+",
        "^a$",
        "^(a|b)*$",
        "a*?b",
        "(?:ab)+",
        "(?P<n>a)",
    ),
    *(r"a\.b", "(a*)*", "(a|a)*", "((a|b)(a|b))*", "a||b", "^", "$", "a^b", "(|a)b"),
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


@pytest.mark.parametrize(
    "expression", ["(", "[", "a**", "(?=a)", r"(a)\1", "(?<!a)b", "(?i)a", "a{1001}", "(a{99}){99}", r"\b"]
)
def test_what_is_none_or_too_much_is_refused(expression: str) -> None:
    with pytest.raises(InvalidRegularExpression):
        Pattern(expression)


@pytest.mark.parametrize(
    "expression",
    [
        "a" * 1_000_000,
        "(?:){4000000000}",
        "(){4000000000}",
        "((((){100}){100}){100}){100}",
        f"(a{'()' * 1_000}){{900}}",
        f"(a{'(|||)' * 1_000}){{900}}",
        f"[{''.join(map(chr, range(200, 4_000)))}]{{900}}",
    ],
    ids=lambda expression: f"{expression[:9]}, {len(expression)} characters",
)
def test_what_would_take_for_ever_to_build_is_refused(expression: str) -> None:
    with pytest.raises(InvalidRegularExpression, match="too large"):
        Pattern(expression)


@pytest.mark.parametrize("expression", ["a{" + "9" * 5_000 + "}", "[[:alpha:]]+", "[[a]"])
def test_what_python_reads_in_its_own_way_or_not_at_all_is_refused(expression: str) -> None:
    with pytest.raises(InvalidRegularExpression):
        Pattern(expression)


@pytest.mark.parametrize("expression", ["(a*)*b", "(a|aa)+b", "(.*)(.*)(.*)(.*)(.*)b", "(a?){300}a{300}"])
async def test_no_expression_takes_for_ever(expression: str) -> None:
    assert not await Pattern(expression).matches("a" * 250, Turn())
