"""ExpireDelegationToken (key 40): set the time at which a token ends (KIP-48).

v1 changes no field: the broker throttles after its answer (KIP-219). v2 is flexible (KIP-482).
"""

from ..errors import NONE
from ..primitives import Bytes, ErrorCode, Int32, Int64
from ..schema import Request, Response


class ExpireDelegationTokenRequest(Request, api_key=40, versions="0-2", flexible="2+"):
    hmac: Bytes
    """The token."""
    expiry_time_period_ms: Int64
    """Negative: the token ends at once."""


class ExpireDelegationTokenResponse(Response, to=ExpireDelegationTokenRequest):
    error_code: ErrorCode = NONE
    """DELEGATION_TOKEN_AUTH_DISABLED, DELEGATION_TOKEN_REQUEST_NOT_ALLOWED, DELEGATION_TOKEN_NOT_FOUND,
    DELEGATION_TOKEN_OWNER_MISMATCH, DELEGATION_TOKEN_EXPIRED."""
    expiry_timestamp_ms: Int64 = 0
    throttle_time_ms: Int32 = 0
