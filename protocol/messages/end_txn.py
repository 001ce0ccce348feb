"""EndTxn (key 26): commit or abort a transaction (KIP-98).

The answer comes when the decision is stored; the markers reach the partitions afterwards.

- v1: throttling after the response (KIP-219). v2: PRODUCER_FENCED (KIP-588). v3: flexible.
- v4: TRANSACTION_ABORTABLE. v5: every transaction has an epoch of its own, which the response carries (KIP-890).
"""

from ..errors import NONE
from ..primitives import Boolean, ErrorCode, Int16, Int32, Int64, String
from ..schema import Request, Response, field


class EndTxnRequest(Request, api_key=26, versions="0-5", flexible="3+"):
    transactional_id: String
    producer_id: Int64
    producer_epoch: Int16
    committed: Boolean
    """False to abort."""


class EndTxnResponse(Response, to=EndTxnRequest):
    throttle_time_ms: Int32 = 0
    error_code: ErrorCode = NONE
    """INVALID_TXN_STATE: no transaction is open, or it has ended the other way. CONCURRENT_TRANSACTIONS: it is being
    completed. INVALID_PRODUCER_ID_MAPPING, INVALID_PRODUCER_EPOCH, PRODUCER_FENCED (v2): a newer producer has taken
    over, or the coordinator has aborted it. NOT_COORDINATOR, COORDINATOR_NOT_AVAILABLE, COORDINATOR_LOAD_IN_PROGRESS.
    INVALID_REQUEST: there is no transactional id. TRANSACTIONAL_ID_AUTHORIZATION_FAILED."""
    producer_id: Int64 = field(since=5, default=-1)
    producer_epoch: Int16 = field(since=5, default=-1)
    """With which the producer goes on."""
