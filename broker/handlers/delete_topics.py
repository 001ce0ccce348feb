"""DeleteTopics, versions 0 to 6: delete topics by name, from version 6 on also by id (KIP-516), all in one transaction.

When the answer goes out, the topic is gone and its name is free; its files follow after `file.delete.delay.ms`.
"""

import asyncio
from collections import Counter
from typing import Any, NamedTuple

from ...protocol.errors import (
    NONE,
    InvalidRequest,
    KafkaError,
    TopicDeletionDisabled,
    UnknownTopicId,
    UnknownTopicOrPartition,
)
from ...protocol.messages.delete_topics import DeleteTopicsRequest, DeleteTopicsResponse
from ...protocol.uuids import ZERO_UUID
from ..api.registry import handles
from ..api.request_context import Context
from ..controller import topics
from ..controller.controller import Controller
from ..controller.topology import Topic
from ..quotas.mutations import Mutations
from ..security.guarding import Call
from ..security.permission_kinds import each, suffices
from ..security.resources import AclOperation, ResourceType

IDS_SINCE = 6
DELETION_DISABLED_SINCE = 3
"""The first version that knows TOPIC_DELETION_DISABLED (KIP-322)."""

REFUSED_ABOVE_QUOTA_SINCE = 5
"""The first version that knows THROTTLING_QUOTA_EXCEEDED (KIP-599)."""

_TOPICS_A_TURN = 1000
"""Topics looked up before other requests get the loop."""


class Wish(NamedTuple):
    """A topic to delete: by name, or by id."""

    name: str | None
    topic_id: bytes


async def guard(call: Call) -> Any:
    """Refuse each topic that the client may not delete. A topic given by id is named only if the client may describe
    it."""
    delete_any, delete = call.permissions
    if call.may(delete_any, is_logged=False):
        return await call.serve()
    request = call.request
    Topic = DeleteTopicsResponse.Topic
    names: list[str] = request.topic_names
    request.topic_names = [name for name in names if call.may(delete, name)]
    refused = [Topic(name=name, error_code=delete.code) for name in names if name not in request.topic_names]
    request.topics, denied = call.split(delete, request.topics, lambda topic: call.topic_name(topic, topic.name))
    for topic in denied:
        name = topic.name
        if name is None:
            found = call.topic_name(topic, "")
            is_known = found and call.access.may(AclOperation.DESCRIBE, ResourceType.TOPIC, found, is_logged=False)
            name = found if is_known else None
        refused.append(Topic(name=name, topic_id=topic.topic_id or ZERO_UUID, error_code=delete.code))
    answer: DeleteTopicsResponse = await call.serve()
    answer.responses += refused
    return answer


@handles(
    DeleteTopicsRequest,
    needs=[suffices(AclOperation.DELETE, ResourceType.CLUSTER), each(AclOperation.DELETE, ResourceType.TOPIC)],
    guard=guard,
)
async def delete_topics(request: DeleteTopicsRequest, context: Context) -> DeleteTopicsResponse:
    """Find every topic, delete the found ones together, and answer for each."""
    wishes = _wishes(request, context.version)
    outcomes = await _find_all(wishes, context)
    controller = context.services.controller
    mutations = Mutations(context, strict_since=REFUSED_ABOVE_QUOTA_SINCE)
    for wish, outcome in outcomes.items():
        if isinstance(outcome, Topic):
            try:
                mutations.record(len(outcome.partitions))
            except KafkaError as error:
                outcomes[wish] = error
    found = [topic for topic in outcomes.values() if isinstance(topic, Topic) and controller.topic_by_id(topic.id)]
    try:
        await topics.delete_all(context.services, found)
    except KafkaError as error:
        outcomes.update((wish, error) for wish, outcome in outcomes.items() if isinstance(outcome, Topic))
    answers = [_answer(wish, outcome) for wish, outcome in outcomes.items()]
    return mutations.throttle(DeleteTopicsResponse(responses=answers))


def _wishes(request: DeleteTopicsRequest, version: int) -> list[Wish]:
    if version < IDS_SINCE:
        return [Wish(name, ZERO_UUID) for name in request.topic_names]
    return [Wish(topic.name, topic.topic_id) for topic in request.topics]


async def _find_all(wishes: list[Wish], context: Context) -> dict[Wish, Topic | KafkaError]:
    """By what the request names, the topic or the reason not to delete it."""
    controller = context.services.controller
    if not context.services.config.current.delete_topic_enable:
        error = TopicDeletionDisabled if context.version >= DELETION_DISABLED_SINCE else InvalidRequest
        return {wish: error("delete.topic.enable is false") for wish in wishes}
    times = Counter(wishes)
    ids = {wish.topic_id for wish in wishes}
    outcomes: dict[Wish, Topic | KafkaError] = {}
    for turn, wish in enumerate(times, 1):
        try:
            if times[wish] > 1 and wish != Wish(None, ZERO_UUID):
                raise InvalidRequest(f"the topic stands in the request {times[wish]} times")
            topic = _find(wish, controller)
            if wish.name is not None and topic.id in ids:
                raise InvalidRequest("the topic stands in the request by name and by id")
            outcomes[wish] = topic
        except KafkaError as error:
            outcomes[wish] = error
        if turn % _TOPICS_A_TURN == 0:
            await asyncio.sleep(0)
    return outcomes


def _find(wish: Wish, controller: Controller) -> Topic:
    if wish.name is None:
        if wish.topic_id == ZERO_UUID:
            raise InvalidRequest("a topic is named, or given by its id")
        topic = controller.topic_by_id(wish.topic_id)
        if topic is None:
            raise UnknownTopicId("there is no topic of this id")
        return topic
    if wish.topic_id != ZERO_UUID:
        raise InvalidRequest("a topic is given by its name or by its id, not by both")
    topic = controller.topic(wish.name)
    if topic is None:
        raise UnknownTopicOrPartition("there is no topic of this name")
    return topic


def _answer(wish: Wish, outcome: Topic | KafkaError) -> DeleteTopicsResponse.Topic:
    if isinstance(outcome, KafkaError):
        return DeleteTopicsResponse.Topic(
            name=wish.name, topic_id=wish.topic_id, error_code=outcome.code, error_message=outcome.message
        )
    return DeleteTopicsResponse.Topic(name=outcome.name, topic_id=outcome.id, error_code=NONE)
