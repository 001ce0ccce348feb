"""InitProducerId (key 22): a producer id and epoch, for a transactional id or for idempotence alone (KIP-98).

- v1: throttling after the response (KIP-219). v2: flexible. v3: a producer may give its id and epoch, to have the
  epoch raised (KIP-360). v4: PRODUCER_FENCED instead of INVALID_PRODUCER_EPOCH (KIP-588).
- v5: TRANSACTION_ABORTABLE (KIP-890).
"""

from ..errors import NONE
from ..primitives import ErrorCode, Int16, Int32, Int64, NullableString
from ..schema import Request, Response, field


class InitProducerIdRequest(Request, api_key=22, versions="0-5", flexible="2+"):
    transactional_id: NullableString
    """Null: idempotence alone, and any broker may answer."""
    transaction_timeout_ms: Int32
    """How long a transaction may stay open before the coordinator aborts it. Without meaning for idempotence alone."""
    producer_id: Int64 = field(since=3, default=-1)
    producer_epoch: Int16 = field(since=3, default=-1)


class InitProducerIdResponse(Response, to=InitProducerIdRequest):
    throttle_time_ms: Int32 = 0
    error_code: ErrorCode = NONE
    """INVALID_REQUEST: the transactional id is empty, or only one of id and epoch is given.
    INVALID_TRANSACTION_TIMEOUT. NOT_COORDINATOR, COORDINATOR_NOT_AVAILABLE, COORDINATOR_LOAD_IN_PROGRESS: ask another
    broker or again. CONCURRENT_TRANSACTIONS: the last transaction is being completed; ask again.
    INVALID_PRODUCER_EPOCH, PRODUCER_FENCED: a newer producer has taken over. INVALID_PRODUCER_ID_MAPPING: the given id
    is another one's. TRANSACTIONAL_ID_AUTHORIZATION_FAILED, CLUSTER_AUTHORIZATION_FAILED (idempotence alone)."""
    producer_id: Int64 = -1
    producer_epoch: Int16 = -1
