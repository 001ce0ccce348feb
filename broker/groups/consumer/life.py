"""The life of consumer groups beyond that of other kinds: their changes are written, and their times run out.

`heartbeats.py` handles heartbeats, by which members join, leave and go away for a while. `classic_members.py` handles
the requests of the classic protocol. When the last member of the consumer protocol leaves, the group becomes a classic
one (`downgrade.py`).
"""

from __future__ import annotations

import logging
from collections.abc import Iterable
from functools import partial
from typing import TYPE_CHECKING

from ...network.peer_log import PeerLog
from ...scheduler import run_now
from ..classic.classic_group import ClassicGroup
from ..group import Departure
from ..modern.group_life import GroupLife
from ..modern.timers import Wait
from . import state_changes
from .consumer_group import ConsumerGroup
from .downgrade import classic_group, may_downgrade
from .members import Membership
from .state_changes import Change, CurrentChange, GroupEpoch, MembershipChange

if TYPE_CHECKING:
    from collections.abc import Awaitable

    from ...coordinators.coordinator_topic import AppendedBatch

log = PeerLog(logging.getLogger("kmini.groups"))


class ConsumerGroupLife(GroupLife[ConsumerGroup, Membership]):
    """The consumer groups of one coordinator, and what happens to all of them. Belongs to the broker's loop."""

    kind = ConsumerGroup

    def new(self, group_id: str) -> ConsumerGroup:
        return ConsumerGroup(group_id, self.config.group_consumer_assignors[0])

    def session_timeout_ms(self, group: ConsumerGroup, member: Membership) -> int:
        classic = member.classic
        if classic is not None:
            return classic.session_timeout_ms
        return self.settings(group.group_id).consumer_session_timeout_ms

    def removal_of_members(self, group: ConsumerGroup, member_ids: Iterable[str]) -> Iterable[Change]:
        return state_changes.removal_of_members(group, member_ids)

    def next_epoch(self, group: ConsumerGroup, metadata_hash: int) -> Change:
        return GroupEpoch(group.epoch + 1, metadata_hash, self.catalog.version)

    # --- becoming a classic group

    def _remove(self, group: ConsumerGroup, gone: Iterable[Departure], left: Iterable[Membership]) -> Awaitable[None]:
        """The group becomes a classic group instead, if only members of the classic protocol are left."""
        ids = {departure.member_id for departure in gone}
        if may_downgrade(group, ids, self.config.migration_policy, self.config.group_max_size):
            members = [(member, member.member_id) for member in left]
            return self.downgrade(group, members, "the last member of the consumer protocol has gone", gone)
        return super()._remove(group, gone, left)

    def downgrade(
        self,
        group: ConsumerGroup,
        members: Iterable[tuple[Membership, str]],
        reason: str | None,
        gone: Iterable[Departure] = (),
    ) -> Awaitable[None]:
        """Make the group a classic one of these members, as `write` changes a group. With each member is the member id
        whose target assignment it gets. They are asked to join again if there is a reason."""
        classic = classic_group(group, members, self.catalog, self.clock.now_ms())
        downgraded = partial(self._downgraded, group, classic, reason, gone)
        stored = classic.stored(classic.assignments())
        return run_now(self.store.write_group(group.group_id, stored, downgraded, before=group.tombstones()))

    def _downgraded(
        self,
        group: ConsumerGroup,
        classic: ClassicGroup,
        reason: str | None,
        gone: Iterable[Departure],
        batch: AppendedBatch,
    ) -> None:
        self.note(group, gone)
        classic.take_place_of(group)
        self.unload(group)
        self.groups.put(classic)
        log.info("group %s is a classic group now", group.group_id)
        self._classic.downgraded(classic, reason)
        self._appended(classic, batch)
        self._changed(group.group_id)

    # --- writing

    def _follow(self, group: ConsumerGroup, change: Change) -> None:
        if isinstance(change, CurrentChange):
            self.set_rebalance_timer(group, change.member_id)
        elif isinstance(change, MembershipChange):
            self._end_waits(group, change)

    def _end_waits(self, group: ConsumerGroup, change: MembershipChange) -> None:
        if change.membership is None:
            self.timers.cancel(group.group_id, change.member_id)
        elif change.membership.classic is None:
            self.timers.cancel(group.group_id, change.member_id, Wait.JOIN, Wait.SYNC)
