"""ListPartitionReassignments (key 46): the partitions whose replicas are being changed now (KIP-455).

- v0: the KIP.
"""

from ..errors import NONE
from ..primitives import Array, ErrorCode, Int32, NullableArray, NullableString, String
from ..schema import Request, Response, Struct, field


class ListPartitionReassignmentsRequest(Request, api_key=46, versions="0", flexible="0+"):
    class Topic(Struct):
        name: String
        partition_indexes: Array[Int32]

    timeout_ms: Int32 = 60_000
    topics: NullableArray[Topic] = None
    """Null asks for all."""


class ListPartitionReassignmentsResponse(Response, to=ListPartitionReassignmentsRequest):
    class Topic(Struct):
        class Partition(Struct):
            partition_index: Int32
            replicas: Array[Int32]
            """Old and new ones together."""
            adding_replicas: Array[Int32]
            removing_replicas: Array[Int32]

        name: String
        partitions: Array[Partition]

    Partition = Topic.Partition

    throttle_time_ms: Int32 = 0
    error_code: ErrorCode = NONE
    """NOT_CONTROLLER, REQUEST_TIMED_OUT. CLUSTER_AUTHORIZATION_FAILED."""
    error_message: NullableString = None
    topics: Array[Topic] = field(default=[])
