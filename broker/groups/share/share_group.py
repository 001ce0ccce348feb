"""A share group as data: exactly what its records say.

This module neither waits nor writes nor reads a clock. Only `state_changes.py` changes a group. The states are Empty
and Stable: a member never waits for what another one has.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from enum import Enum
from types import MappingProxyType
from typing import TYPE_CHECKING, NamedTuple

from ....protocol.errors import GroupIdNotFound
from ..modern.modern_group import ModernGroup
from ..modern.record_format import SHARE

if TYPE_CHECKING:
    from ...coordinators.coordinator_topic import KeyValue
    from ..group import Committer, Place

ASSIGNOR = "simple"

Partitions = Mapping[bytes, frozenset[int]]
"""Partitions by topic id."""

NO_PARTITIONS: Partitions = MappingProxyType({})


class ShareGroupState(Enum):
    """A state, with the name that clients are given."""

    EMPTY = "Empty"
    STABLE = "Stable"
    DEAD = "Dead"


class ShareMemberState(Enum):
    """The state of a member; the value is that of its record."""

    STABLE = 0
    UNREVOKED = 1
    """No member of a share group ever is: it gives up partitions at once."""


class ShareMembership(NamedTuple):
    """What a member has told of itself."""

    member_id: str
    rack_id: str | None
    client_id: str
    client_host: str
    """With a slash in front, as Java shows addresses."""
    topic_names: frozenset[str]
    """The topics that it subscribes to."""

    @property
    def rebalance_timeout_ms(self) -> int:
        """A member is not waited for."""
        return 0

    @property
    def instance_id(self) -> None:
        """There are no static members."""

    @property
    def is_static(self) -> bool:
        return False


class ShareAssignment(NamedTuple):
    """What a member has been assigned."""

    epoch: int = 0
    """The member epoch."""
    previous_epoch: int = -1
    """The member epoch before the last change."""
    assigned: Partitions = NO_PARTITIONS

    @property
    def state(self) -> ShareMemberState:
        return ShareMemberState.STABLE


class SharedTopic(NamedTuple):
    """The partitions of a topic whose states are equally far."""

    name: str
    partitions: frozenset[int]


class PartitionStates(NamedTuple):
    """How far the states of the group's partitions are, by topic id."""

    initializing: Mapping[bytes, SharedTopic] = MappingProxyType({})
    """Those that the share coordinator was asked to initialize, and may not have initialized."""
    initialized: Mapping[bytes, SharedTopic] = MappingProxyType({})
    """Those that can be assigned."""
    deleting: Mapping[bytes, str] = MappingProxyType({})
    """The names of the topics of which the share coordinator was asked to delete all states."""

    @property
    def assignable(self) -> Partitions:
        return {topic_id: topic.partitions for topic_id, topic in self.initialized.items()}


NO_STATES = PartitionStates()
"""Those of a group without a record of them."""


class ShareGroup(ModernGroup[ShareMembership, ShareAssignment, Partitions]):
    """A group whose members share partitions."""

    group_type = SHARE
    states = ShareGroupState
    settled = ShareMemberState.STABLE
    unrevoked = ShareMemberState.UNREVOKED
    new_member = ShareAssignment()

    def __init__(self, group_id: str) -> None:
        super().__init__(group_id)
        self.partition_states = NO_STATES
        self.states_written_ms = 0
        """When `partition_states` were written the last time, in log time. It is not stored."""

    @property
    def has_states(self) -> bool:
        """Whether there is a record of the states of partitions."""
        return self.partition_states is not NO_STATES

    def _state(self) -> str:
        if self._is_removed:
            return "DEAD"
        return "STABLE" if self.memberships else "EMPTY"

    @property
    def shown_protocol_type(self) -> str:
        return SHARE

    @property
    def protocol(self) -> str | None:
        return ASSIGNOR if self.memberships else None

    # --- topics

    def topics_of(self, members: Iterable[ShareMembership]) -> set[str]:
        return {name for names in {member.topic_names for member in members} for name in names}

    def subscribed_topics(self) -> set[str]:
        return self.topics_of(self.memberships.values())

    def is_subscribed_to(self, topic: str) -> bool:
        return any(topic in member.topic_names for member in self.memberships.values())

    # --- offsets, of which a share group commits none

    @property
    def keeps_all_offsets(self) -> bool:
        return True

    @property
    def expires(self) -> bool:
        return False

    def assigned_at(self, member_id: str, place: Place) -> int | None:
        return None

    def check_delete_offsets(self) -> None:
        raise GroupIdNotFound(f"group {self.group_id} is a share group, which commits no offsets")

    def check_commit(self, committer: Committer, places: Callable[[], Iterable[Place]]) -> None:
        raise GroupIdNotFound(f"group {self.group_id} is a share group, which commits no offsets")

    def check_fetch(self, member_id: str | None, epoch: int) -> None:
        """As in Kafka everyone may ask; there are no offsets."""

    # --- records

    def tombstones(self) -> list[KeyValue]:
        from .state_changes import removal

        return [change.record(self.group_id) for change in removal(self)]

    # --- changes, made by `state_changes.py`

    def put_membership(self, member_id: str, membership: ShareMembership | None) -> None:
        """Note what a member has told of itself; None removes it with its partitions."""
        if membership is None:
            self.memberships.pop(member_id, None)
            self.currents.pop(member_id, None)
        else:
            self.memberships[member_id] = membership

    def put_current(self, member_id: str, current: ShareAssignment | None) -> None:
        """Note the partitions of a member; None ends them."""
        if current is None:
            self.currents.pop(member_id, None)
        else:
            self.currents[member_id] = current

    def _copied(self) -> ShareGroup:
        copy = ShareGroup(self.group_id)
        copy.partition_states = self.partition_states
        return copy
