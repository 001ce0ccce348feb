"""The followers of a partition as its leader sees them, and the rules of the in-sync replicas (ISR).

A follower leaves the ISR when it has not had all that the leader has for `replica.lag.time.max.ms` (KIP-16:
`Replicas.lagging`). It may join again when it has all that is replicated and all with which the leader was elected, and
no records that were deleted at the leader (KIP-107: `Replica.may_join`). The partition asks the controller for each of
these changes (`partition.py`); the controller itself takes out brokers that die (`controller/elections.py`).

What the leader knows it reads off the followers' fetches: a follower that asks for an offset has everything below it.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator

UNKNOWN = -1
"""In place of an offset of a follower that has not fetched from this leader yet."""


_NO_REPLICAS: dict[int, Replica] = {}
"""The followers of a partition with one replica; never changed. An empty dict for each takes 64 bytes."""


class Replica:
    """One follower, as its leader sees it."""

    __slots__ = ("_fetched_ms", "_leader_end_then", "caught_up_ms", "log_end_offset", "log_start_offset", "node_id")

    def __init__(self, node_id: int, caught_up_ms: int) -> None:
        """`caught_up_ms`: when it was last known to have all that its leader had, by the clock of liveness."""
        self.node_id = node_id
        self.log_end_offset = UNKNOWN
        self.log_start_offset = UNKNOWN
        """What it reported; followers that fetch with a version below 5 report none."""
        self.caught_up_ms = caught_up_ms
        self._fetched_ms = caught_up_ms
        self._leader_end_then = UNKNOWN

    def fetched(self, offset: int, log_start_offset: int, leader_end_offset: int, now_ms: int) -> None:
        """It fetches from `offset`, and has what is from `log_start_offset` to there."""
        if offset >= leader_end_offset:
            self.caught_up_ms = max(self.caught_up_ms, now_ms)
        elif self._leader_end_then != UNKNOWN and offset >= self._leader_end_then:
            self.caught_up_ms = max(self.caught_up_ms, self._fetched_ms)
        self.log_end_offset, self.log_start_offset = offset, log_start_offset
        self._fetched_ms, self._leader_end_then = now_ms, leader_end_offset

    def is_caught_up(self, leader_end_offset: int, now_ms: int, max_lag_ms: int) -> bool:
        """Whether it has all that the leader has, or had it `max_lag_ms` ago at most (replica.lag.time.max.ms)."""
        return self.log_end_offset == leader_end_offset or now_ms - self.caught_up_ms <= max_lag_ms

    def may_join(self, high_watermark: int, epoch_start_offset: int, leader_log_start_offset: int) -> bool:
        """Whether the follower may join the ISR: it could lead without a loss, and without showing deleted records
        again. The leader's epoch began at `epoch_start_offset`."""
        has_deleted = self.log_start_offset == UNKNOWN or self.log_start_offset >= leader_log_start_offset
        return has_deleted and self.log_end_offset >= max(high_watermark, epoch_start_offset)


class Replicas:
    """The followers of a partition by node id. All begin as in sync as the controller says they are, and unknown."""

    __slots__ = ("by_id",)

    def __init__(self, node_ids: Iterable[int], in_sync: Iterable[int], now_ms: int) -> None:
        known = {*in_sync}
        found = {node_id: Replica(node_id, now_ms if node_id in known else 0) for node_id in node_ids}
        self.by_id = found or _NO_REPLICAS

    def __iter__(self) -> Iterator[Replica]:
        return iter(self.by_id.values())

    def __len__(self) -> int:
        return len(self.by_id)

    def get(self, node_id: int) -> Replica | None:
        return self.by_id.get(node_id)

    def lagging(self, isr: Collection[int], leader_end_offset: int, now_ms: int, max_lag_ms: int) -> set[int]:
        """The followers that have to leave the ISR."""
        return {
            replica.node_id
            for replica in self
            if replica.node_id in isr and not replica.is_caught_up(leader_end_offset, now_ms, max_lag_ms)
        }

    def next_lag_ms(self, isr: Collection[int], leader_end_offset: int, max_lag_ms: int) -> int | None:
        """When the next follower has to leave the ISR if it fetches nothing until then, by the clock of liveness; None
        while all have what the leader has."""
        times = (
            replica.caught_up_ms + max_lag_ms + 1
            for replica in self
            if replica.node_id in isr and replica.log_end_offset != leader_end_offset
        )
        return min(times, default=None)

    def assign(self, node_ids: Iterable[int], *, died: Collection[int] = ()) -> None:
        """Have these followers from now on. A follower that stays and has not `died` keeps its state."""
        known = {node_id: replica for node_id, replica in self.by_id.items() if node_id not in died}
        self.by_id = {node_id: known.get(node_id) or Replica(node_id, 0) for node_id in node_ids}

    def forget(self, node_id: int) -> None:
        """Know nothing of this follower any more but that it is one."""
        if node_id in self.by_id:
            self.by_id[node_id] = Replica(node_id, 0)

    def leader_moves_on(self, leader_end_offset: int, now_ms: int) -> None:
        """The leader is about to append at `leader_end_offset`: a follower that had everything had it until now.

        An idle follower fetches without naming its partitions (KIP-227), so that its last fetch may be long ago.
        """
        for replica in self.by_id.values():
            if replica.log_end_offset == leader_end_offset:
                replica.caught_up_ms = now_ms
