"""ShareFetch (key 78): a member of a share group acknowledges records, and acquires others (KIP-932).

- v1: the first stable version; limits in records. v2: the acquire mode (KIP-1206), renewed acknowledgements (KIP-1222).
"""

from ..errors import NONE
from ..primitives import (
    Array,
    Boolean,
    ErrorCode,
    Int8,
    Int16,
    Int32,
    Int64,
    NullableString,
    Records,
    String,
    Uuid,
)
from ..schema import Request, Response, Struct, field


class AcknowledgementBatch(Struct):
    """What becomes of offsets: one type for all of them, or one for each."""

    first_offset: Int64
    last_offset: Int64
    acknowledge_types: Array[Int8]


class LeaderIdAndEpoch(Struct):
    """The leader of a partition; zeroes unless the request has asked another broker."""

    leader_id: Int32
    leader_epoch: Int32


class NodeEndpoint(Struct):
    """Where a leader is reached."""

    node_id: Int32
    host: String
    port: Int32
    rack: NullableString = None


class ShareFetchRequest(Request, api_key=78, versions="1-2", flexible="0+"):
    class Topic(Struct):
        class Partition(Struct):
            partition_index: Int32
            acknowledgement_batches: Array[AcknowledgementBatch]

        topic_id: Uuid
        partitions: Array[Partition]

    class ForgottenTopic(Struct):
        topic_id: Uuid
        partitions: Array[Int32]

    group_id: NullableString = None
    member_id: NullableString = None
    share_session_epoch: Int32
    max_wait_ms: Int32
    min_bytes: Int32
    max_bytes: Int32 = 0x7FFFFFFF
    max_records: Int32
    batch_size: Int32
    share_acquire_mode: Int8 = field(since=2, default=0)
    is_renew_ack: Boolean = field(since=2, default=False)
    topics: Array[Topic]
    forgotten_topics_data: Array[ForgottenTopic]


class ShareFetchResponse(Response, to=ShareFetchRequest):
    class Topic(Struct):
        class Partition(Struct):
            class AcquiredRecords(Struct):
                first_offset: Int64
                last_offset: Int64
                delivery_count: Int16

            partition_index: Int32
            error_code: ErrorCode = NONE
            error_message: NullableString = None
            acknowledge_error_code: ErrorCode = NONE
            acknowledge_error_message: NullableString = None
            current_leader: LeaderIdAndEpoch
            records: Records = field(nullable_since=3)
            """Batches; never null in these versions."""
            acquired_records: Array[AcquiredRecords]

        topic_id: Uuid
        partitions: Array[Partition]

    throttle_time_ms: Int32 = 0
    error_code: ErrorCode = NONE
    error_message: NullableString = None
    acquisition_lock_timeout_ms: Int32 = 0
    """How long acquired records are locked; 0 with an error."""
    responses: Array[Topic] = field(default=[])
    node_endpoints: Array[NodeEndpoint] = field(default=[])
