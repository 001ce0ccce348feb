"""The life of streams groups: what their members may do beyond those of other kinds, and the initial delay.

The first target of a group that had no members is computed `streams.initial.rebalance.delay.ms` after its first member
has joined, so that members that start together share the tasks at once.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import partial
from typing import TYPE_CHECKING, NamedTuple

from ..modern.changes import Change
from ..modern.group_life import Coordinated, GroupLife
from . import state_changes
from .state_changes import CurrentChange, GroupEpoch, MembershipChange
from .streams_group import StreamsGroup
from .task_members import TaskMembership

if TYPE_CHECKING:
    from ...clock import Timer


class _Delay(NamedTuple):
    """A group whose first target is not due yet."""

    group: StreamsGroup
    timer: Timer


class StreamsGroupLife(GroupLife[StreamsGroup, TaskMembership]):
    """The streams groups of one coordinator, and what happens to all of them. Belongs to the broker's loop."""

    kind = StreamsGroup

    def __init__(self, shared: Coordinated) -> None:
        super().__init__(shared)
        self._delays: dict[str, _Delay] = {}
        """The groups whose first target is not due yet, by id."""

    def new(self, group_id: str) -> StreamsGroup:
        return StreamsGroup(group_id)

    def session_timeout_ms(self, group: StreamsGroup, member: TaskMembership) -> int:
        return self.settings(group.group_id).streams_session_timeout_ms

    def removal_of_members(self, group: StreamsGroup, member_ids: Iterable[str]) -> Iterable[Change[StreamsGroup]]:
        return state_changes.removal_of_members(member_ids)

    def next_epoch(self, group: StreamsGroup, metadata_hash: int) -> GroupEpoch:
        """As in Kafka the topics are those of the last heartbeat: the next one notices if they have changed."""
        return GroupEpoch(
            group.epoch + 1,
            group.metadata_hash,
            group.validated_topology_epoch,
            group.assignment_configs,
            group.metadata_version,
            group.configured,
        )

    def _follow(self, group: StreamsGroup, change: Change[StreamsGroup]) -> None:
        if isinstance(change, CurrentChange):
            self.set_rebalance_timer(group, change.member_id)
        elif isinstance(change, MembershipChange) and change.membership is None:
            self.timers.cancel(group.group_id, change.member_id)

    def partition_count(self, topic: str) -> int:
        """How many partitions a topic has; 0 if there is no such topic."""
        topic_id = self.catalog.id_of(topic)
        return 0 if topic_id is None else self.catalog.partition_count(topic_id)

    # --- the initial delay

    def delay(self, group: StreamsGroup, delay_ms: int, over: Callable[[StreamsGroup], None]) -> None:
        """Delay the first target of a group, unless it is delayed already; `over` is called with the group then."""
        if not self.is_delayed(group):
            timer = self.clock.call_later(delay_ms, partial(self._end_delay, group, over), liveness=True)
            self._delays[group.group_id] = _Delay(group, timer)

    def is_delayed(self, group: StreamsGroup) -> bool:
        """Whether the first target of a group is not due yet."""
        delay = self._delays.get(group.group_id)
        return delay is not None and delay.group is group

    def _end_delay(self, group: StreamsGroup, over: Callable[[StreamsGroup], None]) -> None:
        if self.is_delayed(group):
            del self._delays[group.group_id]
            over(group)

    def unload(self, group: StreamsGroup) -> None:
        super().unload(group)
        if self.is_delayed(group):
            self._delays.pop(group.group_id).timer.cancel()
