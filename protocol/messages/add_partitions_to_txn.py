"""AddPartitionsToTxn (key 24): partitions that a transaction is about to write to (KIP-98).

Clients send v0 to v3, for one transaction. Brokers send v4 and v5, to add partitions for a client, or to ask whether
they are part of the transaction.

- v1: throttling after the response (KIP-219). v2: PRODUCER_FENCED (KIP-588). v3: flexible.
- v4: several transactions, verify_only. v5: TRANSACTION_ABORTABLE (KIP-890).
"""

from ..errors import NONE
from ..primitives import Array, Boolean, ErrorCode, Int16, Int32, Int64, String
from ..schema import Request, Response, Struct, field


class TxnTopic(Struct):
    """A topic whose partitions join a transaction."""

    name: String
    partitions: Array[Int32]


class TxnTopicResult(Struct):
    """The outcome of each partition of a topic."""

    class Partition(Struct):
        partition_index: Int32
        partition_error_code: ErrorCode = NONE
        """UNKNOWN_TOPIC_OR_PARTITION, TOPIC_AUTHORIZATION_FAILED: of this partition; then the transaction takes none,
        and the others get OPERATION_NOT_ATTEMPTED. TRANSACTION_ABORTABLE: verified, and not part of the transaction.
        The others are the whole transaction's: INVALID_PRODUCER_ID_MAPPING, INVALID_PRODUCER_EPOCH, PRODUCER_FENCED
        (v2), INVALID_TXN_STATE. CONCURRENT_TRANSACTIONS: the last one is being completed; ask again. NOT_COORDINATOR,
        COORDINATOR_NOT_AVAILABLE, COORDINATOR_LOAD_IN_PROGRESS. INVALID_REQUEST: there is no transactional id.
        TRANSACTIONAL_ID_AUTHORIZATION_FAILED."""

    name: String
    results_by_partition: Array[Partition]


class AddPartitionsToTxnRequest(Request, api_key=24, versions="0-5", flexible="3+"):
    class Transaction(Struct):
        transactional_id: String = field(since=4, default="")
        producer_id: Int64 = field(since=4, default=-1)
        producer_epoch: Int16 = field(since=4, default=-1)
        verify_only: Boolean = field(since=4, default=False)
        """Add nothing, and answer whether the partitions are part of the transaction."""
        topics: Array[TxnTopic] = field(since=4, default=[])

    transactions: Array[Transaction] = field(since=4, default=[])
    v3_and_below_transactional_id: String = field(until=3, default="")
    v3_and_below_producer_id: Int64 = field(until=3, default=-1)
    v3_and_below_producer_epoch: Int16 = field(until=3, default=-1)
    v3_and_below_topics: Array[TxnTopic] = field(until=3, default=[])


class AddPartitionsToTxnResponse(Response, to=AddPartitionsToTxnRequest):
    class Result(Struct):
        transactional_id: String = field(since=4, default="")
        topic_results: Array[TxnTopicResult] = field(since=4, default=[])

    throttle_time_ms: Int32 = 0
    error_code: ErrorCode = field(since=4, default=NONE)
    """CLUSTER_AUTHORIZATION_FAILED: only brokers send these versions."""
    results_by_transaction: Array[Result] = field(since=4, default=[])
    results_by_topic_v3_and_below: Array[TxnTopicResult] = field(until=3, default=[])
