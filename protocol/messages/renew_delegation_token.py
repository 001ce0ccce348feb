"""RenewDelegationToken (key 39): give a token more time (KIP-48).

v1 changes no field: the broker throttles after its answer (KIP-219). v2 is flexible (KIP-482).
"""

from ..errors import NONE
from ..primitives import Bytes, ErrorCode, Int32, Int64
from ..schema import Request, Response


class RenewDelegationTokenRequest(Request, api_key=39, versions="0-2", flexible="2+"):
    hmac: Bytes
    """The token."""
    renew_period_ms: Int64
    """-1: as the broker's setting says."""


class RenewDelegationTokenResponse(Response, to=RenewDelegationTokenRequest):
    error_code: ErrorCode = NONE
    """DELEGATION_TOKEN_AUTH_DISABLED, DELEGATION_TOKEN_REQUEST_NOT_ALLOWED, DELEGATION_TOKEN_NOT_FOUND,
    DELEGATION_TOKEN_OWNER_MISMATCH, DELEGATION_TOKEN_EXPIRED."""
    expiry_timestamp_ms: Int64 = 0
    throttle_time_ms: Int32 = 0
