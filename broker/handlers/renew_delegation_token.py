"""RenewDelegationToken, versions 0 to 2: let a token live on (KIP-48), up to its greatest age.

Its owner and its renewers may do so while it has not expired. Without `delegation.token.secret.key` there are no
tokens.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from ...protocol.errors import DelegationTokenRequestNotAllowed, KafkaError
from ...protocol.messages.renew_delegation_token import RenewDelegationTokenRequest, RenewDelegationTokenResponse
from ...protocol.schema import Response
from ..api.registry import handles
from ..api.request_context import Context
from ..security.delegation_tokens import NO_TIME, may_ask, renew
from ..security.permission_kinds import OPEN

R = TypeVar("R", bound=Response)


def answer_change(
    context: Context, response: type[R], change: Callable[..., int], *, shown: bytes, period_ms: int
) -> R:
    """Change when the token with the HMAC `shown` expires, by `renew` or `expire`, and answer with that. For
    RenewDelegationToken and ExpireDelegationToken."""
    services, connection = context.services, context.connection
    if not may_ask(connection):
        return response(error_code=DelegationTokenRequestNotAllowed.code, expiry_timestamp_ms=NO_TIME)
    try:
        expiry_ms = change(
            services.controller,
            services.config.current,
            services.clock.now_ms(),
            shown=shown,
            principal=connection.principal,
            period_ms=period_ms,
        )
    except KafkaError as error:
        return response(error_code=error.code)
    return response(expiry_timestamp_ms=expiry_ms)


@handles(RenewDelegationTokenRequest, needs=OPEN)
async def renew_delegation_token(
    request: RenewDelegationTokenRequest, context: Context
) -> RenewDelegationTokenResponse:
    """Move the time at which the token expires."""
    shown, period_ms = bytes(request.hmac), request.renew_period_ms
    return answer_change(context, RenewDelegationTokenResponse, renew, shown=shown, period_ms=period_ms)
