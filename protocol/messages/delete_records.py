"""DeleteRecords (key 21): raise the log start offset of partitions (KIP-107).

Readers lose the records below the offset at once. The leader responds when every live replica has raised its log start
offset. Each partition has its own outcome. If a request names a partition twice, the last offset counts.

- v0: KIP-107. v1: as v0; the client obeys throttling after the response (KIP-219). v2: flexible (KIP-482).
"""

from ..errors import NONE
from ..primitives import Array, ErrorCode, Int32, Int64, String
from ..schema import Request, Response, Struct

HIGH_WATERMARK = -1
"""As an offset: the partition's high watermark when the request arrives."""


class DeleteRecordsRequest(Request, api_key=21, versions="0-2", flexible="2+"):
    class Topic(Struct):
        class Partition(Struct):
            partition_index: Int32
            offset: Int64
            """The first offset to keep, or HIGH_WATERMARK. An offset at or below the log start offset changes
            nothing."""

        name: String
        partitions: Array[Partition]

    Partition = Topic.Partition

    topics: Array[Topic]
    timeout_ms: Int32
    """Milliseconds that the leader may wait until every live replica has followed. 0 or less: it does not wait."""


class DeleteRecordsResponse(Response, to=DeleteRecordsRequest):
    class Topic(Struct):
        class Partition(Struct):
            partition_index: Int32
            low_watermark: Int64 = -1
            """The smallest log start offset among the live replicas. -1 with an error, except REQUEST_TIMED_OUT."""
            error_code: ErrorCode = NONE
            """REQUEST_TIMED_OUT, KAFKA_STORAGE_ERROR, and an error that arises while the request waits leave the
            deletion in effect on this leader; the other errors delete nothing.
            REQUEST_TIMED_OUT: a live replica did not follow in time.
            OFFSET_OUT_OF_RANGE: the offset is negative, or above the high watermark.
            POLICY_VIOLATION: the topic's cleanup.policy is compact alone, so only newer records delete older ones.
            UNKNOWN_TOPIC_OR_PARTITION, NOT_LEADER_OR_FOLLOWER: send Metadata, then ask the leader that it names. Also
            the answer when the topic is deleted, or the leadership moves, while the request waits.
            INVALID_TOPIC_EXCEPTION: the topic is internal.
            KAFKA_STORAGE_ERROR: the disk failed. TOPIC_AUTHORIZATION_FAILED."""

        name: String
        partitions: Array[Partition]

    Partition = Topic.Partition

    throttle_time_ms: Int32 = 0
    """Milliseconds for which the client is asked to send nothing, because it has used up a quota."""
    topics: Array[Topic]
