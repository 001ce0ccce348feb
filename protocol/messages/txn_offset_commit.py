"""TxnOffsetCommit (key 28): commit offsets of a group as part of a transaction (KIP-98).

- v1: throttling after the response (KIP-219). v2: committed_leader_epoch (KIP-320).
- v3: flexible; member and generation (KIP-447). v4: TRANSACTION_ABORTABLE.
- v5: the offsets join the transaction implicitly (KIP-890).
"""

from ..errors import NONE
from ..primitives import Array, ErrorCode, Int16, Int32, Int64, NullableString, String
from ..schema import Request, Response, Struct, field


class TxnOffsetCommitRequest(Request, api_key=28, versions="0-5", flexible="3+"):
    class Topic(Struct):
        class Partition(Struct):
            partition_index: Int32
            committed_offset: Int64
            """The next one to read."""
            committed_leader_epoch: Int32 = field(since=2, default=-1)
            """Of the last record that was read."""
            committed_metadata: NullableString

        name: String
        partitions: Array[Partition]

    Partition = Topic.Partition

    transactional_id: String
    group_id: String
    producer_id: Int64
    producer_epoch: Int16
    generation_id: Int32 = field(since=3, default=-1)
    """-1 without a member id: the group does not check the member."""
    member_id: String = field(since=3, default="")
    group_instance_id: NullableString = field(since=3, default=None)
    topics: Array[Topic]


class TxnOffsetCommitResponse(Response, to=TxnOffsetCommitRequest):
    class Topic(Struct):
        class Partition(Struct):
            partition_index: Int32
            error_code: ErrorCode = NONE
            """UNKNOWN_TOPIC_OR_PARTITION, OFFSET_METADATA_TOO_LARGE, TOPIC_AUTHORIZATION_FAILED: of this partition. The
            others are the whole request's: ILLEGAL_GENERATION, UNKNOWN_MEMBER_ID, FENCED_INSTANCE_ID (v3): the member
            has fallen out of the group. INVALID_PRODUCER_ID_MAPPING, INVALID_PRODUCER_EPOCH, INVALID_TXN_STATE,
            TRANSACTION_ABORTABLE (v4). CONCURRENT_TRANSACTIONS (v5): ask again. INVALID_GROUP_ID. NOT_COORDINATOR,
            COORDINATOR_NOT_AVAILABLE, COORDINATOR_LOAD_IN_PROGRESS (v2). GROUP_ and
            TRANSACTIONAL_ID_AUTHORIZATION_FAILED."""

        name: String
        partitions: Array[Partition]

    Partition = Topic.Partition

    throttle_time_ms: Int32 = 0
    topics: Array[Topic]
