"""Plain patterns are matched as a regular expression would match them, others are not told, and none takes long."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kmini.registry.formats.json_schema.name_patterns import LONGEST, matches

ELEMENTS = ["a", "b", ".", r"\d", r"\.", "[ab]", "[^a]", "[0-9_]", "-"]
REPEATS = ["", "*", "+", "?", "{2}", "{1,}", "{0,2}"]

plain_patterns = st.builds(
    lambda start, elements, end: start + "".join(elements) + end,
    st.sampled_from(["", "^"]),
    st.lists(st.builds(str.__add__, st.sampled_from(ELEMENTS), st.sampled_from(REPEATS)), max_size=5),
    st.sampled_from(["", "$"]),
)


@given(plain_patterns, st.text("ab1.-", max_size=7))
def test_plain_patterns_match_as_regular_expressions_do(pattern: str, name: str) -> None:
    assert matches(pattern, name) is (re.search(pattern, name) is not None)


@pytest.mark.parametrize(
    "pattern", ["(a)", "a|b", "a**", "a+?", r"\p{L}", r"\ba", "[", "[a", "^^", "a{101}", "{2}", "a" * 101]
)
def test_other_patterns_are_not_told(pattern: str) -> None:
    assert matches(pattern, "a") is None


def test_a_long_name_is_not_told() -> None:
    assert matches("a", "a" * (LONGEST + 1)) is None


def test_an_escaped_dollar_is_no_end() -> None:
    assert matches(r"a\$", "a$b") is True
    assert matches(r"a\$", "ab") is False


def test_a_pattern_that_backtracks_for_years_elsewhere_is_answered() -> None:
    assert matches("a*" * 48 + "b$", "a" * LONGEST) is False
