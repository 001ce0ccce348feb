"""The groups in memory, by id; those of one partition of `__consumer_offsets` come and go together."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping

from .group import Group


class Shards(Mapping[str, Group]):
    """Groups by id, kept by partition, so that a broker which no longer leads one lets go of its groups alone."""

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
        """All groups as they are now, without a look at where each belongs."""
        return [group for shard in self._shards.values() for group in shard.values()]

    def put(self, group: Group) -> None:
        """Keep a group, in the place of any other of its id."""
        self._shards.setdefault(self._number_of(group.group_id), {})[group.group_id] = group

    def drop(self, group: Group) -> None:
        """Forget a group, if it is the one that is kept."""
        if self.get(group.group_id) is group:
            del self._shards[self._number_of(group.group_id)][group.group_id]

    def pop(self, number: int | None = None) -> list[dict[str, Group]]:
        """Forget the groups of one partition, or all of them, and return them."""
        if number is not None:
            return [self._shards.pop(number)] if number in self._shards else []
        gone, self._shards = [*self._shards.values()], {}
        return gone
