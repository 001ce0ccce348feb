"""The states of an expression: what may follow which character. All states that a text may have led to are followed at
once, so that each character costs at most as many steps as there are states."""

from __future__ import annotations

from typing import NamedTuple

from ...protocol.errors import InvalidRegularExpression
from .characters import Test
from .syntax import TOO_LARGE, Alternatives, Character, Node, Place, Repetition, Sequence

MOST_STATES = 2_000
"""States that an expression may have."""


class State(NamedTuple):
    """A state: with a test, the next character has to pass it; else it leads on without a character, where there is a
    place at this place only."""

    test: Test | None
    place: Place | None
    following: list[int]


class Automaton:
    """The states of an expression."""

    def __init__(self, node: Node) -> None:
        """Raises InvalidRegularExpression if it is too large."""
        self.states: list[State] = []
        self.end = self._add(None)
        self.start = self._build(node, self.end)
        self.has_places = any(state.place is not None for state in self.states)

    # --- from the end to the start: each part gets the state that follows it, and returns its first state

    def _add(self, test: Test | None, *following: int, place: Place | None = None) -> int:
        if len(self.states) == MOST_STATES:
            raise InvalidRegularExpression(TOO_LARGE)
        self.states.append(State(test, place, list(following)))
        return len(self.states) - 1

    def _build(self, node: Node, following: int) -> int:
        if isinstance(node, Character):
            return self._add(node.test, following)
        if isinstance(node, Place):
            return self._add(None, following, place=node)
        if isinstance(node, Sequence):
            for part in reversed(node.parts):
                following = self._build(part, following)
            return following if node.parts else self._add(None, following)
        if isinstance(node, Alternatives):
            return self._add(None, *[self._build(part, following) for part in node.parts])
        return self._repeat(node, following)

    def _repeat(self, node: Repetition, following: int) -> int:
        if node.most is None:
            again = self._add(None, following)
            self.states[again].following.append(self._build(node.part, again))
            following = again
        else:
            end = following
            for _ in range(node.most - node.least):
                following = self._add(None, self._build(node.part, following), end)
        for _ in range(node.least):
            following = self._build(node.part, following)
        return following if node.least or node.most != 0 else self._add(None, following)
