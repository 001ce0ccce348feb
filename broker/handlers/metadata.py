"""Metadata, versions 0 to 13: list the brokers, and topics with the leaders of their partitions.

The answer gives the address at which the client can reach each broker: `advertised.listeners`, else the address it came
to. A topic that the request creates is complete when the answer goes out, so no client waits because of
LEADER_NOT_AVAILABLE; Apache Kafka answers UNKNOWN_TOPIC_OR_PARTITION first, and creates the topic meanwhile.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Sequence

from ...protocol.errors import InvalidRequest, KafkaError, UnknownTopicId, UnknownTopicOrPartition
from ...protocol.messages.metadata import NOT_ASKED_FOR, MetadataRequest, MetadataResponse
from ...protocol.topics import is_internal
from ...protocol.uuids import ZERO_UUID
from ..api.registry import handles
from ..api.request_context import Context
from ..controller import topic_plans, topics
from ..controller.topic_descriptions import described_partition, why_missing
from ..controller.topology import Topic
from ..network.peer_log import PeerLog
from ..quotas.mutations import Mutations
from ..scheduler import Turn
from ..security.guarding import Call
from ..security.permission_kinds import each, suffices
from ..security.resources import CLUSTER_OPERATIONS, TOPIC_OPERATIONS, AclOperation, ResourceType

peer_log = PeerLog(logging.getLogger("kmini.metadata"))

IDS_SINCE = 12
"""The first version that asks for topics by id. Before it an id is an error."""

_TOPICS_A_TURN = 100
"""Topics described before other requests get the loop."""


async def guard(call: Call) -> MetadataResponse:
    """Refuse each named topic that the client may not describe, or not create; leave such topics out where it asks for
    all."""
    request, version = call.request, call.context.version
    refused: list[MetadataResponse.Topic] = []
    asks_for_all = request.topics is None or (version == 0 and not request.topics)
    if not asks_for_all:
        refused = _take_out_refused(call)
        if version == 0 and not request.topics:
            request.topics = [MetadataRequest.Topic(name="")]  # version 0 asks for all topics by naming none
    answer: MetadataResponse = await call.serve()
    if asks_for_all:
        describe = call.permissions[0]
        answer.topics = [topic for topic in answer.topics if call.may(describe, topic.name or "", is_logged=False)]
    elif version == 0 and refused:
        answer.topics = [topic for topic in answer.topics if topic.name]
    for described in answer.topics:
        if described.topic_authorized_operations != NOT_ASKED_FOR and described.name is not None:
            described.topic_authorized_operations = call.access.operations(ResourceType.TOPIC, described.name)
    answer.topics += refused
    if request.include_cluster_authorized_operations:
        answer.cluster_authorized_operations = call.cluster_operations()
    return answer


def _take_out_refused(call: Call) -> list[MetadataResponse.Topic]:
    """Take the topics out of the request that the client may not describe, or would create and may not; return their
    part of the answer."""
    describe, create_any, create = call.permissions
    request, services = call.request, call.context.services
    request.topics, denied = call.split(describe, request.topics, lambda topic: call.topic_name(topic, topic.name))
    refused = [
        MetadataResponse.Topic(error_code=describe.code, name=topic.name, topic_id=topic.topic_id) for topic in denied
    ]
    if request.allow_auto_topic_creation and services.config.current.auto_create_topics_enable:
        missing = {topic.name for topic in request.topics if topic.name and not services.controller.topic(topic.name)}
        if missing and not call.may(create_any, is_logged=False):
            uncreatable = {name for name in missing if not call.may(create, name)}
            request.topics = [topic for topic in request.topics if topic.name not in uncreatable]
            refused += [MetadataResponse.Topic(error_code=create.code, name=name) for name in sorted(uncreatable)]
    return refused


@handles(
    MetadataRequest,
    needs=[
        each(AclOperation.DESCRIBE, ResourceType.TOPIC),
        suffices(AclOperation.CREATE, ResourceType.CLUSTER, when="to create missing topics"),
        each(AclOperation.CREATE, ResourceType.TOPIC, when="to create it"),
    ],
    guard=guard,
)
async def metadata(request: MetadataRequest, context: Context) -> MetadataResponse:
    """Describe the cluster and the topics asked for; create missing topics where that is allowed."""
    asked = request.topics
    if asked is None or (context.version == 0 and not asked):
        answers = await _describe(list(context.services.controller.topics.values()), request, context)
    elif any(_is_malformed(topic, context.version) for topic in asked):
        return _refusal(asked)
    elif ids := [topic.topic_id for topic in asked if topic.topic_id != ZERO_UUID]:
        answers = await _by_id(ids, request, context)
    else:
        answers = await _by_name([topic.name for topic in asked if topic.name is not None], request, context)
    return _response(answers, request, context)


def _is_malformed(topic: MetadataRequest.Topic, version: int) -> bool:
    if version < IDS_SINCE:
        return topic.name is None or topic.topic_id != ZERO_UUID
    return topic.name is None and topic.topic_id == ZERO_UUID


def _refusal(asked: Sequence[MetadataRequest.Topic]) -> MetadataResponse:
    """INVALID_REQUEST has no place of its own before version 13: every topic carries it."""
    return MetadataResponse(
        brokers=[],
        topics=[
            MetadataResponse.Topic(error_code=InvalidRequest.code, name=topic.name or "", topic_id=topic.topic_id)
            for topic in asked
        ],
    )


async def _by_id(ids: list[bytes], request: MetadataRequest, context: Context) -> list[MetadataResponse.Topic]:
    """Topics by id. If a request gives any topic by id, names are ignored, as in Kafka."""
    found = {topic_id: context.services.controller.topic_by_id(topic_id) for topic_id in ids}
    answers = await _describe([topic for topic in found.values() if topic], request, context)
    return answers + [
        MetadataResponse.Topic(error_code=UnknownTopicId.code, name=None, topic_id=topic_id)
        for topic_id, topic in found.items()
        if topic is None
    ]


async def _by_name(names: list[str], request: MetadataRequest, context: Context) -> list[MetadataResponse.Topic]:
    services = context.services
    unique = list(dict.fromkeys(names))
    errors: dict[str, int] = {}
    turn = Turn()
    for name in unique:
        if turn.is_over:
            await turn.next()
        if services.controller.topic(name) is None:
            errors[name] = why_missing(name)
    if request.allow_auto_topic_creation and services.config.current.auto_create_topics_enable:
        await _create([name for name, code in errors.items() if code == UnknownTopicOrPartition.code], context)
    found = [topic for name in unique if (topic := services.controller.topic(name))]
    answers = await _describe(found, request, context)
    for topic in found:
        errors.pop(topic.name, None)
    return answers + [MetadataResponse.Topic(error_code=error_code, name=name) for name, error_code in errors.items()]


async def _create(names: list[str], context: Context) -> None:
    """Create the topics that can be created. The others stay unknown, as in Kafka; the log has the reason."""
    services = context.services
    mutations = Mutations(context, strict_since=0)
    planned: list[Topic] = []
    room = topic_plans.MAX_NEW_PARTITIONS
    for turn, name in enumerate(names, 1):
        try:
            topic = topic_plans.plan_missing(services, name, room=room)
            mutations.record(len(topic.partitions))
        except KafkaError as error:
            peer_log.warning("topic %s cannot be created automatically: %s", name, error.message)
        else:
            planned.append(topic)
            room -= len(topic.partitions)
        if turn % _TOPICS_A_TURN == 0:
            await asyncio.sleep(0)
    try:
        late = await topics.create_all(services, planned)
    except KafkaError as error:
        peer_log.warning("%d topics cannot be created automatically: %s", len(planned), error.message)
        return
    if services.journal is not None:
        services.journal.note_auto_created([topic.name for topic in planned if topic not in late], context.client_id)


async def _describe(found: Sequence[Topic], request: MetadataRequest, context: Context) -> list[MetadataResponse.Topic]:
    controller = context.services.controller
    operations = TOPIC_OPERATIONS if request.include_topic_authorized_operations else NOT_ASKED_FOR
    answers = []
    for turn, topic in enumerate(found, 1):
        answers.append(
            MetadataResponse.Topic(
                name=topic.name,
                topic_id=topic.id,
                is_internal=is_internal(topic.name),
                partitions=[
                    described_partition(MetadataResponse.Topic.Partition, number, state, controller)
                    for number, state in enumerate(topic.partitions)
                ],
                topic_authorized_operations=operations,
            )
        )
        if turn % _TOPICS_A_TURN == 0:
            await asyncio.sleep(0)
    return answers


def _response(answers: list[MetadataResponse.Topic], request: MetadataRequest, context: Context) -> MetadataResponse:
    controller = context.services.controller
    addresses = context.advertised()
    return MetadataResponse(
        brokers=[
            MetadataResponse.Broker(node_id=broker.node_id, host=host, port=port, rack=broker.rack)
            for broker in controller.brokers
            if broker.node_id in addresses
            for host, port in [addresses[broker.node_id]]
        ],
        cluster_id=controller.cluster_id,
        controller_id=controller.controller_id,
        topics=answers,
        cluster_authorized_operations=(
            CLUSTER_OPERATIONS if request.include_cluster_authorized_operations else NOT_ASKED_FOR
        ),
    )
