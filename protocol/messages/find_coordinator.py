"""FindCoordinator (key 10): which broker coordinates a group, or the transactions of a transactional id.

- v1: transactional ids as well (KIP-98), throttle_time_ms, error_message. v2: throttling after the response (KIP-219).
- v3: flexible. v4: several keys in one request (KIP-699). v5: TRANSACTION_ABORTABLE (KIP-890).
- v6: share groups (KIP-932).
"""

from ..errors import NONE
from ..primitives import Array, ErrorCode, Int8, Int32, NullableString, String
from ..schema import Request, Response, Struct, field

GROUP = 0
TRANSACTION = 1
SHARE = 2


class FindCoordinatorRequest(Request, api_key=10, versions="0-6", flexible="3+"):
    key: String = field(until=3, default="")
    key_type: Int8 = field(since=1, default=GROUP)
    coordinator_keys: Array[String] = field(since=4, default=[])


class FindCoordinatorResponse(Response, to=FindCoordinatorRequest):
    class Coordinator(Struct):
        key: String
        node_id: Int32 = -1
        host: String = ""
        port: Int32 = -1
        error_code: ErrorCode = NONE
        error_message: NullableString = None

    throttle_time_ms: Int32 = field(since=1, default=0)
    error_code: ErrorCode = field(until=3, default=NONE)
    """COORDINATOR_NOT_AVAILABLE: none at the moment; ask again. INVALID_REQUEST: no key can be of this type or form.
    GROUP_ and TRANSACTIONAL_ID_AUTHORIZATION_FAILED. From v4 on each coordinator has its own."""
    error_message: NullableString = field(since=1, until=3, default=None)
    node_id: Int32 = field(until=3, default=-1)
    host: String = field(until=3, default="")
    port: Int32 = field(until=3, default=-1)
    coordinators: Array[Coordinator] = field(since=4, default=[])
