"""A streams group as data: exactly what its records say, and indexes of it.

This module neither waits nor writes nor reads a clock. Only `state_changes.py` changes a group.
`modern/modern_group.py` has its states.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from enum import Enum
from typing import TYPE_CHECKING

from ..modern.modern_group import ModernGroup
from ..modern.record_format import STREAMS
from .sticky_assignor import NAME as ASSIGNOR
from .task_members import NEW, CurrentTasks, TaskMembership, TaskState
from .tasks import Duties, Task, Tasks, each_task

if TYPE_CHECKING:
    from ...coordinators.coordinator_topic import KeyValue
    from ..group import Place
    from .configured_topology import ConfiguredTopology
    from .topology import Topology

NOT_VALIDATED = -1
"""The validated topology epoch of a group whose topology is not ready."""


class StreamsGroupState(Enum):
    """A state, with the name that clients are given."""

    EMPTY = "Empty"
    NOT_READY = "NotReady"
    ASSIGNING = "Assigning"
    RECONCILING = "Reconciling"
    STABLE = "Stable"
    DEAD = "Dead"


class StreamsGroup(ModernGroup[TaskMembership, CurrentTasks, Duties]):
    """A group of instances of one application of Kafka Streams."""

    group_type = STREAMS
    states = StreamsGroupState
    settled = TaskState.STABLE
    unrevoked = TaskState.UNREVOKED_TASKS
    new_member = NEW

    def __init__(self, group_id: str) -> None:
        super().__init__(group_id)
        self.topology: Topology | None = None
        """That of its first member; it stays when all members have gone."""
        self.validated_topology_epoch = NOT_VALIDATED
        """The epoch of the topology if all its topics exist, as of the group epoch; else NOT_VALIDATED."""
        self.assignment_configs: Mapping[str, str] = {}
        """The settings that the group epoch takes into account, by the names that its record has."""
        self.configured: ConfiguredTopology | None = None
        """The topology over the topics of the metadata hash; None until a heartbeat comes. It is not stored."""
        self.endpoint_epoch = 0
        """Raised when a member with an endpoint gets other tasks. It is not stored."""
        self.shutdown_requested_by: str | None = None
        """The member that asked for the shutdown of the application, until the group is Empty. It is not stored."""
        self._active: dict[Task, str] = {}
        """The process that has a task active, or has not given it up."""
        self._copies: dict[Task, Counter[str]] = {}
        """The processes that have a task as standby or warm-up, or have not given it up."""

    @property
    def is_ready(self) -> bool:
        return self.topology is not None and self.topology.epoch == self.validated_topology_epoch

    @property
    def shown_protocol_type(self) -> str:
        return STREAMS

    @property
    def protocol(self) -> str | None:
        return ASSIGNOR if self.memberships else None

    # --- members

    def assigned_at(self, member_id: str, place: Place) -> int | None:
        """That of the active task which reads the partition."""
        subtopology_id = "" if self.topology is None else self.topology.readers.get(place.topic, "")
        current = self.current(member_id)
        epoch = current.active.get(subtopology_id, {}).get(place.partition)
        return current.revoking_active.get(subtopology_id, {}).get(place.partition) if epoch is None else epoch

    def may_be_active(self, process_id: str, subtopology_id: str, partition: int) -> bool:
        """Whether no process has the task active, and this one has no copy of it."""
        task = subtopology_id, partition
        return task not in self._active and not self._has_copy(process_id, task)

    def may_be_copied(self, process_id: str, subtopology_id: str, partition: int) -> bool:
        """Whether this process does not have the task."""
        task = subtopology_id, partition
        return self._active.get(task) != process_id and not self._has_copy(process_id, task)

    def _has_copy(self, process_id: str, task: Task) -> bool:
        return process_id in self._copies.get(task, ())

    # --- topics

    def topics_of(self, members: Iterable[TaskMembership]) -> set[str]:
        """As in Kafka, the topics of the topology, whichever the members are."""
        return set() if self.topology is None else self.topology.required_topics

    def subscribed_topics(self) -> set[str]:
        if self.topology is None or not self.memberships:
            return set()
        return set(self.topology.readers)

    def is_subscribed_to(self, topic: str) -> bool:
        return self.topology is not None and bool(self.memberships) and topic in self.topology.readers

    # --- records

    def tombstones(self) -> list[KeyValue]:
        from .state_changes import removal

        return [change.record(self.group_id) for change in removal(self)]

    # --- changes, made by `state_changes.py`

    def put_membership(self, member_id: str, membership: TaskMembership | None) -> None:
        """Note what a member has told of itself; None removes it with its tasks."""
        current = self.currents.get(member_id)
        if current is not None:
            self._release(member_id, current)
        self.memberships.pop(member_id, None)
        if membership is None:
            self.currents.pop(member_id, None)
        else:
            self.memberships[member_id] = membership
            if current is not None:
                self._claim(member_id, current)
        if not self.memberships:
            self.shutdown_requested_by = None

    def put_current(self, member_id: str, current: CurrentTasks | None) -> None:
        """Note the tasks of a member; None ends them."""
        old = self.currents.pop(member_id, None)
        if old is not None:
            self._release(member_id, old)
        if current is not None:
            self.currents[member_id] = current
            self._claim(member_id, current)

    def _process(self, member_id: str) -> str | None:
        membership = self.memberships.get(member_id)
        return None if membership is None else membership.process_id

    def _release(self, member_id: str, current: CurrentTasks) -> None:
        process_id = self._process(member_id)
        if process_id is None:
            return
        for duties in (current.assigned, current.revoking):
            for task in each_task(duties.active):
                if self._active.get(task) == process_id:
                    del self._active[task]
            for task in _copied_tasks(duties):
                copies = self._copies.get(task)
                if copies is None:
                    continue
                copies[process_id] -= 1
                if copies[process_id] <= 0:
                    del copies[process_id]
                if not copies:
                    del self._copies[task]

    def _claim(self, member_id: str, current: CurrentTasks) -> None:
        process_id = self._process(member_id)
        if process_id is None:
            return
        for duties in (current.assigned, current.revoking):
            self._active.update(dict.fromkeys(each_task(duties.active), process_id))
            for task in _copied_tasks(duties):
                self._copies.setdefault(task, Counter())[process_id] += 1

    def _copied(self) -> StreamsGroup:
        copy = StreamsGroup(self.group_id)
        copy.topology, copy.configured = self.topology, self.configured
        copy.validated_topology_epoch = self.validated_topology_epoch
        return copy


def _copied_tasks(duties: Duties) -> Iterator[Task]:
    roles: tuple[Tasks, ...] = (duties.standby, duties.warmup)
    for tasks in roles:
        yield from each_task(tasks)
