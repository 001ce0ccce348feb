"""One member of a streams group, as its two records hold it: what it tells of itself, and the tasks that it has."""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum
from types import MappingProxyType
from typing import NamedTuple

from .tasks import Duties, Tasks

ActiveTasks = Mapping[str, Mapping[int, int]]
"""Active tasks by subtopology id and partition, with the epochs at which they were assigned."""

_NONE: ActiveTasks = MappingProxyType({})


class TaskMembership(NamedTuple):
    """What a member has told of itself."""

    member_id: str
    instance_id: str | None
    """None: static members are not supported, in Kafka 4.3 either."""
    rack_id: str | None
    client_id: str
    client_host: str
    """With a slash in front, as Java shows addresses."""
    rebalance_timeout_ms: int
    """How long it may take to give up tasks."""
    topology_epoch: int
    process_id: str
    """The instance of Kafka Streams, which may have several members."""
    user_endpoint: tuple[str, int] | None
    """Host and port where it answers interactive queries; None if it does not."""
    client_tags: tuple[tuple[str, str], ...]


class TaskState(Enum):
    """How far a member is on its way to its target; the values are those of its record."""

    STABLE = 1
    """It has its target of its epoch."""
    UNREVOKED_TASKS = 2
    """It is asked to give up tasks, and has not reported that it did."""
    UNRELEASED_TASKS = 3
    """It waits for tasks that others have not given up."""
    UNKNOWN = 127
    """A newer coordinator wrote a state that is not known here."""


class CurrentTasks(NamedTuple):
    """The tasks that a member has been assigned."""

    epoch: int = 0
    """The member epoch."""
    previous_epoch: int = -1
    """The member epoch before the last change."""
    state: TaskState = TaskState.STABLE
    active: ActiveTasks = _NONE
    standby: Tasks = _NONE
    warmup: Tasks = _NONE
    revoking_active: ActiveTasks = _NONE
    """Tasks that it has to give up, and still has."""
    revoking_standby: Tasks = _NONE
    revoking_warmup: Tasks = _NONE

    @property
    def assigned(self) -> Duties:
        return Duties(self.active, self.standby, self.warmup)

    @property
    def revoking(self) -> Duties:
        return Duties(self.revoking_active, self.revoking_standby, self.revoking_warmup)


NEW = CurrentTasks()
"""The tasks of a member that has just joined."""
