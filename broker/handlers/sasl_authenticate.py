"""SaslAuthenticate, versions 0 to 2: evaluate one token of an authentication (KIP-152).

A failure is answered after `connection.failed.authentication.delay.ms`, and closes the connection. The answer does not
reveal whether the user exists.
"""

from __future__ import annotations

from ...protocol.errors import IllegalSaslState, SaslAuthenticationFailed
from ...protocol.messages.sasl_authenticate import SaslAuthenticateRequest, SaslAuthenticateResponse
from ..api.registry import handles
from ..api.request_context import Context
from ..security.permission_kinds import OPEN
from ..security.sasl import State
from ..security.sasl_exchange import AuthenticationFailed


@handles(SaslAuthenticateRequest, needs=OPEN)
async def sasl_authenticate(request: SaslAuthenticateRequest, context: Context) -> SaslAuthenticateResponse:
    """Pass the token to the mechanism."""
    session = context.connection.sasl
    if session is None or session.state is not State.EXCHANGING:
        return SaslAuthenticateResponse(
            error_code=IllegalSaslState.code,
            error_message="SaslAuthenticate request received after successful authentication",
        )
    if (preparation := session.preparation(request.auth_bytes)) is not None:
        await preparation
    try:
        token = session.evaluate(request.auth_bytes)
    except AuthenticationFailed as failure:
        await session.wait_after_failure(failure)
        context.connection.close_after_answer()
        return SaslAuthenticateResponse(error_code=SaslAuthenticationFailed.code, error_message=str(failure))
    return SaslAuthenticateResponse(error_message="", auth_bytes=token, session_lifetime_ms=session.session_lifetime_ms)
