"""AlterPartitionReassignments (key 45): give partitions other replicas, or stop doing so (KIP-455).

- v1: allow_replication_factor_change (KIP-860).
"""

from ..errors import NONE
from ..primitives import Array, Boolean, ErrorCode, Int32, NullableArray, NullableString, String
from ..schema import Request, Response, Struct, field


class AlterPartitionReassignmentsRequest(Request, api_key=45, versions="0-1", flexible="0+"):
    class Topic(Struct):
        class Partition(Struct):
            partition_index: Int32
            replicas: NullableArray[Int32] = None
            """The first is the preferred leader. Null cancels the reassignment that goes on."""

        name: String
        partitions: Array[Partition]

    Partition = Topic.Partition

    timeout_ms: Int32 = 60_000
    allow_replication_factor_change: Boolean = field(since=1, default=True)
    topics: Array[Topic]


class AlterPartitionReassignmentsResponse(Response, to=AlterPartitionReassignmentsRequest):
    class Topic(Struct):
        class Partition(Struct):
            partition_index: Int32
            error_code: ErrorCode = NONE
            """INVALID_REPLICA_ASSIGNMENT: no replica, a replica twice, or an unknown broker.
            INVALID_REPLICATION_FACTOR: another number of replicas than before, and that is not allowed.
            NO_REASSIGNMENT_IN_PROGRESS: nothing to cancel. UNKNOWN_TOPIC_OR_PARTITION, INVALID_TOPIC_EXCEPTION."""
            error_message: NullableString = None

        name: String
        partitions: Array[Partition]

    Partition = Topic.Partition

    throttle_time_ms: Int32 = 0
    allow_replication_factor_change: Boolean = field(since=1, default=True)
    """As it was asked."""
    error_code: ErrorCode = NONE
    """NOT_CONTROLLER, REQUEST_TIMED_OUT. CLUSTER_AUTHORIZATION_FAILED."""
    error_message: NullableString = None
    responses: Array[Topic] = field(default=[])
