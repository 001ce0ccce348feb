"""Work that gives way to other tasks of the loop, each of its steps a turn of its own: counted without a clock."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

import pytest

from kmini.broker.scheduler import Turn


def every_step_a_turn(
    monkeypatch: pytest.MonkeyPatch, first: Callable[[], Awaitable[object]] | None = None
) -> list[Turn]:
    """Have every `Turn` be over at each step. Returns a list that grows by one for each turn.

    `first` is awaited at the end of the first turn: what happens while the work gives way.
    """
    turns: list[Turn] = []
    give_way = Turn.next

    async def next_turn(turn: Turn) -> None:
        turns.append(turn)
        if first is not None and len(turns) == 1:
            await first()
        await give_way(turn)

    monkeypatch.setattr(Turn, "is_over", True)
    monkeypatch.setattr(Turn, "next", next_turn)
    return turns
