"""One consumer group of a broker that runs elsewhere: `broker.group("billing")`, with the methods that the protocol
allows."""

from __future__ import annotations

import contextlib
from collections.abc import Mapping
from typing import Literal

from kmini.client.group_descriptions import CLASSIC, SHARE, STABLE
from kmini.protocol.errors import GroupIdNotFound, NonEmptyGroup
from kmini.protocol.messages.list_offsets import EARLIEST, LATEST
from kmini.protocol.topics import TopicPartition
from kmini.remote.needs_kmini import RefusingTable
from kmini.remote.remote_operations import RemoteOperations
from kmini.remote.remote_records import offsets_of, read
from kmini.testkit.descriptions import GroupDescription, group_of
from kmini.testkit.group_handle import GroupOperations
from kmini.testkit.phrases import counted, members_expected, there_is_no
from kmini.testkit.waiting import NotInTime


class RemoteGroupOperations(RefusingTable):
    """The operations of one group that the protocol allows."""

    _local = GroupOperations
    _called = "group."

    def __init__(self, operations: RemoteOperations, group: str) -> None:
        self._operations = operations
        self.refuse = operations.refuse
        self._client = operations.client
        self._name = group

    async def describe(self) -> GroupDescription:
        """See `GroupOperations.describe`. No request tells the generation of a classic group, the topics that its
        members subscribe to, and what a share group has in flight: the first two are -1 and the topics of the
        assignments."""
        try:
            told = await self._client.describe_group(self._name)
        except GroupIdNotFound:
            listed = await self._client.list_groups()
            raise GroupIdNotFound(there_is_no("group", self._name, (group.group_id for group in listed))) from None
        return group_of(told, await self._client.share_group_offsets(self._name) if told.type == SHARE else {})

    async def offsets(self) -> dict[TopicPartition, int]:
        """See `GroupOperations.offsets`."""
        await self.describe()
        return await self._committed()

    async def _committed(self) -> dict[TopicPartition, int]:
        found = await self._client.committed_offsets(self._name)
        return {place: committed.offset for place, committed in sorted(found.items())}

    async def lag(self) -> dict[TopicPartition, int]:
        """See `GroupOperations.lag`."""
        description = await self.describe()
        if description.kind == SHARE:
            return {one.partition: one.lag for one in description.share_partitions if one.lag is not None}
        committed = await self._committed()
        places = sorted({*committed, *(place for member in description.members for place in member.assignment)})
        found = await offsets_of(self._client, places)
        return {
            place: max(found[place].high_watermark - committed.get(place, found[place].log_start_offset), 0)
            for place in places
        }

    async def stable(self, members: int | None = None, *, timeout_ms: int = 10_000) -> GroupDescription:
        """See `GroupOperations.stable`."""
        found = GroupDescription(self._name, CLASSIC, "Dead", 0, None, (), -1)
        told = ""

        async def is_stable() -> bool:
            nonlocal found, told
            try:
                found = await self.describe()
            except GroupIdNotFound as missing:
                told = missing.message
                return members == 0
            told = str(found)
            if members == 0:
                return found.state == "Empty"
            return found.state == STABLE and members in (None, len(found.members))

        if await self._operations.until(is_stable, timeout_ms):
            return found
        raise NotInTime(f"{told} (after {timeout_ms} ms; expected: Stable, {members_expected(members)})")

    async def caught_up(self, topic: str, *, timeout_ms: int = 10_000) -> None:
        """See `GroupOperations.caught_up`."""
        left: int | None = None

        async def is_caught_up() -> bool:
            nonlocal left
            left = None
            if not await self._operations.metadata([topic]):
                return False
            offsets = await offsets_of(self._client, await self._operations.partitions(topic))
            shared = await self._share_lag()
            if shared is not None:
                left = sum(
                    shared.get(place, found.high_watermark - found.log_start_offset) for place, found in offsets.items()
                )
                return left == 0
            left = len(await read(self._client, offsets, "committed", await self._committed()))
            return left == 0

        if not await self._operations.until(is_caught_up, timeout_ms):
            if left is None:
                raise NotInTime(f"{await self._operations.no_such_topic(topic)} (after {timeout_ms} ms)")
            behind = f"{counted(left, 'record')} of {topic} left to commit"
            raise NotInTime(f"{behind}; {await self._status()} (after {timeout_ms} ms)")

    async def _share_lag(self) -> dict[TopicPartition, int] | None:
        """What `lag` tells of a share group; None for other groups."""
        with contextlib.suppress(GroupIdNotFound):
            if (await self._client.describe_group(self._name)).type == SHARE:
                return await self.lag()
        return None

    async def _status(self) -> str:
        try:
            return str(await self.describe())
        except GroupIdNotFound as error:
            return error.message

    async def rebalance(self) -> None:
        """See `GroupOperations.rebalance`."""
        await self._client.rebalance(self._name)

    async def commit(self, offsets: Mapping[tuple[str, int], int]) -> None:
        """See `GroupOperations.commit`."""
        try:
            described = await self.describe()
        except GroupIdNotFound:
            described = None
        if described is not None and described.members:
            raise NonEmptyGroup(f"{described}: members commit themselves, so stop them before")
        for topic, partition in offsets:
            await self._operations.partitions(topic, partition)
        for error in (await self._client.commit_offsets(self._name, offsets)).values():
            if error is not None:
                raise error

    async def reset_offsets(
        self, position: Literal["earliest", "latest"] | int, topic: str | None = None
    ) -> dict[TopicPartition, int]:
        """See `GroupOperations.reset_offsets`."""
        topics = {place.topic for place in await self.offsets()} if topic is None else {topic}
        places = [place for name in sorted(topics) for place in await self._operations.partitions(name)]
        timestamp = {"earliest": EARLIEST, "latest": LATEST}[position] if isinstance(position, str) else position
        found = await self._client.list_offsets(dict.fromkeys(places, timestamp))
        ends = await self._client.end([place for place in places if found[place].offset < 0])  # nothing is as late
        offsets = {place: ends.get(place, found[place].offset) for place in places}
        await self.commit({(place.topic, place.partition): offset for place, offset in offsets.items()})
        return offsets
