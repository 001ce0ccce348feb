"""Guards of what concerns groups and their offsets."""

from __future__ import annotations

from typing import Any

from ...protocol.messages import (
    DeleteGroupsRequest,
    DeleteGroupsResponse,
    DescribeGroupsRequest,
    DescribeGroupsResponse,
    FindCoordinatorRequest,
    FindCoordinatorResponse,
    HeartbeatRequest,
    JoinGroupRequest,
    LeaveGroupRequest,
    ListGroupsRequest,
    OffsetCommitRequest,
    OffsetCommitResponse,
    OffsetDeleteRequest,
    OffsetDeleteResponse,
    OffsetFetchRequest,
    OffsetFetchResponse,
    SyncGroupRequest,
)
from ...protocol.messages.find_coordinator import GROUP, TRANSACTION
from ...protocol.messages.metadata import NOT_ASKED_FOR
from .guarding import Call, guards
from .resources import ResourceType

KEYS_SINCE = 4
"""The version of FindCoordinator that asks for several."""

GROUPS_SINCE = 8
"""The version of OffsetFetch that asks for several."""

ERROR_SINCE = 2
"""The version of OffsetFetch in which an error of the whole group has a place."""


@guards(JoinGroupRequest)
@guards(HeartbeatRequest)
@guards(LeaveGroupRequest)
@guards(SyncGroupRequest)
async def membership(call: Call) -> Any:
    (read,) = call.permissions
    call.demand(read, call.request.group_id)
    return await call.serve()


@guards(FindCoordinatorRequest)
async def find_coordinator(call: Call) -> Any:
    """Whoever may describe what the coordinator is for."""
    request = call.request
    permission = dict(zip((GROUP, TRANSACTION), call.permissions, strict=True)).get(request.key_type)
    if permission is None:  # there is no such type
        return await call.serve()
    if call.context.version < KEYS_SINCE:
        call.demand(permission, request.key)
        return await call.serve()
    request.coordinator_keys, denied = call.split(permission, request.coordinator_keys, lambda key: key)
    answer = await call.serve()
    answer.coordinators += [
        FindCoordinatorResponse.Coordinator(
            key=key, node_id=-1, host="", port=-1, error_code=permission.code, error_message=None
        )
        for key in denied
    ]
    return answer


@guards(DescribeGroupsRequest)
async def describe_groups(call: Call) -> Any:
    (describe,) = call.permissions
    request = call.request
    request.groups, denied = call.split(describe, request.groups, lambda group_id: group_id)
    answer = await call.serve()
    for group in answer.groups:
        if group.authorized_operations != NOT_ASKED_FOR:
            group.authorized_operations = call.access.operations(ResourceType.GROUP, group.group_id)
    answer.groups += [
        DescribeGroupsResponse.Group(group_id=group_id, error_code=describe.code) for group_id in dict.fromkeys(denied)
    ]
    return answer


@guards(ListGroupsRequest)
async def list_groups(call: Call) -> Any:
    """All, to who may describe the cluster; else those that the client may describe."""
    describe_cluster, describe = call.permissions
    answer = await call.serve()
    if not call.may(describe_cluster, tells=False):
        answer.groups = [group for group in answer.groups if call.may(describe, group.group_id, tells=False)]
    return answer


@guards(DeleteGroupsRequest)
async def delete_groups(call: Call) -> Any:
    (delete,) = call.permissions
    request = call.request
    request.groups_names, denied = call.split(delete, request.groups_names, lambda group_id: group_id)
    answer = await call.serve()
    answer.results += [
        DeleteGroupsResponse.Result(group_id=group_id, error_code=delete.code) for group_id in dict.fromkeys(denied)
    ]
    return answer


# --- offsets


def _not_committed(topics: list[Any], code: int) -> list[OffsetCommitResponse.Topic]:
    Topic = OffsetCommitResponse.Topic
    return [
        Topic(
            name=topic.name,
            topic_id=topic.topic_id,
            partitions=[
                Topic.Partition(partition_index=part.partition_index, error_code=code) for part in topic.partitions
            ],
        )
        for topic in topics
    ]


@guards(OffsetCommitRequest)
async def offset_commit(call: Call) -> Any:
    read_group, read_topic = call.permissions
    request = call.request
    if not call.may(read_group, request.group_id):
        return OffsetCommitResponse(topics=_not_committed(request.topics, read_group.code))
    request.topics, denied = call.split(read_topic, request.topics, lambda topic: call.topic_name(topic, topic.name))
    answer = await call.serve() if request.topics or not denied else OffsetCommitResponse(topics=[])
    answer.topics += _not_committed(denied, read_topic.code)
    return answer


@guards(OffsetDeleteRequest)
async def offset_delete(call: Call) -> Any:
    delete_group, read_topic = call.permissions
    request = call.request
    call.demand(delete_group, request.group_id)
    request.topics, denied = call.split(read_topic, request.topics, lambda topic: topic.name)
    answer = await call.serve() if request.topics or not denied else OffsetDeleteResponse(topics=[])
    if not answer.error_code:
        Topic = OffsetDeleteResponse.Topic
        answer.topics += [
            Topic(
                name=topic.name,
                partitions=[
                    Topic.Partition(partition_index=part.partition_index, error_code=read_topic.code)
                    for part in topic.partitions
                ],
            )
            for topic in denied
        ]
    return answer


@guards(OffsetFetchRequest)
async def offset_fetch(call: Call) -> Any:
    """Groups one by one; in each the topics that are named one by one, and of all only those that may be known."""
    if call.context.version < GROUPS_SINCE:
        return await _offset_fetch_of_one(call)
    describe, describe_topic = call.permissions
    request = call.request
    request.groups, denied = call.split(describe, request.groups, lambda group: group.group_id)
    refused: dict[str, list[Any]] = {}
    asked_for_all = set()
    for group in request.groups:
        if group.topics is None:
            asked_for_all.add(group.group_id)
        else:
            group.topics, refused[group.group_id] = call.split(
                describe_topic, group.topics, lambda topic: call.topic_name(topic, topic.name)
            )
    answer = await call.serve() if request.groups else OffsetFetchResponse(groups=[])
    Group = OffsetFetchResponse.Group
    for group in answer.groups:
        if group.group_id in asked_for_all:
            group.topics = _shown(call, group.topics)
        elif not group.error_code:
            group.topics += _not_fetched(Group.Topic, refused[group.group_id], describe_topic.code)
    answer.groups += [Group(group_id=group.group_id, topics=[], error_code=describe.code) for group in denied]
    return answer


async def _offset_fetch_of_one(call: Call) -> Any:
    describe, describe_topic = call.permissions
    request = call.request
    Topic = OffsetFetchResponse.Topic
    if not call.may(describe, request.group_id):
        if call.context.version < ERROR_SINCE:
            return OffsetFetchResponse(topics=_not_fetched(Topic, request.topics or [], describe.code))
        return OffsetFetchResponse(topics=[], error_code=describe.code)
    if request.topics is None:
        answer = await call.serve()
        answer.topics = _shown(call, answer.topics)
        return answer
    request.topics, denied = call.split(describe_topic, request.topics, lambda topic: topic.name)
    answer = await call.serve()
    if not answer.error_code:
        answer.topics = [*(answer.topics or ()), *_not_fetched(Topic, denied, describe_topic.code)]
    return answer


def _shown(call: Call, topics: list[Any]) -> list[Any]:
    describe_topic = call.permissions[1]
    shown = []
    for topic in topics:
        name = call.topic_name(topic, topic.name)
        if name is not None and call.may(describe_topic, name, tells=False):
            shown.append(topic)
    return shown


def _not_fetched(kind: Any, topics: list[Any], code: int) -> list[Any]:
    refused = []
    for topic in topics:
        partitions = [kind.Partition(partition_index=number, error_code=code) for number in topic.partition_indexes]
        given = {"topic_id": topic.topic_id} if kind is OffsetFetchResponse.Group.Topic else {}
        refused.append(kind(name=topic.name, partitions=partitions, **given))
    return refused
