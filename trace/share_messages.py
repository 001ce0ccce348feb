"""ShareFetch (key 78) and ShareAcknowledge (key 79) (KIP-932): their answers have addresses, which are rewritten.

- v1: the first stable version. v2: the acquire mode (KIP-1206), renewed acknowledgements (KIP-1222).

kmini's broker serves neither, so they are not in `protocol/messages/`.
"""

from kmini.protocol.errors import NONE
from kmini.protocol.primitives import (
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
from kmini.protocol.schema import Request, Response, Struct, field


class AcknowledgementBatch(Struct):
    first_offset: Int64
    last_offset: Int64
    acknowledge_types: Array[Int8]


class LeaderIdAndEpoch(Struct):
    leader_id: Int32
    leader_epoch: Int32


class NodeEndpoint(Struct):
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
            records: Records
            acquired_records: Array[AcquiredRecords]

        topic_id: Uuid
        partitions: Array[Partition]

    throttle_time_ms: Int32 = 0
    error_code: ErrorCode = NONE
    error_message: NullableString = None
    acquisition_lock_timeout_ms: Int32
    responses: Array[Topic]
    node_endpoints: Array[NodeEndpoint] = field(default=[])


class ShareAcknowledgeRequest(Request, api_key=79, versions="1-2", flexible="0+"):
    class Topic(Struct):
        class Partition(Struct):
            partition_index: Int32
            acknowledgement_batches: Array[AcknowledgementBatch]

        topic_id: Uuid
        partitions: Array[Partition]

    group_id: NullableString = None
    member_id: NullableString = None
    share_session_epoch: Int32
    is_renew_ack: Boolean = field(since=2, default=False)
    topics: Array[Topic]


class ShareAcknowledgeResponse(Response, to=ShareAcknowledgeRequest):
    class Topic(Struct):
        class Partition(Struct):
            partition_index: Int32
            error_code: ErrorCode = NONE
            error_message: NullableString = None
            current_leader: LeaderIdAndEpoch

        topic_id: Uuid
        partitions: Array[Partition]

    throttle_time_ms: Int32 = 0
    error_code: ErrorCode = NONE
    error_message: NullableString = None
    acquisition_lock_timeout_ms: Int32 = field(since=2, default=0)
    responses: Array[Topic]
    node_endpoints: Array[NodeEndpoint] = field(default=[])
