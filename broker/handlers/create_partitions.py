"""CreatePartitions, versions 0 to 3: add partitions to topics, each topic by itself (KIP-195).

When the answer goes out, the new partitions have their leaders and accept records, so `timeout_ms` has no meaning here.
`topic_plans.plan_partitions` has the rules, in Kafka's order.
"""

from __future__ import annotations

from collections import Counter

from ...protocol.errors import NONE, InvalidRequest, KafkaError, UnknownTopicOrPartition
from ...protocol.messages.create_partitions import CreatePartitionsRequest, CreatePartitionsResponse
from ..api.registry import handles
from ..api.request_context import Context
from ..controller import topic_plans, topics
from ..quotas.mutations import Mutations
from ..scheduler import Turn
from ..security.guarding import topic_by_topic
from ..security.permission_kinds import each
from ..security.resources import AclOperation, ResourceType

REFUSED_ABOVE_QUOTA_SINCE = 3
"""The first version that knows THROTTLING_QUOTA_EXCEEDED (KIP-599)."""


def refused(topic: CreatePartitionsRequest.Topic, code: int) -> CreatePartitionsResponse.Topic:
    """Refuse a topic."""
    return CreatePartitionsResponse.Topic(name=topic.name, error_code=code)


@handles(
    CreatePartitionsRequest,
    needs=[each(AclOperation.ALTER, ResourceType.TOPIC)],
    guard=topic_by_topic(refused, answers="results"),
)
async def create_partitions(request: CreatePartitionsRequest, context: Context) -> CreatePartitionsResponse:
    """Add partitions to each topic; each has its own outcome."""
    services = context.services
    mutations = Mutations(context, strict_since=REFUSED_ABOVE_QUOTA_SINCE)
    times_named = Counter(wish.name for wish in request.topics)
    room = topic_plans.MAX_NEW_PARTITIONS
    outcomes: dict[str, KafkaError | None] = {}
    turn = Turn()
    for wish in request.topics:
        if turn.is_over:
            await turn.next()
        try:
            if times_named[wish.name] > 1:
                raise InvalidRequest(f"{wish.name} stands in the request {times_named[wish.name]} times")
            topic = services.controller.topic(wish.name)
            if topic is None:
                raise UnknownTopicOrPartition("there is no topic of this name")
            assignment = None if wish.assignments is None else [assigned.broker_ids for assigned in wish.assignments]
            new = topic_plans.plan_partitions(services, topic, wish.count, assignment, room)
            mutations.record(len(new))
            room -= len(new)
            if not request.validate_only:
                await topics.add_partitions(services, topic, new)
            outcomes[wish.name] = None
        except KafkaError as error:
            outcomes[wish.name] = error
    answer = CreatePartitionsResponse(
        results=[
            CreatePartitionsResponse.Topic(
                name=name,
                error_code=error.code if error else NONE,
                error_message=error.message if error else None,
            )
            for name, error in outcomes.items()
        ]
    )
    return mutations.throttle(answer)
