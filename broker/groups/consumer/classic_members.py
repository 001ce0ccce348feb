"""Members of the classic protocol in a consumer group (a mixed group): their requests, in Kafka's order of checks.

Such a member takes the same steps as one of the consumer protocol (`member_steps.py`). JoinGroup is its heartbeat: it
tells what it subscribes to and owns. The member epoch is its generation, SyncGroup gives it its partitions, and
Heartbeat asks it to join again while it is not where it is to be. There is no leader: the coordinator assigns.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING

from ....protocol.consumer_protocol import PROTOCOL_TYPE, ConsumerProtocolSubscription, read_subscription
from ....protocol.errors import (
    NONE,
    FencedInstanceId,
    GroupMaxSizeReached,
    IllegalGeneration,
    InconsistentGroupProtocol,
    KafkaError,
    MalformedMessage,
    MemberIdRequired,
    RebalanceInProgress,
    UnknownMemberId,
    UnknownServerError,
)
from ....protocol.uuids import format_uuid, random_uuid
from ..classic.joins import Refused
from ..classic.member import JoinResult, SyncResult
from ..modern.timers import Wait
from .downgrade import assignment_bytes, may_downgrade
from .heartbeat_fencing import check_classic, take_place
from .member_steps import Moving
from .members import ClassicMetadata, CurrentAssignment, Membership, MemberState, Owned
from .reconciliation import Aim, reconcile
from .state_changes import Change

if TYPE_CHECKING:
    from ..classic.classic_groups import Syncing
    from ..classic.member import Joining, Leaving
    from .consumer_group import ConsumerGroup
    from .life import ConsumerGroupLife
    from .member_steps import MemberSteps

DISABLED = "disabled"
"""The value of `group.consumer.migration.policy` that keeps members of the classic protocol out."""


class ClassicMembers:
    """Serves the members of mixed groups that speak the classic protocol. Belongs to the broker's loop."""

    def __init__(self, life: ConsumerGroupLife, steps: MemberSteps) -> None:
        self._life = life
        self._steps = steps

    # --- JoinGroup

    async def join(self, group: ConsumerGroup, joining: Joining) -> JoinResult:
        """Serve a JoinGroup, once the group has its turn. Raises KafkaError, and Refused where the answer names a
        member id."""
        member_id = joining.member_id or format_uuid(random_uuid())
        self._check_join(group, joining, member_id)
        known = _joining_member(group, joining, member_id)
        subscription = _subscription(joining.protocols)
        former_id = member_id if known is None else known.member_id
        is_downgrade = known is not None and known.classic is None and self._may_replace_last(group, joining, former_id)
        changes: list[Change] = []
        current = group.current(former_id)
        if known is not None and not joining.member_id:
            known, current = take_place(group, known, member_id, changes)
        member = _updated(known, member_id, joining, subscription)
        moving = Moving(known, member, current, self._owned(subscription), former_id)
        if is_downgrade:
            epoch = await self._downgrade(group, moving)
        else:
            epoch = (await self._steps.take(group, moving, changes)).current.epoch
            await self._keep(group, member, epoch, changes)
        return JoinResult(NONE, member_id, epoch, PROTOCOL_TYPE, next(iter(joining.protocols)))

    def _check_join(self, group: ConsumerGroup, joining: Joining, member_id: str) -> None:
        config = self._life.config
        if config.migration_policy == DISABLED:
            raise InconsistentGroupProtocol("group.consumer.migration.policy keeps the classic protocol out")
        if len(group.memberships) >= config.group_consumer_max_size and member_id not in group.memberships:
            raise GroupMaxSizeReached(f"the group has {len(group.memberships)} members, and may not have more")
        if joining.protocol_type != PROTOCOL_TYPE or not _is_common(group, joining.protocols):
            raise InconsistentGroupProtocol("no protocol is common to all members of the classic protocol")
        if not joining.member_id and joining.instance_id is None and joining.takes_member_id:
            raise Refused(MemberIdRequired, member_id)

    def _may_replace_last(self, group: ConsumerGroup, joining: Joining, former_id: str) -> bool:
        """Whether the group becomes a classic one by a static member that takes the place of the last member of the
        consumer protocol."""
        config = self._life.config
        return joining.instance_id is not None and may_downgrade(
            group, [former_id], config.migration_policy, config.group_max_size, joining=1
        )

    async def _keep(self, group: ConsumerGroup, member: Membership, epoch: int, changes: list[Change]) -> None:
        """Write what changes; the member has to send SyncGroup within its rebalance time-out."""
        stored = self._life.write(group, changes)
        if member.member_id in group.memberships:
            timers, group_id = self._life.timers, group.group_id
            timers.cancel(group_id, member.member_id, Wait.JOIN)
            timers.start(group_id, member.member_id, Wait.SYNC, member.rebalance_timeout_ms, epoch)
            self._life.extend_session(group, member.member_id)
        await stored

    async def _downgrade(self, group: ConsumerGroup, moving: Moving) -> int:
        """Make the group a classic one, in which this member takes the place of the last member of the consumer
        protocol. They join again if their assignment is not that of their subscriptions."""
        member, known = moving.member, moving.known
        is_other = known is None or {*known.topic_names} != {*member.topic_names} or bool(known.topic_regex)
        is_stale = is_other or group.assignment_epoch < group.epoch
        current = moving.current
        if not is_stale:
            aim = Aim(
                group.assignment_epoch,
                group.targets.get(moving.former_id, {}),
                self._life.catalog.ids(member.topic_names),
                False,
                lambda topic_id, partition: group.is_free(moving.former_id, topic_id, partition),
            )
            current = reconcile(current, aim, moving.owned)
        members = [(each, each_id) for each_id, each in group.memberships.items() if each_id != moving.former_id]
        reason = "the group was a consumer group whose assignment was not up to date" if is_stale else None
        await self._life.downgrade(group, [*members, (member, moving.former_id)], reason)
        return current.epoch

    def _owned(self, subscription: ConsumerProtocolSubscription) -> Owned:
        """The partitions that a member reports as its own, of topics that exist."""
        owned: dict[bytes, frozenset[int]] = {}
        for one in subscription.owned_partitions:
            topic_id = self._life.catalog.id_of(one.topic)
            if topic_id is not None:
                owned[topic_id] = owned.get(topic_id, frozenset()).union(one.partitions)
        return owned

    # --- the other requests

    def sync(self, group: ConsumerGroup, syncing: Syncing) -> SyncResult:
        """Serve a SyncGroup. Raises KafkaError."""
        member = check_classic(group, syncing.member_id, syncing.instance_id)
        current = group.current(member.member_id)
        _check_generation(current, syncing.generation_id)
        name, metadata = _classic(member).protocols[0]
        if syncing.protocol_type not in (None, PROTOCOL_TYPE) or syncing.protocol_name not in (None, name):
            raise InconsistentGroupProtocol(f"the member has joined with the protocol {name}")
        if group.assignment_epoch > current.epoch and current.state is not MemberState.UNREVOKED_PARTITIONS:
            self._await_join(group, member, current)
            raise RebalanceInProgress("the member has to join again")
        self._life.timers.cancel(group.group_id, member.member_id, Wait.SYNC)
        self._life.extend_session(group, member.member_id)
        assignment = assignment_bytes(current.assigned, metadata, self._life.catalog)
        return SyncResult(NONE, PROTOCOL_TYPE, name, assignment)

    def heartbeat(self, group: ConsumerGroup, member_id: str, instance_id: str | None, generation_id: int) -> None:
        """Extend a member's session. Raises KafkaError if it is no member, or has to join again."""
        member = check_classic(group, member_id, instance_id)
        current = group.current(member.member_id)
        _check_generation(current, generation_id)
        self._life.extend_session(group, member.member_id)
        if (
            current.epoch < group.assignment_epoch
            or current.state is MemberState.UNREVOKED_PARTITIONS
            or (current.state is MemberState.UNRELEASED_PARTITIONS and not _waits(group, member.member_id))
        ):
            self._await_join(group, member, current)
            raise RebalanceInProgress("the member has to join again")

    def _await_join(self, group: ConsumerGroup, member: Membership, current: CurrentAssignment) -> None:
        """Remove the member unless it joins again within its rebalance time-out."""
        timers, group_id = self._life.timers, group.group_id
        if not timers.is_running(group_id, member.member_id, Wait.JOIN):
            timers.start(group_id, member.member_id, Wait.JOIN, member.rebalance_timeout_ms, current.epoch)

    async def leave(self, group: ConsumerGroup, leaving: Iterable[Leaving]) -> list[int]:
        """Remove members, together; the error code of each. Raises what the store does."""
        reasons: dict[str, str] = {}
        outcomes: list[int] = []
        for member_id, instance_id, reason in leaving:
            if not member_id and instance_id is not None:
                member_id = group.static_members.get(instance_id, "")
            try:
                reasons[check_classic(group, member_id, instance_id).member_id] = reason
            except KafkaError as error:
                outcomes.append(error.code)
            else:
                outcomes.append(NONE)
        if reasons:
            await self._life.removing(group, reasons, is_expelled=False)
        return outcomes


def _joining_member(group: ConsumerGroup, joining: Joining, member_id: str) -> Membership | None:
    """The member that joins; None if it is new. Without a member id, a static member takes the place of the one that
    has its instance id. Raises UnknownMemberId, FencedInstanceId."""
    if joining.instance_id is None:
        return group.memberships.get(member_id)
    holder = group.static_members.get(joining.instance_id)
    if joining.member_id and holder is None:
        raise UnknownMemberId(f"no member has the instance id {joining.instance_id}")
    if joining.member_id and holder != member_id:
        raise FencedInstanceId(f"member {holder} has taken over the instance id {joining.instance_id}")
    return None if holder is None else group.memberships[holder]


def _updated(
    known: Membership | None, member_id: str, joining: Joining, subscription: ConsumerProtocolSubscription
) -> Membership:
    """The member with what its JoinGroup tells; it keeps what the classic protocol does not tell."""
    member = known or Membership(member_id, None, None, "", "", 0)
    return member._replace(
        instance_id=joining.instance_id or member.instance_id,
        rack_id=member.rack_id if subscription.rack_id is None else subscription.rack_id,
        client_id=joining.client_id,
        client_host=joining.client_host,
        rebalance_timeout_ms=joining.rebalance_timeout_ms,
        topic_names=tuple(sorted({*subscription.topics})),
        topic_regex="",
        classic=ClassicMetadata(joining.session_timeout_ms, tuple(joining.protocols.items())),
    )


def _subscription(protocols: Mapping[str, bytes]) -> ConsumerProtocolSubscription:
    """The subscription of the preferred protocol. Raises UnknownServerError if it is none, as in Kafka."""
    try:
        return read_subscription(next(iter(protocols.values())))
    except MalformedMessage as error:
        raise UnknownServerError("the metadata of the preferred protocol is no subscription of a consumer") from error


def _is_common(group: ConsumerGroup, protocols: Mapping[str, bytes]) -> bool:
    """Whether all members of the classic protocol support one of these protocols."""
    common = set(protocols)
    for member in group.memberships.values():
        if member.classic is not None:
            common.intersection_update(name for name, _ in member.classic.protocols)
    return bool(common)


def _check_generation(current: CurrentAssignment, generation_id: int) -> None:
    if generation_id != current.epoch:
        raise IllegalGeneration(f"the generation is {current.epoch}, not {generation_id}")


def _classic(member: Membership) -> ClassicMetadata:
    assert member.classic is not None
    return member.classic


def _waits(group: ConsumerGroup, member_id: str) -> bool:
    """Whether another member still has a partition of this member's target."""
    current = group.current(member_id)
    return any(
        not current.owns(topic_id, partition) and not group.is_free(member_id, topic_id, partition)
        for topic_id, partitions in group.targets.get(member_id, {}).items()
        for partition in partitions
    )
