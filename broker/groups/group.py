"""What groups of all kinds have in common: a name, committed offsets, members that come and go.

A kind adds its members, its table of states, and what its members may do. This module neither waits nor writes nor
reads a clock.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping
from enum import Enum
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple

from ...protocol.errors import GroupIdNotFound, NonEmptyGroup
from .committed_offsets import CommittedOffsets

if TYPE_CHECKING:
    from ..coordinators.coordinator_topic import KeyValue

MOST_DEPARTURES = 8
"""Members that have gone, which a group remembers."""
MOST_OF_REASON = 255
"""Characters of the reason of a departure that are kept: as many as Java sends."""


class Departure(NamedTuple):
    """A member that is a member no more."""

    member_id: str
    client_id: str
    generation: int
    """The generation, or the group epoch, at that time."""
    reason: str
    """Why the coordinator removed it, or the reason that it gave to leave; empty if it gave none."""
    is_expelled: bool
    """Whether the coordinator removed it; else it left by itself."""
    max_poll_interval_ms: int
    """The `max.poll.interval.ms` of its client, which its requests have as its rebalance time-out."""


class Committer(NamedTuple):
    """The fields of a request that commits offsets."""

    member_id: str
    instance_id: str | None
    generation_id: int
    """The generation of a classic member, or the epoch of a member (KIP-848); negative outside of a group."""
    version: int | None
    """The version of OffsetCommit; None for a commit in a transaction."""

    @property
    def is_transactional(self) -> bool:
        return self.version is None


class Place(NamedTuple):
    """A partition in which offsets are committed."""

    topic: str
    topic_id: bytes
    partition: int


MEMBER_EPOCHS_SINCE = 9
"""The first version of OffsetCommit in which members of groups other than classic ones may commit (KIP-848)."""


class Group(ABC):
    """A group. One without members may exist only for the offsets that are committed in it (a simple consumer's)."""

    group_type: ClassVar[str]
    """The kind, as ListGroups names it: "classic", "consumer" (KIP-848)."""

    def __init__(self, group_id: str) -> None:
        self.group_id = group_id
        self.is_shown = False
        """Whether the high watermark covers a record of the group, so that readers are shown it."""
        self.offsets = CommittedOffsets()
        self.departures: tuple[Departure, ...] = ()
        """The last members that have gone, the latest at the end: for the failure report of a test. They are not
        stored."""

    def take_place_of(self, former: Group) -> None:
        """Keep the offsets of a group of another kind, and what is known of it."""
        self.offsets, self.is_shown, self.departures = former.offsets, former.is_shown, former.departures

    @property
    @abstractmethod
    def members(self) -> Mapping[str, Any]:
        """The members by member id."""

    def knows(self, member_id: str) -> bool:
        """Whether this is the id of a member, or of one that is about to join."""
        return member_id in self.members

    @property
    @abstractmethod
    def state_name(self) -> str:
        """The state, by the name that clients are given."""

    @property
    @abstractmethod
    def shown_state(self) -> Enum:
        """The state as readers are shown it, whose value is the name that clients are given."""

    @property
    @abstractmethod
    def is_removed(self) -> bool:
        """Whether the group is being removed: Dead."""

    @property
    @abstractmethod
    def is_empty(self) -> bool:
        """Whether the group has no members, and may be removed."""

    @property
    @abstractmethod
    def is_stable(self) -> bool:
        """Whether every member has what it is to have."""

    @property
    @abstractmethod
    def is_alive(self) -> bool:
        """Whether a client or a timer waits for a change of the group."""

    @property
    @abstractmethod
    def generation(self) -> int:
        """The number that a rebalance raises: a generation, or a group epoch."""

    @property
    @abstractmethod
    def shown_protocol_type(self) -> str:
        """The protocol type of its members, as clients are told it; empty for a group that never had any."""

    @property
    @abstractmethod
    def protocol(self) -> str | None:
        """How partitions are assigned: the protocol that the members have chosen, or the assignor of the coordinator;
        None without members."""

    @abstractmethod
    def subscribed_topics(self) -> set[str] | None:
        """The topics that the members subscribe to; None if they are unknown."""

    @abstractmethod
    def is_subscribed_to(self, topic: str) -> bool:
        """Whether members may read `topic`."""

    @property
    def expires(self) -> bool:
        """Whether the group is deleted by itself once it is Empty and has no offsets."""
        return True

    @property
    @abstractmethod
    def keeps_all_offsets(self) -> bool:
        """Whether none of its offsets expires now."""

    @property
    @abstractmethod
    def empty_since_ms(self) -> int | None:
        """When it became Empty, in log time, if its offsets expire counted from then; else their commits count."""

    @abstractmethod
    def tombstones(self) -> list[KeyValue]:
        """The records that delete the group, without its offsets, in the order in which they are written."""

    @abstractmethod
    def check_delete_offsets(self) -> None:
        """Check whether offsets of topics without subscribers may be deleted. Raises GroupIdNotFound, NonEmptyGroup."""

    @abstractmethod
    def check_commit(self, committer: Committer, places: Callable[[], Iterable[Place]]) -> None:
        """Check whether a client may commit offsets of these places. Raises what the kind's fences do."""

    @abstractmethod
    def check_fetch(self, member_id: str | None, epoch: int) -> None:
        """Check whether a client may read the committed offsets. Raises what the kind's fences do."""

    def check_delete(self) -> None:
        """Check whether the group may be deleted. Raises GroupIdNotFound, NonEmptyGroup."""
        if self.is_removed:
            raise GroupIdNotFound("the group was removed")
        if not self.is_empty:
            raise NonEmptyGroup("the group has members")

    def add_departure(self, gone: Departure) -> None:
        """Remember a member that goes."""
        gone = gone._replace(reason=gone.reason[:MOST_OF_REASON])
        self.departures = (*self.departures[1 - MOST_DEPARTURES :], gone)
