"""Regular expressions are read as RE2 reads them; what is none, or too much, is refused."""

from __future__ import annotations

import pytest

from kmini.broker.regular_expressions import Pattern
from kmini.broker.scheduler import Turn
from kmini.protocol.errors import InvalidRegularExpression


@pytest.mark.parametrize(
    "expression",
    ["(", "[", "a**", "(?=a)", r"(a)\1", "(?<!a)b", "(?x)a", "a{1001}", "(a{99}){99}", r"\Z", r"\p{Greek}"],
)
def test_what_is_none_or_too_much_is_refused(expression: str) -> None:
    with pytest.raises(InvalidRegularExpression):
        Pattern(expression)


@pytest.mark.parametrize(
    ("expression", "reason"),
    [
        ("a" * 1_000_000, "too large"),
        ("(?:){4000000000}", "more than 1000 times"),
        ("((((){100}){100}){100}){100}", "more than 1000 times"),
        (f"(a{'()' * 1_000}){{900}}", "too large"),
        (f"(a{'(|||)' * 1_000}){{900}}", "too large"),
        ("[ab]{1000}" * 3, "too large"),
        ("(" * 300 + ")" * 300, "nested more than 200 deep"),
        ("a{" + "9" * 5_000 + "}", "more than 1000 times"),
        ("[[:alfa:]]", r"no class \[:alfa:\]"),
        ("[z-a]", "the wrong way round"),
        ("[[a", "does not end"),
        ("(?P<n>a)(?P<n>b)", "two groups have the name n"),
    ],
    ids=lambda value: f"{value[:9]}, {len(value)} characters",
)
def test_what_is_too_large_or_wrong_is_refused_with_the_reason(expression: str, reason: str) -> None:
    with pytest.raises(InvalidRegularExpression, match=reason):
        Pattern(expression)


@pytest.mark.parametrize(
    ("expression", "matching", "others"),
    [
        ("(?i)straße-K", ["STRAßE-k", "Straße-\u212a"], ["strasse-k"]),
        ("(?s)a.b", ["a\nb", "axb"], ["ab"]),
        ("a.b", ["axb"], ["a\nb"]),
        ("(?m)a$\n^b", ["a\nb"], ["ab"]),
        (r"a\b-\Bb", [], ["a-b"]),
        (r"a\b-\bb", ["a-b"], ["ab"]),
        ("[[:alpha:]][[:^digit:]]", ["ab", "a-"], ["1a", "a1"]),
        (r"\p{Lu}\PL", ["É1", "A-"], ["é1", "AB"]),
        (r"\Qa.*\E+", ["a.*", "a.***"], ["ab"]),
        (r"\x41\x{1F600}\101", ["A\U0001f600A"], ["AA"]),
        ("(?i:A)b", ["ab", "Ab"], ["aB"]),
        ("a{,2}", ["a{,2}"], ["a"]),
        ("[]-a]+", ["]^a"], ["b"]),
        ("(?<year>[0-9]{4})-(?P<month>[0-9]{2})", ["2026-11"], ["26-11"]),
    ],
)
async def test_the_syntax_of_re2(expression: str, matching: list[str], others: list[str]) -> None:
    pattern = Pattern(expression)
    found = [text for text in (*matching, *others) if await pattern.matches(text, Turn())]
    assert found == matching
