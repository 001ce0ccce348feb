"""AlterReplicaLogDirs (key 34): move replicas to another log directory of the broker that is asked (KIP-113).

- v1: throttling after the response (KIP-219). v2: flexible.
"""

from ..errors import NONE
from ..primitives import Array, ErrorCode, Int32, String
from ..schema import Request, Response, Struct


class AlterReplicaLogDirsRequest(Request, api_key=34, versions="0-2", flexible="2+"):
    class Dir(Struct):
        class Topic(Struct):
            name: String
            partitions: Array[Int32]

        path: String
        """An absolute path, as in DescribeLogDirs."""
        topics: Array[Topic]

    Topic = Dir.Topic

    dirs: Array[Dir]


class AlterReplicaLogDirsResponse(Response, to=AlterReplicaLogDirsRequest):
    class Topic(Struct):
        class Partition(Struct):
            partition_index: Int32
            error_code: ErrorCode = NONE
            """LOG_DIR_NOT_FOUND: the broker has no such directory. KAFKA_STORAGE_ERROR: it has failed.
            REPLICA_NOT_AVAILABLE: no replica is here; one that is made later goes there. UNKNOWN_TOPIC_OR_PARTITION,
            INVALID_TOPIC_EXCEPTION. CLUSTER_AUTHORIZATION_FAILED."""

        topic_name: String
        partitions: Array[Partition]

    Partition = Topic.Partition

    throttle_time_ms: Int32 = 0
    results: Array[Topic]
