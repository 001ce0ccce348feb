"""Whether two schemas say the same, keyword by keyword. Notes do not count, nor the names of what they refer to."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from kmini.registry.formats.json_schema.drafts import ONE_SCHEMA, SCHEMAS_BY_NAME, SCHEMAS_IN_A_ROW, is_schema
from kmini.registry.formats.json_schema.json_values import identity
from kmini.registry.formats.json_schema.nodes import Node

DEPENDS_ON_THE_WAY = ("$dynamicRef", "$recursiveRef")
"""References whose target depends on the way to them: two of them are never told to be the same."""


class Sameness:
    """The pairs of schemas of which it is known whether they say the same."""

    def __init__(self, spend: Callable[[], None]) -> None:
        self._spend = spend
        """Called for each pair of schemas that is looked at. It may raise to end the comparison."""
        self._known: dict[tuple[int, int], bool] = {}

    def of(self, one: Node, other: Node) -> bool:
        """Whether two schemas have the same keywords with the same values, in those that they refer to, too."""
        start = one.key, other.key
        if start not in self._known:
            seen: set[tuple[int, int]] = set()
            self._known[start] = self._look(one, other, seen)
            if self._known[start]:
                self._known.update(dict.fromkeys(seen, True))
        return self._known[start]

    def _look(self, one: Node, other: Node, seen: set[tuple[int, int]]) -> bool:
        """Whether no pair of schemas differs in its own words, from a pair on. `seen` gets the pairs on the way."""
        waiting = [(one, other)]
        while waiting:
            first, second = waiting.pop()
            pair = first.key, second.key
            if first.contents is second.contents or pair in seen or self._known.get(pair):
                continue
            inner = None if pair in self._known else _inner_pairs(first, second)
            self._spend()
            seen.add(pair)
            if inner is None:
                return False
            waiting += inner
        return True


def _inner_pairs(one: Node, other: Node) -> list[tuple[Node, Node]] | None:
    """The pairs of schemas that have to be the same so that these are; None where these differ themselves."""
    if isinstance(one.contents, bool) or isinstance(other.contents, bool) or one.draft != other.draft:
        return [] if one.takes_all and other.takes_all else None
    keywords = [keyword for keyword in one.contents if one.has(keyword)]
    if set(keywords) != {keyword for keyword in other.contents if other.has(keyword)}:
        return None
    pairs: list[tuple[Node, Node]] = []
    for keyword in keywords:
        inner = _pairs_under(keyword, one, other)
        if inner is None:
            return None
        pairs += inner
    return pairs


def _pairs_under(keyword: str, one: Node, other: Node) -> list[tuple[Node, Node]] | None:
    """The pairs of schemas under a keyword; None where the values differ."""
    first, second = one.get(keyword), other.get(keyword)
    if keyword == "$ref":
        targets = one.refers_to(), other.refers_to()
        return None if targets[0] is None or targets[1] is None else [(targets[0], targets[1])]
    if keyword in DEPENDS_ON_THE_WAY or type(first) is not type(second):
        return None
    if keyword in ONE_SCHEMA and is_schema(first):
        return [(one.at(keyword), other.at(keyword))]
    if keyword in SCHEMAS_IN_A_ROW and isinstance(first, list):
        ways: list[Any] = list(range(len(first)))
        if len(first) != len(second):
            return None
    elif keyword in SCHEMAS_BY_NAME:
        ways = [name for name, inner in first.items() if is_schema(inner)]
        lists = {name: inner for name, inner in first.items() if name not in ways}
        if set(first) != set(second) or not all(is_schema(second[name]) for name in ways):
            return None
        if any(identity(second[name]) != identity(inner) for name, inner in lists.items()):
            return None
    else:
        return [] if identity(first) == identity(second) else None
    return [(one.at(keyword, way), other.at(keyword, way)) for way in ways]
