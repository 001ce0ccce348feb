"""Matching: the states that a text has led to so far are followed together, and remembered for other texts."""

from __future__ import annotations

from collections.abc import Iterable

from ..scheduler import Turn
from .automaton import Automaton
from .characters import is_word
from .syntax import Place, parse

MOST_REMEMBERED = 1_000
"""Steps from one set of states to the next that are remembered."""


class Pattern:
    """A regular expression that matches whole texts."""

    def __init__(self, expression: str) -> None:
        """Raises InvalidRegularExpression for what is none of RE2, and for what is too large."""
        self._automaton = Automaton(parse(expression))
        self._steps: dict[tuple[frozenset[int], str, str], frozenset[int]] = {}

    async def matches(self, text: str, turn: Turn) -> bool:
        """Whether the expression matches all of `text`. Long work is done in turns."""
        at = frozenset((self._automaton.start,))
        before = ""
        has_places = self._automaton.has_places
        for character in text:
            step = at, before if has_places else "", character
            following = self._steps.get(step)
            if following is None:
                if turn.is_over:
                    await turn.next()
                following = self._after(at, before, character)
                self._remember(step, following)
            if not following:
                return False
            at, before = following, character
        return self._automaton.end in self._reached(at, before, "")

    def _remember(self, step: tuple[frozenset[int], str, str], following: frozenset[int]) -> None:
        if len(self._steps) >= MOST_REMEMBERED:
            self._steps.clear()
        self._steps[step] = following

    def _after(self, at: Iterable[int], before: str, character: str) -> frozenset[int]:
        """The states to which a character leads from these, behind the character `before`."""
        states = self._automaton.states
        return frozenset(
            following
            for number in self._reached(at, before, character)
            if (test := states[number].test) is not None and test(character)
            for following in states[number].following
        )

    def _reached(self, numbers: Iterable[int], before: str, after: str) -> set[int]:
        """These states, and all that they lead to without a character, between these two characters; the empty text
        stands for the start and for the end."""
        states = self._automaton.states
        reached: set[int] = set()
        waiting = list(numbers)
        while waiting:
            number = waiting.pop()
            if number in reached:
                continue
            reached.add(number)
            test, place, following = states[number]
            if test is None and (place is None or _is_at(place, before, after)):
                waiting.extend(following)
        return reached


def _is_at(place: Place, before: str, after: str) -> bool:
    """Whether there is such a place between these characters."""
    if place is Place.TEXT_START:
        return not before
    if place is Place.TEXT_END:
        return not after
    if place is Place.LINE_START:
        return before in ("", "\n")
    if place is Place.LINE_END:
        return after in ("", "\n")
    is_boundary = is_word(before) is not is_word(after)
    return is_boundary is (place is Place.WORD_BOUNDARY)
