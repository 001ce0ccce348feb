"""What the comparison of two schemas found out."""

from __future__ import annotations

from typing import Final, NamedTuple, TypeVar

from kmini.registry.formats.schema_format import Difference

MOST_FOUND: Final = 100
"""Differences that one verdict names, and doubts."""


class Doubt(NamedTuple):
    """A keyword that cannot be judged, in the reader's schema."""

    keyword: str
    path: str
    """Where it is, as a JSON pointer into the reader's schema."""
    reason: str
    """A sentence that says why, without the path."""


Found = TypeVar("Found", Difference, Doubt)


def _first(some: tuple[Found, ...], others: tuple[Found, ...]) -> tuple[Found, ...]:
    """What was found, each once, and no more of it than is named."""
    return tuple(dict.fromkeys(some + others))[:MOST_FOUND]


class Verdict(NamedTuple):
    """Whether a reader's schema takes what a writer's schema takes: it does where both fields are empty."""

    differences: tuple[Difference, ...] = ()
    doubts: tuple[Doubt, ...] = ()

    @property
    def holds(self) -> bool:
        """Whether it was proved that the reader takes each value of the writer."""
        return not self.differences and not self.doubts

    def also(self, other: Verdict) -> Verdict:
        """Both verdicts in one."""
        if other.holds:
            return self
        if self.holds:
            return other
        return Verdict(_first(self.differences, other.differences), _first(self.doubts, other.doubts))


PROVED: Final = Verdict()
"""The verdict of a reader that takes each value."""


def different(kind: str, path: str, told: str) -> Verdict:
    """The verdict of one difference."""
    return Verdict(differences=(Difference(kind, path, told),))


def doubtful(keyword: str, path: str, reason: str) -> Verdict:
    """The verdict of one keyword that cannot be judged."""
    return Verdict(doubts=(Doubt(keyword, path, reason),))
