"""CreatePartitions (key 37): give topics more partitions (KIP-195). Their number never gets less.

- v1: throttling after the response (KIP-219). v2: flexible. v3: THROTTLING_QUOTA_EXCEEDED may be answered (KIP-599).
"""

from ..errors import NONE
from ..primitives import Array, Boolean, ErrorCode, Int32, NullableArray, NullableString, String
from ..schema import Request, Response, Struct


class CreatePartitionsRequest(Request, api_key=37, versions="0-3", flexible="2+"):
    class Topic(Struct):
        class Assignment(Struct):
            broker_ids: Array[Int32]

        name: String
        count: Int32
        """How many partitions the topic is to have afterwards, the present ones included."""
        assignments: NullableArray[Assignment] = None
        """The replicas of each new partition; null leaves them to the controller."""

    Assignment = Topic.Assignment

    topics: Array[Topic]
    timeout_ms: Int32
    validate_only: Boolean = False


class CreatePartitionsResponse(Response, to=CreatePartitionsRequest):
    class Topic(Struct):
        name: String
        error_code: ErrorCode = NONE
        """UNKNOWN_TOPIC_OR_PARTITION. INVALID_PARTITIONS: the topic has as many partitions already.
        INVALID_REPLICA_ASSIGNMENT. INVALID_REQUEST: the topic is named twice. REASSIGNMENT_IN_PROGRESS.
        REQUEST_TIMED_OUT: the partitions are still being created. NOT_CONTROLLER. POLICY_VIOLATION.
        THROTTLING_QUOTA_EXCEEDED. TOPIC_AUTHORIZATION_FAILED."""
        error_message: NullableString = None

    throttle_time_ms: Int32 = 0
    results: Array[Topic]
