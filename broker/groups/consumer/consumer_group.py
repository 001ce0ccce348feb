"""A consumer group as data: exactly what its records say, and indexes of it.

This module neither waits nor writes nor reads a clock. Only `state_changes.py` changes a group.
`modern/modern_group.py` has its states.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Mapping
from enum import Enum
from typing import TYPE_CHECKING

from ....protocol.consumer_protocol import PROTOCOL_TYPE
from ..modern.modern_group import ModernGroup
from ..modern.record_format import CONSUMER
from .members import NEW, CurrentAssignment, Expression, Membership, MemberState, Partitions

if TYPE_CHECKING:
    from ...coordinators.coordinator_topic import KeyValue
    from ..group import Place


class ConsumerGroupState(Enum):
    """A state, with the name that clients are given."""

    EMPTY = "Empty"
    ASSIGNING = "Assigning"
    RECONCILING = "Reconciling"
    STABLE = "Stable"
    DEAD = "Dead"


class ConsumerGroup(ModernGroup[Membership, CurrentAssignment, Mapping[bytes, Collection[int]]]):
    """A group of the consumer protocol, which members of the classic protocol may join as well (a mixed group). Targets
    are partitions by topic id."""

    group_type = CONSUMER
    states = ConsumerGroupState
    settled = MemberState.STABLE
    unrevoked = MemberState.UNREVOKED_PARTITIONS
    new_member = NEW

    def __init__(self, group_id: str, default_assignor: str) -> None:
        super().__init__(group_id)
        self.default_assignor = default_assignor
        """The assignor where no member names one."""
        self.expressions: dict[str, Expression] = {}
        """The regular expressions that were resolved."""
        self.static_members: dict[str, str] = {}
        """Member ids by instance id."""
        self.subscribers: Counter[str] = Counter()
        """How many members subscribe to a topic by its name."""
        self.expression_subscribers: Counter[str] = Counter()
        self.assignor_votes: Counter[str] = Counter()
        self.classic_count = 0
        """How many members speak the classic protocol."""
        self.resolved_at_ms: int | None = None
        """When the last resolution of the regular expressions began, in log time; None if none did here."""
        self.resolved_version: int | None = None
        """The version of the cluster's metadata at that time."""
        self.is_resolving = False
        self._owners: dict[bytes, dict[int, str]] = {}
        """The member that has a partition, by topic id and partition: assigned, or not given up."""

    @property
    def shown_protocol_type(self) -> str:
        return PROTOCOL_TYPE

    @property
    def protocol(self) -> str | None:
        return self.assignor() if self.memberships else None

    # --- members

    def speaks_classic(self, member_id: str) -> bool:
        return self.memberships[member_id].classic is not None

    def assigned_at(self, member_id: str, place: Place) -> int | None:
        current = self.current(member_id)
        epoch = current.assigned.get(place.topic_id, {}).get(place.partition)
        return current.revoking.get(place.topic_id, {}).get(place.partition) if epoch is None else epoch

    def is_free(self, member_id: str, topic_id: bytes, partition: int) -> bool:
        """Whether no other member than this one has the partition."""
        return self._owners.get(topic_id, {}).get(partition, member_id) == member_id

    def assignor(self) -> str:
        """The assignor that most members name; the default if none names one."""
        votes = self.assignor_votes
        return max(votes, key=votes.__getitem__) if votes else self.default_assignor

    def topics_of(self, members: Iterable[Membership]) -> set[str]:
        topics: set[str] = set()
        for member in {member.subscription: member for member in members}.values():
            topics |= self.topic_names_of(member)
        return topics

    def topic_names_of(self, membership: Membership) -> set[str]:
        """The topics that a member subscribes to, by name or by expression. An expression that is not resolved stands
        for none."""
        expression = self.expressions.get(membership.topic_regex)
        return {*membership.topic_names, *(() if expression is None else expression.topics)}

    # --- subscriptions

    def subscribed_topics(self) -> set[str]:
        topics = set(self.subscribers)
        for regex in self.expression_subscribers:
            if regex in self.expressions:
                topics |= self.expressions[regex].topics
        return topics

    def is_subscribed_to(self, topic: str) -> bool:
        if topic in self.subscribers:
            return True
        return any(
            topic in self.expressions[regex].topics
            for regex in self.expression_subscribers
            if regex in self.expressions
        )

    # --- records

    def tombstones(self) -> list[KeyValue]:
        from .state_changes import removal

        return [change.record(self.group_id) for change in removal(self)]

    # --- changes, made by `state_changes.py`

    def put_membership(self, member_id: str, membership: Membership | None) -> None:
        old = self.memberships.pop(member_id, None)
        if old is not None:
            self._count(old, -1)
        if membership is not None:
            self.memberships[member_id] = membership
            self._count(membership, +1)
        else:
            self.currents.pop(member_id, None)

    def _count(self, membership: Membership, change: int) -> None:
        for name in set(membership.topic_names):
            _add(self.subscribers, name, change)
        if membership.topic_regex:
            _add(self.expression_subscribers, membership.topic_regex, change)
        if membership.assignor:
            _add(self.assignor_votes, membership.assignor, change)
        self.classic_count += change * (membership.classic is not None)
        instance_id = membership.instance_id
        if instance_id is None:
            return
        if change > 0:
            self.static_members[instance_id] = membership.member_id
        elif self.static_members.get(instance_id) == membership.member_id:
            del self.static_members[instance_id]

    def put_current(self, member_id: str, current: CurrentAssignment | None) -> None:
        old = self.currents.pop(member_id, None)
        if old is not None:
            for partitions in (old.assigned, old.revoking):
                self._release(member_id, partitions)
        if current is not None:
            self.currents[member_id] = current
            for partitions in (current.assigned, current.revoking):
                self._claim(member_id, partitions)

    def _release(self, member_id: str, partitions: Partitions) -> None:
        for topic_id, numbers in partitions.items():
            owners = self._owners.get(topic_id, {})
            for number in numbers:
                if owners.get(number) == member_id:
                    del owners[number]
            if not owners:
                self._owners.pop(topic_id, None)

    def _claim(self, member_id: str, partitions: Partitions) -> None:
        for topic_id, numbers in partitions.items():
            owners = self._owners.setdefault(topic_id, {})
            for number in numbers:
                owners[number] = member_id

    def _copied(self) -> ConsumerGroup:
        copy = ConsumerGroup(self.group_id, self.default_assignor)
        copy.expressions, copy.assignor_votes = dict(self.expressions), Counter(self.assignor_votes)
        return copy


def _add(counter: Counter[str], key: str, change: int) -> None:
    counter[key] += change
    if not counter[key]:
        del counter[key]
