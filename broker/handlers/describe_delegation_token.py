"""DescribeDelegationToken, versions 0 to 3: say that there are no delegation tokens (KIP-48) here.

The answer is that of Apache Kafka without `delegation.token.secret.key`.
"""

from __future__ import annotations

from ...protocol.messages.describe_delegation_token import (
    DescribeDelegationTokenRequest,
    DescribeDelegationTokenResponse,
)
from ..api.registry import handles
from ..api.request_context import Context
from ..security.delegation_tokens import refusal
from ..security.permission_kinds import OPEN


@handles(DescribeDelegationTokenRequest, needs=OPEN)
async def describe_delegation_token(
    request: DescribeDelegationTokenRequest, context: Context
) -> DescribeDelegationTokenResponse:
    """Refuse to list tokens."""
    return DescribeDelegationTokenResponse(error_code=refusal(context.connection.sasl).code)
