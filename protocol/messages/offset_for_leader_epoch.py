"""OffsetForLeaderEpoch (key 23): find where a leader epoch ends, so that a follower can truncate its log where it
diverges (KIP-101, KIP-279).

- v1: the response has the epoch found. v2: current_leader_epoch, for consumers too (KIP-320); throttle_time_ms.
- v3: replica_id (KIP-392). v4: flexible.
"""

from ..errors import NONE
from ..primitives import Array, ErrorCode, Int32, Int64, String
from ..schema import Request, Response, Struct, field


class OffsetForLeaderEpochRequest(Request, api_key=23, versions="0-4", flexible="4+"):
    class Topic(Struct):
        class Partition(Struct):
            partition: Int32
            current_leader_epoch: Int32 = field(since=2, default=-1)
            leader_epoch: Int32
            """The epoch whose end is asked for."""

        topic: String
        partitions: Array[Partition]

    Partition = Topic.Partition

    replica_id: Int32 = field(since=3, default=-2)
    """-1 for a consumer; -2 for a reader that may ask any replica."""
    topics: Array[Topic]


class OffsetForLeaderEpochResponse(Response, to=OffsetForLeaderEpochRequest):
    class Topic(Struct):
        class Partition(Struct):
            error_code: ErrorCode = NONE
            """UNKNOWN_TOPIC_OR_PARTITION, NOT_LEADER_OR_FOLLOWER, KAFKA_STORAGE_ERROR, FENCED_LEADER_EPOCH,
            UNKNOWN_LEADER_EPOCH, TOPIC_AUTHORIZATION_FAILED. An epoch that is not known is no error: both -1."""
            partition: Int32
            leader_epoch: Int32 = field(since=1, default=-1)
            """The epoch asked for, or the largest below it that has records."""
            end_offset: Int64 = -1
            """The offset after the last record of that epoch."""

        topic: String
        partitions: Array[Partition]

    Partition = Topic.Partition

    throttle_time_ms: Int32 = field(since=2, default=0)
    topics: Array[Topic]
