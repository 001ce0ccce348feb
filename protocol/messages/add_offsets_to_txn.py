"""AddOffsetsToTxn (key 25): a transaction is about to commit offsets of a group (KIP-98).

It is AddPartitionsToTxn for the partition of the offsets topic that the group's coordinator writes.

- v1: throttling after the response (KIP-219). v2: PRODUCER_FENCED (KIP-588). v3: flexible.
- v4: TRANSACTION_ABORTABLE (KIP-890).
"""

from ..errors import NONE
from ..primitives import ErrorCode, Int16, Int32, Int64, String
from ..schema import Request, Response


class AddOffsetsToTxnRequest(Request, api_key=25, versions="0-4", flexible="3+"):
    transactional_id: String
    producer_id: Int64
    producer_epoch: Int16
    group_id: String


class AddOffsetsToTxnResponse(Response, to=AddOffsetsToTxnRequest):
    throttle_time_ms: Int32 = 0
    error_code: ErrorCode = NONE
    """INVALID_PRODUCER_ID_MAPPING, INVALID_PRODUCER_EPOCH, PRODUCER_FENCED (v2), INVALID_TXN_STATE.
    CONCURRENT_TRANSACTIONS: the last one is being completed; ask again. NOT_COORDINATOR, COORDINATOR_NOT_AVAILABLE,
    COORDINATOR_LOAD_IN_PROGRESS. INVALID_REQUEST: there is no transactional id. TRANSACTIONAL_ID_ and
    GROUP_AUTHORIZATION_FAILED."""
