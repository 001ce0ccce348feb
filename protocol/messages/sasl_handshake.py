"""SaslHandshake (key 17): choose how to authenticate (KIP-43).

- v0: bare tokens follow, each after its size. v1: tokens travel in SaslAuthenticate requests (KIP-152).
"""

from ..errors import NONE
from ..primitives import Array, ErrorCode, String
from ..schema import Request, Response, field


class SaslHandshakeRequest(Request, api_key=17, versions="0-1", flexible="none"):
    mechanism: String
    """PLAIN, SCRAM-SHA-256, …"""


class SaslHandshakeResponse(Response, to=SaslHandshakeRequest):
    error_code: ErrorCode = NONE
    """UNSUPPORTED_SASL_MECHANISM: the listener does not offer it. ILLEGAL_SASL_STATE: the listener needs no
    authentication, or it is done."""
    mechanisms: Array[String] = field(default=[])
    """Those that the listener offers."""
