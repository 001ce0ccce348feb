"""Rebalances: the part of the group coordinator that waits, and that timers drive.

A rebalance begins when a member joins, leaves, ends its session or changes its protocols; the table JOIN in
group_states.py says which JoinGroup begins one. It ends when every member has joined, or when the longest rebalance
time-out of a member is over; dynamic members that have not joined are removed then. The leader of the new generation
sends its assignment, which holds once it is stored. A member that does not send SyncGroup within the rebalance time-out
is removed, too.

The rebalance of an empty group lasts `group.initial.rebalance.delay.ms` instead, and is extended by as much for members
that join meanwhile. Even without that delay, members that start together share their first generation: the rebalance
waits briefly for pending members, which have just been given a member id.

Static members (KIP-345) stay until their session ends, even if they miss a join or a sync.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from functools import partial
from typing import TYPE_CHECKING, Protocol

from ....protocol.errors import NONE, KafkaError, RebalanceInProgress, UnknownMemberId
from ...api.error_mapping import kafka_error
from ...network.peer_log import PeerLog
from .classic_group import ClassicGroup
from .group_states import COMPLETING, DEAD, EMPTY, PREPARING, STABLE, GroupState, can_rebalance
from .member import Member, SyncResult, refused

if TYPE_CHECKING:
    from ...clock import Callback, Clock, Timer
    from ...coordinators.background_writes import Writes
    from ...settings.broker_config import BrokerConfig
    from ..group_records import GroupMetadata

logger = logging.getLogger("kmini.groups")
log = PeerLog(logger)

NEW_MEMBER_JOIN_TIMEOUT_MS = 300_000
"""Milliseconds that a new member may wait for its first answer. It knows no member id for heartbeats, and if its
connection is lost the client joins again as another member."""

PENDING_MEMBER_WAIT_MS = 20
"""Milliseconds that an initial rebalance is extended for pending members. Kafka's delay of 3 s does not need this;
without it, the second of two members that start together would wait for the next heartbeat of the first."""

EMPTY_JOIN_RETRY_MS = 1_000
"""Least milliseconds of the next attempt after a join phase in which no member joined: the members' own time-out may be
0."""


class Writer(Protocol):
    """The group store, as this module uses it."""

    async def write_group(self, group_id: str, metadata: GroupMetadata) -> None:
        """Return when the group is stored and replicated. Raises the KafkaError that is to be answered."""


class Rebalancer:
    """Changes the states of groups."""

    def __init__(
        self, config: BrokerConfig, clock: Clock, writer: Writer, writes: Writes, changed: Callable[[str], None]
    ) -> None:
        """`changed` is called with the id of a group whose state has changed."""
        self._config = config
        self._clock = clock
        self._writer = writer
        self.writes = writes
        self._changed = changed
        self.sessions = Sessions(clock, self.expire_member, self.expire_pending_member)
        self.completed = 0
        """The number of rebalances that ended with a stored assignment."""

    # --- the end of a session

    def expire_pending_member(self, group: ClassicGroup, member_id: str) -> None:
        """Remove a pending member id that has not joined in time."""
        group.remove(member_id)
        if group.state is PREPARING and group.all_have_joined:
            self._complete_join(group)

    def expire_member(self, group: ClassicGroup, member: Member) -> None:
        """Remove a member whose session has ended, and rebalance."""
        group.note_departure(member.member_id, f"no heartbeat for session.timeout.ms={member.session_timeout_ms}")
        self.remove(group, member.member_id)
        if can_rebalance(group.state) and group.state is not EMPTY:
            self.prepare_rebalance(group, "the session of a member ended")
        elif group.state is PREPARING and group.all_have_joined:
            self._complete_join(group)

    def remove(self, group: ClassicGroup, member_id: str) -> None:
        """Remove a member; a request of it that waits is answered with UNKNOWN_MEMBER_ID."""
        member = group.members.get(member_id)
        if member is not None:
            group.answer_join(member, refused(UnknownMemberId))
            member.answer_sync(SyncResult(UnknownMemberId.code))
        group.remove(member_id)

    # --- joining

    def prepare_or_try_complete(self, group: ClassicGroup, reason: str) -> None:
        """Begin a rebalance; if one is in progress, end its join phase if that is possible."""
        if can_rebalance(group.state):
            self.prepare_rebalance(group, reason)
        else:
            self.try_complete_join(group)

    def try_complete_join(self, group: ClassicGroup) -> None:
        """End the join phase if every member has joined. An initial rebalance waits for its delay."""
        waits_for_time = group.is_initial_rebalance and not group.awaits_pending_members
        if group.state is PREPARING and not waits_for_time and group.all_have_joined:
            self._complete_join(group)

    def prepare_rebalance(self, group: ClassicGroup, reason: str) -> None:
        """Ask all members to join again."""
        if group.state is COMPLETING:
            self._withdraw_assignment(group, RebalanceInProgress.code)
        group.awaited_syncs.clear()
        group.cancel_sync_timer()
        group.is_initial_rebalance = group.is_empty
        self._move(group, PREPARING)
        log.info("group %s: rebalancing after generation %d: %s", group.group_id, group.generation_id, reason)
        if group.is_initial_rebalance:
            delay_ms = self._config.group_initial_rebalance_delay_ms
            self._extend_initial(group, delay_ms, max(group.rebalance_timeout_ms - delay_ms, 0))
        elif group.all_have_joined:
            self._complete_join(group)
        else:
            self._await_joins(group)

    def _await_joins(self, group: ClassicGroup, at_least_ms: int = 0) -> None:
        group.cancel_join_timer()
        timeout_ms = max(group.rebalance_timeout_ms, at_least_ms)
        group.join_timer = self._call_later(timeout_ms, partial(self._complete_join, group))

    def _extend_initial(self, group: ClassicGroup, delay_ms: int, remaining_ms: int) -> None:
        group.cancel_join_timer()
        group.join_timer = self._call_later(delay_ms, partial(self._end_initial_delay, group, delay_ms, remaining_ms))

    def _end_initial_delay(self, group: ClassicGroup, delay_ms: int, remaining_ms: int) -> None:
        """Extend the delay if a member joined during it, or is pending, and the rebalance time-out allows that."""
        if group.has_new_member and remaining_ms:
            group.has_new_member = False
            next_ms = min(self._config.group_initial_rebalance_delay_ms, remaining_ms)
            self._extend_initial(group, next_ms, max(remaining_ms - delay_ms, 0))
        elif group.pending_members and remaining_ms and delay_ms < PENDING_MEMBER_WAIT_MS:
            group.awaits_pending_members = True
            self._extend_initial(group, min(PENDING_MEMBER_WAIT_MS, remaining_ms), max(remaining_ms - delay_ms, 0))
        else:
            self._complete_join(group)

    def _complete_join(self, group: ClassicGroup) -> None:
        """Begin the next generation with the members that have joined, and with static members. The first generation of
        a new group begins once the group is replicated."""
        group.cancel_join_timer()
        if group.is_being_created:
            group.has_waiting_generation = True
            return
        for member in [*group.members.values()]:
            if not (member.has_joined or member.is_static):
                group.note_departure(member.member_id, _overdue("JoinGroup", group))
                group.remove(member.member_id)
        if group.members and not group.elect_leader():
            # only static members are left, and none has joined: repeat until their sessions end
            self._await_joins(group, at_least_ms=EMPTY_JOIN_RETRY_MS)
            return
        group.next_generation(self._clock.now_ms())
        self._changed(group.group_id)
        log.info("group %s: generation %d has %d members", group.group_id, group.generation_id, len(group.members))
        if group.is_empty:
            self.writes.start(self._store_empty(group))
            return
        for member in group.members.values():
            group.answer_join(member, group.join_result(member))
            self.sessions.extend(member, group)
            member.is_new = False
            group.awaited_syncs.add(member.member_id)
        overdue = partial(self._expire_syncs, group, group.generation_id)
        group.sync_timer = self._call_later(group.rebalance_timeout_ms, overdue)

    async def _store_empty(self, group: ClassicGroup) -> None:
        try:
            await self._writer.write_group(group.group_id, group.stored({}))
        except Exception as error:  # the log keeps the generation before, whose members are gone
            _note_failure(group, kafka_error(error, "storing an empty group"))

    def created(self, group: ClassicGroup) -> None:
        """Note that the first record of a group is replicated, and begin the generation that waits for that."""
        group.is_being_created = False
        if group.has_waiting_generation and group.state is PREPARING:
            self._complete_join(group)

    # --- the assignment

    def sync_received(self, group: ClassicGroup, member: Member) -> None:
        """Note that a member has sent SyncGroup; the last one cancels the time-out."""
        group.awaited_syncs.discard(member.member_id)
        if not group.awaited_syncs:
            group.cancel_sync_timer()

    def _expire_syncs(self, group: ClassicGroup, generation_id: int) -> None:
        """Remove the members that have not sent SyncGroup in time, and rebalance."""
        group.sync_timer = None
        if generation_id == group.generation_id and group.state in (COMPLETING, STABLE) and group.awaited_syncs:
            for member_id in [*group.awaited_syncs]:
                group.note_departure(member_id, _overdue("SyncGroup", group))
                self.remove(group, member_id)
            self.prepare_rebalance(group, "members did not send SyncGroup in time")

    def assign(self, group: ClassicGroup, assignments: Mapping[str, bytes]) -> None:
        """Store the leader's assignment, then answer every member with its own; a member without one gets empty
        bytes."""
        shares = {member_id: assignments.get(member_id, b"") for member_id in group.members}
        self.writes.start(self._store_assignment(group, group.generation_id, shares))

    async def _store_assignment(self, group: ClassicGroup, generation_id: int, shares: Mapping[str, bytes]) -> None:
        error: KafkaError | None = None
        try:
            await self._writer.write_group(group.group_id, group.stored(shares))
        except Exception as failure:
            error = kafka_error(failure, "storing an assignment")
        if group.state is not COMPLETING or group.generation_id != generation_id:
            return  # the members are joining again already
        if error is not None:
            _note_failure(group, error)
            self._withdraw_assignment(group, error.code)
            self.prepare_rebalance(group, "its assignment could not be stored")
            return
        for member in group.members.values():
            member.assignment = shares.get(member.member_id, b"")
        self._answer_syncs(group, NONE)
        self._move(group, STABLE)
        self.completed += 1

    def _withdraw_assignment(self, group: ClassicGroup, error_code: int) -> None:
        """Empty the assignments of this generation, and answer waiting SyncGroups with an error."""
        for member in group.members.values():
            member.assignment = b""
        self._answer_syncs(group, error_code)

    def _answer_syncs(self, group: ClassicGroup, error_code: int) -> None:
        for member in group.members.values():
            if error_code:
                answer = SyncResult(error_code)
            else:
                answer = SyncResult(NONE, group.protocol_type, group.protocol_name, member.assignment)
            if member.answer_sync(answer):
                self.sessions.extend(member, group)  # its session may have ended while it waited

    # --- life

    def mark_dead(self, group: ClassicGroup, error: type[KafkaError]) -> None:
        """Make a group Dead, because it was removed or is coordinated elsewhere, and answer waiting requests with
        `error`."""
        group.cancel_timers()
        for member in group.members.values():
            group.answer_join(member, refused(error, member.member_id))
            member.answer_sync(SyncResult(error.code))
        self._move(group, DEAD)

    def _move(self, group: ClassicGroup, state: GroupState) -> None:
        group.move_to(state, self._clock.now_ms())
        self._changed(group.group_id)

    def _call_later(self, delay_ms: int, callback: Callback) -> Timer:
        return self._clock.call_later(delay_ms, callback, liveness=True)


def _overdue(api: str, group: ClassicGroup) -> str:
    return f"no {api} within max.poll.interval.ms={group.rebalance_timeout_ms} of a rebalance"


def _note_failure(group: ClassicGroup, error: KafkaError) -> None:
    log.warning("group %s could not be stored: %s", group.group_id, error)


# --- sessions


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
