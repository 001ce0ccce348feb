"""ShareGroupHeartbeat (key 76): a member of a share group joins, leaves, and is told its partitions (KIP-932).

- v1: the first one; version 0 was that of a preview.
"""

from ..errors import NONE
from ..primitives import Array, ErrorCode, Int32, NullableArray, NullableString, String, Uuid
from ..schema import Request, Response, Struct


class TopicPartitions(Struct):
    """Partitions of a topic."""

    topic_id: Uuid
    partitions: Array[Int32]


class ShareGroupHeartbeatRequest(Request, api_key=76, versions="1", flexible="0+"):
    group_id: String
    member_id: String
    """Made by the client, and kept for its life."""
    member_epoch: Int32
    """0 joins, -1 leaves."""
    rack_id: NullableString = None
    """Null, like the topics, for what has not changed."""
    subscribed_topic_names: NullableArray[String] = None


class ShareGroupHeartbeatResponse(Response, to=ShareGroupHeartbeatRequest):
    class Assignment(Struct):
        topic_partitions: Array[TopicPartitions]

    throttle_time_ms: Int32 = 0
    error_code: ErrorCode = NONE
    """UNKNOWN_MEMBER_ID and FENCED_MEMBER_EPOCH: join again. GROUP_ID_NOT_FOUND: there is no such group, or it is of
    another kind. GROUP_MAX_SIZE_REACHED. INVALID_REQUEST. UNSUPPORTED_VERSION. NOT_COORDINATOR,
    COORDINATOR_NOT_AVAILABLE, COORDINATOR_LOAD_IN_PROGRESS. GROUP_AUTHORIZATION_FAILED,
    TOPIC_AUTHORIZATION_FAILED."""
    error_message: NullableString = None
    member_id: NullableString = None
    member_epoch: Int32 = 0
    heartbeat_interval_ms: Int32 = 0
    assignment: Assignment | None = None
    """Null if it has not changed."""
