"""One long computation of a group at a time: other requests of the group wait for it, those of other groups do not."""

from __future__ import annotations

import asyncio
from collections.abc import Generator
from typing import TypeVar

from ...scheduler import Turn

T = TypeVar("T")


class GroupTurns:
    """The computations in progress, by group id. Belongs to the broker's loop."""

    def __init__(self) -> None:
        self._busy: dict[str, asyncio.Future[None]] = {}

    async def free(self, group_id: str) -> None:
        """Wait until no computation of the group is in progress. It is so until the caller waits for something else."""
        while (busy := self._busy.get(group_id)) is not None:
            await asyncio.wait([busy])

    async def run(self, group_id: str, steps: Generator[None, None, T]) -> T:
        """Run a computation, in turns if it takes long; the caller has found the group `free`. Until the caller waits
        for something else, the group is as it was."""
        turn = Turn()
        while True:
            try:
                next(steps)
            except StopIteration as done:
                result: T = done.value
                return result
            if turn.is_over:
                await self._rest(group_id, turn)

    async def _rest(self, group_id: str, turn: Turn) -> None:
        """Let everything else have a turn, while the group is busy."""
        busy = self._busy[group_id] = asyncio.get_running_loop().create_future()
        try:
            await turn.next()
        finally:
            del self._busy[group_id]
            busy.set_result(None)
