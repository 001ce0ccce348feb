"""The life of share groups: what their members may do beyond those of other kinds."""

from __future__ import annotations

from collections.abc import Iterable

from ..modern.changes import Change
from ..modern.group_life import GroupLife
from . import state_changes
from .share_group import ShareGroup, ShareMembership
from .state_changes import GroupEpoch, MembershipChange, StatesChange


class ShareGroupLife(GroupLife[ShareGroup, ShareMembership]):
    """The share groups of one coordinator, and what happens to all of them. Belongs to the broker's loop."""

    kind = ShareGroup

    def new(self, group_id: str) -> ShareGroup:
        return ShareGroup(group_id)

    def loaded(self, group: ShareGroup) -> None:
        """Also, what was being initialized counts as begun now, as in Kafka."""
        super().loaded(group)
        group.states_written_ms = self.clock.now_ms()

    def session_timeout_ms(self, group: ShareGroup, member: ShareMembership) -> int:
        return self.settings(group.group_id).share_session_timeout_ms

    def removal_of_members(self, group: ShareGroup, member_ids: Iterable[str]) -> Iterable[Change[ShareGroup]]:
        return state_changes.removal_of_members(member_ids)

    def next_epoch(self, group: ShareGroup, metadata_hash: int) -> GroupEpoch:
        return GroupEpoch(group.epoch + 1, metadata_hash, self.catalog.version)

    def _follow(self, group: ShareGroup, change: Change[ShareGroup]) -> None:
        if isinstance(change, StatesChange):
            group.states_written_ms = self.clock.now_ms()
        elif isinstance(change, MembershipChange) and change.membership is None:
            self.timers.cancel(group.group_id, change.member_id)
