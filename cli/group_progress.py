"""The offsets of `kmini consume --group`: read at the start, committed every second and at the end.

The command does not join the group as a member; it commits from outside, which a group allows while it has no members.
Only printed records are committed, so none is missed; after a kill some records may be printed twice.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, BinaryIO

from kmini.cli.group_reset import must_be_idle

if TYPE_CHECKING:
    from kmini.client import Client
    from kmini.protocol.topics import TopicPartition

COMMIT_SECONDS = 1.0


class GroupProgress:
    """The next offsets of a group, moved on record by record."""

    def __init__(self, client: Client, group: str, out: BinaryIO) -> None:
        self._client = client
        self._group = group
        self._out = out
        self._next: dict[TopicPartition, int] = {}
        """Offsets of partitions that are not committed yet."""
        self._committing: asyncio.Future[None] | None = None

    async def resume(
        self,
        start: Mapping[TopicPartition, int],
        beginning: Mapping[TopicPartition, int],
        end: Mapping[TopicPartition, int],
    ) -> Mapping[TopicPartition, int]:
        """The offsets to begin at: the committed ones, else `start`."""
        await must_be_idle(self._client, self._group, "its members would not learn what is printed here")
        committed = await self._client.committed_offsets(self._group)
        stopped = {at: min(max(beginning[at], found.offset), end[at]) for at, found in committed.items() if at in start}
        return {**start, **stopped}

    def printed(self, topic_partition: TopicPartition, next_offset: int) -> None:
        """Set the next offset of a partition. Raises the error that kept earlier offsets from being committed."""
        if self._committing is not None and self._committing.done():
            self._committing.result()
        self._next[topic_partition] = next_offset

    def finished(self, end: Mapping[TopicPartition, int]) -> None:
        """All records up to these offsets are printed, also if the last offsets hold no records."""
        self._next.update(end)

    @asynccontextmanager
    async def kept(self) -> AsyncIterator[None]:
        """Commit every second inside the block, and at its end, however it is left."""
        committing = self._committing = asyncio.ensure_future(self._commit_regularly())
        try:
            yield
        finally:
            committing.cancel()
            await asyncio.wait([committing])
            if not committing.cancelled():
                committing.result()  # raises the failed commit's error; another commit would fail too
            await self._commit()

    async def _commit_regularly(self) -> None:
        while True:
            await asyncio.sleep(COMMIT_SECONDS)
            await self._commit()

    async def _commit(self) -> None:
        self._out.flush()  # records that cannot be printed must not be committed
        moved, self._next = self._next, {}
        if not moved:
            return
        outcomes = await self._client.commit_offsets(self._group, moved)
        for partition, error in outcomes.items():
            if error is not None:
                raise type(error)(f"the offset of {partition} is not kept for group {self._group}")
