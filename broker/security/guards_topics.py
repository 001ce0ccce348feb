"""Guards of what concerns topics and their records."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ...protocol.errors import TopicAuthorizationFailed
from ...protocol.messages import (
    CreatePartitionsRequest,
    CreatePartitionsResponse,
    CreateTopicsRequest,
    CreateTopicsResponse,
    DeleteRecordsRequest,
    DeleteRecordsResponse,
    DeleteTopicsRequest,
    DeleteTopicsResponse,
    DescribeProducersRequest,
    DescribeProducersResponse,
    DescribeTopicPartitionsRequest,
    DescribeTopicPartitionsResponse,
    FetchRequest,
    ListOffsetsRequest,
    ListOffsetsResponse,
    MetadataRequest,
    MetadataResponse,
    OffsetForLeaderEpochRequest,
    OffsetForLeaderEpochResponse,
    ProduceRequest,
    ProduceResponse,
)
from ...protocol.messages.metadata import NOT_ASKED_FOR
from ...protocol.primitives import Buffer
from ...protocol.records.batch import ATTRIBUTES_AT, HEADER_SIZE, MAGIC, MAGIC_AT, TRANSACTIONAL
from ...protocol.uuids import ZERO_UUID
from ..api.request_context import CloseConnection, Context
from ..scheduler import Turn
from .authorizer import Access
from .guarding import Call, guards
from .guards_cluster import cluster_operations
from .resources import Operation, ResourceType

DENIED = TopicAuthorizationFailed.code

UNKNOWN_COUNT = -1


# --- records


@guards(ProduceRequest)
async def produce(call: Call) -> Any:
    """Transactional records need the transactional id (CVE-2018-17196), and every topic its own permission."""
    by_id, by_topic = call.permissions
    request = call.request
    if _is_transactional(request) and not (
        request.transactional_id is not None and call.may(by_id, request.transactional_id)
    ):
        return _unless_unanswered(request, ProduceResponse(responses=_not_produced(request.topic_data, by_id.code)))
    request.topic_data, denied = call.split(
        by_topic, request.topic_data, lambda topic: call.topic_name(topic, topic.name)
    )
    if not denied:
        return await call.serve()
    answer = await call.serve() if request.topic_data else ProduceResponse(responses=[])
    if answer is not None:
        answer.responses += _not_produced(denied, by_topic.code)
    return _unless_unanswered(request, answer)


def _is_transactional(request: ProduceRequest) -> bool:
    return any(
        _is_transactional_batch(partition.records)
        for topic in request.topic_data
        for partition in topic.partition_data
        if partition.records is not None
    )


def _is_transactional_batch(records: Buffer) -> bool:
    return len(records) >= HEADER_SIZE and records[ATTRIBUTES_AT] & TRANSACTIONAL != 0 and records[MAGIC_AT] == MAGIC


def _unless_unanswered(request: ProduceRequest, answer: ProduceResponse | None) -> ProduceResponse | None:
    """Where no answer is expected, hanging up is the only way to tell that something was refused."""
    if request.acks == 0:
        raise CloseConnection("a produce without acknowledgements was not authorized")
    return answer


def _not_produced(topics: list[ProduceRequest.Topic], code: int) -> list[ProduceResponse.Topic]:
    Topic = ProduceResponse.Topic
    return [
        Topic(
            name=topic.name,
            topic_id=topic.topic_id,
            partition_responses=[Topic.Partition(index=part.index, error_code=code) for part in topic.partition_data],
        )
        for topic in topics
    ]


class FetchAccess:
    """What a reader may read. Equal for equal rights, so that a session notices when they change."""

    __slots__ = ("_access", "_generation", "_is_follower")

    def __init__(self, access: Access, *, is_follower: bool) -> None:
        self._access = access
        self._generation = access.authorizer.acls.generation
        self._is_follower = is_follower

    def may_read(self, topic: str) -> bool:
        """Who reads as a replica must be a broker, whatever it may read otherwise (CVE-2018-1288)."""
        if self._is_follower:
            return self._access.may_on_cluster(Operation.CLUSTER_ACTION)
        return self._access.may(Operation.READ, ResourceType.TOPIC, topic)

    def _identity(self) -> tuple[object, ...]:
        return (self._access.principal, self._access.host, self._generation, self._is_follower)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, FetchAccess) and self._identity() == other._identity()

    def __hash__(self) -> int:
        return hash(self._identity())


class ReadingContext(Context):
    """The context of a fetch whose partitions are asked about one by one, when they are read: a session knows
    partitions that its request does not name."""

    __slots__ = ("access",)

    def __init__(self, context: Context, access: FetchAccess) -> None:
        super().__init__(context.broker, context.connection, context.version, context.client_id)
        self.access = access


@guards(FetchRequest)
async def fetch(call: Call) -> Any:
    """See `Wanted.read`, which asks."""
    request = call.request
    replica_id = request.replica_state.replica_id if request.replica_state else request.replica_id
    access = FetchAccess(call.access, is_follower=replica_id >= 0)
    return await call.handler(request, ReadingContext(call.context, access))


Refused = Callable[[Any, int], Any]
"""The part of an answer that refuses a part of the request."""


async def _topic_by_topic(call: Call, answers: str, refused: Refused) -> Any:
    """Each topic of the request, under its one permission."""
    permission = call.permissions[-1]
    request = call.request
    request.topics, denied = call.split(permission, request.topics, lambda topic: topic.name)
    answer = await call.serve()
    getattr(answer, answers).extend(refused(topic, permission.code) for topic in denied)
    return answer


def _by_partition(answer: Any) -> Refused:
    """How a topic is refused whose request and `answer` both have `partitions`, with a `partition_index` each."""
    return lambda topic, code: answer(
        name=topic.name,
        partitions=[
            answer.Partition(partition_index=part.partition_index, error_code=code) for part in topic.partitions
        ],
    )


@guards(ListOffsetsRequest)
async def list_offsets(call: Call) -> Any:
    return await _topic_by_topic(call, "topics", _by_partition(ListOffsetsResponse.Topic))


@guards(DeleteRecordsRequest)
async def delete_records(call: Call) -> Any:
    return await _topic_by_topic(call, "topics", _by_partition(DeleteRecordsResponse.Topic))


@guards(DescribeProducersRequest)
async def describe_producers(call: Call) -> Any:
    Topic = DescribeProducersResponse.Topic
    return await _topic_by_topic(
        call,
        "topics",
        lambda topic, code: Topic(
            name=topic.name,
            partitions=[Topic.Partition(partition_index=number, error_code=code) for number in topic.partition_indexes],
        ),
    )


@guards(CreatePartitionsRequest)
async def create_partitions(call: Call) -> Any:
    return await _topic_by_topic(
        call, "results", lambda topic, code: CreatePartitionsResponse.Topic(name=topic.name, error_code=code)
    )


@guards(OffsetForLeaderEpochRequest)
async def offset_for_leader_epoch(call: Call) -> Any:
    """Brokers may ask about all topics, others about those that they may describe."""
    as_broker, by_topic = call.permissions
    if call.may(as_broker, tells=False):
        return await call.serve()
    request = call.request
    request.topics, denied = call.split(by_topic, request.topics, lambda topic: topic.topic)
    answer = await call.serve()
    Topic = OffsetForLeaderEpochResponse.Topic
    answer.topics += [
        Topic(
            topic=topic.topic,
            partitions=[
                Topic.Partition(partition=part.partition, error_code=by_topic.code) for part in topic.partitions
            ],
        )
        for topic in denied
    ]
    return answer


# --- metadata


@guards(MetadataRequest)
async def metadata(call: Call) -> Any:
    """Topics that a client may not describe are refused if it names them, and not there if it asks for all."""
    describe, create_any, create = call.permissions
    request, broker = call.request, call.context.broker
    refused: list[MetadataResponse.Topic] = []
    asks_for_all = request.topics is None or (call.context.version == 0 and not request.topics)
    if not asks_for_all:
        request.topics, denied = call.split(describe, request.topics, lambda topic: call.topic_name(topic, topic.name))
        refused = [
            MetadataResponse.Topic(error_code=DENIED, name=topic.name, topic_id=topic.topic_id) for topic in denied
        ]
        if request.allow_auto_topic_creation and broker.config.auto_create_topics_enable:
            missing = {topic.name for topic in request.topics if topic.name and not broker.controller.topic(topic.name)}
            if missing and not call.may(create_any, tells=False):
                uncreatable = {name for name in missing if not call.may(create, name)}
                request.topics = [topic for topic in request.topics if topic.name not in uncreatable]
                refused += [MetadataResponse.Topic(error_code=DENIED, name=name) for name in sorted(uncreatable)]
        if call.context.version == 0 and not request.topics:
            request.topics = [MetadataRequest.Topic(name="")]  # where none would be all
    answer = await call.serve()
    if asks_for_all:
        answer.topics, _ = _shown(call, answer.topics)
    elif call.context.version == 0 and refused:
        answer.topics = [topic for topic in answer.topics if topic.name]
    for described in answer.topics:
        if described.topic_authorized_operations != NOT_ASKED_FOR and described.name is not None:
            described.topic_authorized_operations = call.access.operations(ResourceType.TOPIC, described.name)
    answer.topics += refused
    if request.include_cluster_authorized_operations:
        answer.cluster_authorized_operations = cluster_operations(call)
    return answer


def _shown(call: Call, topics: list[Any]) -> tuple[list[Any], list[Any]]:
    """Which of topics a client may know of, without a line in the log for each that it may not."""
    describe = call.permissions[0]
    shown: list[Any] = []
    hidden: list[Any] = []
    for topic in topics:
        (shown if call.may(describe, topic.name, tells=False) else hidden).append(topic)
    return shown, hidden


@guards(DescribeTopicPartitionsRequest)
async def describe_topic_partitions(call: Call) -> Any:
    """As in Metadata. Who asks for all gets pages of those that it may know of: a page's end names the next one."""
    (describe,) = call.permissions
    request = call.request
    Asked, Topic = DescribeTopicPartitionsRequest.Topic, DescribeTopicPartitionsResponse.Topic
    denied: list[DescribeTopicPartitionsRequest.Topic] = []
    if request.topics:
        request.topics, denied = call.split(describe, request.topics, lambda topic: topic.name)
    else:
        turn = Turn()
        for name in sorted(call.context.broker.controller.topics):
            if turn.is_over:
                await turn.next()
            if call.may(describe, name, tells=False) and (request.cursor is None or name >= request.cursor.topic_name):
                request.topics.append(Asked(name=name))
        if request.topics and request.cursor is not None and request.topics[0].name != request.cursor.topic_name:
            request.cursor = None  # it has gone meanwhile, and those before it are left out already
    answer = await call.serve() if request.topics else DescribeTopicPartitionsResponse(topics=[])
    for described in answer.topics:
        if described.topic_authorized_operations != NOT_ASKED_FOR:
            described.topic_authorized_operations = call.access.operations(ResourceType.TOPIC, described.name or "")
    answer.topics += [Topic(error_code=DENIED, name=name) for name in sorted({topic.name for topic in denied})]
    return answer


# --- creation and deletion


@guards(CreateTopicsRequest)
async def create_topics(call: Call) -> Any:
    """Who may create topics need not be allowed to see their settings, which the answer tells."""
    create_any, create = call.permissions
    request = call.request
    denied: list[CreateTopicsRequest.Topic] = []
    if not call.may(create_any, tells=False):
        request.topics, denied = call.split(create, request.topics, lambda topic: topic.name)
    answer = await call.serve()
    for topic in answer.topics:
        if not topic.error_code and not call.access.may(
            Operation.DESCRIBE_CONFIGS, ResourceType.TOPIC, topic.name, tells=False
        ):
            topic.topic_config_error_code = DENIED
            topic.num_partitions = topic.replication_factor = UNKNOWN_COUNT
            topic.configs = []
    answer.topics += [
        CreateTopicsResponse.Topic(
            name=topic.name, error_code=DENIED, error_message="Authorization failed.", configs=[]
        )
        for topic in denied
    ]
    return answer


@guards(DeleteTopicsRequest)
async def delete_topics(call: Call) -> Any:
    """What a client may not even describe is not named to it: of a topic id it is told no name."""
    delete_any, delete = call.permissions
    if call.may(delete_any, tells=False):
        return await call.serve()
    request = call.request
    names: list[str] = request.topic_names
    request.topic_names = [name for name in names if call.may(delete, name)]
    refused = [
        DeleteTopicsResponse.Topic(name=name, error_code=DENIED) for name in names if name not in request.topic_names
    ]
    request.topics, denied = call.split(delete, request.topics, lambda topic: call.topic_name(topic, topic.name))
    for topic in denied:
        name = topic.name
        if name is None:
            found = call.topic_name(topic, "")
            is_known = found and call.access.may(Operation.DESCRIBE, ResourceType.TOPIC, found, tells=False)
            name = found if is_known else None
        refused.append(DeleteTopicsResponse.Topic(name=name, topic_id=topic.topic_id or ZERO_UUID, error_code=DENIED))
    answer = await call.serve()
    answer.responses += refused
    return answer
