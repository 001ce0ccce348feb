"""Sessions of group members: a member that sends nothing for its session time-out is removed (`session.timeout.ms`).

JoinGroup, SyncGroup, heartbeats and commits extend a session. It does not end while a request of the member waits for
its answer, which extends it. A pending member, which has been given a member id and has not joined with it, has as long
to do so.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING

from ...network.peer_log import PeerLog
from .classic_group import ClassicGroup
from .member import Member

if TYPE_CHECKING:
    from ...clock import Clock

log = PeerLog(logging.getLogger("kmini.groups"))


class Sessions:
    """The sessions of all members of a coordinator's groups, on the liveness timeline."""

    def __init__(
        self,
        clock: Clock,
        expire_member: Callable[[ClassicGroup, Member], None],
        expire_pending_member: Callable[[ClassicGroup, str], None],
    ) -> None:
        """The callbacks remove a member whose session has ended, and a member id that has not joined in time."""
        self._clock = clock
        self._expire_member = expire_member
        self._expire_pending_member = expire_pending_member

    def extend(self, member: Member, group: ClassicGroup, timeout_ms: int | None = None) -> None:
        """Extend the session of a member: it ends `timeout_ms`, by default its session time-out, from now.

        Every heartbeat calls this, so it moves a deadline and leaves the timer as it is, which checks the deadline.
        """
        deadline_ms = self._clock.liveness_ms() + (member.session_timeout_ms if timeout_ms is None else timeout_ms)
        member.deadline_ms = deadline_ms
        timer = member.timer
        if timer is None or timer.due_ms > deadline_ms:
            member.cancel_timer()
            self._schedule_check(member, group)

    def _schedule_check(self, member: Member, group: ClassicGroup) -> None:
        remaining_ms = max(member.deadline_ms - self._clock.liveness_ms(), 0)
        member.timer = self._clock.call_later(remaining_ms, partial(self._check, member, group), liveness=True)

    def _check(self, member: Member, group: ClassicGroup) -> None:
        """Expire a member whose timer fired, unless its deadline has moved."""
        member.timer = None
        if member.deadline_ms > self._clock.liveness_ms():
            self._schedule_check(member, group)
        elif not member.is_excused:  # its answer will extend the session
            log.info(
                "group %s: no heartbeat of %s in %d ms", group.group_id, member.member_id, member.session_timeout_ms
            )
            self._expire_member(group, member)

    def add_pending_member(self, group: ClassicGroup, member_id: str, timeout_ms: int) -> None:
        """Add a pending member id, for which rebalances wait until it expires."""
        group.pending_members[member_id] = self._clock.call_later(
            timeout_ms, partial(self._expire_pending_member, group, member_id), liveness=True
        )
