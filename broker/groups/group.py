"""A group as data: its members, what they can agree on, and the generation that they have.

Nothing here waits, writes or looks at a clock; `rebalance` moves a group on, and `coordinator` serves requests on it.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Mapping
from typing import TYPE_CHECKING

from ...protocol.consumer_protocol import PROTOCOL_TYPE, subscribed_topics
from ...protocol.errors import (
    NONE,
    FencedInstanceId,
    GroupIdNotFound,
    IllegalGeneration,
    KafkaError,
    MalformedMessage,
    NonEmptyGroup,
    RebalanceInProgress,
    UnknownMemberId,
)
from ...protocol.records.batch import NO_TIMESTAMP
from .committed_offsets import CommittedOffsets
from .group_records import GroupMetadata
from .group_states import COMMIT, COMPLETING, DEAD, EMPTY, PREVIOUS, STABLE, GroupState
from .member import JoinedMember, JoinResult, Member

if TYPE_CHECKING:
    from ..clock import Timer


class Group:
    """A group of the classic protocol; also one without members for which somebody only commits offsets."""

    def __init__(self, group_id: str, state_timestamp_ms: int | None) -> None:
        self.group_id = group_id
        self.is_shown = False
        """Whether the high watermark covers any record of the group, so that readers see it."""
        self.is_being_created = False
        """Whether its first record is being replicated; no generation begins before."""
        self.has_waiting_generation = False
        """Whether the joining has ended, and its generation waits for the creation of the group."""
        self.state = EMPTY
        self.state_timestamp_ms = state_timestamp_ms
        """Since when it is in this state, in log time; None if a record of an old version did not say."""
        self.protocol_type: str | None = None
        """That of the members, "consumer" as a rule; kept when they have gone. None: there never were any."""
        self.protocol_name: str | None = None
        """What the members of this generation have agreed on; None while there are none."""
        self.generation_id = 0
        """Raised by one whenever a rebalance ends, never lowered."""
        self.leader_id: str | None = None
        """A member as long as there are members; None without."""
        self.members: dict[str, Member] = {}
        self.static_members: dict[str, str] = {}
        """Member ids by instance id."""
        self.reserved_ids: dict[str, Timer] = {}
        """Member ids that were given out to be joined with; each is forgotten when its timer fires."""
        self.offsets = CommittedOffsets()
        self.is_initial_rebalance = False
        """Whether the rebalance under way began with an empty group: it ends with its delay, not with the joins."""
        self.awaits_reserved_ids = False
        """Whether an initial rebalance has had its time, and waits for nothing but `reserved_ids`, briefly."""
        self.has_new_member = False
        """Whether somebody came since the initial rebalance began, or was last extended."""
        self.awaited_syncs: set[str] = set()
        """The members of this generation that have not asked for their assignment yet."""
        self.join_timer: Timer | None = None
        """Ends the joining, in PreparingRebalance."""
        self.sync_timer: Timer | None = None
        """Ends the waiting for `awaited_syncs`, in CompletingRebalance and, for those that are late, Stable."""
        self.subscription_bytes = 0
        """The size of what all members support and want."""
        self._joined = 0
        self._supporters: Counter[str] = Counter()
        self._subscriptions: list[bytes] = []
        self._topics: set[str] | None = None

    @classmethod
    def restored(cls, group_id: str, stored: GroupMetadata | None, offsets: CommittedOffsets) -> Group:
        """The group that the offsets topic tells of: Stable if it has members, otherwise Empty. With None for `stored`
        somebody has only committed offsets under this id."""
        group = cls(group_id, None)
        group.is_shown = True
        group.offsets = offsets
        if stored is None:
            return group
        protocols = stored.protocol_name or ""
        for member in stored.members:
            group.add(_restored_member(member, protocols), stored.protocol_type)
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
        """What is kept of the group as it is now, with these assignments by member id."""
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
    def is_empty(self) -> bool:
        return self.state is EMPTY

    @property
    def shown_state(self) -> GroupState:
        """The state as readers see it: a group that is being removed is Empty until its tombstone is replicated."""
        return EMPTY if self.state is DEAD else self.state

    def shown_members(self) -> list[Member]:
        """The members as readers see them."""
        return [member.replaces or member for member in self.members.values()]

    def move_to(self, state: GroupState, now_ms: int) -> None:
        """Change the state. Raises ValueError if it cannot follow the present one."""
        if self.state not in PREVIOUS[state]:
            raise ValueError(f"a group that is {self.state.value} cannot become {state.value}")
        self.state = state
        self.state_timestamp_ms = now_ms

    @property
    def is_alive(self) -> bool:
        """Whether any client or timer waits for something to happen to it."""
        return bool(self.members or self.reserved_ids or self.join_timer)

    def forget_timers(self) -> None:
        """Expect nothing more of anybody."""
        self.forget_join_timer()
        self.forget_sync_timer()
        for member in self.members.values():
            member.forget_timer()
        for timer in self.reserved_ids.values():
            timer.cancel()
        self.reserved_ids.clear()

    def forget_join_timer(self) -> None:
        if self.join_timer is not None:
            self.join_timer.cancel()
            self.join_timer = None

    def forget_sync_timer(self) -> None:
        if self.sync_timer is not None:
            self.sync_timer.cancel()
            self.sync_timer = None

    # --- members

    def add(self, member: Member, protocol_type: str) -> None:
        """Take a member in; the first becomes the leader, and says what type of group this is."""
        if not self.members:
            self.protocol_type = protocol_type
        self.members[member.member_id] = member
        if member.instance_id is not None:
            self.static_members[member.instance_id] = member.member_id
        self.leader_id = self.leader_id or member.member_id
        self._count_supporter(member, +1)
        self._joined += member.has_joined
        self.release_id(member.member_id)

    def remove(self, member_id: str) -> Member | None:
        """Let a member, or an id that was only given out, go. A leader that goes is succeeded by another member."""
        self.release_id(member_id)
        self.awaited_syncs.discard(member_id)
        member = self.members.pop(member_id, None)
        if member is None:
            return None
        member.forget_timer()
        self._count_supporter(member, -1)
        self._joined -= member.has_joined
        if member.instance_id is not None:
            del self.static_members[member.instance_id]
        if self.leader_id == member_id:
            self.leader_id = next(iter(self.members), None)
        return member

    def replace(self, old: Member, member_id: str) -> Member:
        """Let a static member come back under another id; its place, its leadership and its assignment stay."""
        new = old.successor(member_id)
        old.forget_timer()
        self._joined -= old.has_joined
        self.awaited_syncs.discard(old.member_id)
        del self.members[old.member_id]
        self.members[member_id] = new
        assert new.instance_id is not None
        self.static_members[new.instance_id] = member_id
        if self.leader_id == old.member_id:
            self.leader_id = member_id
        return new

    def release_id(self, member_id: str) -> bool:
        """Forget a member id that was given out; say whether it was."""
        timer = self.reserved_ids.pop(member_id, None)
        if timer is not None:
            timer.cancel()
        return timer is not None

    def update(
        self, member: Member, protocols: Mapping[str, bytes], *, session_timeout_ms: int, rebalance_timeout_ms: int
    ) -> None:
        """Take over what a member says when it joins again."""
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
        """Let `answer` be what a member waits for: it has joined. None: it has not."""
        self.answer_join(member, refused(RebalanceInProgress, member.member_id))  # one that nobody waits for any more
        self._joined += answer is not None
        member.join = answer

    def answer_join(self, member: Member, result: JoinResult) -> None:
        """Answer the JoinGroup of a member, if one waits."""
        self._joined -= member.answer_join(result)

    @property
    def joined(self) -> int:
        """How many members have joined the generation that is being prepared."""
        return self._joined

    @property
    def all_have_joined(self) -> bool:
        """Whether nobody is missing: no member, and nobody who was given an id to join with."""
        return self._joined == len(self.members) and not self.reserved_ids

    @property
    def rebalance_timeout_ms(self) -> int:
        """How long a rebalance may wait for members: as long as the most patient one allows."""
        return max((member.rebalance_timeout_ms for member in self.members.values()), default=0)

    def check_member(self, member_id: str, instance_id: str | None) -> Member:
        """The member of this id, if it is the one that the instance id stands for now. Raises UnknownMemberId,
        FencedInstanceId."""
        if instance_id is not None:
            owner = self.static_members.get(instance_id)
            if owner is None:
                raise UnknownMemberId(f"no member has the instance id {instance_id!r}")
            if owner != member_id:
                raise FencedInstanceId(f"another member has taken over the instance id {instance_id!r}")
        member = self.members.get(member_id)
        if member is None:
            raise UnknownMemberId(f"there is no member {member_id!r}")
        return member

    def check_generation(self, generation_id: int) -> None:
        if generation_id != self.generation_id:
            raise IllegalGeneration(f"the generation is {self.generation_id}, not {generation_id}")

    # --- generations

    def can_agree(self, protocol_type: str, protocols: Mapping[str, bytes]) -> bool:
        """Whether somebody of this type who supports this could be a member: all must have one protocol in common."""
        if self.state is EMPTY:
            return bool(protocol_type and protocols)
        everybody = len(self.members)
        return protocol_type == self.protocol_type and any(self._supporters[name] == everybody for name in protocols)

    def choose_protocol(self) -> str:
        """The protocol that most members like best of those that all support."""
        everybody = len(self.members)
        candidates = {name for name, supporters in self._supporters.items() if supporters == everybody}
        votes = Counter(member.vote(candidates) for member in self.members.values())
        return max(votes, key=votes.__getitem__)

    def elect_leader(self) -> bool:
        """Have a leader who has joined: the present one, or else the first member that has. False if nobody has."""
        if self.leader_id is not None and self.members[self.leader_id].has_joined:
            return True
        joined = next((member for member in self.members.values() if member.has_joined), None)
        if joined is None:
            return False
        self.leader_id = joined.member_id
        return True

    def next_generation(self, now_ms: int) -> None:
        """End the joining: with members they wait for an assignment now, without the group is empty."""
        self.generation_id += 1
        self.protocol_name = self.choose_protocol() if self.members else None
        self._note_subscriptions()
        self.awaited_syncs.clear()
        self.is_initial_rebalance = self.awaits_reserved_ids = self.has_new_member = False
        self.move_to(COMPLETING if self.members else EMPTY, now_ms)

    def welcome(self, member: Member) -> JoinResult:
        """What a member is told of this generation; the leader is told of all members."""
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
        """The members with what each wants of the protocol in use.

        Static ones come first: the order means nothing, but kafka-python 3's range assignor forgets members where
        dynamic ones stand on both sides of static ones.
        """
        assert self.protocol_name is not None
        return tuple(
            JoinedMember(member.member_id, member.instance_id, member.protocols[self.protocol_name])
            for member in sorted(self.members.values(), key=lambda member: not member.is_static)
        )

    def assignments(self) -> dict[str, bytes]:
        """What every member has got."""
        return {member.member_id: member.assignment for member in self.members.values()}

    # --- subscriptions

    def _note_subscriptions(self) -> None:
        """Keep what the members of this generation want. It is read when somebody asks, which is seldom."""
        self._topics = None
        self._subscriptions = []
        if self.protocol_type == PROTOCOL_TYPE and self.protocol_name is not None:
            self._subscriptions = [member.protocols[self.protocol_name] for member in self.members.values()]

    @property
    def is_of_consumers(self) -> bool:
        return self.protocol_type == PROTOCOL_TYPE

    def subscribed_topics(self) -> set[str] | None:
        """The topics that the members of this generation want; None where that is not known: of a group that is none
        of consumers, or whose members speak in another way than consumers do."""
        if not self.is_of_consumers or (self.members and self.protocol_name is None):
            return None
        if self._topics is None and self.members:
            try:
                self._topics = set().union(*map(subscribed_topics, self._subscriptions))
            except MalformedMessage:
                return None
        return self._topics or set()

    def is_subscribed_to(self, topic: str) -> bool:
        """Whether members may be reading `topic`; where that is not known, consumers may be reading any."""
        topics = self.subscribed_topics()
        return self.is_of_consumers if topics is None else topic in topics

    # --- what other requests may do to it

    def check_commit(
        self, member_id: str, instance_id: str | None, generation_id: int, *, is_transactional: bool = False
    ) -> None:
        """Whether offsets may be committed by whoever says this. Raises CoordinatorNotAvailable, UnknownMemberId,
        FencedInstanceId, IllegalGeneration, RebalanceInProgress."""
        refusal = COMMIT[self.state]
        if self.state is DEAD and refusal is not None:
            raise refusal("the group was removed")
        if generation_id < 0 and self.state is EMPTY:
            return  # a consumer that assigns partitions itself, or an administrator
        if generation_id >= 0 or member_id or instance_id is not None:
            self.check_member(member_id, instance_id)
            self.check_generation(generation_id)
        elif not is_transactional:
            raise UnknownMemberId("the group has members, and this is none of them")
        if refusal is not None and not is_transactional:
            raise refusal("the members are getting a new assignment")

    def check_delete(self) -> None:
        """Whether the group may be deleted. Raises GroupIdNotFound, NonEmptyGroup."""
        if self.state is DEAD:
            raise GroupIdNotFound("the group was removed")
        if self.state is not EMPTY:
            raise NonEmptyGroup("the group has members")

    def check_delete_offsets(self) -> None:
        """Whether offsets of topics that nobody is subscribed to may be deleted. Raises GroupIdNotFound,
        NonEmptyGroup."""
        if self.state is DEAD:
            raise GroupIdNotFound("the group was removed")
        if self.state is not EMPTY and not self.is_of_consumers:
            raise NonEmptyGroup("the group has members, and what they read is not known")


def _restored_member(stored: GroupMetadata.Member, protocol_name: str) -> Member:
    rebalance_timeout_ms = stored.rebalance_timeout_ms
    return Member(
        stored.member_id,
        instance_id=stored.group_instance_id,
        client_id=stored.client_id,
        client_host=stored.client_host,
        session_timeout_ms=stored.session_timeout_ms,
        rebalance_timeout_ms=stored.session_timeout_ms if rebalance_timeout_ms < 0 else rebalance_timeout_ms,
        protocols={protocol_name: stored.subscription},
        assignment=stored.assignment,
    )


def refused(error: type[KafkaError], member_id: str = "") -> JoinResult:
    """The answer to a JoinGroup that says only why it failed."""
    return JoinResult(error.code, member_id)


def size_of(protocols: Mapping[str, bytes]) -> int:
    """How much memory protocols and their metadata take, about."""
    return sum(len(name) + len(metadata) for name, metadata in protocols.items())
