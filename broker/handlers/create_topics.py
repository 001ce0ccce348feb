"""CreateTopics, versions 0 to 7: create topics, each with its own outcome, all in one transaction.

When the answer goes out, every partition has its leader and accepts records: clients need not wait for metadata to
spread, and `timeout_ms` has no meaning here. `topic_plans.plan` has the rules, in Kafka's order.
"""

from __future__ import annotations

import asyncio
from collections import Counter

from ...protocol.errors import InvalidRequest, KafkaError, TopicAlreadyExists, TopicAuthorizationFailed
from ...protocol.messages.create_topics import CreateTopicsRequest, CreateTopicsResponse
from ..api.registry import handles
from ..api.request_context import Context
from ..controller import topic_plans, topics
from ..controller.topology import Topic
from ..quotas.mutations import Mutations
from ..security.guarding import Call
from ..security.permission_kinds import each, suffices
from ..security.resources import AclOperation, ResourceType
from ..settings.setting_descriptions import topic_settings

DESCRIBED_SINCE = 5
"""The first version whose answer has partitions, replicas and settings of the new topic (KIP-525)."""

REFUSED_ABOVE_QUOTA_SINCE = 6
"""The first version that knows THROTTLING_QUOTA_EXCEEDED (KIP-599)."""

UNKNOWN_COUNT = -1
"""The partitions and replicas of a created topic in the answer to a client that may not see its settings."""

_TOPICS_A_TURN = 16
"""Topics planned before other requests get the loop."""


async def guard(call: Call) -> CreateTopicsResponse:
    """Refuse each topic that the client may not create; hide the settings of created ones where it may not see them."""
    create_any, create = call.permissions
    request = call.request
    denied: list[CreateTopicsRequest.Topic] = []
    if not call.may(create_any, is_logged=False):
        request.topics, denied = call.split(create, request.topics, lambda topic: topic.name)
    answer: CreateTopicsResponse = await call.serve()
    for topic in answer.topics:
        if not topic.error_code and not call.access.may(
            AclOperation.DESCRIBE_CONFIGS, ResourceType.TOPIC, topic.name, is_logged=False
        ):
            topic.topic_config_error_code = TopicAuthorizationFailed.code
            topic.num_partitions = topic.replication_factor = UNKNOWN_COUNT
            topic.configs = []
    answer.topics += [
        CreateTopicsResponse.Topic(
            name=topic.name, error_code=create.code, error_message="Authorization failed.", configs=[]
        )
        for topic in denied
    ]
    return answer


@handles(
    CreateTopicsRequest,
    needs=[suffices(AclOperation.CREATE, ResourceType.CLUSTER), each(AclOperation.CREATE, ResourceType.TOPIC)],
    guard=guard,
)
async def create_topics(request: CreateTopicsRequest, context: Context) -> CreateTopicsResponse:
    """Plan every topic, create the planned ones together, and answer for each."""
    mutations = Mutations(context, strict_since=REFUSED_ABOVE_QUOTA_SINCE)
    outcomes = await _plan_all(request, context, mutations)
    planned = [outcome for outcome in outcomes.values() if isinstance(outcome, Topic)]
    if not request.validate_only:
        try:
            for topic in await topics.create_all(context.services, planned):
                outcomes[topic.name] = TopicAlreadyExists("another request created it at the same time")
        except KafkaError as error:
            outcomes.update((topic.name, error) for topic in planned)
    answers = [_answer(name, outcome, context) for name, outcome in outcomes.items()]
    return mutations.throttle(CreateTopicsResponse(topics=answers))


async def _plan_all(
    request: CreateTopicsRequest, context: Context, mutations: Mutations
) -> dict[str, Topic | KafkaError]:
    """By name, the topic to create or the reason not to."""
    times_named = Counter(wish.name for wish in request.topics)
    room = topic_plans.MAX_NEW_PARTITIONS
    outcomes: dict[str, Topic | KafkaError] = {}
    for turn, wish in enumerate(request.topics, 1):
        if times_named[wish.name] > 1:
            outcomes[wish.name] = InvalidRequest(f"{wish.name} stands in the request {times_named[wish.name]} times")
            continue
        try:
            topic = topic_plans.plan(
                context.services,
                wish.name,
                partitions=wish.num_partitions,
                replication_factor=wish.replication_factor,
                assignment=[(assigned.partition_index, assigned.broker_ids) for assigned in wish.assignments],
                configs={config.name: config.value for config in wish.configs},
                room=room,
            )
            mutations.record(len(topic.partitions))
        except KafkaError as error:
            outcomes[wish.name] = error
        else:
            room -= len(topic.partitions)
            outcomes[wish.name] = topic
        if turn % _TOPICS_A_TURN == 0:
            await asyncio.sleep(0)
    return outcomes


def _answer(name: str, outcome: Topic | KafkaError, context: Context) -> CreateTopicsResponse.Topic:
    if isinstance(outcome, KafkaError):
        return CreateTopicsResponse.Topic(name=name, error_code=outcome.code, error_message=outcome.message)
    if context.version < DESCRIBED_SINCE:
        return CreateTopicsResponse.Topic(name=name)
    return CreateTopicsResponse.Topic(
        name=name,
        topic_id=outcome.id,
        num_partitions=len(outcome.partitions),
        replication_factor=outcome.replication_factor,
        configs=[
            CreateTopicsResponse.Topic.Config(
                name=setting.name, value=setting.value, read_only=setting.is_read_only, config_source=setting.source
            )
            for setting in topic_settings(outcome.configs, context.services.config.current)
            if setting.is_listed
        ],
    )
