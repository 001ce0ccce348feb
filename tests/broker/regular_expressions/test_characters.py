"""Classes of characters accept what RE2's classes accept."""

from __future__ import annotations

import pytest

from kmini.broker.regular_expressions.characters import (
    PERL,
    POSIX,
    Test,
    folded,
    in_all_cases,
    is_word,
    negated,
    of_unicode,
)

ASCII = [chr(code) for code in range(128)]


def accepted(test: Test) -> str:
    return "".join(character for character in ASCII if test(character))


@pytest.mark.parametrize(
    ("test", "characters"),
    [
        (PERL["s"], "\t\n\f\r "),
        (POSIX["space"], "\t\n\v\f\r "),
        (PERL["d"], "0123456789"),
        (POSIX["xdigit"], "0123456789ABCDEFabcdef"),
        (POSIX["blank"], "\t "),
    ],
)
def test_classes_of_ascii(test: Test, characters: str) -> None:
    assert accepted(test) == characters
    assert accepted(negated(test)) == "".join(each for each in ASCII if each not in characters)


def test_a_category_of_unicode_holds_its_subcategories() -> None:
    letters = of_unicode("L")
    assert letters is not None
    assert [letters(each) for each in "aÉß\u01c5١-"] == [True, True, True, True, False, False]
    assert of_unicode("Greek") is None


def test_the_cases_of_a_character_lead_to_each_other() -> None:
    assert in_all_cases("k") == in_all_cases("K") == in_all_cases("\u212a") == {"k", "K", "\u212a"}
    assert in_all_cases("1") == {"1"}
    upper = of_unicode("Lu")
    assert upper is not None
    assert folded(upper)("a")
    assert not folded(upper)("1")


def test_a_word_has_letters_of_ascii_only() -> None:
    assert [is_word(each) for each in ("a", "_", "7", "é", "")] == [True, True, True, False, False]
