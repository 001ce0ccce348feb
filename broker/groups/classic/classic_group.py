"""A group as data: its members, the protocols that they have in common, and its generation.

This module neither waits nor writes nor reads a clock. `rebalance.py` changes the state of a group, and
`group_coordinator.py` serves requests.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING

from ....protocol.consumer_protocol import PROTOCOL_TYPE, subscribed_topics
from ....protocol.errors import (
    NONE,
    GroupIdNotFound,
    MalformedMessage,
    NonEmptyGroup,
    RebalanceInProgress,
)
from ....protocol.records.batch import NO_TIMESTAMP
from ..committed_offsets import CommittedOffsets
from ..group import Committer, Departure, Group, Place
from ..group_records import GroupMetadata, group_key
from .fencing import check_commit
from .group_states import COMPLETING, DEAD, EMPTY, PREVIOUS, STABLE, GroupState
from .member import JoinedMember, JoinResult, Member, refused, size_of

if TYPE_CHECKING:
    from ...clock import Timer
    from ...coordinators.coordinator_topic import KeyValue


class ClassicGroup(Group):
    """A group of the classic protocol."""

    group_type = "classic"

    def __init__(self, group_id: str, state_timestamp_ms: int | None) -> None:
        super().__init__(group_id)
        self.is_being_created = False
        """Whether its first record is being replicated; its first generation waits for that."""
        self.has_waiting_generation = False
        """Whether the join phase has ended, and its generation waits for the creation of the group."""
        self.state = EMPTY
        self.state_timestamp_ms = state_timestamp_ms
        """When it entered this state, in log time; None if a record of an old version lacks that."""
        self.protocol_type: str | None = None
        """The protocol type of the members, usually "consumer"; kept when they have left. None if it never had
        members."""
        self.protocol_name: str | None = None
        """The protocol of this generation; None without members."""
        self.generation_id = 0
        """Raised by one at the end of every rebalance, never lowered."""
        self.leader_id: str | None = None
        """The member id of the leader; None without members."""
        self._members: dict[str, Member] = {}
        self.static_members: dict[str, str] = {}
        """Member ids by instance id."""
        self.pending_members: dict[str, Timer] = {}
        """Member ids that were answered with MEMBER_ID_REQUIRED and have not joined; each expires when its timer
        fires."""
        self.is_initial_rebalance = False
        """Whether the rebalance in progress began with an empty group: it ends with its delay, not with the last
        join."""
        self.awaits_pending_members = False
        """Whether an initial rebalance has had its delay, and waits only for `pending_members`, briefly."""
        self.has_new_member = False
        """Whether a member joined since the initial rebalance began, or was last extended."""
        self.awaited_syncs: set[str] = set()
        """The ids of members of this generation that have not sent SyncGroup yet."""
        self.join_timer: Timer | None = None
        """Ends the join phase, in PreparingRebalance."""
        self.sync_timer: Timer | None = None
        """Ends the wait for `awaited_syncs`, in CompletingRebalance and, for late members, in Stable."""
        self.subscription_bytes = 0
        """Bytes of the protocols and metadata of all members."""
        self._joined = 0
        self._supporters: Counter[str] = Counter()
        self._subscriptions: list[bytes] = []
        self._topics: set[str] | None = None

    @classmethod
    def restored(cls, group_id: str, stored: GroupMetadata | None, offsets: CommittedOffsets) -> ClassicGroup:
        """The group as the offsets topic holds it: Stable if it has members, otherwise Empty. `stored` is None for a
        group in which offsets were only committed."""
        group = cls(group_id, None)
        group.is_shown = True
        group.offsets = offsets
        if stored is None:
            return group
        protocols = stored.protocol_name or ""
        for member in stored.members:
            group.add(Member.restored(member, protocols), stored.protocol_type)
        group.protocol_type = stored.protocol_type or None
        group.protocol_name = stored.protocol_name
        group.generation_id = stored.generation_id
        if stored.leader_id in group.members:
            group.leader_id = stored.leader_id
        if stored.state_timestamp_ms != NO_TIMESTAMP:
            group.state_timestamp_ms = stored.state_timestamp_ms
        group.state = STABLE if group.members else EMPTY
        group._note_subscriptions()
        return group

    def stored(self, assignments: Mapping[str, bytes]) -> GroupMetadata:
        """The record of the group in its present state, with these assignments by member id."""
        name = self.protocol_name
        return GroupMetadata(
            protocol_type=self.protocol_type or "",
            generation_id=self.generation_id,
            protocol_name=name,
            leader_id=self.leader_id,
            state_timestamp_ms=NO_TIMESTAMP if self.state_timestamp_ms is None else self.state_timestamp_ms,
            members=[
                GroupMetadata.Member(
                    member_id=member.member_id,
                    group_instance_id=member.instance_id,
                    client_id=member.client_id,
                    client_host=member.client_host,
                    rebalance_timeout_ms=member.rebalance_timeout_ms,
                    session_timeout_ms=member.session_timeout_ms,
                    subscription=b"" if name is None else member.protocols[name],
                    assignment=assignments.get(member.member_id, b""),
                )
                for member in self.members.values()
            ],
        )

    # --- state

    @property
    def members(self) -> dict[str, Member]:
        return self._members

    def knows(self, member_id: str) -> bool:
        return member_id in self.members or member_id in self.pending_members

    @property
    def generation(self) -> int:
        return self.generation_id

    @property
    def state_name(self) -> str:
        return self.state.value

    @property
    def shown_protocol_type(self) -> str:
        return self.protocol_type or ""

    @property
    def protocol(self) -> str | None:
        return self.protocol_name

    @property
    def is_empty(self) -> bool:
        return self.state is EMPTY

    @property
    def is_stable(self) -> bool:
        return self.state is STABLE

    @property
    def is_removed(self) -> bool:
        return self.state is DEAD

    @property
    def shown_state(self) -> GroupState:
        """The state as readers are shown it: a group that is being removed is Empty until its tombstone is
        replicated."""
        return EMPTY if self.state is DEAD else self.state

    def shown_members(self) -> list[Member]:
        """The members as readers are shown them."""
        return [member.replaces or member for member in self.members.values()]

    def move_to(self, state: GroupState, now_ms: int) -> None:
        """Change the state. Raises ValueError if the present state does not allow it: a bug in the caller."""
        if self.state not in PREVIOUS[state]:
            raise ValueError(f"a group that is {self.state.value} cannot become {state.value}")
        self.state = state
        self.state_timestamp_ms = now_ms

    @property
    def is_alive(self) -> bool:
        """Whether a client or a timer waits for a change of the group."""
        return bool(self.members or self.pending_members or self.join_timer)

    def cancel_timers(self) -> None:
        """Cancel all timers of the group and of its members."""
        self.cancel_join_timer()
        self.cancel_sync_timer()
        for member in self.members.values():
            member.cancel_timer()
        for timer in self.pending_members.values():
            timer.cancel()
        self.pending_members.clear()

    def cancel_join_timer(self) -> None:
        if self.join_timer is not None:
            self.join_timer.cancel()
            self.join_timer = None

    def cancel_sync_timer(self) -> None:
        if self.sync_timer is not None:
            self.sync_timer.cancel()
            self.sync_timer = None

    # --- members

    def add(self, member: Member, protocol_type: str) -> None:
        """Add a member. The first member becomes the leader, and gives the group its protocol type."""
        if not self.members:
            self.protocol_type = protocol_type
        self.members[member.member_id] = member
        if member.instance_id is not None:
            self.static_members[member.instance_id] = member.member_id
        self.leader_id = self.leader_id or member.member_id
        self._count_supporter(member, +1)
        self._joined += member.has_joined
        self.remove_pending_member(member.member_id)

    def remove(self, member_id: str) -> Member | None:
        """Remove a member or a pending member id; return the member. Another member succeeds a removed leader."""
        self.remove_pending_member(member_id)
        self.awaited_syncs.discard(member_id)
        member = self.members.pop(member_id, None)
        if member is None:
            return None
        member.cancel_timer()
        self._count_supporter(member, -1)
        self._joined -= member.has_joined
        if member.instance_id is not None:
            del self.static_members[member.instance_id]
        if self.leader_id == member_id:
            self.leader_id = next(iter(self.members), None)
        return member

    def note_departure(self, member_id: str, reason: str, *, is_expelled: bool = True) -> None:
        """Note that a member goes, before it is removed. Without such a member this does nothing."""
        member = self.members.get(member_id)
        if member is not None:
            self.add_departure(
                Departure(
                    member_id, member.client_id, self.generation_id, reason, is_expelled, member.rebalance_timeout_ms
                )
            )

    def replace(self, old: Member, member_id: str) -> Member:
        """Give a static member another id; it keeps its place, its leadership and its assignment."""
        new = old.successor(member_id)
        old.cancel_timer()
        self._joined -= old.has_joined
        self.awaited_syncs.discard(old.member_id)
        del self.members[old.member_id]
        self.members[member_id] = new
        assert new.instance_id is not None
        self.static_members[new.instance_id] = member_id
        if self.leader_id == old.member_id:
            self.leader_id = member_id
        return new

    def remove_pending_member(self, member_id: str) -> bool:
        """Remove a pending member id; return whether it was one."""
        timer = self.pending_members.pop(member_id, None)
        if timer is not None:
            timer.cancel()
        return timer is not None

    def update(
        self, member: Member, protocols: Mapping[str, bytes], *, session_timeout_ms: int, rebalance_timeout_ms: int
    ) -> None:
        """Take over the fields of a member's new JoinGroup."""
        self._count_supporter(member, -1)
        member.protocols = protocols
        self._count_supporter(member, +1)
        member.session_timeout_ms = session_timeout_ms
        member.rebalance_timeout_ms = rebalance_timeout_ms

    def _count_supporter(self, member: Member, change: int) -> None:
        self.subscription_bytes += change * size_of(member.protocols)
        supporters = self._supporters
        for name in member.protocols:
            count = supporters[name] + change
            if count:
                supporters[name] = count
            else:
                del supporters[name]

    def await_join(self, member: Member, answer: asyncio.Future[JoinResult] | None) -> None:
        """Note that a member has joined and waits for `answer`; with None, that it has not joined."""
        self.answer_join(member, refused(RebalanceInProgress, member.member_id))  # an earlier one
        self._joined += answer is not None
        member.join = answer

    def answer_join(self, member: Member, result: JoinResult) -> None:
        """Answer the JoinGroup of a member, if one waits."""
        self._joined -= member.answer_join(result)

    @property
    def joined(self) -> int:
        """How many members have joined the generation in preparation."""
        return self._joined

    @property
    def all_have_joined(self) -> bool:
        """Whether every member has joined, and no member is pending."""
        return self._joined == len(self.members) and not self.pending_members

    @property
    def rebalance_timeout_ms(self) -> int:
        """Milliseconds that a rebalance may wait for members: the longest that any member allows."""
        return max((member.rebalance_timeout_ms for member in self.members.values()), default=0)

    # --- generations

    def can_agree(self, protocol_type: str, protocols: Mapping[str, bytes]) -> bool:
        """Whether a client with this type and these protocols could be a member: all need one protocol in common."""
        if self.state is EMPTY:
            return bool(protocol_type and protocols)
        member_count = len(self.members)
        return protocol_type == self.protocol_type and any(self._supporters[name] == member_count for name in protocols)

    def choose_protocol(self) -> str:
        """The protocol that most members prefer among those that all support."""
        member_count = len(self.members)
        candidates = {name for name, supporters in self._supporters.items() if supporters == member_count}
        votes = Counter(member.vote(candidates) for member in self.members.values())
        return max(votes, key=votes.__getitem__)

    def elect_leader(self) -> bool:
        """Make a member that has joined the leader: the present leader, else the first that has. False if none has
        joined."""
        if self.leader_id is not None and self.members[self.leader_id].has_joined:
            return True
        joined = next((member for member in self.members.values() if member.has_joined), None)
        if joined is None:
            return False
        self.leader_id = joined.member_id
        return True

    def next_generation(self, now_ms: int) -> None:
        """End the join phase: members wait for an assignment now; a group without members is Empty."""
        self.generation_id += 1
        self.protocol_name = self.choose_protocol() if self.members else None
        self._note_subscriptions()
        self.awaited_syncs.clear()
        self.is_initial_rebalance = self.awaits_pending_members = self.has_new_member = False
        self.move_to(COMPLETING if self.members else EMPTY, now_ms)

    def join_result(self, member: Member) -> JoinResult:
        """The answer to a member's JoinGroup in this generation; the leader's lists all members."""
        assert self.protocol_name is not None
        assert self.leader_id is not None
        return JoinResult(
            NONE,
            member.member_id,
            self.generation_id,
            self.protocol_type,
            self.protocol_name,
            self.leader_id,
            members=self.metadata_of_all() if member.member_id == self.leader_id else (),
        )

    def metadata_of_all(self) -> tuple[JoinedMember, ...]:
        """The members, each with its metadata of the protocol in use.

        Static members come first: the order has no meaning, but kafka-python 3's range assignor loses members where
        dynamic ones stand on both sides of static ones.
        """
        assert self.protocol_name is not None
        return tuple(
            JoinedMember(member.member_id, member.instance_id, member.protocols[self.protocol_name])
            for member in sorted(self.members.values(), key=lambda member: not member.is_static)
        )

    def assignments(self) -> dict[str, bytes]:
        """The assignment of every member, by member id."""
        return {member.member_id: member.assignment for member in self.members.values()}

    # --- subscriptions

    def _note_subscriptions(self) -> None:
        """Keep the subscriptions of this generation. They are parsed on demand, which is rare."""
        self._topics = None
        self._subscriptions = []
        if self.protocol_type == PROTOCOL_TYPE and self.protocol_name is not None:
            self._subscriptions = [member.protocols[self.protocol_name] for member in self.members.values()]

    @property
    def is_of_consumers(self) -> bool:
        return self.protocol_type == PROTOCOL_TYPE

    def subscribed_topics(self) -> set[str] | None:
        """The topics that the members of this generation subscribe to; None if they are unknown, because the group is
        not one of consumers, or its metadata does not parse."""
        if not self.is_of_consumers or (self.members and self.protocol_name is None):
            return None
        if self._topics is None and self.members:
            try:
                self._topics = set().union(*map(subscribed_topics, self._subscriptions))
            except MalformedMessage:
                return None
        return self._topics or set()

    def is_subscribed_to(self, topic: str) -> bool:
        """Whether members may read `topic`; if subscriptions are unknown, consumers may read any topic."""
        topics = self.subscribed_topics()
        return self.is_of_consumers if topics is None else topic in topics

    # --- what other requests may do to it

    @property
    def keeps_all_offsets(self) -> bool:
        if self.protocol_type is None or self.state is EMPTY:
            return False
        return self.state is not STABLE or self.subscribed_topics() is None

    @property
    def empty_since_ms(self) -> int | None:
        return self.state_timestamp_ms if self.protocol_type is not None and self.state is EMPTY else None

    def tombstones(self) -> list[KeyValue]:
        return [(group_key(self.group_id), None)]

    def check_delete_offsets(self) -> None:
        if self.state is DEAD:
            raise GroupIdNotFound("the group was removed")
        if self.state is not EMPTY and not self.is_of_consumers:
            raise NonEmptyGroup("the group has members, and what they read is not known")

    def check_fetch(self, member_id: str | None, epoch: int) -> None:
        """Every client may, as in Kafka."""

    def check_commit(self, committer: Committer, places: Callable[[], Iterable[Place]]) -> None:
        check_commit(
            self,
            committer.member_id,
            committer.instance_id,
            committer.generation_id,
            is_transactional=committer.is_transactional,
        )
