"""DescribeTransactions (key 65): describe the transactions of transactional ids (KIP-664).

- v0: the KIP.
"""

from ..errors import NONE
from ..primitives import Array, ErrorCode, Int16, Int32, Int64, String, Timestamp
from ..schema import Request, Response, Struct, field


class DescribeTransactionsRequest(Request, api_key=65, versions="0", flexible="0+"):
    transactional_ids: Array[String]


class DescribeTransactionsResponse(Response, to=DescribeTransactionsRequest):
    class TransactionState(Struct):
        class Topic(Struct):
            topic: String
            partitions: Array[Int32]

        error_code: ErrorCode = NONE
        """TRANSACTIONAL_ID_NOT_FOUND. INVALID_REQUEST: it is empty. NOT_COORDINATOR, COORDINATOR_NOT_AVAILABLE,
        COORDINATOR_LOAD_IN_PROGRESS. TRANSACTIONAL_ID_AUTHORIZATION_FAILED."""
        transactional_id: String
        transaction_state: String = ""
        """Empty, Ongoing, PrepareCommit, PrepareAbort, CompleteCommit, CompleteAbort or PrepareEpochFence; the empty
        string with an error."""
        transaction_timeout_ms: Int32 = 0
        transaction_start_time_ms: Timestamp = -1
        producer_id: Int64 = -1
        producer_epoch: Int16 = -1
        topics: Array[Topic] = field(default=[])
        """The partitions in the transaction."""

    Topic = TransactionState.Topic

    throttle_time_ms: Int32 = 0
    transaction_states: Array[TransactionState]
