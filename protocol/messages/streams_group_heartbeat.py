"""StreamsGroupHeartbeat (key 88): a member of a streams group joins, leaves, reports the tasks that it has, and is told
its tasks (KIP-1071)."""

from ..errors import NONE
from ..primitives import (
    Array,
    Boolean,
    ErrorCode,
    Int8,
    Int16,
    Int32,
    Int64,
    NullableArray,
    NullableString,
    String,
    Uint16,
)
from ..schema import Request, Response, Struct, field


class KeyValue(Struct):
    """A config of a topic, or a tag of a client."""

    key: String
    value: String


class TaskIds(Struct):
    """Tasks of a subtopology, by the partition that they read."""

    subtopology_id: String
    partitions: Array[Int32]


class Endpoint(Struct):
    """Where a client answers interactive queries."""

    host: String
    port: Uint16


class TopicInfo(Struct):
    """An internal topic."""

    name: String
    partitions: Int32
    """0 where the coordinator decides, as it always does for changelogs."""
    replication_factor: Int16
    """0 for the default."""
    topic_configs: Array[KeyValue]


class TaskOffset(Struct):
    """A position in the changelogs of a task."""

    subtopology_id: String
    partition: Int32
    offset: Int64


class CopartitionGroup(Struct):
    """Topics that need the same number of partitions, as indexes of the lists of their subtopology."""

    source_topics: Array[Int16]
    source_topic_regex: Array[Int16]
    repartition_source_topics: Array[Int16]


class Subtopology(Struct):
    """A part of a topology whose tasks share nothing with those of another part but topics."""

    subtopology_id: String
    source_topics: Array[String]
    source_topic_regex: Array[String]
    state_changelog_topics: Array[TopicInfo]
    repartition_sink_topics: Array[String]
    repartition_source_topics: Array[TopicInfo]
    copartition_groups: Array[CopartitionGroup]


class StreamsGroupHeartbeatRequest(Request, api_key=88, versions="0", flexible="0+"):
    class Topology(Struct):
        epoch: Int32
        subtopologies: Array[Subtopology]

    group_id: String
    member_id: String
    """Made by the client, and kept for its life."""
    member_epoch: Int32
    """0 joins, -1 leaves, -2 leaves for a while (a static member)."""
    endpoint_information_epoch: Int32
    """That of the last answer which told the endpoints of the group; -1 at first."""
    instance_id: NullableString = None
    """Null, like everything below, for what has not changed."""
    rack_id: NullableString = None
    rebalance_timeout_ms: Int32 = -1
    """-1 if it has not changed."""
    topology: Topology | None = None
    """Sent to join, and then only."""
    active_tasks: NullableArray[TaskIds] = None
    """The tasks that the member has, as the other two lists."""
    standby_tasks: NullableArray[TaskIds] = None
    warmup_tasks: NullableArray[TaskIds] = None
    process_id: NullableString = None
    """The instance of Kafka Streams, which may have several members."""
    user_endpoint: Endpoint | None = None
    client_tags: NullableArray[KeyValue] = None
    task_offsets: NullableArray[TaskOffset] = None
    task_end_offsets: NullableArray[TaskOffset] = None
    shutdown_application: Boolean = False
    """Whether all members are to shut down."""


class StreamsGroupHeartbeatResponse(Response, to=StreamsGroupHeartbeatRequest):
    class Status(Struct):
        status_code: Int8
        """0 stale topology, 1 missing source topics, 2 incorrectly partitioned topics, 3 missing internal topics,
        4 shut down, 5 assignment delayed."""
        status_detail: String

    class EndpointToPartitions(Struct):
        """The partitions of the tasks of the members at an endpoint."""

        class TopicPartition(Struct):
            topic: String
            partitions: Array[Int32]

        user_endpoint: Endpoint
        active_partitions: Array[TopicPartition]
        standby_partitions: Array[TopicPartition]

    throttle_time_ms: Int32 = 0
    error_code: ErrorCode = NONE
    """UNKNOWN_MEMBER_ID and FENCED_MEMBER_EPOCH: give up all tasks, and join again. GROUP_ID_NOT_FOUND.
    GROUP_MAX_SIZE_REACHED. STREAMS_INVALID_TOPOLOGY, STREAMS_INVALID_TOPOLOGY_EPOCH, STREAMS_TOPOLOGY_FENCED.
    INVALID_REQUEST. UNSUPPORTED_VERSION. NOT_COORDINATOR, COORDINATOR_NOT_AVAILABLE, COORDINATOR_LOAD_IN_PROGRESS.
    GROUP_AUTHORIZATION_FAILED, TOPIC_AUTHORIZATION_FAILED."""
    error_message: NullableString = None
    member_id: String = ""
    member_epoch: Int32 = 0
    heartbeat_interval_ms: Int32 = 0
    acceptable_recovery_lag: Int32 = 0
    """Unused, as the next field: there are no warm-up tasks yet."""
    task_offset_interval_ms: Int32 = 0
    status: NullableArray[Status] = field(default=[])
    active_tasks: NullableArray[TaskIds] = None
    """Null, like the other two lists, if nothing has changed."""
    standby_tasks: NullableArray[TaskIds] = None
    warmup_tasks: NullableArray[TaskIds] = None
    endpoint_information_epoch: Int32 = 0
    partitions_by_user_endpoint: NullableArray[EndpointToPartitions] = None
    """Null if the member knows them."""
