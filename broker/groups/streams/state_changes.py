"""The changes of a streams group: each is one record, and its effect on the group in memory.

`record` gives key and value for the log, `apply` the effect; `read_change` makes the change of a record. A change
without a value is a tombstone.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, NamedTuple

from ....protocol.errors import StreamsInvalidTopology
from ....protocol.messages.streams_group_heartbeat import Endpoint, KeyValue
from ...coordinators.internal_records import CorruptRecord
from ..modern import record_format
from . import streams_group_records as records
from .streams_group import NOT_VALIDATED
from .task_members import ActiveTasks, CurrentTasks, TaskMembership, TaskState
from .tasks import Duties, Tasks
from .topology import Topology, read_topology, stored_subtopologies

if TYPE_CHECKING:
    from ...coordinators.coordinator_topic import KeyValue as LogKeyValue
    from ..modern.changes import Change
    from .configured_topology import ConfiguredTopology
    from .streams_group import StreamsGroup


class GroupEpoch(NamedTuple):
    """Another group epoch; None deletes the group."""

    epoch: int | None
    metadata_hash: int = 0
    validated_topology_epoch: int = NOT_VALIDATED
    assignment_configs: Mapping[str, str] = {}
    metadata_version: int | None = None
    """The version of the cluster's metadata that the hash was computed of; None if it is not known, because it is not
    stored: the next heartbeat computes the hash again."""
    configured: ConfiguredTopology | None = None
    """The topology over those topics; None if it is not known."""

    def record(self, group_id: str) -> LogKeyValue:
        key = record_format.group_key(records.GROUP_METADATA, group_id)
        if self.epoch is None:
            return key, None
        value = records.StreamsGroupMetadataValue(
            epoch=self.epoch,
            metadata_hash=self.metadata_hash,
            validated_topology_epoch=self.validated_topology_epoch,
            last_assignment_configs=_key_values(self.assignment_configs.items()),
        )
        return key, record_format.encode(value)

    def apply(self, group: StreamsGroup) -> None:
        if self.epoch is None:
            return
        group.epoch, group.metadata_hash = self.epoch, self.metadata_hash
        group.validated_topology_epoch = self.validated_topology_epoch
        group.assignment_configs = self.assignment_configs
        group.metadata_version = self.metadata_version
        group.configured = self.configured


class TopologyChange(NamedTuple):
    """The group gets its topology; None removes it."""

    topology: Topology | None

    def record(self, group_id: str) -> LogKeyValue:
        key = record_format.group_key(records.TOPOLOGY, group_id)
        if self.topology is None:
            return key, None
        value = records.StreamsGroupTopologyValue(
            epoch=self.topology.epoch, subtopologies=stored_subtopologies(self.topology)
        )
        return key, record_format.encode(value)

    def apply(self, group: StreamsGroup) -> None:
        group.topology = self.topology


class MembershipChange(NamedTuple):
    """A member tells something of itself; None removes it."""

    member_id: str
    membership: TaskMembership | None

    def record(self, group_id: str) -> LogKeyValue:
        key = record_format.member_key(records.MEMBER_METADATA, group_id, self.member_id)
        member = self.membership
        if member is None:
            return key, None
        value = records.StreamsGroupMemberMetadataValue(
            instance_id=member.instance_id,
            rack_id=member.rack_id,
            client_id=member.client_id,
            client_host=member.client_host,
            rebalance_timeout_ms=member.rebalance_timeout_ms,
            topology_epoch=member.topology_epoch,
            process_id=member.process_id,
            user_endpoint=_endpoint(member),
            client_tags=_key_values(member.client_tags),
        )
        return key, record_format.encode(value)

    def apply(self, group: StreamsGroup) -> None:
        group.put_membership(self.member_id, self.membership)


class AssignmentEpoch(NamedTuple):
    """The target belongs to this group epoch; None if there is none any more."""

    epoch: int | None
    assigned_at_ms: int = 0

    def record(self, group_id: str) -> LogKeyValue:
        key = record_format.group_key(records.TARGET_ASSIGNMENT_METADATA, group_id)
        if self.epoch is None:
            return key, None
        value = records.StreamsGroupTargetAssignmentMetadataValue(
            assignment_epoch=self.epoch, assignment_timestamp=self.assigned_at_ms
        )
        return key, record_format.encode(value)

    def apply(self, group: StreamsGroup) -> None:
        group.put_assignment_epoch(self.epoch, self.assigned_at_ms)


class TargetChange(NamedTuple):
    """A member has another target; None removes it."""

    member_id: str
    target: Duties | None

    def record(self, group_id: str) -> LogKeyValue:
        key = record_format.member_key(records.TARGET_ASSIGNMENT_MEMBER, group_id, self.member_id)
        if self.target is None:
            return key, None
        value = records.StreamsGroupTargetAssignmentMemberValue(
            active_tasks=_target_tasks(self.target.active),
            standby_tasks=_target_tasks(self.target.standby),
            warmup_tasks=_target_tasks(self.target.warmup),
        )
        return key, record_format.encode(value)

    def apply(self, group: StreamsGroup) -> None:
        group.put_target(self.member_id, self.target)


class CurrentChange(NamedTuple):
    """A member was assigned other tasks; None ends its assignment."""

    member_id: str
    current: CurrentTasks | None

    def record(self, group_id: str) -> LogKeyValue:
        key = record_format.member_key(records.CURRENT_MEMBER_ASSIGNMENT, group_id, self.member_id)
        current = self.current
        if current is None:
            return key, None
        value = records.StreamsGroupCurrentMemberAssignmentValue(
            member_epoch=current.epoch,
            previous_member_epoch=current.previous_epoch,
            state=current.state.value,
            active_tasks=_active_tasks(current.active),
            standby_tasks=_copied_tasks(current.standby),
            warmup_tasks=_copied_tasks(current.warmup),
            active_tasks_pending_revocation=_active_tasks(current.revoking_active),
            standby_tasks_pending_revocation=_copied_tasks(current.revoking_standby),
            warmup_tasks_pending_revocation=_copied_tasks(current.revoking_warmup),
        )
        return key, record_format.encode(value)

    def apply(self, group: StreamsGroup) -> None:
        group.put_current(self.member_id, self.current)


def removal_of_members(member_ids: Iterable[str]) -> Iterator[Change[StreamsGroup]]:
    """The tombstones of members."""
    for member_id in member_ids:
        yield from (CurrentChange(member_id, None), TargetChange(member_id, None), MembershipChange(member_id, None))


def removal(group: StreamsGroup) -> Iterator[Change[StreamsGroup]]:
    """The tombstones of everything, in the order on which Kafka's reader insists."""
    for member_id in group.memberships:
        yield CurrentChange(member_id, None)
    for member_id in group.memberships:
        yield TargetChange(member_id, None)
    yield AssignmentEpoch(None)
    for member_id in group.memberships:
        yield MembershipChange(member_id, None)
    yield GroupEpoch(None)
    yield TopologyChange(None)


# --- reading


def read_change(key_type: int, name: str, value: bytes) -> Change[StreamsGroup] | None:
    """The change of a record; `name` is the member id of its key. None for a record of an old version that means
    nothing any more. Raises CorruptRecord."""
    if key_type == records.GROUP_METADATA:
        metadata = record_format.decode(records.StreamsGroupMetadataValue, value)
        configs = {config.key: config.value for config in metadata.last_assignment_configs or ()}
        return GroupEpoch(metadata.epoch, metadata.metadata_hash, metadata.validated_topology_epoch, configs)
    if key_type == records.MEMBER_METADATA:
        return MembershipChange(name, _read_membership(name, value))
    if key_type == records.TARGET_ASSIGNMENT_METADATA:
        epoch = record_format.decode(records.StreamsGroupTargetAssignmentMetadataValue, value)
        return AssignmentEpoch(epoch.assignment_epoch, epoch.assignment_timestamp)
    if key_type == records.TARGET_ASSIGNMENT_MEMBER:
        target = record_format.decode(records.StreamsGroupTargetAssignmentMemberValue, value)
        roles = (target.active_tasks, target.standby_tasks, target.warmup_tasks)
        return TargetChange(name, Duties(*map(_read_tasks, roles)))
    if key_type == records.CURRENT_MEMBER_ASSIGNMENT:
        return CurrentChange(name, _read_current(value))
    if key_type == records.TOPOLOGY:
        stored = record_format.decode(records.StreamsGroupTopologyValue, value)
        try:
            return TopologyChange(read_topology(stored.epoch, stored.subtopologies))
        except StreamsInvalidTopology as error:
            raise CorruptRecord(f"no topology: {error.message}") from error
    return None


def _read_membership(member_id: str, value: bytes) -> TaskMembership:
    read = record_format.decode(records.StreamsGroupMemberMetadataValue, value)
    endpoint = read.user_endpoint
    return TaskMembership(
        member_id,
        instance_id=read.instance_id,
        rack_id=read.rack_id,
        client_id=read.client_id,
        client_host=read.client_host,
        rebalance_timeout_ms=read.rebalance_timeout_ms,
        topology_epoch=read.topology_epoch,
        process_id=read.process_id,
        user_endpoint=None if endpoint is None else (endpoint.host, endpoint.port),
        client_tags=tuple((tag.key, tag.value) for tag in read.client_tags),
    )


def _read_current(value: bytes) -> CurrentTasks:
    read = record_format.decode(records.StreamsGroupCurrentMemberAssignmentValue, value)
    try:
        state = TaskState(read.state)
    except ValueError:
        state = TaskState.UNKNOWN
    return CurrentTasks(
        read.member_epoch,
        read.previous_member_epoch,
        state,
        _read_active_tasks(read.active_tasks, read.member_epoch),
        _read_tasks(read.standby_tasks),
        _read_tasks(read.warmup_tasks),
        _read_active_tasks(read.active_tasks_pending_revocation, read.member_epoch),
        _read_tasks(read.standby_tasks_pending_revocation),
        _read_tasks(read.warmup_tasks_pending_revocation),
    )


_StoredTarget = records.StreamsGroupTargetAssignmentMemberValue.TaskIds
_StoredCurrent = records.StreamsGroupCurrentMemberAssignmentValue.TaskIds


def _target_tasks(tasks: Tasks) -> list[_StoredTarget]:
    return [_StoredTarget(subtopology_id=name, partitions=sorted(tasks[name])) for name in sorted(tasks)]


def _copied_tasks(tasks: Tasks) -> list[_StoredCurrent]:
    return [_StoredCurrent(subtopology_id=name, partitions=sorted(tasks[name])) for name in sorted(tasks)]


def _active_tasks(tasks: ActiveTasks) -> list[_StoredCurrent]:
    return [
        _StoredCurrent(
            subtopology_id=name,
            partitions=sorted(tasks[name]),
            assignment_epochs=[tasks[name][partition] for partition in sorted(tasks[name])],
        )
        for name in sorted(tasks)
    ]


def _read_tasks(stored: Iterable[_StoredTarget | _StoredCurrent]) -> dict[str, frozenset[int]]:
    return {one.subtopology_id: frozenset(one.partitions) for one in stored}


def _read_active_tasks(stored: Iterable[_StoredCurrent], member_epoch: int) -> ActiveTasks:
    return {
        one.subtopology_id: record_format.with_epochs(one.partitions, one.assignment_epochs, member_epoch)
        for one in stored
    }


def _endpoint(member: TaskMembership) -> Endpoint | None:
    if member.user_endpoint is None:
        return None
    host, port = member.user_endpoint
    return Endpoint(host=host, port=port)


def _key_values(pairs: Iterable[tuple[str, str]]) -> list[KeyValue]:
    return [KeyValue(key=key, value=value) for key, value in sorted(pairs)]
