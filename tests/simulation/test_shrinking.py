"""A failing history is made as short as it can be."""

from __future__ import annotations

from collections.abc import Sequence

from support.simulation.history import ACTORS, STEPS
from support.simulation.shrinking import shortest


def needs(steps: set[int], actors: set[str]) -> object:
    """A failure that needs these steps and clients."""

    def fails(_: int, has_steps: Sequence[int], has_actors: Sequence[str]) -> str | None:
        return "lost" if steps <= {*has_steps} and actors <= {*has_actors} else None

    return fails


def test_what_a_failure_needs_stays_and_nothing_else() -> None:
    found = shortest(7, needs({3, 4, STEPS}, {"p1", "d1"}))  # type: ignore[arg-type]
    assert found is not None
    assert (found.seed, found.steps, found.actors, found.error) == (7, (3, 4, STEPS), ("p1", "d1"), "lost")


def test_a_failure_may_need_nothing() -> None:
    found = shortest(7, needs(set(), set()))  # type: ignore[arg-type]
    assert found is not None
    assert (found.steps, found.actors) == ((), ())


def test_what_fails_in_another_way_is_not_the_shorter_history() -> None:
    def fails(_: int, steps: Sequence[int], actors: Sequence[str]) -> str | None:
        return f"t-0 offset {len(steps)} is gone\nin the history" if 3 in steps else "the group does not settle"

    found = shortest(7, fails)
    assert found is not None
    assert (found.steps, found.actors, found.error) == ((3,), (), "t-0 offset 1 is gone\nin the history")


def test_a_history_that_does_not_fail_has_no_shortest_one() -> None:
    assert shortest(7, needs({STEPS + 1}, {ACTORS[0]})) is None  # type: ignore[arg-type]


def test_the_test_to_paste_plays_the_history() -> None:
    found = shortest(7, needs({3}, {"p1"}))  # type: ignore[arg-type]
    assert found is not None
    assert "play(7, steps=(3,), actors=('p1',))" in found.as_test
