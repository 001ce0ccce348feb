"""Produce (key 0): append record batches to partitions.

With acks 0 there is no response; a closed connection is the only sign of a failure.

- v1: throttle_time_ms. v2: log_append_time_ms (KIP-32). v3: transactional_id, record batches of magic 2 (KIP-98).
- v4: KAFKA_STORAGE_ERROR (KIP-112). v5: log_start_offset (KIP-107). v6: throttling after the response (KIP-219).
- v7: zstd may be used (KIP-110). v8: which records are at fault (KIP-467). v9: flexible.
- v10: the new leader and its address on NOT_LEADER_OR_FOLLOWER (KIP-951). v11: TRANSACTION_ABORTABLE (KIP-890).
- v12: a transactional producer's partitions join the transaction implicitly (KIP-890). v13: topic ids (KIP-516).
"""

from typing import ClassVar

from ..errors import NONE
from ..primitives import Array, ErrorCode, Int16, Int32, Int64, NullableString, Records, String, Timestamp, Uuid
from ..schema import Request, Response, Struct, field
from ..uuids import ZERO_UUID

ALL_IN_SYNC = -1
"""As acks: wait until every in-sync replica has the records. 1 waits for the leader; 0 does not wait."""


class ProduceRequest(Request, api_key=0, versions="0-13", flexible="9+"):
    class Topic(Struct):
        class Partition(Struct):
            index: Int32
            records: Records
            """One record batch of magic 2 from v3 on; before, a set of messages of magic 0 or 1."""

        name: String = field(until=12, default="")
        topic_id: Uuid = field(since=13, default=ZERO_UUID)
        partition_data: Array[Partition]

    Partition = Topic.Partition

    holds_views: ClassVar[bool] = True

    transactional_id: NullableString = field(since=3, default=None)
    acks: Int16
    """0: no answer. 1: answer when the leader has the records. -1: when every in-sync replica has them."""
    timeout_ms: Int32
    """Milliseconds to wait for the replicas if acks is -1."""
    topic_data: Array[Topic]


class ProduceResponse(Response, to=ProduceRequest):
    class Topic(Struct):
        class Partition(Struct):
            class RecordError(Struct):
                batch_index: Int32
                """The index of the record in the batch, from 0."""
                batch_index_error_message: NullableString = None

            class LeaderIdAndEpoch(Struct):
                leader_id: Int32 = -1
                leader_epoch: Int32 = -1

            index: Int32
            error_code: ErrorCode = NONE
            """Nothing was written, with three exceptions: REQUEST_TIMED_OUT and NOT_ENOUGH_REPLICAS_AFTER_APPEND (it is
            in the leader's log, not in all replicas), NOT_LEADER_OR_FOLLOWER if leadership was lost while waiting.
            UNKNOWN_TOPIC_OR_PARTITION, UNKNOWN_TOPIC_ID, NOT_LEADER_OR_FOLLOWER, KAFKA_STORAGE_ERROR: not here.
            NOT_ENOUGH_REPLICAS, INVALID_REQUIRED_ACKS. MESSAGE_TOO_LARGE, RECORD_LIST_TOO_LARGE, CORRUPT_MESSAGE,
            INVALID_RECORD, INVALID_TIMESTAMP, UNSUPPORTED_COMPRESSION_TYPE, UNSUPPORTED_FOR_MESSAGE_FORMAT: the batch.
            OUT_OF_ORDER_SEQUENCE_NUMBER, DUPLICATE_SEQUENCE_NUMBER, UNKNOWN_PRODUCER_ID, INVALID_PRODUCER_EPOCH,
            INVALID_TXN_STATE, INVALID_PRODUCER_ID_MAPPING, TRANSACTION_ABORTABLE, CONCURRENT_TRANSACTIONS (v12: the
            last transaction is still being completed): the producer. A duplicate of one of the last five batches is no
            error: the answer repeats its first offset. INVALID_TOPIC_EXCEPTION: the topic is internal.
            TOPIC_, TRANSACTIONAL_ID_ and CLUSTER_AUTHORIZATION_FAILED."""
            base_offset: Int64 = -1
            """The offset of the first record."""
            log_append_time_ms: Timestamp = field(since=2, default=-1)
            """-1 if the topic keeps the producer's timestamps."""
            log_start_offset: Int64 = field(since=5, default=-1)
            record_errors: Array[RecordError] = field(since=8, default=[])
            error_message: NullableString = field(since=8, default=None)
            current_leader: LeaderIdAndEpoch | None = field(since=10, tag=0, default=None)
            """With NOT_LEADER_OR_FOLLOWER, if known."""

        name: String = field(until=12, default="")
        topic_id: Uuid = field(since=13, default=ZERO_UUID)
        partition_responses: Array[Partition]

    Partition = Topic.Partition
    RecordError = Partition.RecordError
    LeaderIdAndEpoch = Partition.LeaderIdAndEpoch

    class NodeEndpoint(Struct):
        node_id: Int32
        host: String
        port: Int32
        rack: NullableString = None

    responses: Array[Topic]
    throttle_time_ms: Int32 = field(since=1, default=0)
    node_endpoints: Array[NodeEndpoint] = field(since=10, tag=0, default=[])
    """Where the leaders are that `current_leader` names."""
