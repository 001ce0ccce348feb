"""How a group gets from one generation to the next: the part of the coordinator that waits, and that time moves.

A rebalance begins when a member comes, goes, falls silent or changes its mind. It ends when everybody has joined who is
known, or when the most patient member's rebalance time-out is over; dynamic members that did not join are out then.
The new generation's assignment comes from its leader, and holds once it is stored. A member that does not ask for it
within the rebalance time-out is out, too. The rebalance of an empty group lasts `group.initial.rebalance.delay.ms`
instead, and as long again whenever somebody came meanwhile. Members that start together share their first generation
even where that delay is none: who has just been given a member id is about to join with it, and is waited for briefly.

Static members (KIP-345) stay until their session is over, whatever they miss of all this.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Coroutine, Mapping
from functools import partial
from typing import TYPE_CHECKING, Any, Protocol

from ...protocol.errors import NONE, KafkaError, RebalanceInProgress, UnknownMemberId
from ..api.error_mapping import kafka_error
from ..network.peer_log import PeerLog
from ..scheduler import run_now
from .group import Group, refused
from .group_states import COMPLETING, DEAD, EMPTY, PREPARING, STABLE, can_rebalance
from .member import Member, SyncResult

if TYPE_CHECKING:
    from ..clock import Callback, Clock, Timer
    from ..settings.broker_config import BrokerConfig
    from .group_records import GroupMetadata

logger = logging.getLogger("kmini.groups")
log = PeerLog(logger)

NEW_MEMBER_JOIN_TIMEOUT_MS = 300_000
"""How long somebody may wait for their first JoinGroup. They know no member id by which they could send heartbeats, and
if their connection is lost they come again as somebody else."""

ABOUT_TO_JOIN_MS = 20
"""How long an initial rebalance goes on for those who have been given a member id. Kafka's delay of 3 s does not need
this; without it, the second of two that start together would wait for the first one's next heartbeat."""

NOBODY_CAME_PAUSE_MS = 1_000
"""How soon a rebalance to which nobody came may end again; members may allow it no time at all."""


class Writer(Protocol):
    """Where groups are kept: the store, as far as it concerns this module."""

    async def write_group(self, group_id: str, metadata: GroupMetadata) -> None:
        """Return when the group is kept for good. Raises KafkaError, as it is to be answered."""


class Rebalancer:
    """Moves groups from state to state."""

    def __init__(self, config: BrokerConfig, clock: Clock, writer: Writer) -> None:
        self._config = config
        self._clock = clock
        self._writer = writer
        self._working: set[asyncio.Future[None]] = set()
        self.completed = 0
        """How many rebalances ended with an assignment that was stored."""

    # --- sessions

    def hear_of(self, member: Member, group: Group, timeout_ms: int | None = None) -> None:
        """A member is alive: it is given up only when nothing is heard of it for its session time-out from now on.

        This happens with every heartbeat, so it moves a deadline, and leaves the timer alone that will look at it.
        """
        deadline_ms = self._clock.liveness_ms() + (member.session_timeout_ms if timeout_ms is None else timeout_ms)
        member.deadline_ms = deadline_ms
        timer = member.timer
        if timer is None or timer.due_ms > deadline_ms:
            member.forget_timer()
            self._watch(member, group)

    def _watch(self, member: Member, group: Group) -> None:
        remaining_ms = max(member.deadline_ms - self._clock.liveness_ms(), 0)
        member.timer = self._later(remaining_ms, partial(self._look_after, member, group))

    def _look_after(self, member: Member, group: Group) -> None:
        """The timer of a member has fired: if its deadline has not moved meanwhile, it is gone."""
        member.timer = None
        if member.deadline_ms > self._clock.liveness_ms():
            self._watch(member, group)
        elif not member.is_excused:  # one that is gets a new deadline with the answer that it waits for
            log.info(
                "group %s: no sign of life of %s in %d ms", group.group_id, member.member_id, member.session_timeout_ms
            )
            self.drop(group, member)

    def reserve_id(self, group: Group, member_id: str, timeout_ms: int) -> None:
        """Wait for somebody to join with a member id that was given out; a rebalance waits with us."""
        group.reserved_ids[member_id] = self._later(timeout_ms, partial(self.drop_reserved, group, member_id))

    def drop_reserved(self, group: Group, member_id: str) -> None:
        """Nobody will join with this member id."""
        group.remove(member_id)
        if group.state is PREPARING and group.all_have_joined:
            self._complete_join(group)

    def drop(self, group: Group, member: Member) -> None:
        """Let a member go that fell silent, and have the others share what it had."""
        self.remove(group, member.member_id)
        if can_rebalance(group.state) and group.state is not EMPTY:
            self.begin(group, "a member fell silent")
        elif group.state is PREPARING and group.all_have_joined:
            self._complete_join(group)

    def remove(self, group: Group, member_id: str) -> None:
        """Let a member go; who waits under its id is told that it is no member."""
        member = group.members.get(member_id)
        if member is not None:
            group.answer_join(member, refused(UnknownMemberId))
            member.answer_sync(SyncResult(UnknownMemberId.code))
        group.remove(member_id)

    # --- joining

    def begin_or_go_on(self, group: Group, reason: str) -> None:
        """Somebody joined, left or changed: rebalance, or see whether the rebalance under way can end."""
        if can_rebalance(group.state):
            self.begin(group, reason)
        else:
            self.go_on(group)

    def go_on(self, group: Group) -> None:
        """End the joining if it waits for nobody any more. An initial rebalance waits for its time."""
        waits_for_time = group.is_initial_rebalance and not group.awaits_reserved_ids
        if group.state is PREPARING and not waits_for_time and group.all_have_joined:
            self._complete_join(group)

    def begin(self, group: Group, reason: str) -> None:
        """Ask all members to join again."""
        if group.state is COMPLETING:
            self._withdraw_assignment(group, RebalanceInProgress.code)
        group.awaited_syncs.clear()
        group.forget_sync_timer()
        group.is_initial_rebalance = group.is_empty
        group.move_to(PREPARING, self._clock.now_ms())
        log.info("group %s: rebalancing after generation %d: %s", group.group_id, group.generation_id, reason)
        if group.is_initial_rebalance:
            delay_ms = self._config.group_initial_rebalance_delay_ms
            self._extend_initial(group, delay_ms, max(group.rebalance_timeout_ms - delay_ms, 0))
        elif group.all_have_joined:
            self._complete_join(group)
        else:
            self._await_joins(group)

    def _await_joins(self, group: Group, at_least_ms: int = 0) -> None:
        group.forget_join_timer()
        timeout_ms = max(group.rebalance_timeout_ms, at_least_ms)
        group.join_timer = self._later(timeout_ms, partial(self._complete_join, group))

    def _extend_initial(self, group: Group, delay_ms: int, remaining_ms: int) -> None:
        group.forget_join_timer()
        group.join_timer = self._later(delay_ms, partial(self._initial_delay_over, group, delay_ms, remaining_ms))

    def _initial_delay_over(self, group: Group, delay_ms: int, remaining_ms: int) -> None:
        """Wait once more if somebody came during the delay, or is about to, and the rebalance time-out allows it."""
        if group.has_new_member and remaining_ms:
            group.has_new_member = False
            next_ms = min(self._config.group_initial_rebalance_delay_ms, remaining_ms)
            self._extend_initial(group, next_ms, max(remaining_ms - delay_ms, 0))
        elif group.reserved_ids and remaining_ms and delay_ms < ABOUT_TO_JOIN_MS:
            group.awaits_reserved_ids = True
            self._extend_initial(group, min(ABOUT_TO_JOIN_MS, remaining_ms), max(remaining_ms - delay_ms, 0))
        else:
            self._complete_join(group)

    def _complete_join(self, group: Group) -> None:
        """Begin the next generation with the members that have joined, and with static members. That of a new group
        begins once the group is replicated."""
        group.forget_join_timer()
        if group.is_being_created:
            group.has_waiting_generation = True
            return
        for member in [*group.members.values()]:
            if not (member.has_joined or member.is_static):
                group.remove(member.member_id)
        if group.members and not group.elect_leader():
            # static members only, and none of them came: once more, until their sessions are over
            self._await_joins(group, at_least_ms=NOBODY_CAME_PAUSE_MS)
            return
        group.next_generation(self._clock.now_ms())
        log.info("group %s: generation %d has %d members", group.group_id, group.generation_id, len(group.members))
        if group.is_empty:
            self.do(self._store_empty(group))
            return
        for member in group.members.values():
            group.answer_join(member, group.welcome(member))
            self.hear_of(member, group)
            member.is_new = False
            group.awaited_syncs.add(member.member_id)
        overdue = partial(self._syncs_overdue, group, group.generation_id)
        group.sync_timer = self._later(group.rebalance_timeout_ms, overdue)

    async def _store_empty(self, group: Group) -> None:
        try:
            await self._writer.write_group(group.group_id, group.stored({}))
        except Exception as error:  # the generation before is in the log, and nobody is left to be in it
            _note_failure(group, kafka_error(error, "storing an empty group"))

    def created(self, group: Group) -> None:
        """The first record of a group is replicated: begin the generation that waits for that."""
        group.is_being_created = False
        if group.has_waiting_generation and group.state is PREPARING:
            self._complete_join(group)

    # --- the assignment

    def heard_sync(self, group: Group, member: Member) -> None:
        """A member has asked for its assignment; the time-out for that ends with the last one."""
        group.awaited_syncs.discard(member.member_id)
        if not group.awaited_syncs:
            group.forget_sync_timer()

    def _syncs_overdue(self, group: Group, generation_id: int) -> None:
        """Let those go that never asked for their assignment."""
        group.sync_timer = None
        if generation_id == group.generation_id and group.state in (COMPLETING, STABLE) and group.awaited_syncs:
            for member_id in [*group.awaited_syncs]:
                self.remove(group, member_id)
            self.begin(group, "members did not ask for their assignment")

    def assign(self, group: Group, assignments: Mapping[str, bytes]) -> None:
        """Store the leader's assignment, and then give every member its own; who was left out gets nothing."""
        shares = {member_id: assignments.get(member_id, b"") for member_id in group.members}
        self.do(self._store_assignment(group, group.generation_id, shares))

    async def _store_assignment(self, group: Group, generation_id: int, shares: Mapping[str, bytes]) -> None:
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
            self.begin(group, "its assignment could not be stored")
            return
        for member in group.members.values():
            member.assignment = shares.get(member.member_id, b"")
        self._answer_syncs(group, NONE)
        group.move_to(STABLE, self._clock.now_ms())
        self.completed += 1

    def _withdraw_assignment(self, group: Group, error_code: int) -> None:
        """Nobody gets anything in this generation."""
        for member in group.members.values():
            member.assignment = b""
        self._answer_syncs(group, error_code)

    def _answer_syncs(self, group: Group, error_code: int) -> None:
        for member in group.members.values():
            if error_code:
                answer = SyncResult(error_code)
            else:
                answer = SyncResult(NONE, group.protocol_type, group.protocol_name, member.assignment)
            if member.answer_sync(answer):
                self.hear_of(member, group)  # its session may have ended while it was excused

    # --- life

    def kill(self, group: Group, error: type[KafkaError]) -> None:
        """The group is not here any more: whoever waits is told, and nothing more happens to it."""
        group.forget_timers()
        for member in group.members.values():
            group.answer_join(member, refused(error, member.member_id))
            member.answer_sync(SyncResult(error.code))
        group.move_to(DEAD, self._clock.now_ms())

    def _later(self, delay_ms: int, callback: Callback) -> Timer:
        return self._clock.call_later(delay_ms, callback, liveness=True)

    def do(self, work: Coroutine[Any, Any, None]) -> None:
        """Begin to write now: what is written is what is the case now. Most writes end as they begin."""
        task = run_now(work)
        self._working.add(task)
        if task.done():
            self._done(task)
        else:
            task.add_done_callback(self._done)

    def _done(self, task: asyncio.Future[None]) -> None:
        self._working.discard(task)
        if not task.cancelled() and (error := task.exception()) is not None:
            logger.error("keeping a group failed", exc_info=error)

    async def settle(self) -> None:
        """Return when nothing is being written any more."""
        while self._working:
            await asyncio.wait(self._working)


def _note_failure(group: Group, error: KafkaError) -> None:
    log.warning("group %s could not be stored: %s", group.group_id, error)
