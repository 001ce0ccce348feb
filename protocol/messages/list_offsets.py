"""ListOffsets (key 2): the offset that belongs to a timestamp, or to a landmark of the log.

- v0: the base offsets of up to max_num_offsets segments that are older than the timestamp, newest first.
- v1: one offset, by the timestamps of records (KIP-79). v2: isolation_level, throttle_time_ms (KIP-98).
- v3: throttling after the response (KIP-219). v4: leader epochs both ways (KIP-320).
- v5: OFFSET_NOT_AVAILABLE (KIP-207). v6: flexible. v7: MAX_TIMESTAMP (KIP-734). v8: EARLIEST_LOCAL (KIP-405).
- v9: LATEST_TIERED (KIP-1005).
- v10: timeout_ms, for answers that need remote storage (KIP-1075). v11: EARLIEST_PENDING_UPLOAD (KIP-1023).
"""

from ..errors import NONE
from ..primitives import Array, ErrorCode, Int8, Int32, Int64, String, Timestamp
from ..schema import Request, Response, Struct, field

LATEST = -1
"""The offset after the last record that the reader may see."""
EARLIEST = -2
"""The log start offset."""
MAX_TIMESTAMP = -3
"""The first record that has the largest timestamp."""
EARLIEST_LOCAL = -4
"""The first offset that is not in remote storage only; without tiers, as EARLIEST."""
LATEST_TIERED = -5
"""The last offset in remote storage; not found without tiered storage."""
EARLIEST_PENDING_UPLOAD = -6
"""The first offset to copy to remote storage; not found without tiered storage."""


class ListOffsetsRequest(Request, api_key=2, versions="0-11", flexible="6+"):
    class Topic(Struct):
        class Partition(Struct):
            partition_index: Int32
            current_leader_epoch: Int32 = field(since=4, default=-1)
            timestamp: Timestamp
            """The first record at or after this time is meant; negative: one of the landmarks above."""
            max_num_offsets: Int32 = field(until=0, default=1)

        name: String
        partitions: Array[Partition]

    Partition = Topic.Partition

    replica_id: Int32 = -1
    """-1 for a consumer, -2 for a debugging one: the log end counts then, and any replica may answer."""
    isolation_level: Int8 = field(since=2, default=0)
    topics: Array[Topic]
    timeout_ms: Int32 = field(since=10, default=0)


class ListOffsetsResponse(Response, to=ListOffsetsRequest):
    class Topic(Struct):
        class Partition(Struct):
            partition_index: Int32
            error_code: ErrorCode = NONE
            """UNKNOWN_TOPIC_OR_PARTITION, NOT_LEADER_OR_FOLLOWER, KAFKA_STORAGE_ERROR, LEADER_NOT_AVAILABLE: not here,
            or not now. OFFSET_NOT_AVAILABLE (v5): the high watermark has not caught up after an election; ask again.
            FENCED_LEADER_EPOCH, UNKNOWN_LEADER_EPOCH. UNSUPPORTED_VERSION: the landmark is newer than this version.
            INVALID_REQUEST: the partition is named twice. UNSUPPORTED_FOR_MESSAGE_FORMAT: records without timestamps.
            TOPIC_AUTHORIZATION_FAILED."""
            old_style_offsets: Array[Int64] = field(until=0, default=[])
            timestamp: Timestamp = field(since=1, default=-1)
            """The timestamp of the record found; -1 for a place in the log, or if no record is found."""
            offset: Int64 = field(since=1, default=-1)
            """-1 if no record is that new."""
            leader_epoch: Int32 = field(since=4, default=-1)
            """Of the record at `offset`."""

        name: String
        partitions: Array[Partition]

    Partition = Topic.Partition

    throttle_time_ms: Int32 = field(since=2, default=0)
    topics: Array[Topic]
