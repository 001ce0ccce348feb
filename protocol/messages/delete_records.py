"""DeleteRecords (key 21): raise the log start offset of partitions (KIP-107).

Records before the offset are gone for readers at once; the answer comes when every live replica has them gone too. What
a partition is refused does not hinder the others, and a partition named twice is asked for the last offset named.

- v0: the KIP. v1: as v0; the client obeys throttling after the response (KIP-219). v2: flexible (KIP-482).
"""

from ..errors import NONE
from ..primitives import Array, ErrorCode, Int32, Int64, String
from ..schema import Request, Response, Struct

HIGH_WATERMARK = -1
"""An offset that stands for whatever the partition's high watermark is when the request arrives."""


class DeleteRecordsRequest(Request, api_key=21, versions="0-2", flexible="2+"):
    class Topic(Struct):
        class Partition(Struct):
            partition_index: Int32
            offset: Int64
            """The first offset to keep, or HIGH_WATERMARK. One at or below the log start offset changes nothing."""

        name: String
        partitions: Array[Partition]

    Partition = Topic.Partition

    topics: Array[Topic]
    timeout_ms: Int32
    """How long the leader may wait until every live replica has followed. 0 or less: not at all."""


class DeleteRecordsResponse(Response, to=DeleteRecordsRequest):
    class Topic(Struct):
        class Partition(Struct):
            partition_index: Int32
            low_watermark: Int64 = -1
            """The smallest log start offset among the live replicas. -1 with an error, except REQUEST_TIMED_OUT."""
            error_code: ErrorCode = NONE
            """REQUEST_TIMED_OUT: a live replica did not follow in time; the effect stays. With all others nothing was
            deleted:
            OFFSET_OUT_OF_RANGE: the offset is negative, or above the high watermark.
            POLICY_VIOLATION: the topic is compacted and not deleted from, so that only keys make records obsolete.
            UNKNOWN_TOPIC_OR_PARTITION, NOT_LEADER_OR_FOLLOWER: ask for metadata, then the leader that it names. Also
            answered when the topic or the leadership was lost while waiting.
            INVALID_TOPIC_EXCEPTION: the topic is the broker's own.
            KAFKA_STORAGE_ERROR: the disk failed. TOPIC_AUTHORIZATION_FAILED."""

        name: String
        partitions: Array[Partition]

    Partition = Topic.Partition

    throttle_time_ms: Int32 = 0
    """How long the client is asked to send nothing, because it has used up a quota."""
    topics: Array[Topic]
