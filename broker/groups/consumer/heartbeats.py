"""Heartbeats of consumer groups: one request joins, leaves, reports and learns (KIP-848).

A member takes one step with each (`member_steps.py`); what changes is appended as one batch, and the answer waits for
it to be replicated. Other requests of the group wait while the target of a large one is computed (`group_life.py`).
"""

from __future__ import annotations

from typing import NamedTuple

from ....protocol.errors import CoordinatorNotAvailable, GroupIdNotFound, GroupMaxSizeReached
from ....protocol.uuids import format_uuid, random_uuid
from ..classic.classic_group import ClassicGroup
from ..group import Group
from .consumer_group import ConsumerGroup
from .heartbeat_fencing import identify, member_of, take_place
from .heartbeat_fields import UNCHANGED_MS, Beat, BeatAnswer, check_fields
from .life import ConsumerGroupLife
from .member_steps import MemberSteps, Moving
from .members import JOINS, LEAVES, LEAVES_FOR_A_WHILE, NEW, Membership
from .regex_resolution import Expressions, MayDescribe
from .state_changes import Change, CurrentChange
from .upgrade import conversion


class _Found(NamedTuple):
    """The group of a heartbeat."""

    group: ConsumerGroup
    present: Group | None
    """What the coordinator has by this name: this group, a classic one in whose place it comes, or none."""
    present_as: object = None
    """The members of that classic group, to be compared."""
    conversion: tuple[Change, ...] = ()
    """The changes that made a consumer group of that classic one; they are not written yet."""


class Heartbeats:
    """Serves the members of consumer groups. Belongs to the broker's loop."""

    def __init__(self, life: ConsumerGroupLife, steps: MemberSteps, expressions: Expressions) -> None:
        self._life = life
        self._steps = steps
        self._expressions = expressions

    async def heartbeat(self, beat: Beat, may_describe: MayDescribe) -> BeatAnswer:
        """Serve a heartbeat; `may_describe` says whether its client may describe a topic. Raises KafkaError."""
        life = self._life
        check_fields(beat, life.config.group_consumer_assignors)
        await life.turns.free(beat.group_id)
        life.store.check(beat.group_id)
        found = self._find(beat)
        group = found.group
        if beat.is_leaving:
            return await self._leave(group, beat)
        changes: list[Change] = []
        answer = await self._beat(group, beat, changes)
        if not self._is_still(found):
            return await self.heartbeat(beat, may_describe)
        stored = life.write(group, changes, before=found.conversion)
        if found.conversion and life.groups.get(group.group_id) is group:
            life.loaded(group)
        life.extend_session(group, answer.member_id)
        await stored
        if group.expression_subscribers:
            self._expressions.heartbeat_came(group, may_describe)
        return answer

    # --- the group

    def _find(self, beat: Beat) -> _Found:
        """The group of a heartbeat, which may be a new one. Raises GroupIdNotFound, and CoordinatorNotAvailable while a
        group is being deleted: the member tries again."""
        present = self._life.groups.get(beat.group_id)
        if present is not None and present.is_removed:
            raise CoordinatorNotAvailable(f"group {beat.group_id} is being deleted")
        if isinstance(present, ConsumerGroup):
            return _Found(present, present)
        if beat.member_epoch == JOINS:
            if present is None:
                return _Found(self._life.new(beat.group_id), None)
            if isinstance(present, ClassicGroup):
                return self._in_place_of(present)
        raise GroupIdNotFound(f"there is no consumer group {beat.group_id}")

    def _in_place_of(self, classic: ClassicGroup) -> _Found:
        """A new consumer group in place of a classic one, with its offsets and its members. Raises GroupIdNotFound if
        that cannot be."""
        config = self._life.config
        group = self._life.new(classic.group_id)
        group.take_place_of(classic)
        changes: list[Change] = []
        if not classic.is_empty:
            changes = conversion(classic, config.migration_policy, config.group_consumer_max_size, self._life.catalog)
        for change in changes:
            change.apply(group)
        return _Found(group, classic, _members_of(classic), tuple(changes))

    def _is_still(self, found: _Found) -> bool:
        """Whether nothing has happened to the group while its target was computed: requests of the classic protocol and
        of administrators do not wait for that."""
        present = self._life.groups.get(found.group.group_id)
        if present is not found.present or (present is not None and present.is_removed):
            return False
        return not isinstance(present, ClassicGroup) or _members_of(present) == found.present_as

    # --- joining and staying

    async def _beat(self, group: ConsumerGroup, beat: Beat, changes: list[Change]) -> BeatAnswer:
        """The answer to a heartbeat; what changes is added to `changes`."""
        if (
            len(group.memberships) >= self._life.config.group_consumer_max_size
            and beat.member_id not in group.memberships
        ):
            raise GroupMaxSizeReached(f"the group has {len(group.memberships)} members, and may not have more")
        known = identify(group, beat)
        moving = self._moving(group, beat, known, changes)
        moved = await self._steps.take(group, moving, changes)
        member_id, epoch = moving.member.member_id, moved.current.epoch
        interval_ms = self._life.settings(group.group_id).consumer_heartbeat_interval_ms
        assignment = moved.current.assigned if beat.is_full or moved.is_other else None
        return BeatAnswer(member_id, epoch, interval_ms, assignment)

    def _moving(self, group: ConsumerGroup, beat: Beat, known: Membership | None, changes: list[Change]) -> Moving:
        """The member that sends the heartbeat; a static one that has come back with another id takes its place."""
        if known is None:
            member = _updated(None, beat.member_id or format_uuid(random_uuid()), beat)
            return Moving(None, member, NEW, beat.owned, member.member_id)
        if beat.member_epoch == JOINS and beat.instance_id is not None and beat.instance_id == known.instance_id:
            successor, current = take_place(group, known, beat.member_id, changes)
            return Moving(successor, _updated(successor, beat.member_id, beat), current, beat.owned, known.member_id)
        current = group.current(known.member_id)
        return Moving(known, _updated(known, known.member_id, beat), current, beat.owned, known.member_id)

    # --- leaving

    async def _leave(self, group: ConsumerGroup, beat: Beat) -> BeatAnswer:
        member = member_of(group, beat.member_id, beat.instance_id)
        if beat.member_epoch == LEAVES:
            await self._life.removing(group, {member.member_id: "it left"}, is_expelled=False)
        else:
            current = group.current(member.member_id)
            assigned = {topic_id: dict.fromkeys(each, 0) for topic_id, each in current.assigned.items()}
            away = current._replace(epoch=LEAVES_FOR_A_WHILE, assigned=assigned, revoking={})
            await self._life.write(group, [CurrentChange(member.member_id, away)])
        return BeatAnswer(member.member_id, beat.member_epoch)


def _members_of(group: ClassicGroup) -> object:
    """What an upgrade takes from a classic group, to be compared."""
    members = [(member.member_id, member.protocols, member.assignment) for member in group.members.values()]
    return group.state, group.generation_id, members


def _updated(known: Membership | None, member_id: str, beat: Beat) -> Membership:
    """The member with what its heartbeat tells."""
    member = known or Membership(member_id, None, None, "", "", 0)
    return member._replace(
        instance_id=member.instance_id if beat.instance_id is None else beat.instance_id,
        rack_id=member.rack_id if beat.rack_id is None else beat.rack_id,
        client_id=beat.client_id,
        client_host=beat.client_host,
        rebalance_timeout_ms=(
            member.rebalance_timeout_ms if beat.rebalance_timeout_ms == UNCHANGED_MS else beat.rebalance_timeout_ms
        ),
        topic_names=member.topic_names if beat.topic_names is None else tuple(sorted({*beat.topic_names})),
        topic_regex=member.topic_regex if beat.topic_regex is None else beat.topic_regex,
        assignor=member.assignor if beat.assignor is None else beat.assignor,
        classic=None,
    )
