"""CreateDelegationToken (key 38): a token with which a client can authenticate later (KIP-48).

v1 changes no field: the broker throttles after its answer (KIP-219). v2 is flexible (KIP-482). v3 makes tokens for
other owners (KIP-373).
"""

from ..errors import NONE
from ..primitives import Array, Bytes, ErrorCode, Int32, Int64, NullableString, String
from ..schema import Request, Response, Struct, field


class CreateDelegationTokenRequest(Request, api_key=38, versions="0-3", flexible="2+"):
    class Renewer(Struct):
        principal_type: String
        principal_name: String

    owner_principal_type: NullableString = field(since=3, default=None)
    owner_principal_name: NullableString = field(since=3, default=None)
    """The owner of the token; null for the client itself."""
    renewers: Array[Renewer]
    max_lifetime_ms: Int64
    """-1: as the broker's setting says."""


class CreateDelegationTokenResponse(Response, to=CreateDelegationTokenRequest):
    error_code: ErrorCode = NONE
    """DELEGATION_TOKEN_AUTH_DISABLED, DELEGATION_TOKEN_REQUEST_NOT_ALLOWED, DELEGATION_TOKEN_AUTHORIZATION_FAILED,
    INVALID_PRINCIPAL_TYPE."""
    principal_type: String
    principal_name: String
    """The owner of the token."""
    token_requester_principal_type: String = field(since=3, default="")
    token_requester_principal_name: String = field(since=3, default="")
    issue_timestamp_ms: Int64 = 0
    expiry_timestamp_ms: Int64 = 0
    max_timestamp_ms: Int64 = 0
    token_id: String = ""
    hmac: Bytes = b""
    throttle_time_ms: Int32 = 0
