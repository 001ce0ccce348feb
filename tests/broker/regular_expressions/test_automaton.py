"""An expression has as many states as it can have characters and choices, and a bounded number of them."""

from __future__ import annotations

import pytest

from kmini.broker.regular_expressions.automaton import MOST_STATES, Automaton
from kmini.broker.regular_expressions.syntax import parse
from kmini.protocol.errors import InvalidRegularExpression


def automaton(expression: str) -> Automaton:
    return Automaton(parse(expression))


def test_the_states_lead_from_the_start_to_the_end() -> None:
    states = automaton("ab").states
    place = automaton("ab").start
    read = ""
    while states[place].following:
        test = states[place].test
        if test is not None:
            read += next(character for character in "ab" if test(character))
        place = states[place].following[0]
    assert read == "ab"
    assert place == automaton("ab").end


@pytest.mark.parametrize(("expression", "has"), [("a$", True), (r"a\bb", True), (r"a\$[$]", False)])
def test_it_knows_whether_places_matter(expression: str, has: bool) -> None:
    assert automaton(expression).has_places is has


def test_a_repetition_has_its_part_once_for_each_time() -> None:
    assert len(automaton("a{500}").states) == len(automaton("a{400}").states) + 100


def test_too_many_states_are_refused() -> None:
    assert len(automaton("[ab]{999}").states) <= MOST_STATES
    with pytest.raises(InvalidRegularExpression, match="too large"):
        automaton("[ab]{999}" * 3)
