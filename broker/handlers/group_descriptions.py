"""What the requests that describe groups have in common; each kind of group has its own."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from typing import Any, TypeVar

from ...protocol.errors import NONE, GroupIdNotFound, InvalidGroupId, UnsupportedVersion
from ...protocol.messages.consumer_group_describe import Assignment, TopicPartitions
from ...protocol.messages.metadata import NOT_ASKED_FOR
from ..api.request_context import Context
from ..groups.modern.modern_group import ModernGroup
from ..scheduler import Turn
from ..security.guarding import Call
from ..security.resources import GROUP_OPERATIONS, ResourceType

G = TypeVar("G", bound=ModernGroup[Any, Any, Any])


async def described(group_ids: Iterable[str], describe: Callable[[str], Any], *, with_operations: bool) -> list[Any]:
    """The descriptions of groups. A group that is named twice is described once, because an answer is much larger than
    the request."""
    found = []
    turn = Turn()
    for group_id in dict.fromkeys(group_ids):
        if turn.is_over:
            await turn.next()
        description = describe(group_id)
        if with_operations and description.error_code == NONE:
            description.authorized_operations = GROUP_OPERATIONS
        found.append(description)
    return found


def modern_group(context: Context, group_id: str, kind: type[G], *, is_offered: bool, otherwise: str) -> G:
    """The group of this kind whose description is asked for. Raises UnsupportedVersion with the sentence `otherwise`
    unless its protocol is offered, InvalidGroupId, GroupIdNotFound, and what the coordinator does."""
    if not is_offered:
        raise UnsupportedVersion(otherwise)
    if not group_id:
        raise InvalidGroupId("a group has a name")
    group = context.services.groups.find(group_id, shown_only=True)
    if not isinstance(group, kind):
        raise GroupIdNotFound(f"group {group_id} is not a {kind.group_type} group")
    return group


def assignment(partitions: Mapping[bytes, Collection[int]], context: Context) -> Assignment:
    """Partitions by topic id as a description has them, without topics that no longer exist."""
    controller = context.services.controller
    return Assignment(
        topic_partitions=[
            TopicPartitions(topic_id=topic_id, topic_name=topic.name, partitions=sorted(numbers))
            for topic_id, numbers in partitions.items()
            if (topic := controller.topic_by_id(topic_id)) is not None
        ]
    )


def tell_operations(call: Call, groups: Iterable[Any]) -> None:
    """Tell, where a client has asked for it, what it may do to each of these groups."""
    for group in groups:
        if group.authorized_operations != NOT_ASKED_FOR:
            group.authorized_operations = call.access.operations(ResourceType.GROUP, group.group_id)


async def guard_topics(
    call: Call, described_as: type[Any], topics_of: Callable[[Any], Iterable[str]], *, is_offered: bool, **withheld: Any
) -> Any:
    """Describe the groups that the client may describe, and tell what else it may do to them. A group with a topic that
    it may not describe is refused as a whole, with these values `withheld`. Unless the protocol of such groups is
    offered, the answer says that and nothing else."""
    if not is_offered:
        return await call.serve()
    describe, describe_topic = call.permissions
    request = call.request
    request.group_ids, denied = call.split(describe, request.group_ids, lambda group_id: group_id)
    answer = await call.serve()
    for group in answer.groups:
        if not all(call.may(describe_topic, name, is_logged=False) for name in topics_of(group)):
            group.error_code = describe_topic.code
            for name, value in withheld.items():
                setattr(group, name, value)
    tell_operations(call, answer.groups)
    answer.groups += [described_as(group_id=group_id, error_code=describe.code) for group_id in dict.fromkeys(denied)]
    return answer
