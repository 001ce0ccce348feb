"""The fields of a ConsumerGroupHeartbeat, their checks before any group is looked at, and the answer."""

from __future__ import annotations

from collections.abc import Collection
from typing import NamedTuple

from ....protocol.errors import InvalidRequest, UnsupportedAssignor
from ...coordinators.coordinator_topic import MAX_NAME_BYTES
from .members import JOINS, LEAVES, LEAVES_FOR_A_WHILE, Owned, Partitions

MEMBER_ID_SINCE = 1
"""From this version on the client makes its member id (KIP-1082)."""

UNCHANGED_MS = -1


class Beat(NamedTuple):
    """A heartbeat of a member; None for what has not changed."""

    group_id: str
    member_id: str
    member_epoch: int
    instance_id: str | None
    rack_id: str | None
    rebalance_timeout_ms: int
    """UNCHANGED_MS if it has not changed."""
    topic_names: Collection[str] | None
    topic_regex: str | None
    """Empty for none any more."""
    assignor: str | None
    owned: Owned | None
    """The partitions that the member owns, by topic id."""
    client_id: str
    client_host: str
    """With a slash in front, as Java shows addresses."""
    version: int

    @property
    def is_leaving(self) -> bool:
        return self.member_epoch in (LEAVES, LEAVES_FOR_A_WHILE)

    @property
    def is_full(self) -> bool:
        """Whether it has everything, so that the answer has the assignment."""
        if self.member_epoch == JOINS:
            return True
        has_subscription = self.topic_names is not None or self.topic_regex is not None
        return self.rebalance_timeout_ms != UNCHANGED_MS and has_subscription and self.owned is not None


class BeatAnswer(NamedTuple):
    """The answer to a heartbeat."""

    member_id: str
    member_epoch: int
    heartbeat_interval_ms: int = 0
    assignment: Partitions | None = None
    """None if it has not changed."""


def check_fields(beat: Beat, assignors: Collection[str]) -> None:
    """Check what needs no group, in Kafka's order. Raises InvalidRequest, UnsupportedAssignor."""
    epoch = beat.member_epoch
    if not beat.member_id.strip() and (beat.version >= MEMBER_ID_SINCE or epoch > JOINS or epoch == LEAVES):
        raise InvalidRequest("a member needs a member id")
    for name, value in (("GroupId", beat.group_id), ("InstanceId", beat.instance_id), ("RackId", beat.rack_id)):
        if value is not None and not value.strip():
            raise InvalidRequest(f"{name} must not be blank")
    if epoch == JOINS:
        _check_join(beat)
    elif epoch == LEAVES_FOR_A_WHILE and beat.instance_id is None:
        raise InvalidRequest("only a static member leaves for a while (member epoch -2): it needs an instance id")
    elif epoch < LEAVES_FOR_A_WHILE:
        raise InvalidRequest(f"a member epoch is -2 or more, not {epoch}")
    if beat.assignor is not None and beat.assignor not in assignors:
        known = ", ".join(assignors)
        raise UnsupportedAssignor(f"there is no assignor {beat.assignor!r}; there are {known}")
    names = (beat.member_id, beat.instance_id or "", beat.rack_id or "", beat.topic_regex or "")
    if any(len(name.encode()) > MAX_NAME_BYTES for name in names):
        raise InvalidRequest(f"a name has at most {MAX_NAME_BYTES} bytes, because a record has room for no more")


def _check_join(beat: Beat) -> None:
    if beat.rebalance_timeout_ms == UNCHANGED_MS:
        raise InvalidRequest("a member that joins tells its rebalance time-out")
    if beat.owned is None or beat.owned:
        raise InvalidRequest("a member that joins owns no partitions, and says so with an empty list")
    if beat.topic_names is None and beat.topic_regex is None:
        raise InvalidRequest("a member that joins subscribes to topic names or to a regular expression")
