"""ConsumerGroupHeartbeat (key 68): a member of a consumer group joins, leaves, reports what it owns, and is told its
assignment (KIP-848).

- v1: subscribed_topic_regex; the client makes its member id (KIP-1082).
"""

from ..errors import NONE
from ..primitives import Array, ErrorCode, Int32, NullableArray, NullableString, String, Uuid
from ..schema import Request, Response, Struct, field


class TopicPartitions(Struct):
    """Partitions of a topic."""

    topic_id: Uuid
    partitions: Array[Int32]


class ConsumerGroupHeartbeatRequest(Request, api_key=68, versions="0-1", flexible="0+"):
    group_id: String
    member_id: String
    """Made by the client, and kept for its life. Empty in version 0 to be given one."""
    member_epoch: Int32
    """0 joins, -1 leaves, -2 leaves for a while (a static member)."""
    instance_id: NullableString = None
    """Null, like everything below, for what has not changed."""
    rack_id: NullableString = None
    rebalance_timeout_ms: Int32 = -1
    """-1 if it has not changed."""
    subscribed_topic_names: NullableArray[String] = None
    subscribed_topic_regex: NullableString = field(since=1, default=None)
    """Empty for none any more."""
    server_assignor: NullableString = None
    topic_partitions: NullableArray[TopicPartitions] = None
    """The partitions that the member owns."""


class ConsumerGroupHeartbeatResponse(Response, to=ConsumerGroupHeartbeatRequest):
    class Assignment(Struct):
        topic_partitions: Array[TopicPartitions]

    throttle_time_ms: Int32 = 0
    error_code: ErrorCode = NONE
    """UNKNOWN_MEMBER_ID and FENCED_MEMBER_EPOCH: give up all partitions, and join again. UNRELEASED_INSTANCE_ID:
    another member has the instance id. FENCED_INSTANCE_ID. GROUP_ID_NOT_FOUND. GROUP_MAX_SIZE_REACHED.
    UNSUPPORTED_ASSIGNOR. INVALID_REGULAR_EXPRESSION. INVALID_REQUEST. UNSUPPORTED_VERSION. NOT_COORDINATOR,
    COORDINATOR_NOT_AVAILABLE, COORDINATOR_LOAD_IN_PROGRESS. GROUP_AUTHORIZATION_FAILED,
    TOPIC_AUTHORIZATION_FAILED."""
    error_message: NullableString = None
    member_id: NullableString = None
    member_epoch: Int32 = 0
    heartbeat_interval_ms: Int32 = 0
    assignment: Assignment | None = None
    """Null if it has not changed."""
