"""OffsetDelete (key 47): forget committed offsets of a group (KIP-496).

- v0: the KIP.
"""

from ..errors import NONE
from ..primitives import Array, ErrorCode, Int32, String
from ..schema import Request, Response, Struct, field


class OffsetDeleteRequest(Request, api_key=47, versions="0"):
    class Topic(Struct):
        class Partition(Struct):
            partition_index: Int32

        name: String
        partitions: Array[Partition]

    Partition = Topic.Partition

    group_id: String
    topics: Array[Topic]


class OffsetDeleteResponse(Response, to=OffsetDeleteRequest):
    class Topic(Struct):
        class Partition(Struct):
            partition_index: Int32
            error_code: ErrorCode = NONE
            """GROUP_SUBSCRIBED_TO_TOPIC: members read the topic now. UNKNOWN_TOPIC_OR_PARTITION.
            TOPIC_AUTHORIZATION_FAILED. That nothing was committed is no error."""

        name: String
        partitions: Array[Partition]

    Partition = Topic.Partition

    error_code: ErrorCode = NONE
    """NON_EMPTY_GROUP: the group has members of another protocol type than consumer, whose subscriptions are unknown.
    GROUP_ID_NOT_FOUND, INVALID_GROUP_ID. NOT_COORDINATOR, COORDINATOR_NOT_AVAILABLE, COORDINATOR_LOAD_IN_PROGRESS.
    GROUP_AUTHORIZATION_FAILED."""
    throttle_time_ms: Int32 = 0
    topics: Array[Topic] = field(default=[])
