"""OffsetCommit (key 8): remember how far a group has come.

- v0: for ZooKeeper. v1: member and generation, commit_timestamp. v2: retention_time_ms instead.
- v3: throttle_time_ms. v4: throttling after the response (KIP-219). v5: no retention_time_ms (KIP-211).
- v6: committed_leader_epoch (KIP-320). v7: static members (KIP-345). v8: flexible.
- v9: members of the new consumer protocol; GROUP_ID_NOT_FOUND and STALE_MEMBER_EPOCH (KIP-848). v10: topic ids.
"""

from ..errors import NONE
from ..primitives import Array, ErrorCode, Int32, Int64, NullableString, String, Timestamp, Uuid
from ..schema import Request, Response, Struct, field
from ..uuids import ZERO_UUID


class OffsetCommitRequest(Request, api_key=8, versions="0-10", flexible="8+"):
    class Topic(Struct):
        class Partition(Struct):
            partition_index: Int32
            committed_offset: Int64
            """The next one to read."""
            committed_leader_epoch: Int32 = field(since=6, default=-1)
            """Of the last record that was read."""
            commit_timestamp: Timestamp = field(since=1, until=1, default=-1)
            """-1 for the broker's time."""
            committed_metadata: NullableString
            """Whatever the client likes to keep with the offset. Null is stored as the empty string."""

        name: String = field(until=9, default="")
        topic_id: Uuid = field(since=10, default=ZERO_UUID)
        partitions: Array[Partition]

    Partition = Topic.Partition

    group_id: String
    generation_id_or_member_epoch: Int32 = field(since=1, default=-1)
    """-1: from outside of the group, which must have no members."""
    member_id: String = field(since=1, default="")
    group_instance_id: NullableString = field(since=7, default=None)
    retention_time_ms: Int64 = field(since=2, until=4, default=-1)
    """-1 for the broker's setting."""
    topics: Array[Topic]


class OffsetCommitResponse(Response, to=OffsetCommitRequest):
    class Topic(Struct):
        class Partition(Struct):
            partition_index: Int32
            error_code: ErrorCode = NONE
            """UNKNOWN_TOPIC_OR_PARTITION, UNKNOWN_TOPIC_ID, OFFSET_METADATA_TOO_LARGE, TOPIC_AUTHORIZATION_FAILED: of
            this partition. The others are the whole request's: REBALANCE_IN_PROGRESS, ILLEGAL_GENERATION,
            UNKNOWN_MEMBER_ID, FENCED_INSTANCE_ID: join again. GROUP_ID_NOT_FOUND, STALE_MEMBER_EPOCH (v9).
            INVALID_GROUP_ID, INVALID_COMMIT_OFFSET_SIZE (too large for the log). NOT_COORDINATOR,
            COORDINATOR_NOT_AVAILABLE, COORDINATOR_LOAD_IN_PROGRESS. GROUP_AUTHORIZATION_FAILED."""

        name: String = field(until=9, default="")
        topic_id: Uuid = field(since=10, default=ZERO_UUID)
        partitions: Array[Partition]

    Partition = Topic.Partition

    throttle_time_ms: Int32 = field(since=3, default=0)
    topics: Array[Topic]
