"""RenewDelegationToken, versions 0 to 2: let a token live on (KIP-48), up to its greatest age.

Its owner and its renewers may do so while it has not expired. Without `delegation.token.secret.key` there are no
tokens.
"""

from __future__ import annotations

from ...protocol.errors import DelegationTokenRequestNotAllowed, KafkaError
from ...protocol.messages.renew_delegation_token import RenewDelegationTokenRequest, RenewDelegationTokenResponse
from ..api.registry import handles
from ..api.request_context import Context
from ..security.delegation_tokens import may_ask, renew
from ..security.permission_kinds import OPEN

NO_TIME = -1
"""The time in an answer of the broker itself; that in an answer of the controller is 0 with an error."""


@handles(RenewDelegationTokenRequest, needs=OPEN)
async def renew_delegation_token(
    request: RenewDelegationTokenRequest, context: Context
) -> RenewDelegationTokenResponse:
    """Move the time at which the token expires."""
    services, connection = context.services, context.connection
    if not may_ask(connection):
        refused = DelegationTokenRequestNotAllowed.code
        return RenewDelegationTokenResponse(error_code=refused, expiry_timestamp_ms=NO_TIME)
    try:
        expiry_ms = renew(
            services.controller,
            services.config.current,
            services.clock.now_ms(),
            shown=bytes(request.hmac),
            principal=connection.principal,
            period_ms=request.renew_period_ms,
        )
    except KafkaError as error:
        return RenewDelegationTokenResponse(error_code=error.code)
    return RenewDelegationTokenResponse(expiry_timestamp_ms=expiry_ms)
