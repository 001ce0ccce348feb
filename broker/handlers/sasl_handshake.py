"""SaslHandshake, versions 0 and 1: choose a SASL mechanism (KIP-43).

At a listener without authentication, and after authentication, the answer is ILLEGAL_SASL_STATE; where authentications
expire (KIP-368) the client may begin again. A mechanism that is not offered closes the connection after the answer.
"""

from __future__ import annotations

from ...protocol.errors import IllegalSaslState, UnsupportedSaslMechanism
from ...protocol.messages.sasl_handshake import SaslHandshakeRequest, SaslHandshakeResponse
from ..api.registry import handles
from ..api.request_context import Context
from ..security.permission_kinds import OPEN

BARE_TOKENS = 0
"""The version after which tokens arrive without requests around them."""


@handles(SaslHandshakeRequest, needs=OPEN)
async def sasl_handshake(request: SaslHandshakeRequest, context: Context) -> SaslHandshakeResponse:
    """Begin an authentication."""
    session = context.connection.sasl
    if session is None or not session.may_start:
        return SaslHandshakeResponse(error_code=IllegalSaslState.code)
    offered = list(session.mechanisms)
    try:
        session.start(request.mechanism, with_bare_tokens=context.version == BARE_TOKENS)
    except UnsupportedSaslMechanism as error:
        context.connection.close_after_answer()
        return SaslHandshakeResponse(error_code=error.code, mechanisms=offered)
    return SaslHandshakeResponse(mechanisms=offered)
