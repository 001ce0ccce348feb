"""DescribeDelegationToken (key 41): the tokens of some owners, or all that the client may see (KIP-48).

v1 changes no field: the broker throttles after its answer (KIP-219). v2 is flexible (KIP-482). v3 tells which client
asked for a token (KIP-373).
"""

from ..errors import NONE
from ..primitives import Array, Bytes, ErrorCode, Int32, Int64, NullableArray, String
from ..schema import Request, Response, Struct, field


class DescribeDelegationTokenRequest(Request, api_key=41, versions="0-3", flexible="2+"):
    class Owner(Struct):
        principal_type: String
        principal_name: String

    owners: NullableArray[Owner]
    """Null for all."""


class DescribeDelegationTokenResponse(Response, to=DescribeDelegationTokenRequest):
    class Token(Struct):
        class Renewer(Struct):
            principal_type: String
            principal_name: String

        principal_type: String
        principal_name: String
        token_requester_principal_type: String = field(since=3, default="")
        token_requester_principal_name: String = field(since=3, default="")
        issue_timestamp: Int64
        expiry_timestamp: Int64
        max_timestamp: Int64
        token_id: String
        hmac: Bytes
        renewers: Array[Renewer]

    error_code: ErrorCode = NONE
    """DELEGATION_TOKEN_AUTH_DISABLED, DELEGATION_TOKEN_REQUEST_NOT_ALLOWED."""
    tokens: Array[Token] = field(default=[])
    throttle_time_ms: Int32 = 0
