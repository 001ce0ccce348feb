"""The shortest history that still fails in the same way: clients and steps are left out while it does."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import NamedTuple, TypeVar

from support.simulation.history import ACTORS, STEPS, play
from support.simulation.world import Violation

T = TypeVar("T")


class Failing(NamedTuple):
    """A history that breaks a promise."""

    seed: int
    steps: tuple[int, ...]
    actors: tuple[str, ...]
    error: str
    """What is broken, and the history."""

    @property
    def as_test(self) -> str:
        """A test to paste, for tests/simulation/test_histories.py."""
        played = f"play({self.seed}, steps={self.steps!r}, actors={self.actors!r})"
        return f"def test_NAME_WHAT_HOLDS() -> None:\n    {played}\n"


def failure(seed: int, steps: Sequence[int] | None = None, actors: Sequence[str] | None = None) -> str | None:
    """What a history breaks; None if nothing."""
    try:
        play(seed, steps=steps, actors=actors)
    except Violation as error:
        return str(error)
    return None


def shortest(seed: int, fails: Callable[[int, Sequence[int], Sequence[str]], str | None] = failure) -> Failing | None:
    """The history of a seed without what its failure does not need; None if the whole one does not fail."""
    steps: tuple[int, ...] = tuple(range(1, STEPS + 1))
    actors: tuple[str, ...] = ACTORS
    error = fails(seed, steps, actors)
    if error is None:
        return None
    kind = _kind(error)

    def alike(some: Sequence[int], others: Sequence[str]) -> str | None:
        found = fails(seed, some, others)
        return None if found is None or _kind(found) != kind else found

    steps, error = _without_needless(steps, error, lambda fewer: alike(fewer, actors))
    actors, error = _without_needless(actors, error, lambda fewer: alike(steps, fewer))
    steps, error = _without_needless(steps, error, lambda fewer: alike(fewer, actors))
    return Failing(seed, steps, actors, error)


def _kind(error: str) -> str:
    """What is broken, without the numbers and values that tell where: a shorter history often fails in another way."""
    return re.sub(r"b?'[^']*'|\d[\d.]*", "_", error.partition("\n")[0])


def _without_needless(
    parts: tuple[T, ...], error: str, fails: Callable[[tuple[T, ...]], str | None]
) -> tuple[tuple[T, ...], str]:
    """Leave out halves, then quarters, and so on to single parts, as long as it still fails."""
    size = max(len(parts) // 2, 1)
    while True:
        start = 0
        while start < len(parts):
            fewer = parts[:start] + parts[start + size :]
            found = fails(fewer)
            if found is None:
                start += size
            else:
                parts, error = fewer, found
        if size == 1:
            return parts, error
        size = max(size // 2, 1)
