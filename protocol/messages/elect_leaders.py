"""ElectLeaders (key 43): have the controller choose leaders of partitions anew (KIP-183).

- v1: unclean elections, error_code of the whole response (KIP-460). v2: flexible.
"""

from ..errors import NONE
from ..primitives import Array, ErrorCode, Int8, Int32, NullableArray, NullableString, String
from ..schema import Request, Response, Struct, field

PREFERRED = 0
"""The first replica of the assignment, if it is in sync."""
UNCLEAN = 1
"""Any live replica if none is in sync: records may be lost."""


class ElectLeadersRequest(Request, api_key=43, versions="0-2", flexible="2+"):
    class TopicPartitions(Struct):
        topic: String
        partitions: Array[Int32]

    election_type: Int8 = field(since=1, default=PREFERRED)
    topic_partitions: NullableArray[TopicPartitions] = None
    """Null asks for all partitions."""
    timeout_ms: Int32 = 60_000


class ElectLeadersResponse(Response, to=ElectLeadersRequest):
    class ReplicaElectionResult(Struct):
        class PartitionResult(Struct):
            partition_id: Int32
            error_code: ErrorCode = NONE
            """ELECTION_NOT_NEEDED: the leader is the one wanted already. PREFERRED_LEADER_NOT_AVAILABLE,
            ELIGIBLE_LEADERS_NOT_AVAILABLE. UNKNOWN_TOPIC_OR_PARTITION, INVALID_TOPIC_EXCEPTION. REQUEST_TIMED_OUT,
            NOT_CONTROLLER."""
            error_message: NullableString = None

        topic: String
        partition_result: Array[PartitionResult]

    PartitionResult = ReplicaElectionResult.PartitionResult

    throttle_time_ms: Int32 = 0
    error_code: ErrorCode = field(since=1, default=NONE)
    """NOT_CONTROLLER, INVALID_REQUEST. CLUSTER_AUTHORIZATION_FAILED."""
    replica_election_results: Array[ReplicaElectionResult]
