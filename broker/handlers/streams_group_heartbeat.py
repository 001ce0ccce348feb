"""StreamsGroupHeartbeat, version 0: join or leave a streams group, report tasks, and learn them (KIP-1071).

Where streams groups are not offered (`streams.version`, `group.coordinator.rebalance.protocols`) the answer is
UNSUPPORTED_VERSION, before anything else is looked at. A topology with topics of Kafka's own, or with names that no
topic may have, is STREAMS_INVALID_TOPOLOGY. An error leaves the connection and the group as they are.

The internal topics that are missing are made before the answer goes out, if the client may create all of them; the
answer tells what hindered that. Apache Kafka begins to make them, and tells what hindered it with a later answer.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator

from ...protocol.errors import InvalidRequest, InvalidTopic, StreamsInvalidTopology, UnsupportedVersion
from ...protocol.messages.streams_group_heartbeat import (
    Endpoint,
    StreamsGroupHeartbeatRequest,
    StreamsGroupHeartbeatResponse,
    TaskIds,
)
from ...protocol.topics import is_internal, validate_topic_name
from ..api.error_mapping import kafka_error
from ..api.registry import handles
from ..api.request_context import Context
from ..groups.streams.endpoints import EndpointPartitions, Partitions
from ..groups.streams.heartbeat_fields import TaskAnswer, TaskBeat
from ..groups.streams.statuses import Problem, Status
from ..groups.streams.tasks import Duties, Tasks
from ..groups.streams.topology import read_topology
from ..security.guarding import Call
from ..security.permission_kinds import each, suffices, whole
from ..security.resources import AclOperation, ResourceType

Answer = StreamsGroupHeartbeatResponse

MOST_FAILURES_TOLD = 3
"""Topics whose creation failed, of which an answer tells."""

_IF_MISSING = "if internal topics are missing: otherwise none is made, and the answer says so"


async def guard(call: Call) -> Answer:
    """Refuse the request without the group, or without one of the topics that its topology names."""
    read_group, describe_topic = call.permissions[:2]
    request = call.request
    answer: Answer
    if call.context.services.offers_streams_groups:
        if not call.may(read_group, request.group_id):
            return Answer(error_code=read_group.code)
        names = _topic_names(request)
        if all(map(_is_name, names)) and not all(call.may(describe_topic, name) for name in names):
            return Answer(error_code=describe_topic.code)
    answer = await call.serve()
    return answer


@handles(
    StreamsGroupHeartbeatRequest,
    needs=[
        whole(AclOperation.READ, ResourceType.GROUP),
        whole(AclOperation.DESCRIBE, ResourceType.TOPIC),
        suffices(AclOperation.CREATE, ResourceType.CLUSTER, when=_IF_MISSING),
        each(AclOperation.CREATE, ResourceType.TOPIC, when=_IF_MISSING),
    ],
    guard=guard,
)
async def streams_group_heartbeat(request: StreamsGroupHeartbeatRequest, context: Context) -> Answer:
    """Serve the heartbeat, then make the internal topics that are missing."""
    services = context.services
    try:
        if not services.offers_streams_groups:
            raise UnsupportedVersion("streams groups are not offered")
        _check_topic_names(_topic_names(request))
        answer = await services.groups.streams.heartbeat(_beat(request, context))
        hindrances = await _create_missing(request.group_id, answer, context)
    except Exception as failure:
        error = kafka_error(failure, f"a heartbeat of group {request.group_id!r}")
        return Answer(error_code=error.code, error_message=error.message)
    if services.groups.disconnects is not None:
        services.groups.disconnects.came_by(context.connection, request.group_id, answer.member_id)
    return _answer(answer, hindrances)


# --- the topics of a topology


def _topic_names(request: StreamsGroupHeartbeatRequest) -> list[str]:
    """The topics that a topology names, each once."""
    names: dict[str, None] = {}
    for subtopology in () if request.topology is None else request.topology.subtopologies:
        names.update(dict.fromkeys((*subtopology.source_topics, *subtopology.repartition_sink_topics)))
        names.update(dict.fromkeys(topic.name for topic in subtopology.repartition_source_topics))
        names.update(dict.fromkeys(topic.name for topic in subtopology.state_changelog_topics))
    return [*names]


def _is_name(name: str) -> bool:
    """Whether an application may have a topic of this name."""
    try:
        validate_topic_name(name)
    except InvalidTopic:
        return False
    return not is_internal(name)


def _check_topic_names(names: Collection[str]) -> None:
    """Raise StreamsInvalidTopology for names that topics of applications may not have."""
    if any(map(is_internal, names)):
        raise StreamsInvalidTopology("a topology has none of the topics in which the broker keeps its own state")
    for name in names:
        try:
            validate_topic_name(name)
        except InvalidTopic as error:
            raise StreamsInvalidTopology(error.message) from error


async def _create_missing(group_id: str, answer: TaskAnswer, context: Context) -> str:
    """Create the internal topics that are missing, on behalf of the client; return what hinders that."""
    if not answer.missing_topics:
        return ""
    forbidden = _forbidden(answer.missing_topics, context)
    if forbidden:
        return f"Without the right to CREATE the topics {', '.join(forbidden)} none is made."
    services = context.services
    interval_ms = services.group_configs.of(group_id).streams_heartbeat_interval_ms
    failures = await services.groups.streams.internal_topics.create(
        services, answer.missing_topics.values(), retry_after_ms=2 * interval_ms
    )
    if not failures:
        return ""
    told = [f"{name} ({reason})" for name, reason in [*failures.items()][:MOST_FAILURES_TOLD]]
    more = f" and {len(failures) - len(told)} more" if len(failures) > len(told) else ""
    return f"Could not make {', '.join(told)}{more}."


def _forbidden(names: Iterable[str], context: Context) -> list[str]:
    """Those of these topics that the client may not create."""
    authorizer = context.services.authorizer
    if authorizer is None:
        return []
    access = authorizer.access_of(context.connection.principal, context.connection.peer[0])
    if access.may_on_cluster(AclOperation.CREATE):
        return []
    return [name for name in names if not access.may(AclOperation.CREATE, ResourceType.TOPIC, name)]


# --- from and to the wire


def _beat(request: StreamsGroupHeartbeatRequest, context: Context) -> TaskBeat:
    topology, endpoint = request.topology, request.user_endpoint
    if request.task_offsets is not None or request.task_end_offsets is not None:
        raise InvalidRequest("offsets of tasks are not supported")
    return TaskBeat(
        group_id=request.group_id,
        member_id=request.member_id,
        member_epoch=request.member_epoch,
        endpoint_epoch=request.endpoint_information_epoch,
        instance_id=request.instance_id,
        rack_id=request.rack_id,
        rebalance_timeout_ms=request.rebalance_timeout_ms,
        topology=None if topology is None else read_topology(topology.epoch, topology.subtopologies),
        owned=_owned(request),
        process_id=request.process_id,
        user_endpoint=None if endpoint is None else (endpoint.host, endpoint.port),
        client_tags=None if request.client_tags is None else _tags(request),
        shuts_down=request.shutdown_application,
        client_id=context.client_id or "",
        client_host=f"/{context.connection.peer[0]}",
    )


def _owned(request: StreamsGroupHeartbeatRequest) -> Duties | None:
    active, standby, warmup = request.active_tasks, request.standby_tasks, request.warmup_tasks
    if active is None and standby is None and warmup is None:
        return None
    if active is None or standby is None or warmup is None:
        raise InvalidRequest("a member reports its tasks in all three roles, or in none")
    return Duties(_tasks(active), _tasks(standby), _tasks(warmup))


def _tasks(sent: Iterable[TaskIds]) -> Tasks:
    tasks: dict[str, frozenset[int]] = {}
    for one in sent:
        tasks[one.subtopology_id] = tasks.get(one.subtopology_id, frozenset()).union(one.partitions)
    return tasks


def _tags(request: StreamsGroupHeartbeatRequest) -> tuple[tuple[str, str], ...]:
    tags = {tag.key: tag.value for tag in request.client_tags or ()}
    if len(tags) < len(request.client_tags or ()):
        raise InvalidRequest("a client has each tag once")
    return tuple(sorted(tags.items()))


def _answer(answer: TaskAnswer, hindrances: str) -> Answer:
    duties = answer.duties
    return Answer(
        member_id=answer.member_id,
        member_epoch=answer.member_epoch,
        heartbeat_interval_ms=answer.heartbeat_interval_ms,
        status=[_status(problem, hindrances) for problem in answer.problems],
        active_tasks=None if duties is None else _task_ids(duties.active),
        standby_tasks=None if duties is None else _task_ids(duties.standby),
        warmup_tasks=None if duties is None else _task_ids(duties.warmup),
        endpoint_information_epoch=answer.endpoint_epoch,
        partitions_by_user_endpoint=None if answer.endpoints is None else [*map(_endpoint, answer.endpoints)],
    )


def _status(problem: Problem, hindrances: str) -> Answer.Status:
    detail = problem.detail
    if hindrances and problem.status is Status.MISSING_INTERNAL_TOPICS:
        detail = f"{detail}; {hindrances}"
    return Answer.Status(status_code=problem.status.value, status_detail=detail)


def _task_ids(tasks: Tasks) -> list[TaskIds]:
    return [TaskIds(subtopology_id=name, partitions=sorted(tasks[name])) for name in sorted(tasks)]


def _endpoint(told: EndpointPartitions) -> Answer.EndpointToPartitions:
    host, port = told.endpoint
    return Answer.EndpointToPartitions(
        user_endpoint=Endpoint(host=host, port=port),
        active_partitions=[*_partitions(told.active)],
        standby_partitions=[*_partitions(told.standby)],
    )


def _partitions(partitions: Partitions) -> Iterator[Answer.EndpointToPartitions.TopicPartition]:
    for topic, numbers in partitions.items():
        yield Answer.EndpointToPartitions.TopicPartition(topic=topic, partitions=[*numbers])
