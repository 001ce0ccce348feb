"""Fetch (key 1): read record batches, for consumers and for following replicas.

- v1: throttle_time_ms. v2: messages of magic 1 (KIP-32). v3: max_bytes for the whole response, so that the order of
  partitions matters (KIP-74).
- v4: isolation_level, aborted transactions, batches of magic 2 (KIP-98). v5: log_start_offset (KIP-107).
- v6: KAFKA_STORAGE_ERROR (KIP-112). v7: sessions: a request names only the partitions that changed (KIP-227).
- v8: throttling after the response (KIP-219). v9: current_leader_epoch (KIP-320). v10: zstd (KIP-110).
- v11: reading from a replica nearby (KIP-392). v12: flexible; diverging epochs (KIP-595). v13: topic ids (KIP-516).
- v14: as v13, for tiered storage (KIP-405). v15: replica_state instead of replica_id (KIP-903).
- v16: addresses of new leaders (KIP-951). v17: the replica's log directory (KIP-853).
- v18: a follower sends the high watermark that it has (KIP-1166).
"""

from ..errors import NONE
from ..primitives import (
    Array,
    ErrorCode,
    Int8,
    Int32,
    Int64,
    NullableArray,
    NullableString,
    Records,
    String,
    Uuid,
)
from ..schema import Request, Response, Struct, field
from ..uuids import ZERO_UUID

READ_UNCOMMITTED = 0
READ_COMMITTED = 1
"""Isolation levels of a fetch and of ListOffsets: up to the high watermark, or up to the last stable offset and without
aborted transactions (KIP-98)."""


class FetchRequest(Request, api_key=1, versions="0-18", flexible="12+"):
    class ReplicaState(Struct):
        replica_id: Int32 = -1
        replica_epoch: Int64 = -1
        """The broker epoch of the following replica."""

    class Topic(Struct):
        class Partition(Struct):
            partition: Int32
            current_leader_epoch: Int32 = field(since=9, default=-1)
            """The leader epoch that the reader knows: a leader of another epoch refuses. -1 for any."""
            fetch_offset: Int64
            last_fetched_epoch: Int32 = field(since=12, default=-1)
            """Of the last record that a follower has; the leader compares and may answer `diverging_epoch`."""
            log_start_offset: Int64 = field(since=5, default=-1)
            """The follower's log start offset; the low watermark of DeleteRecords depends on it (KIP-107)."""
            partition_max_bytes: Int32
            replica_directory_id: Uuid = field(since=17, tag=0, default=ZERO_UUID)
            high_watermark: Int64 = field(since=18, tag=1, default=(1 << 63) - 1)
            """The follower's high watermark, so that the leader answers at once when it knows a higher one. The largest
            number: unknown."""

        topic: String = field(until=12, default="")
        topic_id: Uuid = field(since=13, default=ZERO_UUID)
        partitions: Array[Partition]

    Partition = Topic.Partition

    class ForgottenTopic(Struct):
        topic: String = field(until=12, default="")
        topic_id: Uuid = field(since=13, default=ZERO_UUID)
        partitions: Array[Int32]

    cluster_id: NullableString = field(since=12, tag=0, default=None)
    replica_id: Int32 = field(until=14, default=-1)
    """The follower's broker id; -1 for a consumer, -2 for a debugging consumer, which may read above the high
    watermark."""
    replica_state: ReplicaState | None = field(since=15, tag=1, default=None)
    """In place of replica_id; None for a consumer."""
    max_wait_ms: Int32
    min_bytes: Int32
    max_bytes: Int32 = field(since=3, default=0x7FFFFFFF)
    """A limit that only the first batch may exceed, so that every reader makes progress."""
    isolation_level: Int8 = field(since=4, default=0)
    """0 read_uncommitted, 1 read_committed: up to the last stable offset, with the aborted transactions."""
    session_id: Int32 = field(since=7, default=0)
    session_epoch: Int32 = field(since=7, default=-1)
    """0: all partitions are named, make a session. -1: all are named, make none. Else: only changes are named."""
    topics: Array[Topic]
    forgotten_topics_data: Array[ForgottenTopic] = field(since=7, default=[])
    rack_id: String = field(since=11, default="")


class FetchResponse(Response, to=FetchRequest):
    class Topic(Struct):
        class Partition(Struct):
            class EpochEndOffset(Struct):
                epoch: Int32 = -1
                end_offset: Int64 = -1

            class LeaderIdAndEpoch(Struct):
                leader_id: Int32 = -1
                leader_epoch: Int32 = -1

            class SnapshotId(Struct):
                end_offset: Int64 = -1
                epoch: Int32 = -1

            class AbortedTransaction(Struct):
                producer_id: Int64
                first_offset: Int64

            partition_index: Int32
            error_code: ErrorCode = NONE
            """OFFSET_OUT_OF_RANGE: below the log start offset or above the log end. UNKNOWN_TOPIC_OR_PARTITION,
            UNKNOWN_TOPIC_ID, INCONSISTENT_TOPIC_ID, NOT_LEADER_OR_FOLLOWER, LEADER_NOT_AVAILABLE, KAFKA_STORAGE_ERROR
            (v6): not here, or not now. FENCED_LEADER_EPOCH, UNKNOWN_LEADER_EPOCH: the reader's picture of the cluster
            is old, or the broker's. UNSUPPORTED_COMPRESSION_TYPE: zstd below v10. CORRUPT_MESSAGE.
            FETCH_SESSION_TOPIC_ID_ERROR. TOPIC_AUTHORIZATION_FAILED."""
            high_watermark: Int64 = -1
            """-1 with an error, as are the next two."""
            last_stable_offset: Int64 = field(since=4, default=-1)
            log_start_offset: Int64 = field(since=5, default=-1)
            diverging_epoch: EpochEndOffset | None = field(since=12, tag=0, default=None)
            """The follower's log has parted from the leader's: it must truncate to this epoch's end offset."""
            current_leader: LeaderIdAndEpoch | None = field(since=12, tag=1, default=None)
            """With NOT_LEADER_OR_FOLLOWER or FENCED_LEADER_EPOCH, if known."""
            snapshot_id: SnapshotId | None = field(since=12, tag=2, default=None)
            aborted_transactions: NullableArray[AbortedTransaction] = field(since=4, default=None)
            """Null if the reader asked for read_uncommitted."""
            preferred_read_replica: Int32 = field(since=11, default=-1)
            """The replica to read from. The answer then has no records."""
            records: Records = None
            """Whole batches, beginning with the batch that holds the fetch offset. The last may be cut off, unless it
            is the first of the response. Empty, not null, if there are no records."""

        topic: String = field(until=12, default="")
        topic_id: Uuid = field(since=13, default=ZERO_UUID)
        partitions: Array[Partition]

    Partition = Topic.Partition
    EpochEndOffset = Partition.EpochEndOffset
    LeaderIdAndEpoch = Partition.LeaderIdAndEpoch
    AbortedTransaction = Partition.AbortedTransaction

    class NodeEndpoint(Struct):
        node_id: Int32
        host: String
        port: Int32
        rack: NullableString = None

    throttle_time_ms: Int32 = field(since=1, default=0)
    error_code: ErrorCode = field(since=7, default=NONE)
    """FETCH_SESSION_ID_NOT_FOUND, INVALID_FETCH_SESSION_EPOCH, FETCH_SESSION_TOPIC_ID_ERROR: start a new session.
    INCONSISTENT_CLUSTER_ID."""
    session_id: Int32 = field(since=7, default=0)
    """0 if there is no session: the next request must name all partitions."""
    responses: Array[Topic] = field(default=[])
    node_endpoints: Array[NodeEndpoint] = field(since=16, tag=0, default=[])
    """Where the leaders are that `current_leader` names."""
