"""DescribeLogDirs (key 35): the partitions in a broker's log directories, and their sizes (KIP-113).

- v1: throttling after the response (KIP-219). v2: flexible. v3: error_code of the whole response.
- v4: total and free space (KIP-827). v5: is_cordoned (KIP-1066).
"""

from ..errors import NONE
from ..primitives import Array, Boolean, ErrorCode, Int32, Int64, NullableArray, String
from ..schema import Request, Response, Struct, field


class DescribeLogDirsRequest(Request, api_key=35, versions="0-5", flexible="2+"):
    class Topic(Struct):
        topic: String
        partitions: Array[Int32]

    topics: NullableArray[Topic] = None
    """Null asks for all."""


class DescribeLogDirsResponse(Response, to=DescribeLogDirsRequest):
    class Result(Struct):
        class Topic(Struct):
            class Partition(Struct):
                partition_index: Int32
                partition_size: Int64
                """Bytes, of the segments without their indexes."""
                offset_lag: Int64
                """How far a replica is behind the high watermark; one that is moving here, behind the log end of the
                one that it replaces."""
                is_future_key: Boolean = False
                """It is moving here from another directory."""

            name: String
            partitions: Array[Partition]

        error_code: ErrorCode = NONE
        """KAFKA_STORAGE_ERROR: the directory has failed."""
        log_dir: String
        """The absolute path."""
        topics: Array[Topic] = field(default=[])
        total_bytes: Int64 = field(since=4, default=-1)
        """Of the volume. -1 if it is not known."""
        usable_bytes: Int64 = field(since=4, default=-1)
        is_cordoned: Boolean = field(since=5, default=False)
        """No new partition is to come here."""

    Topic = Result.Topic
    Partition = Topic.Partition

    throttle_time_ms: Int32 = 0
    error_code: ErrorCode = field(since=3, default=NONE)
    """CLUSTER_AUTHORIZATION_FAILED; below v3 the list is empty then."""
    results: Array[Result]
