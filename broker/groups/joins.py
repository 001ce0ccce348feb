"""JoinGroup: who it is that wants to join, whether there is room, and what the table says to be done."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from ...protocol.errors import (
    CoordinatorNotAvailable,
    FencedInstanceId,
    GroupMaxSizeReached,
    InconsistentGroupProtocol,
    KafkaError,
    MemberIdRequired,
)
from ...protocol.uuids import format_hyphenated, random_uuid
from ..api.error_mapping import kafka_error
from .group import Group, refused, size_of
from .group_states import COMPLETING, DEAD, JOIN, PREPARING, STABLE, Caller, Join
from .member import Joining, JoinResult, Member, SyncResult
from .rebalance import NEW_MEMBER_JOIN_TIMEOUT_MS, Rebalancer, Writer

if TYPE_CHECKING:
    from ..settings.broker_config import BrokerConfig

MOST_PROTOCOLS = 64
"""That a member may support; consumers name one for each assignor. Kafka has no limit, but every join counts them."""

MOST_PROTOCOLS_KEPT = 16
"""A group may want this many times what a batch can take."""

MOST_RESERVED_IDS = 10_000
"""That a group may have given out and not seen again. Kafka has no limit, and nothing but time takes them back."""

MOST_OF_A_NAME = 1_000
"""Characters of a client id that stand in a member id."""


class Refused(Exception):
    """A JoinGroup that ends with an error."""

    def __init__(self, error: type[KafkaError], member_id: str = "") -> None:
        self.error = error
        self.member_id = member_id


class Joins:
    """Serves JoinGroup, on a group that there is."""

    def __init__(self, config: BrokerConfig, store: Writer, rebalancer: Rebalancer) -> None:
        self._config = config
        self._store = store
        self._rebalancer = rebalancer

    def join(self, group: Group, joining: Joining, answer: asyncio.Future[JoinResult]) -> None:
        """Have somebody join; `answer` is set now or later. Raises Refused."""
        member_id = joining.member_id
        if not self._has_room(group, member_id):
            self._rebalancer.remove(group, member_id)
            raise Refused(GroupMaxSizeReached)
        if group.state is DEAD:
            raise Refused(CoordinatorNotAvailable, member_id)
        if len(joining.protocols) > MOST_PROTOCOLS or not group.can_agree(joining.protocol_type, joining.protocols):
            raise Refused(InconsistentGroupProtocol, member_id)
        if not self._has_room_for(group, joining):
            raise Refused(GroupMaxSizeReached)
        caller, member = _identify(group, joining)
        action = JOIN[caller, group.state]
        if not isinstance(action, Join):
            raise Refused(action, member_id)
        if action is Join.RESERVE_ID:
            self._reserve_id(group, joining)
        elif action is Join.ADD:
            self._add(group, joining, answer)
        elif action is Join.UPDATE:
            self._update(group, _known(member), joining, answer)
            self._rebalancer.begin_or_go_on(group, "a member joined again")
        elif action is Join.ANSWER:
            answer.set_result(group.welcome(_known(member)))
        else:
            self._replace(group, _known(member), joining, answer, action)

    def _has_room(self, group: Group, member_id: str) -> bool:
        """Whether the group may have one more, or this is none more. While members join only those count that have: of
        a group that is too large already, the last ones to come are refused."""
        most = self._config.group_max_size
        if group.state in (COMPLETING, STABLE):
            return member_id in group.members or len(group.members) < most
        if group.state is PREPARING:
            member = group.members.get(member_id)
            return (member is not None and member.has_joined) or group.joined < most
        return True

    def _has_room_for(self, group: Group, joining: Joining) -> bool:
        """Whether what all members want may become so much. All of it is kept, and what is chosen of it must fit into
        one batch, but that shows only when the leader has assigned. Kafka has no limit."""
        member = group.members.get(joining.member_id)
        more = size_of(joining.protocols) - (0 if member is None else size_of(member.protocols))
        return group.subscription_bytes + more <= MOST_PROTOCOLS_KEPT * self._config.log_config.max_message_bytes

    def _reserve_id(self, group: Group, joining: Joining) -> None:
        if len(group.reserved_ids) >= MOST_RESERVED_IDS:
            raise Refused(GroupMaxSizeReached)
        member_id = _new_member_id(joining)
        self._rebalancer.reserve_id(group, member_id, joining.session_timeout_ms)
        raise Refused(MemberIdRequired, member_id)

    def _add(self, group: Group, joining: Joining, answer: asyncio.Future[JoinResult]) -> None:
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
        self._rebalancer.hear_of(member, group, NEW_MEMBER_JOIN_TIMEOUT_MS)
        self._rebalancer.begin_or_go_on(group, "a member joined")

    def _update(self, group: Group, member: Member, joining: Joining, answer: asyncio.Future[JoinResult]) -> None:
        group.update(
            member,
            joining.protocols,
            session_timeout_ms=joining.session_timeout_ms,
            rebalance_timeout_ms=joining.rebalance_timeout_ms,
        )
        group.await_join(member, answer)

    # --- static members that come back

    def _replace(
        self, group: Group, old: Member, joining: Joining, answer: asyncio.Future[JoinResult], action: Join
    ) -> None:
        """Put a static member that was restarted in the place of what it was; who still acts as that is fenced."""
        leader_id = group.leader_id or ""
        group.answer_join(old, refused(FencedInstanceId, old.member_id))
        old.answer_sync(SyncResult(FencedInstanceId.code))
        new = group.replace(old, _new_member_id(joining))
        self._rebalancer.hear_of(new, group)
        self._update(group, new, joining, answer)
        if action is Join.REPLACE:
            self._rebalancer.go_on(group)
        elif action is Join.REPLACE_QUIETLY and group.choose_protocol() == group.protocol_name:
            new.replaces = old
            self._rebalancer.do(self._store_replacement(group, old, new, leader_id, joining.skips_assignment))
        else:
            self._rebalancer.begin_or_go_on(group, "a static member came back")

    async def _store_replacement(
        self, group: Group, old: Member, new: Member, leader_id: str, skips_assignment: bool
    ) -> None:
        """Keep the new id of a static member and tell it the generation in force; if that fails, the old id stays.

        If it led the group, it must not assign: nothing has changed. A client that can be told so (v9, KIP-814) is;
        any other one finds the old id named as that of the leader.
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
            self._take_back(group, old, new)
            return
        welcome = group.welcome(new)
        if skips_assignment:
            group.answer_join(new, welcome._replace(skip_assignment=group.leader_id == new.member_id))
        else:
            group.answer_join(new, welcome._replace(leader_id=leader_id, members=()))

    def _take_back(self, group: Group, old: Member, new: Member) -> None:
        """Give a static member the id and the wishes that it had before it came back."""
        back = group.replace(new, old.member_id)
        group.update(
            back,
            old.protocols,
            session_timeout_ms=old.session_timeout_ms,
            rebalance_timeout_ms=old.rebalance_timeout_ms,
        )
        self._rebalancer.hear_of(back, group)


def _identify(group: Group, joining: Joining) -> tuple[Caller, Member | None]:
    """Who wants to join, and the member that they are already."""
    member_id, instance_id = joining.member_id, joining.instance_id
    if not member_id:
        if instance_id is None:
            return (Caller.NAMELESS if joining.takes_member_id else Caller.NEWCOMER), None
        owner = group.static_members.get(instance_id)
        return (Caller.NEWCOMER, None) if owner is None else (Caller.RETURNING, group.members[owner])
    if member_id in group.reserved_ids and instance_id is None:
        return Caller.NEWCOMER, None
    try:
        member = group.check_member(member_id, instance_id)
    except KafkaError as error:
        raise Refused(type(error), member_id) from error
    if not member.supports(joining.protocols):
        return Caller.CHANGED, member
    return (Caller.LEADER if member_id == group.leader_id else Caller.FOLLOWER), member


def _known(member: Member | None) -> Member:
    """The member of a caller that is one, which the table of joins makes sure of."""
    assert member is not None
    return member


def _new_member_id(joining: Joining) -> str:
    """A member id; it begins with what tells people whose it is, but is never too long for an answer."""
    whose = joining.client_id if joining.instance_id is None else joining.instance_id
    return f"{whose[:MOST_OF_A_NAME]}-{format_hyphenated(random_uuid())}"
