"""ExpireDelegationToken, versions 0 to 2: let a token expire, at once or after a while (KIP-48).

Its owner and its renewers may do so. Without `delegation.token.secret.key` there are no tokens.
"""

from __future__ import annotations

from ...protocol.messages.expire_delegation_token import ExpireDelegationTokenRequest, ExpireDelegationTokenResponse
from ..api.registry import handles
from ..api.request_context import Context
from ..security.delegation_tokens import expire
from ..security.permission_kinds import OPEN
from .renew_delegation_token import answer_change


@handles(ExpireDelegationTokenRequest, needs=OPEN)
async def expire_delegation_token(
    request: ExpireDelegationTokenRequest, context: Context
) -> ExpireDelegationTokenResponse:
    """Move the time at which the token expires, or remove it."""
    shown, period_ms = bytes(request.hmac), request.expiry_time_period_ms
    return answer_change(context, ExpireDelegationTokenResponse, expire, shown=shown, period_ms=period_ms)
