"""RenewDelegationToken, versions 0 to 2: refuse to give a token more time: there are no tokens (KIP-48).

The answer is that of Apache Kafka without `delegation.token.secret.key`.
"""

from __future__ import annotations

from ...protocol.errors import DelegationTokenAuthDisabled
from ...protocol.messages.renew_delegation_token import RenewDelegationTokenRequest, RenewDelegationTokenResponse
from ..api.registry import handles
from ..api.request_context import Context
from ..security.delegation_tokens import refusal
from ..security.permission_kinds import OPEN


@handles(RenewDelegationTokenRequest, needs=OPEN)
async def renew_delegation_token(
    request: RenewDelegationTokenRequest, context: Context
) -> RenewDelegationTokenResponse:
    """Refuse, as for every token."""
    error = refusal(context.connection.sasl)
    expiry_ms = 0 if error is DelegationTokenAuthDisabled else -1
    return RenewDelegationTokenResponse(error_code=error.code, expiry_timestamp_ms=expiry_ms)
