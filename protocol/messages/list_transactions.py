"""ListTransactions (key 66): the transactional ids that one broker coordinates (KIP-664).

- v1: duration_filter (KIP-994). v2: transactional_id_pattern (KIP-1152).
"""

from ..errors import NONE
from ..primitives import Array, ErrorCode, Int32, Int64, NullableString, String
from ..schema import Request, Response, Struct, field


class ListTransactionsRequest(Request, api_key=66, versions="0-2", flexible="0+"):
    state_filters: Array[String] = field(default=[])
    """None given lists all, with every filter."""
    producer_id_filters: Array[Int64] = field(default=[])
    duration_filter: Int64 = field(since=1, default=-1)
    """Milliseconds for which a transaction must have been open to be listed. Below 0: all are listed."""
    transactional_id_pattern: NullableString = field(since=2, default=None)
    """A regular expression for the whole id. Null or empty: all."""


class ListTransactionsResponse(Response, to=ListTransactionsRequest):
    class TransactionState(Struct):
        transactional_id: String
        producer_id: Int64
        transaction_state: String
        """As in DescribeTransactions."""

    throttle_time_ms: Int32 = 0
    error_code: ErrorCode = NONE
    """COORDINATOR_LOAD_IN_PROGRESS: some are not known yet. COORDINATOR_NOT_AVAILABLE. INVALID_REGULAR_EXPRESSION."""
    unknown_state_filters: Array[String] = field(default=[])
    """Those of the request that name no state; they match nothing."""
    transaction_states: Array[TransactionState] = field(default=[])
