"""StreamsGroupDescribe, version 0: state, epochs, topology, members and tasks of streams groups (KIP-1071).

A group of another kind, an unknown one, and one whose records are all above the high watermark are GROUP_ID_NOT_FOUND.
With an authorizer, a group with a topic that the client may not describe is refused as a whole. The internal topics of
a topology that is ready have the partitions that were decided, all others those that the application gave them.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from functools import partial

from ...protocol.errors import KafkaError
from ...protocol.messages.streams_group_describe import (
    Assignment,
    StreamsGroupDescribeRequest,
    StreamsGroupDescribeResponse,
)
from ...protocol.messages.streams_group_heartbeat import Endpoint, KeyValue, TaskIds, TopicInfo
from ..api.registry import handles
from ..api.request_context import Context
from ..groups.streams.configured_topology import ConfiguredSubtopology
from ..groups.streams.streams_group import StreamsGroup
from ..groups.streams.task_members import TaskMembership
from ..groups.streams.tasks import Duties, Tasks
from ..groups.streams.topology import InternalTopic, Subtopology, stored_topics
from ..security.guarding import Call
from ..security.permission_kinds import each
from ..security.resources import AclOperation, ResourceType
from .group_descriptions import described, guard_topics, modern_group

Description = StreamsGroupDescribeResponse.Group
DescribedTopology = Description.Topology
DescribedSubtopology = Description.Topology.Subtopology


async def guard(call: Call) -> StreamsGroupDescribeResponse:
    """Describe the groups that the client may describe, with all their topics, and tell what else it may do to them."""
    offered = call.context.services.offers_streams_groups
    answer: StreamsGroupDescribeResponse = await guard_topics(
        call, Description, _topics, is_offered=offered, members=[], topology=None
    )
    return answer


def _topics(group: Description) -> Iterator[str]:
    for subtopology in () if group.topology is None else group.topology.subtopologies or ():
        yield from subtopology.source_topics
        yield from subtopology.repartition_sink_topics
        yield from (topic.name for topic in subtopology.repartition_source_topics)
        yield from (topic.name for topic in subtopology.state_changelog_topics)


@handles(
    StreamsGroupDescribeRequest,
    needs=[each(AclOperation.DESCRIBE, ResourceType.GROUP), each(AclOperation.DESCRIBE, ResourceType.TOPIC)],
    guard=guard,
)
async def streams_group_describe(
    request: StreamsGroupDescribeRequest, context: Context
) -> StreamsGroupDescribeResponse:
    """Describe each group."""
    operations = request.include_authorized_operations
    groups = await described(request.group_ids, partial(_describe, context), with_operations=operations)
    return StreamsGroupDescribeResponse(groups=groups)


def _describe(context: Context, group_id: str) -> Description:
    try:
        offered = context.services.offers_streams_groups
        group = modern_group(
            context, group_id, StreamsGroup, is_offered=offered, otherwise="streams groups are not offered"
        )
    except KafkaError as error:
        return Description(group_id=group_id, error_code=error.code, error_message=error.message)
    shown = group.shown
    return Description(
        group_id=group_id,
        group_state=group.shown_state.value,
        group_epoch=shown.epoch,
        assignment_epoch=shown.assignment_epoch,
        topology=_topology(shown),
        members=[_member(shown, member) for member in shown.memberships.values()],
    )


# --- the topology


def _topology(group: StreamsGroup) -> DescribedTopology | None:
    topology, configured = group.topology, group.configured
    if topology is None:
        return None
    if configured is not None and configured.is_ready and configured.subtopologies is not None:
        subtopologies = [_configured(name, each) for name, each in configured.subtopologies.items()]
    else:
        subtopologies = [_given(topology.subtopologies[name]) for name in sorted(topology.subtopologies)]
    return DescribedTopology(epoch=topology.epoch, subtopologies=subtopologies)


def _configured(subtopology_id: str, subtopology: ConfiguredSubtopology) -> DescribedSubtopology:
    return DescribedSubtopology(
        subtopology_id=subtopology_id,
        source_topics=sorted(subtopology.source_topics),
        repartition_sink_topics=sorted(subtopology.repartition_sinks),
        state_changelog_topics=_internal(subtopology.changelogs.values()),
        repartition_source_topics=_internal(subtopology.repartition_sources.values()),
    )


def _given(subtopology: Subtopology) -> DescribedSubtopology:
    return DescribedSubtopology(
        subtopology_id=subtopology.subtopology_id,
        source_topics=sorted(subtopology.source_topics),
        repartition_sink_topics=sorted(subtopology.repartition_sinks),
        state_changelog_topics=_internal(subtopology.changelogs),
        repartition_source_topics=_internal(subtopology.repartition_sources),
    )


def _internal(topics: Iterable[InternalTopic]) -> list[TopicInfo]:
    return stored_topics(sorted(topics))


# --- members


def _member(group: StreamsGroup, member: TaskMembership) -> Description.Member:
    current, endpoint = group.current(member.member_id), member.user_endpoint
    return Description.Member(
        member_id=member.member_id,
        member_epoch=current.epoch,
        instance_id=member.instance_id,
        rack_id=member.rack_id,
        client_id=member.client_id,
        client_host=member.client_host,
        topology_epoch=member.topology_epoch,
        process_id=member.process_id,
        user_endpoint=None if endpoint is None else Endpoint(host=endpoint[0], port=endpoint[1]),
        client_tags=[KeyValue(key=key, value=value) for key, value in member.client_tags],
        assignment=_assignment(current.assigned),
        target_assignment=_assignment(group.targets.get(member.member_id, Duties())),
    )


def _assignment(duties: Duties) -> Assignment:
    return Assignment(
        active_tasks=_task_ids(duties.active),
        standby_tasks=_task_ids(duties.standby),
        warmup_tasks=_task_ids(duties.warmup),
    )


def _task_ids(tasks: Tasks) -> list[TaskIds]:
    return [TaskIds(subtopology_id=name, partitions=sorted(tasks[name])) for name in sorted(tasks)]
