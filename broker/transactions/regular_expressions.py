"""Regular expressions of clients, matched in time that is linear in the text, for any expression.

ListTransactions takes one for transactional ids (KIP-1152), which Apache Kafka matches with RE2. Python's `re`
backtracks, which takes exponential time for some expressions. The standard library has no other engine, so this module
uses only its (private) parser, and follows all alternatives at once (Thompson's construction).

Classes such as \\d are ASCII, as in RE2. Refused are expressions that RE2 lacks (lookaround, back references), that it
reads differently ([[:alpha:]]), and that are too large.
"""

from __future__ import annotations

import re
import sys
import warnings
from collections.abc import Callable, Iterable
from typing import Any, NamedTuple

from ...protocol.errors import InvalidRegularExpression
from ..scheduler import Turn

if sys.version_info >= (3, 11):
    import re._parser as parser
else:
    import sre_parse as parser

MAX_STATES = 1_000
"""States that an expression may have."""
MAX_PARTS = 10_000
"""Parts that an expression may have, repetitions and members of classes included: bounds the time to build the states
and to match one character. Bounds the characters of an expression, too."""

_TOO_LARGE = "the regular expression is too large"

Test = Callable[[str], bool]


class State(NamedTuple):
    """A state of the automaton: `test` must accept the next character. Without a test it leads on without a
    character."""

    test: Test | None
    following: list[int]
    place: str | None = None
    """"start" or "end" for a state that leads on only there."""


def _is_word(character: str) -> bool:
    return character == "_" or (character.isascii() and character.isalnum())


_CATEGORIES: dict[str, Test] = {
    "CATEGORY_DIGIT": lambda character: character in "0123456789",
    "CATEGORY_SPACE": lambda character: character in " \t\n\r\f",
    "CATEGORY_WORD": _is_word,
}
_PLACES = {
    "AT_BEGINNING": "start",
    "AT_BEGINNING_STRING": "start",
    "AT_END": "end",
    "AT_END_STRING": "end",
}


class Pattern:
    """A regular expression that matches whole texts."""

    def __init__(self, expression: str) -> None:
        """Parse an expression. Raises InvalidRegularExpression."""
        self._states: list[State] = []
        self._parts = 0
        if len(expression) > MAX_PARTS:
            raise InvalidRegularExpression(_TOO_LARGE)
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("error")  # about nested sets, which Python does not support yet
                parsed = parser.parse(expression)
            if parsed.state.flags & ~re.UNICODE:
                raise InvalidRegularExpression("flags are not served")
            self._end = self._add(None)
            self._start = self._sequence(parsed, self._end)
        except (re.error, RecursionError, OverflowError, ValueError, Warning) as error:
            raise InvalidRegularExpression(f"no regular expression: {error}") from error

    async def matches(self, text: str, turn: Turn) -> bool:
        """Whether the expression matches all of `text`. Long work is done in turns."""
        at_once = self._reached([self._start], 0, len(text))
        for position, character in enumerate(text, 1):
            if turn.is_over:
                await turn.next()
            following = [
                each
                for number in at_once
                if (state := self._states[number]).test is not None and state.test(character)
                for each in state.following
            ]
            if not following:
                return False
            at_once = self._reached(following, position, len(text))
        return self._end in at_once

    def _reached(self, numbers: Iterable[int], position: int, length: int) -> set[int]:
        """These states, and all that they lead to without a character."""
        reached: set[int] = set()
        waiting = list(numbers)
        while waiting:
            number = waiting.pop()
            if number in reached:
                continue
            reached.add(number)
            test, following, place = self._states[number]
            if test is None and (place is None or position == (0 if place == "start" else length)):
                waiting.extend(following)
        return reached

    # --- building, from the end to the start: each part gets the state that follows it, and returns its first state

    def _add(self, test: Test | None, *following: int, place: str | None = None) -> int:
        if len(self._states) == MAX_STATES:
            raise InvalidRegularExpression(_TOO_LARGE)
        self._states.append(State(test, list(following), place))
        return len(self._states) - 1

    def _count(self, parts: int) -> None:
        self._parts += parts
        if self._parts > MAX_PARTS:
            raise InvalidRegularExpression(_TOO_LARGE)

    def _sequence(self, parts: Any, following: int) -> int:
        self._count(1 + len(parts))
        for operation, argument in reversed(list(parts)):
            following = self._part(str(operation), argument, following)
        return following

    def _part(self, operation: str, argument: Any, following: int) -> int:
        if operation in ("MAX_REPEAT", "MIN_REPEAT"):
            least, most, inner = argument
            return self._repeated(least, most, inner, following)
        if operation == "SUBPATTERN":
            _, added, removed, inner = argument
            if added or removed:
                raise InvalidRegularExpression("flags are not served")
            return self._sequence(inner, following)
        if operation == "BRANCH":
            return self._add(None, *[self._sequence(each, following) for each in argument[1]])
        if operation == "AT" and str(argument) in _PLACES:
            return self._add(None, following, place=_PLACES[str(argument)])
        if operation == "IN":
            self._count(len(argument))
        return self._add(_test(operation, argument), following)

    def _repeated(self, least: int, most: Any, inner: Any, following: int) -> int:
        if str(most) == "MAXREPEAT":
            again = self._add(None, following)
            self._states[again].following.append(self._sequence(inner, again))
            following = again
        else:
            end = following
            for _ in range(most - least):
                following = self._add(None, self._sequence(inner, following), end)
        for _ in range(least):
            following = self._sequence(inner, following)
        return following


def _test(operation: str, argument: Any) -> Test:
    """The test of one character. Raises InvalidRegularExpression."""
    if operation == "LITERAL":
        return chr(argument).__eq__
    if operation == "NOT_LITERAL":
        return chr(argument).__ne__
    if operation == "ANY":
        return "\n".__ne__
    if operation == "RANGE":
        first, last = chr(argument[0]), chr(argument[1])
        return lambda character: first <= character <= last
    if operation == "CATEGORY":
        name = str(argument)
        is_negated = "_NOT_" in name
        category = _CATEGORIES[name.replace("_NOT_", "_")]
        return (lambda character: not category(character)) if is_negated else category
    if operation == "IN":
        is_negated = str(argument[0][0]) == "NEGATE"
        tests = [_test(str(each), what) for each, what in argument[is_negated:]]
        return lambda character: any(test(character) for test in tests) is not is_negated
    raise InvalidRegularExpression(f"{operation.lower()} is not served")
