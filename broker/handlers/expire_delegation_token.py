"""ExpireDelegationToken, versions 0 to 2: let a token expire, at once or after a while (KIP-48).

Its owner and its renewers may do so. Without `delegation.token.secret.key` there are no tokens.
"""

from __future__ import annotations

from ...protocol.errors import DelegationTokenRequestNotAllowed, KafkaError
from ...protocol.messages.expire_delegation_token import ExpireDelegationTokenRequest, ExpireDelegationTokenResponse
from ..api.registry import handles
from ..api.request_context import Context
from ..security.delegation_tokens import expire, may_ask
from ..security.permission_kinds import OPEN

NO_TIME = -1
"""The time in an answer of the broker itself; that in an answer of the controller is 0 with an error."""


@handles(ExpireDelegationTokenRequest, needs=OPEN)
async def expire_delegation_token(
    request: ExpireDelegationTokenRequest, context: Context
) -> ExpireDelegationTokenResponse:
    """Move the time at which the token expires, or remove it."""
    services, connection = context.services, context.connection
    if not may_ask(connection):
        refused = DelegationTokenRequestNotAllowed.code
        return ExpireDelegationTokenResponse(error_code=refused, expiry_timestamp_ms=NO_TIME)
    try:
        expiry_ms = expire(
            services.controller,
            services.config.current,
            services.clock.now_ms(),
            shown=bytes(request.hmac),
            principal=connection.principal,
            period_ms=request.expiry_time_period_ms,
        )
    except KafkaError as error:
        return ExpireDelegationTokenResponse(error_code=error.code)
    return ExpireDelegationTokenResponse(expiry_timestamp_ms=expiry_ms)
