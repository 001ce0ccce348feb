"""The groups in memory, by id; the groups of one partition of `__consumer_offsets` are loaded and unloaded together."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import TYPE_CHECKING

from .group import Group

if TYPE_CHECKING:
    from ..coordinators.loader import Steps


class Shards(Mapping[str, Group]):
    """Groups by id, stored by partition, so that a broker that no longer leads a partition unloads its groups only."""

    def __init__(self, number_of: Callable[[str], int]) -> None:
        """`number_of` gives the partition of a group id."""
        self._number_of = number_of
        self._shards: dict[int, dict[str, Group]] = {}

    def __getitem__(self, group_id: str) -> Group:
        return self._shards[self._number_of(group_id)][group_id]

    def get(self, group_id: str, default: None = None) -> Group | None:  # type: ignore[override]
        shard = self._shards.get(self._number_of(group_id))
        return default if shard is None else shard.get(group_id)

    def __contains__(self, group_id: object) -> bool:
        return isinstance(group_id, str) and self.get(group_id) is not None

    def __iter__(self) -> Iterator[str]:
        for shard in self._shards.values():
            yield from shard

    def __len__(self) -> int:
        return sum(map(len, self._shards.values()))

    def values(self) -> list[Group]:  # type: ignore[override]
        """A list of all groups, made without hashing their ids."""
        return [group for shard in self._shards.values() for group in shard.values()]

    def put(self, group: Group) -> None:
        """Add a group; it replaces any other of its id."""
        self._shards.setdefault(self._number_of(group.group_id), {})[group.group_id] = group

    def drop(self, group: Group) -> None:
        """Remove a group, unless another one of its id has replaced it."""
        if self.get(group.group_id) is group:
            del self._shards[self._number_of(group.group_id)][group.group_id]

    def pop(self, number: int | None = None) -> list[dict[str, Group]]:
        """Remove and return the groups of one partition, or of all."""
        if number is not None:
            return [self._shards.pop(number)] if number in self._shards else []
        removed, self._shards = [*self._shards.values()], {}
        return removed


def discard(shards: list[dict[str, Group]]) -> Steps:
    """Free unloaded groups a few at a time, because freeing a million offsets takes long."""
    for shard in shards:
        while shard:
            _, group = shard.popitem()
            for _ in group.offsets.clear():
                yield
            yield
