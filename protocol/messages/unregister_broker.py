"""UnregisterBroker (key 64): forget a broker that will not come back (KIP-631)."""

from ..errors import NONE
from ..primitives import ErrorCode, Int32, NullableString
from ..schema import Request, Response


class UnregisterBrokerRequest(Request, api_key=64, versions="0", flexible="0+"):
    broker_id: Int32


class UnregisterBrokerResponse(Response, to=UnregisterBrokerRequest):
    throttle_time_ms: Int32 = 0
    error_code: ErrorCode = NONE
    """BROKER_ID_NOT_REGISTERED: the broker is unknown. REQUEST_TIMED_OUT, NOT_CONTROLLER. CLUSTER_AUTHORIZATION_FAILED.
    """
    error_message: NullableString = None
