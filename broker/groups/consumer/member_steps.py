"""One step of a member, whichever protocol it speaks, towards its target assignment (KIP-848).

1. What the member tells of itself is noted.
2. The group gets another epoch if a subscription or a topic that it uses has changed.
3. The target assignment of all members is computed if it is older than the group epoch, and
   `consumer.assignment.interval.ms` have passed since the last one; else the last one stays in use.
4. The member gets one step closer to its target (`reconciliation.py`).
"""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Collection, Generator, Iterator, Mapping
from functools import partial
from typing import TYPE_CHECKING, NamedTuple

from ...network.peer_log import PeerLog
from ..modern.topic_catalog import Catalog
from .assignors import ASSIGNORS, Subscriber
from .consumer_group import ConsumerGroup
from .members import CurrentAssignment, Membership, Owned
from .reconciliation import Aim, reconcile
from .state_changes import (
    AssignmentEpoch,
    Change,
    CurrentChange,
    ExpressionChange,
    GroupEpoch,
    MembershipChange,
    TargetChange,
)

if TYPE_CHECKING:
    from .life import ConsumerGroupLife
    from .regex_resolution import Expressions

log = PeerLog(logging.getLogger("kmini.groups"))


class Moving(NamedTuple):
    """A member that takes a step."""

    known: Membership | None
    """The member before; None if it is new."""
    member: Membership
    """The member, with what it tells of itself."""
    current: CurrentAssignment
    """What it has."""
    owned: Owned | None
    """What it reports that it owns; None if it reports nothing."""
    former_id: str
    """Its member id before: another one for a static member that has come back."""

    @property
    def replaced(self) -> Mapping[str, str]:
        """The former id by the present one, if they differ."""
        member_id = self.member.member_id
        return {} if member_id == self.former_id else {member_id: self.former_id}


class Moved(NamedTuple):
    """The outcome of a step."""

    current: CurrentAssignment
    is_other: bool
    """Whether its partitions are others than before."""


class MemberSteps:
    """The steps of all members. Belongs to the broker's loop."""

    def __init__(self, life: ConsumerGroupLife, expressions: Expressions) -> None:
        self._life = life
        self._expressions = expressions
        self.rebalances = 0
        """How often a group epoch was raised by subscriptions or topics."""

    async def take(self, group: ConsumerGroup, moving: Moving, changes: list[Change]) -> Moved:
        """Take a step, and add what changes to `changes`. In between, other groups may have turns of the loop. Raises
        InvalidRegularExpression, FencedMemberEpoch."""
        known, member, former_id = moving.known, moving.member, moving.former_id
        bumps = self._update(group, known, member, changes)
        settings = self._life.settings(group.group_id)
        members = {id_: each for id_, each in group.memberships.items() if id_ != former_id}
        members[member.member_id] = member
        epoch = self._next_epoch(group, members, bumps, changes)
        target: Mapping[bytes, Collection[int]] = group.targets.get(former_id, {})
        target_epoch = group.assignment_epoch
        now_ms = self._life.clock.now_ms()
        if target_epoch < epoch and self._may_assign(group, settings.consumer_assignment_interval_ms, now_ms):
            computed = await self._life.turns.run(
                group.group_id,
                compute_target(
                    group,
                    members,
                    moving.replaced,
                    member.member_id,
                    self._assignor(members),
                    self._life.catalog,
                    now_ms,
                    epoch,
                ),
            )
            changes += computed.changes
            target, target_epoch = computed.of_member, epoch
        aim = Aim(
            target_epoch,
            target,
            self._life.catalog.ids(group.topic_names_of(member)),
            known is not None and known.subscription != member.subscription,
            partial(group.is_free, former_id),
        )
        following = reconcile(moving.current, aim, moving.owned)
        if following != moving.current:
            changes.append(CurrentChange(member.member_id, following))
        return Moved(following, _numbers(following) != _numbers(moving.current))

    def _next_epoch(
        self, group: ConsumerGroup, members: Mapping[str, Membership], bumps: bool, changes: list[Change]
    ) -> int:
        """The group epoch: another one if a subscription or a topic has changed."""
        version = self._life.catalog.version
        if not bumps and group.metadata_version == version:
            return group.epoch
        metadata_hash = self._life.metadata_hash(group, members.values())
        if not bumps and metadata_hash == group.metadata_hash:
            group.metadata_version = version
            return group.epoch
        changes.append(GroupEpoch(group.epoch + 1, metadata_hash, version))
        self.rebalances += 1
        log.info("group %s: epoch %d: subscriptions or topics have changed", group.group_id, group.epoch + 1)
        return group.epoch + 1

    def _may_assign(self, group: ConsumerGroup, interval_ms: int, now_ms: int) -> bool:
        """Whether the last target is old enough. One of the future was computed before the clock was turned back."""
        return not 0 <= now_ms - group.assigned_at_ms < interval_ms

    def _assignor(self, members: Mapping[str, Membership]) -> str:
        """The assignor that most of these members name, if it is still offered; else the first one that is."""
        votes = Counter(member.assignor for member in members.values() if member.assignor)
        offered = self._life.config.group_consumer_assignors
        preferred = max(votes, key=votes.__getitem__, default=offered[0])
        return preferred if preferred in offered else offered[0]

    def _update(
        self, group: ConsumerGroup, known: Membership | None, member: Membership, changes: list[Change]
    ) -> bool:
        """Note what a member has told of itself; return whether the group needs another epoch for it. Raises
        InvalidRegularExpression."""
        if member == known:
            return False
        changes.append(MembershipChange(member.member_id, member))
        was = (set(), "") if known is None else (set(known.topic_names), known.topic_regex)
        bumps = set(member.topic_names) != was[0]
        if member.topic_regex != was[1]:
            if member.topic_regex and member.topic_regex not in group.expressions:
                self._expressions.check(member.topic_regex)
            else:
                bumps = True
            if known is not None and group.expression_subscribers[was[1]] == 1 and was[1] in group.expressions:
                changes.append(ExpressionChange(was[1], None))
        return bumps


def _numbers(current: CurrentAssignment) -> dict[bytes, frozenset[int]]:
    return {topic_id: frozenset(each) for topic_id, each in current.assigned.items() if each}


# --- target assignments


Steps = Generator[None, None, "NewTarget"]


class NewTarget(NamedTuple):
    """A target assignment that was computed, as changes of the group."""

    changes: list[Change]
    of_member: Mapping[bytes, tuple[int, ...]]
    """The target of the member that the computation is for."""


def is_homogeneous(members: Mapping[str, Membership]) -> bool:
    """Whether all members subscribe to the same topics: to the same names, or all to one expression and to no names."""
    regexes = {member.topic_regex for member in members.values()}
    names = {frozenset(member.topic_names) for member in members.values()}
    if regexes <= {""}:
        return len(names) <= 1
    return len(regexes) == 1 and names <= {frozenset()}


def compute_target(
    group: ConsumerGroup,
    members: Mapping[str, Membership],
    replaced: Mapping[str, str],
    member_id: str,
    assignor: str,
    catalog: Catalog,
    now_ms: int,
    epoch: int,
) -> Steps:
    """Compute the target assignment of these members at this epoch, in short steps. `replaced` has the former ids of
    static members that came back with another id."""
    topic_ids: dict[tuple[tuple[str, ...], str], frozenset[bytes]] = {}
    subscribers: dict[str, Subscriber] = {}
    for each_id, member in members.items():
        topics = topic_ids.get(member.subscription)
        if topics is None:
            topics = topic_ids[member.subscription] = catalog.ids(group.topic_names_of(member))
            yield
        present = group.targets.get(replaced.get(each_id, each_id), {})
        subscribers[each_id] = Subscriber(member.instance_id, member.rack_id, topics, present)
    counts = {topic_id: catalog.partition_count(topic_id) for topics in topic_ids.values() for topic_id in topics}
    target = yield from ASSIGNORS[assignor](subscribers, counts, is_homogeneous(members))
    changes: list[Change] = [*_changed(group, target), AssignmentEpoch(epoch, now_ms)]
    return NewTarget(changes, target.get(member_id, {}))


def _changed(group: ConsumerGroup, target: Mapping[str, Mapping[bytes, tuple[int, ...]]]) -> Iterator[Change]:
    """The targets that differ. A static member that came back with another id has none yet, as in Kafka."""
    for member_id, partitions in target.items():
        present = group.targets.get(member_id)
        if present is None or _as_sets(present) != _as_sets(partitions):
            yield TargetChange(member_id, partitions)


def _as_sets(partitions: Mapping[bytes, object]) -> dict[bytes, frozenset[int]]:
    return {topic_id: frozenset(each) for topic_id, each in partitions.items() if each}  # type: ignore[call-overload]
