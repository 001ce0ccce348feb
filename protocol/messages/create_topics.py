"""CreateTopics (key 19): create topics; each has its own outcome.

- v1: validate_only; error messages. v2: throttle_time_ms. v3: throttling after the response (KIP-219).
- v4: -1 partitions or replicas stand for the broker's defaults (KIP-464).
- v5: flexible; the response has partitions, replicas and configuration (KIP-525).
- v6: THROTTLING_QUOTA_EXCEEDED may be answered (KIP-599). v7: topic ids (KIP-516).
"""

from ..errors import NONE
from ..primitives import Array, Boolean, ErrorCode, Int8, Int16, Int32, NullableArray, NullableString, String, Uuid
from ..schema import Request, Response, Struct, field
from ..uuids import ZERO_UUID


class CreateTopicsRequest(Request, api_key=19, versions="0-7", flexible="5+"):
    class Topic(Struct):
        class Assignment(Struct):
            partition_index: Int32
            broker_ids: Array[Int32]
            """The first is the preferred leader."""

        class Config(Struct):
            name: String
            value: NullableString

        name: String
        num_partitions: Int32 = -1
        """-1 for num.partitions of the broker, or if `assignments` say how many."""
        replication_factor: Int16 = -1
        """-1 for default.replication.factor of the broker, or if `assignments` say how many."""
        assignments: Array[Assignment] = field(default=[])
        configs: Array[Config] = field(default=[])

    Assignment = Topic.Assignment
    Config = Topic.Config

    topics: Array[Topic]
    timeout_ms: Int32 = 60_000
    """How long to wait until the topics are complete. They are made also if the time is over before."""
    validate_only: Boolean = field(since=1, default=False)


class CreateTopicsResponse(Response, to=CreateTopicsRequest):
    class Topic(Struct):
        class Config(Struct):
            name: String
            value: NullableString
            read_only: Boolean = False
            config_source: Int8 = -1
            """As in DescribeConfigs."""
            is_sensitive: Boolean = False
            """The value is not shown then."""

        name: String
        topic_id: Uuid = field(since=7, default=ZERO_UUID)
        error_code: ErrorCode = NONE
        """TOPIC_ALREADY_EXISTS. INVALID_TOPIC_EXCEPTION: the name is not legal, or differs from that of another topic
        in dots and underscores only. INVALID_PARTITIONS, INVALID_REPLICATION_FACTOR, INVALID_REPLICA_ASSIGNMENT,
        INVALID_CONFIG, INVALID_REQUEST (numbers and an assignment, or the name twice). POLICY_VIOLATION.
        REQUEST_TIMED_OUT: it is being made. NOT_CONTROLLER. THROTTLING_QUOTA_EXCEEDED. TOPIC_ and
        CLUSTER_AUTHORIZATION_FAILED."""
        error_message: NullableString = field(since=1, default=None)
        topic_config_error_code: ErrorCode = field(since=5, tag=0, default=NONE)
        """TOPIC_AUTHORIZATION_FAILED if the client may not see the configuration."""
        num_partitions: Int32 = field(since=5, default=-1)
        replication_factor: Int16 = field(since=5, default=-1)
        configs: NullableArray[Config] = field(since=5, default=[])
        """Null if the client may not see it."""

    Config = Topic.Config

    throttle_time_ms: Int32 = field(since=2, default=0)
    topics: Array[Topic]
