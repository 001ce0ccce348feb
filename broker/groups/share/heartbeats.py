"""Heartbeats of share groups: one request joins, leaves, tells topics and learns partitions (KIP-932).

1. What the member tells of itself is noted.
2. The group gets another epoch if a subscription, or a topic that it reads, has changed, or if there are partitions
   that can be assigned now and are not.
3. The target of all members is computed if it is older than the group epoch, and `share.assignment.interval.ms` have
   passed since the last one; else the last one stays in use.
4. The member moves to its target at once: no other member has to give up a partition first.
5. States of partitions that are read for the first time are noted, to be initialized after the answer
   (`partition_states.py`).

What changes is appended as one batch, and the answer waits for it to be replicated.

| member   | epoch 0                               | another epoch                                              |
|----------|---------------------------------------|------------------------------------------------------------|
| known    | joins again, goes on from what it has | its own, or the one before; else FENCED_MEMBER_EPOCH       |
| unknown  | new                                   | UNKNOWN_MEMBER_ID                                          |
"""

from __future__ import annotations

import logging
from collections.abc import Collection, Generator, Iterator, Mapping
from typing import NamedTuple

from ....protocol.errors import (
    CoordinatorNotAvailable,
    FencedMemberEpoch,
    GroupIdNotFound,
    GroupMaxSizeReached,
    InvalidRequest,
    UnknownMemberId,
)
from ...coordinators.coordinator_topic import MAX_NAME_BYTES
from ...network.peer_log import PeerLog
from ..consumer.members import JOINS, LEAVES
from ..modern.changes import Change
from .life import ShareGroupLife
from .partition_states import StatesOfPartitions
from .share_group import NO_PARTITIONS, Partitions, ShareAssignment, ShareGroup, ShareMembership
from .simple_assignor import Subscriber, assign
from .state_changes import AssignmentEpoch, CurrentChange, GroupEpoch, MembershipChange, StatesChange, TargetChange

log = PeerLog(logging.getLogger("kmini.groups"))

MAX_MEMBER_ID = 36
"""Characters of a member id: as many as a UUID's text has."""

Changes = list["Change[ShareGroup]"]


class ShareBeat(NamedTuple):
    """A heartbeat of a member; None for what has not changed."""

    group_id: str
    member_id: str
    member_epoch: int
    rack_id: str | None
    topic_names: Collection[str] | None
    client_id: str
    client_host: str
    """With a slash in front, as Java shows addresses."""


class ShareAnswer(NamedTuple):
    """The answer to a heartbeat."""

    member_id: str
    member_epoch: int
    heartbeat_interval_ms: int = 0
    assigned: Partitions | None = None
    """None if it has not changed."""


class _Target(NamedTuple):
    """The target of a member."""

    epoch: int
    partitions: Partitions


def check_fields(beat: ShareBeat) -> None:
    """Check what needs no group, in Kafka's order. Raises InvalidRequest."""
    for name, value in (("MemberId", beat.member_id), ("GroupId", beat.group_id), ("RackId", beat.rack_id)):
        if value is not None and not value.strip():
            raise InvalidRequest(f"{name} must not be blank")
    if beat.member_epoch == JOINS and not beat.topic_names:
        raise InvalidRequest("a member that joins subscribes to topics")
    if beat.member_epoch < LEAVES:
        raise InvalidRequest(f"a member epoch is {LEAVES} or more, not {beat.member_epoch}")
    if len((beat.rack_id or "").encode()) > MAX_NAME_BYTES:
        raise InvalidRequest(f"a name has at most {MAX_NAME_BYTES} bytes, because a record has room for no more")


class ShareHeartbeats:
    """Serves the members of share groups. Belongs to the broker's loop."""

    def __init__(self, life: ShareGroupLife, states: StatesOfPartitions) -> None:
        self._life = life
        self._states = states
        self.rebalances = 0
        """How often a group epoch was raised by subscriptions, topics or initialized states."""

    async def heartbeat(self, beat: ShareBeat) -> ShareAnswer:
        """Serve a heartbeat. Raises KafkaError."""
        life = self._life
        check_fields(beat)
        await life.turns.free(beat.group_id)
        life.store.check(beat.group_id)
        group = self._find(beat)
        known = group.memberships.get(beat.member_id)
        if known is None and beat.member_epoch != JOINS:
            raise UnknownMemberId(f"group {group.group_id} has no member {beat.member_id}")
        if beat.member_epoch == LEAVES:
            await life.removing(group, {beat.member_id: "it left"}, is_expelled=False)
            return ShareAnswer(beat.member_id, beat.member_epoch)
        before = group.current(beat.member_id)
        _check_epoch(before, beat.member_epoch)
        changes: Changes = []
        present = life.groups.get(group.group_id)
        current = await self._step(group, known, _updated(known, beat), changes)
        if life.groups.get(group.group_id) is not present or group.is_removed:
            return await self.heartbeat(beat)  # the group has come or gone meanwhile
        states = self._states.to_initialize(group, changes)
        if states is not None:
            changes.append(StatesChange(states.after))
        stored = life.write(group, changes)
        life.extend_session(group, beat.member_id)
        await stored
        if states is not None:
            self._states.initialize(group, states)
        is_told = beat.member_epoch == JOINS or beat.topic_names is not None or current.assigned != before.assigned
        interval_ms = life.settings(group.group_id).share_heartbeat_interval_ms
        return ShareAnswer(beat.member_id, current.epoch, interval_ms, current.assigned if is_told else None)

    def _find(self, beat: ShareBeat) -> ShareGroup:
        """The group of a heartbeat, which may be a new one. Raises GroupIdNotFound, GroupMaxSizeReached, and
        CoordinatorNotAvailable while a group is being deleted: the member tries again."""
        present = self._life.groups.get(beat.group_id)
        if present is None and beat.member_epoch == JOINS:
            return self._life.new(beat.group_id)
        if present is not None and present.is_removed:
            raise CoordinatorNotAvailable(f"group {beat.group_id} is being deleted")
        if not isinstance(present, ShareGroup):
            raise GroupIdNotFound(f"there is no share group {beat.group_id}")
        is_full = len(present.memberships) >= self._life.config.group_share_max_size
        if is_full and beat.member_id not in present.memberships and beat.member_epoch != LEAVES:
            raise GroupMaxSizeReached(f"the group has {len(present.memberships)} members, and may not have more")
        return present

    # --- one step of a member

    async def _step(
        self, group: ShareGroup, known: ShareMembership | None, member: ShareMembership, changes: Changes
    ) -> ShareAssignment:
        """Take a step, and add what changes to `changes`; return what the member has then. In between, other groups may
        have turns of the loop."""
        if member != known:
            changes.append(MembershipChange(member.member_id, member))
        members = {**group.memberships, member.member_id: member}
        is_new_subscription = known is None or known.topic_names != member.topic_names
        epoch = self._next_epoch(group, members, is_new_subscription, changes)
        target = await self._target(group, members, member.member_id, epoch, changes)
        current = group.current(member.member_id)
        if current.epoch == target.epoch and epoch == group.epoch:
            return current
        topic_ids = self._life.catalog.ids(member.topic_names)
        assigned = {topic_id: each for topic_id, each in target.partitions.items() if topic_id in topic_ids}
        following = current._replace(assigned=assigned)
        if current.epoch != target.epoch:
            following = ShareAssignment(target.epoch, current.epoch, assigned)
        if following != current:
            changes.append(CurrentChange(member.member_id, following))
        return following

    def _next_epoch(
        self, group: ShareGroup, members: Mapping[str, ShareMembership], is_due: bool, changes: Changes
    ) -> int:
        """The group epoch: another one if it is due, or if a topic has changed."""
        life = self._life
        is_due = is_due or (group.epoch <= group.assignment_epoch and _lacks_partitions(group))
        version = life.catalog.version
        if not is_due and group.metadata_version == version:
            return group.epoch
        metadata_hash = life.metadata_hash(group, members.values())
        if not is_due and metadata_hash == group.metadata_hash:
            group.metadata_version = version
            return group.epoch
        changes.append(GroupEpoch(group.epoch + 1, metadata_hash, version))
        self.rebalances += 1
        log.info("group %s: epoch %d: topics or their partitions have changed", group.group_id, group.epoch + 1)
        return group.epoch + 1

    async def _target(
        self,
        group: ShareGroup,
        members: Mapping[str, ShareMembership],
        member_id: str,
        epoch: int,
        changes: Changes,
    ) -> _Target:
        """The target of the member: a new one if it is due, else the last one."""
        interval_ms = self._life.settings(group.group_id).share_assignment_interval_ms
        now_ms = self._life.clock.now_ms()
        is_young = 0 <= now_ms - group.assigned_at_ms < interval_ms
        if group.assignment_epoch >= epoch or is_young:
            return _Target(group.assignment_epoch, group.targets.get(member_id, NO_PARTITIONS))
        computed = await self._life.turns.run(group.group_id, self._compute(group, members))
        changes += _changed(group, computed)
        changes.append(AssignmentEpoch(epoch, now_ms))
        return _Target(epoch, computed[member_id])

    def _compute(
        self, group: ShareGroup, members: Mapping[str, ShareMembership]
    ) -> Generator[None, None, Mapping[str, Partitions]]:
        """Compute the targets of these members, in short steps."""
        ids_of = {names: self._life.catalog.ids(names) for names in {each.topic_names for each in members.values()}}
        subscribers = {
            member_id: Subscriber(ids_of[member.topic_names], group.targets.get(member_id, NO_PARTITIONS))
            for member_id, member in members.items()
        }
        target = yield from assign(subscribers, group.partition_states.assignable)
        return target


def _check_epoch(current: ShareAssignment, epoch: int) -> None:
    if epoch == JOINS:
        return
    if epoch > current.epoch or (epoch < current.epoch and epoch != current.previous_epoch):
        raise FencedMemberEpoch(f"the member epoch is {current.epoch}, not {epoch}: join again")


def _updated(known: ShareMembership | None, beat: ShareBeat) -> ShareMembership:
    """The member with what its heartbeat tells."""
    member = known or ShareMembership(beat.member_id, None, "", "", frozenset())
    return member._replace(
        rack_id=member.rack_id if beat.rack_id is None else beat.rack_id,
        client_id=beat.client_id,
        client_host=beat.client_host,
        topic_names=member.topic_names if beat.topic_names is None else frozenset(beat.topic_names),
    )


def _lacks_partitions(group: ShareGroup) -> bool:
    """Whether a topic that the group reads has partitions that can be assigned and are not. As in Kafka, a group whose
    first member joins has none."""
    if not group.memberships:
        return False
    assigned: dict[bytes, set[int]] = {}
    for target in group.targets.values():
        for topic_id, partitions in target.items():
            assigned.setdefault(topic_id, set()).update(partitions)
    subscribed = group.subscribed_topics()
    return any(
        topic.name in subscribed and assigned.get(topic_id, set()) != set(topic.partitions)
        for topic_id, topic in group.partition_states.initialized.items()
    )


def _changed(group: ShareGroup, target: Mapping[str, Partitions]) -> Iterator[Change[ShareGroup]]:
    for member_id, partitions in target.items():
        if group.targets.get(member_id) != partitions:
            yield TargetChange(member_id, partitions)
