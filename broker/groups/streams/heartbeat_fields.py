"""The fields of a StreamsGroupHeartbeat, their checks before any group is looked at, and the answer (KIP-1071)."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import NamedTuple

from ....protocol.errors import InvalidRequest, StreamsInvalidTopology
from ...coordinators.coordinator_topic import MAX_NAME_BYTES
from ..consumer.members import JOINS, LEAVES
from .endpoints import EndpointPartitions
from .statuses import Problem
from .tasks import Duties
from .topology import InternalTopic, Topology

UNCHANGED_MS = -1


class TaskBeat(NamedTuple):
    """A heartbeat of a member; None for what has not changed."""

    group_id: str
    member_id: str
    member_epoch: int
    endpoint_epoch: int
    """That of the last answer that told the endpoints; -1 for none."""
    instance_id: str | None
    rack_id: str | None
    rebalance_timeout_ms: int
    """UNCHANGED_MS if it has not changed."""
    topology: Topology | None
    """Of a member that joins."""
    owned: Duties | None
    """The tasks that the member has."""
    process_id: str | None
    user_endpoint: tuple[str, int] | None
    client_tags: tuple[tuple[str, str], ...] | None
    """By name."""
    shuts_down: bool
    """Whether the member asks for the shutdown of the application."""
    client_id: str
    client_host: str
    """With a slash in front, as Java shows addresses."""

    @property
    def is_leaving(self) -> bool:
        return self.member_epoch == LEAVES


class TaskAnswer(NamedTuple):
    """The answer to a heartbeat."""

    member_id: str
    member_epoch: int
    heartbeat_interval_ms: int = 0
    duties: Duties | None = None
    """The tasks of the member; None if they have not changed."""
    problems: tuple[Problem, ...] = ()
    """What the member is told beside its tasks, in Kafka's order."""
    endpoint_epoch: int = 0
    endpoints: Collection[EndpointPartitions] | None = None
    """None if the member knows them."""
    missing_topics: Mapping[str, InternalTopic] = {}
    """The internal topics that are to be made, by name."""


def check_fields(beat: TaskBeat) -> None:
    """Check what needs no group, in Kafka's order. Raises InvalidRequest, StreamsInvalidTopology."""
    _check_unsupported(beat)
    if not beat.member_id.strip():
        raise InvalidRequest("a member needs a member id")
    for name, value in (("GroupId", beat.group_id), ("RackId", beat.rack_id)):
        if value is not None and not value.strip():
            raise InvalidRequest(f"{name} must not be blank")
    epoch = beat.member_epoch
    if epoch == JOINS:
        _check_join(beat)
    elif epoch < LEAVES:
        raise InvalidRequest(
            f"a member epoch is {LEAVES} or more, not {epoch}: there are no static members to leave for a while"
        )
    if epoch != JOINS and beat.topology is not None:
        raise InvalidRequest("only a member that joins sends its topology")
    names = (beat.member_id, beat.rack_id or "", beat.process_id or "")
    if any(len(name.encode()) > MAX_NAME_BYTES for name in names):
        raise InvalidRequest(f"a name has at most {MAX_NAME_BYTES} bytes, because a record has room for no more")


def _check_unsupported(beat: TaskBeat) -> None:
    """Refuse what Kafka 4.3 does not support either."""
    if beat.instance_id is not None:
        raise InvalidRequest("streams groups have no static members: an instance id is not supported")
    if beat.owned is not None and beat.owned.warmup:
        raise InvalidRequest("warm-up tasks are not supported")
    if beat.topology is not None and any(each.source_topic_regex for each in beat.topology.subtopologies.values()):
        raise InvalidRequest("regular expressions of source topics are not supported")


def _check_join(beat: TaskBeat) -> None:
    if beat.rebalance_timeout_ms == UNCHANGED_MS:
        raise InvalidRequest("a member that joins tells its rebalance time-out")
    if beat.owned is None or any(beat.owned):
        raise InvalidRequest("a member that joins has no tasks, and says so with three empty lists")
    if beat.topology is None:
        raise InvalidRequest("a member that joins sends its topology")
    for subtopology in beat.topology.subtopologies.values():
        for topic in subtopology.changelogs:
            if topic.partitions:
                raise StreamsInvalidTopology(
                    f"the changelog {topic.name} has as many partitions as there are tasks, and must not name a number"
                )
