"""One member of a consumer group, as its two records hold it: what it asks for, and what it has."""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum
from types import MappingProxyType
from typing import NamedTuple

Partitions = Mapping[bytes, Mapping[int, int]]
"""Partitions of a member: by topic id and partition number, the epoch at which the member was assigned it."""

Owned = Mapping[bytes, frozenset[int]]
"""Partitions that a member reports as its own, by topic id."""

_NOTHING: Partitions = MappingProxyType({})

JOINS, LEAVES, LEAVES_FOR_A_WHILE = 0, -1, -2
"""Member epochs of a heartbeat that are no epochs."""


class ClassicMetadata(NamedTuple):
    """What a member that speaks the classic protocol has besides (a mixed group)."""

    session_timeout_ms: int
    protocols: tuple[tuple[str, bytes], ...]
    """The protocols that it supports, with their metadata, the preferred one first."""


class Membership(NamedTuple):
    """What a member has told of itself."""

    member_id: str
    instance_id: str | None
    """The name of a static member; None for a dynamic one."""
    rack_id: str | None
    client_id: str
    client_host: str
    """With a slash in front, as Java shows addresses."""
    rebalance_timeout_ms: int
    """How long it may take to give up partitions."""
    topic_names: tuple[str, ...] = ()
    """The topics that it subscribes to by name."""
    topic_regex: str = ""
    """The regular expression of the topics that it subscribes to; empty for none."""
    assignor: str | None = None
    """The assignor that it prefers; None for no preference."""
    classic: ClassicMetadata | None = None
    """None for a member that speaks the consumer protocol."""

    @property
    def is_static(self) -> bool:
        return self.instance_id is not None

    @property
    def subscription(self) -> tuple[tuple[str, ...], str]:
        """What it subscribes to, as a key: members with equal ones read the same topics."""
        return self.topic_names, self.topic_regex


class MemberState(Enum):
    """How far a member is on its way to its target assignment; the values are those of its record."""

    STABLE = 0
    """It has its target of its epoch."""
    UNREVOKED_PARTITIONS = 1
    """It is asked to give up partitions, and has not reported that it did."""
    UNRELEASED_PARTITIONS = 2
    """It waits for partitions that other members have not given up."""
    UNKNOWN = 127
    """A newer coordinator wrote a state that is not known here."""


class CurrentAssignment(NamedTuple):
    """What a member has been assigned."""

    epoch: int = 0
    """The member epoch; LEAVES_FOR_A_WHILE of a static member that is away."""
    previous_epoch: int = -1
    """The member epoch before the last change."""
    state: MemberState = MemberState.STABLE
    assigned: Partitions = _NOTHING
    revoking: Partitions = _NOTHING
    """Partitions that it has to give up, and still owns."""

    def owns(self, topic_id: bytes, partition: int) -> bool:
        """Whether the partition is its own: assigned, or not given up yet."""
        return partition in self.assigned.get(topic_id, ()) or partition in self.revoking.get(topic_id, ())


NEW = CurrentAssignment()
"""The assignment of a member that has just joined."""


class Expression(NamedTuple):
    """A regular expression that members subscribe to, as it was resolved."""

    topics: frozenset[str]
    version: int
    """The version of the cluster's metadata that it was resolved with."""
    timestamp_ms: int
    """Log time."""
