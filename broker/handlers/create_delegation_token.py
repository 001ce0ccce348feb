"""CreateDelegationToken, versions 0 to 3: refuse to make a token: there are no delegation tokens (KIP-48) here.

The answer is that of Apache Kafka without `delegation.token.secret.key`.
"""

from __future__ import annotations

from ...protocol.errors import (
    DelegationTokenAuthDisabled,
    InvalidPrincipalType,
    KafkaError,
)
from ...protocol.messages.create_delegation_token import (
    CreateDelegationTokenRequest,
    CreateDelegationTokenResponse,
)
from ..api.registry import handles
from ..api.request_context import Context
from ..security.delegation_tokens import refusal
from ..security.permission_kinds import OPEN
from ..security.resources import Principal

NO_TIME = -1
"""The times in an answer of the broker itself; those in an answer of the controller are 0."""


@handles(CreateDelegationTokenRequest, needs=OPEN)
async def create_delegation_token(
    request: CreateDelegationTokenRequest, context: Context
) -> CreateDelegationTokenResponse:
    """Refuse to make a token."""
    requester = owner = context.connection.principal
    if request.owner_principal_name:
        owner = Principal(request.owner_principal_type or "", request.owner_principal_name)
    error: type[KafkaError] = refusal(context.connection.sasl)
    if error is DelegationTokenAuthDisabled and any(each.principal_type != "User" for each in request.renewers):
        error = InvalidPrincipalType
    time_ms = 0 if error is DelegationTokenAuthDisabled else NO_TIME
    return CreateDelegationTokenResponse(
        error_code=error.code,
        principal_type=owner.type,
        principal_name=owner.name,
        token_requester_principal_type=requester.type,
        token_requester_principal_name=requester.name,
        issue_timestamp_ms=time_ms,
        expiry_timestamp_ms=time_ms,
        max_timestamp_ms=time_ms,
    )
