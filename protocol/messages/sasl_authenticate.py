"""SaslAuthenticate (key 36): one token of an authentication, and the answer to it (KIP-152).

- v1: how long the authentication holds (KIP-368). v2: flexible.
"""

from ..errors import NONE
from ..primitives import Bytes, ErrorCode, Int64, NullableString
from ..schema import Request, Response, field


class SaslAuthenticateRequest(Request, api_key=36, versions="0-2", flexible="2+"):
    auth_bytes: Bytes
    """The token of the client."""


class SaslAuthenticateResponse(Response, to=SaslAuthenticateRequest):
    error_code: ErrorCode = NONE
    """SASL_AUTHENTICATION_FAILED: after this the connection is closed. ILLEGAL_SASL_STATE: no handshake went before."""
    error_message: NullableString = None
    auth_bytes: Bytes = b""
    """The token of the broker."""
    session_lifetime_ms: Int64 = field(since=1, default=0)
    """When the client has to authenticate again, on the same connection. 0: never."""
