"""JoinGroup: identify the member, check limits, and do what the table JOIN in `group_states.py` says."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from ....protocol.errors import (
    CoordinatorNotAvailable,
    FencedInstanceId,
    GroupMaxSizeReached,
    InconsistentGroupProtocol,
    InvalidRequest,
    InvalidSessionTimeout,
    KafkaError,
    MemberIdRequired,
)
from ....protocol.uuids import format_hyphenated, random_uuid
from ...api.error_mapping import kafka_error
from .classic_group import ClassicGroup
from .fencing import check_member
from .group_states import COMPLETING, DEAD, JOIN, PREPARING, STABLE, Caller, Join
from .member import Joining, JoinResult, Member, SyncResult, refused, size_of
from .rebalance import NEW_MEMBER_JOIN_TIMEOUT_MS, Rebalancer, Writer

if TYPE_CHECKING:
    from ...settings.broker_config import BrokerConfig

MAX_PROTOCOLS = 64
"""Protocols that a member may support; consumers name one for each assignor. Kafka has no limit, but every join counts
all of them."""

MAX_SUBSCRIPTION_BATCHES = 16
"""The subscriptions of a group may take as many bytes as this many batches."""

MAX_PENDING_MEMBERS = 10_000
"""Pending members that a group may have. Kafka has no limit, and only time removes them."""

MAX_ID_PREFIX_CHARACTERS = 1_000
"""Characters of a client id at the beginning of a member id."""


class Refused(Exception):
    """A JoinGroup that ends with an error."""

    def __init__(self, error: type[KafkaError], member_id: str = "") -> None:
        self.error = error
        self.member_id = member_id


def check_fields(joining: Joining, config: BrokerConfig) -> None:
    """Check what a JoinGroup says of its member, before its group is looked up. Raises Refused."""
    if not config.group_min_session_timeout_ms <= joining.session_timeout_ms <= config.group_max_session_timeout_ms:
        raise Refused(InvalidSessionTimeout, joining.member_id)
    if not joining.can_be_kept:
        raise Refused(InvalidRequest, joining.member_id)


class Joins:
    """Serves JoinGroup on an existing group."""

    def __init__(self, config: BrokerConfig, store: Writer, rebalancer: Rebalancer) -> None:
        self._config = config
        self._store = store
        self._rebalancer = rebalancer

    def join(self, group: ClassicGroup, joining: Joining, answer: asyncio.Future[JoinResult]) -> None:
        """Serve a JoinGroup; `answer` is set now or later. Raises Refused."""
        member_id = joining.member_id
        if not self._has_room(group, member_id):
            self._rebalancer.remove(group, member_id)
            raise Refused(GroupMaxSizeReached)
        if group.state is DEAD:
            raise Refused(CoordinatorNotAvailable, member_id)
        if len(joining.protocols) > MAX_PROTOCOLS or not group.can_agree(joining.protocol_type, joining.protocols):
            raise Refused(InconsistentGroupProtocol, member_id)
        if not self._has_room_for(group, joining):
            raise Refused(GroupMaxSizeReached)
        caller, member = _identify(group, joining)
        action = JOIN[caller, group.state]
        if not isinstance(action, Join):
            raise Refused(action, member_id)
        if action is Join.REQUIRE_ID:
            self._require_member_id(group, joining)
        elif action is Join.ADD:
            self._add(group, joining, answer)
        elif action is Join.UPDATE:
            self._update(group, _known(member), joining, answer)
            self._rebalancer.prepare_or_try_complete(group, "a member joined again")
        elif action is Join.ANSWER:
            answer.set_result(group.join_result(_known(member)))
        else:
            self._replace(group, _known(member), joining, answer, action)

    def _has_room(self, group: ClassicGroup, member_id: str) -> bool:
        """Whether the group may have this member within `group.max.size`. During the join phase only members that have
        joined count: a group that is already too large refuses the last ones to join."""
        max_members = self._config.group_max_size
        if group.state in (COMPLETING, STABLE):
            return member_id in group.members or len(group.members) < max_members
        if group.state is PREPARING:
            member = group.members.get(member_id)
            return (member is not None and member.has_joined) or group.joined < max_members
        return True

    def _has_room_for(self, group: ClassicGroup, joining: Joining) -> bool:
        """Whether the subscriptions of all members may grow by this. Memory holds all of them, and one batch must hold
        those of the chosen protocol, which is known only once the leader has assigned. Kafka has no limit."""
        member = group.members.get(joining.member_id)
        more = size_of(joining.protocols) - (0 if member is None else size_of(member.protocols))
        return group.subscription_bytes + more <= MAX_SUBSCRIPTION_BATCHES * self._config.log_config.max_message_bytes

    def _require_member_id(self, group: ClassicGroup, joining: Joining) -> None:
        if len(group.pending_members) >= MAX_PENDING_MEMBERS:
            raise Refused(GroupMaxSizeReached)
        member_id = _new_member_id(joining)
        self._rebalancer.sessions.add_pending_member(group, member_id, joining.session_timeout_ms)
        raise Refused(MemberIdRequired, member_id)

    def _add(self, group: ClassicGroup, joining: Joining, answer: asyncio.Future[JoinResult]) -> None:
        member = Member(
            joining.member_id or _new_member_id(joining),
            instance_id=joining.instance_id,
            client_id=joining.client_id,
            client_host=joining.client_host,
            session_timeout_ms=joining.session_timeout_ms,
            rebalance_timeout_ms=joining.rebalance_timeout_ms,
            protocols=joining.protocols,
        )
        member.is_new = True
        group.has_new_member = group.state is PREPARING and group.is_initial_rebalance
        group.add(member, joining.protocol_type)
        group.await_join(member, answer)
        self._rebalancer.sessions.extend(member, group, NEW_MEMBER_JOIN_TIMEOUT_MS)
        self._rebalancer.prepare_or_try_complete(group, "a member joined")

    def _update(
        self, group: ClassicGroup, member: Member, joining: Joining, answer: asyncio.Future[JoinResult]
    ) -> None:
        group.update(
            member,
            joining.protocols,
            session_timeout_ms=joining.session_timeout_ms,
            rebalance_timeout_ms=joining.rebalance_timeout_ms,
        )
        group.await_join(member, answer)

    # --- static members that come back

    def _replace(
        self, group: ClassicGroup, old: Member, joining: Joining, answer: asyncio.Future[JoinResult], action: Join
    ) -> None:
        """Replace the old id of a restarted static member; requests with the old id are fenced."""
        leader_id = group.leader_id or ""
        group.answer_join(old, refused(FencedInstanceId, old.member_id))
        old.answer_sync(SyncResult(FencedInstanceId.code))
        new = group.replace(old, _new_member_id(joining))
        self._rebalancer.sessions.extend(new, group)
        self._update(group, new, joining, answer)
        if action is Join.REPLACE:
            self._rebalancer.try_complete_join(group)
        elif action is Join.REPLACE_WITHOUT_REBALANCE and group.choose_protocol() == group.protocol_name:
            new.replaces = old
            self._rebalancer.writes.start(self._store_replacement(group, old, new, leader_id, joining.skips_assignment))
        else:
            self._rebalancer.prepare_or_try_complete(group, "a static member came back")

    async def _store_replacement(
        self, group: ClassicGroup, old: Member, new: Member, leader_id: str, skips_assignment: bool
    ) -> None:
        """Store the new id of a static member and answer it with the present generation; on failure, restore the old
        id.

        A leader must not assign again, because nothing has changed. Its answer says so from version 9 on (KIP-814);
        below, it names the old id as that of the leader.
        """
        error: KafkaError | None = None
        try:
            await self._store.write_group(group.group_id, group.stored(group.assignments()))
        except Exception as failure:
            error = kafka_error(failure, "storing a static member's new id")
        new.replaces = None
        if group.state is not STABLE or group.members.get(new.member_id) is not new:
            return  # a rebalance has begun, and answers
        if error is not None:
            group.answer_join(new, refused(type(error)))
            self._restore_replaced(group, old, new)
            return
        join_result = group.join_result(new)
        if skips_assignment:
            group.answer_join(new, join_result._replace(skip_assignment=group.leader_id == new.member_id))
        else:
            group.answer_join(new, join_result._replace(leader_id=leader_id, members=()))

    def _restore_replaced(self, group: ClassicGroup, old: Member, new: Member) -> None:
        """Restore the id and the protocols that a static member had before it was replaced."""
        restored = group.replace(new, old.member_id)
        group.update(
            restored,
            old.protocols,
            session_timeout_ms=old.session_timeout_ms,
            rebalance_timeout_ms=old.rebalance_timeout_ms,
        )
        self._rebalancer.sessions.extend(restored, group)


def _identify(group: ClassicGroup, joining: Joining) -> tuple[Caller, Member | None]:
    """The kind of client that sent a JoinGroup, and the member that it is, if it is one. Raises Refused."""
    member_id, instance_id = joining.member_id, joining.instance_id
    if not member_id:
        if instance_id is None:
            return (Caller.NAMELESS if joining.takes_member_id else Caller.NEWCOMER), None
        owner = group.static_members.get(instance_id)
        return (Caller.NEWCOMER, None) if owner is None else (Caller.RETURNING, group.members[owner])
    if member_id in group.pending_members and instance_id is None:
        return Caller.NEWCOMER, None
    try:
        member = check_member(group, member_id, instance_id)
    except KafkaError as error:
        raise Refused(type(error), member_id) from error
    if not member.supports(joining.protocols):
        return Caller.CHANGED, member
    return (Caller.LEADER if member_id == group.leader_id else Caller.FOLLOWER), member


def _known(member: Member | None) -> Member:
    """The member of a caller that the table of joins guarantees to be one."""
    assert member is not None
    return member


def _new_member_id(joining: Joining) -> str:
    """A new member id: the instance id or client id, shortened so that an answer has room for it, and a random UUID."""
    prefix = joining.client_id if joining.instance_id is None else joining.instance_id
    return f"{prefix[:MAX_ID_PREFIX_CHARACTERS]}-{format_hyphenated(random_uuid())}"
