"""DescribeDelegationToken, versions 0 to 3: list tokens with their secrets (KIP-48).

A client sees the tokens of which it is the owner, the requester or a renewer, and others with the permission DESCRIBE
on the token or DESCRIBE_TOKENS on its owner (KIP-373). Without `delegation.token.secret.key` there are no tokens.
"""

from __future__ import annotations

from typing import Any

from ...protocol.errors import KafkaError
from ...protocol.messages.describe_delegation_token import (
    DescribeDelegationTokenRequest,
    DescribeDelegationTokenResponse,
)
from ..api.registry import handles
from ..api.request_context import Context
from ..security.delegation_tokens import DelegationToken, check_may_ask, hmac_of, secret_key
from ..security.guarding import Call
from ..security.permission_kinds import shown
from ..security.resources import AclOperation, Principal, ResourceType

Token = DescribeDelegationTokenResponse.Token


async def guard(call: Call) -> Any:
    """Leave out the tokens that the client may not see."""
    answer = await call.serve()
    tokens = call.context.services.controller.delegation_tokens
    answer.tokens = [one for one in answer.tokens if _may_see(call, tokens[one.token_id])]
    return answer


def _may_see(call: Call, token: DelegationToken) -> bool:
    on_token, on_owner = call.permissions
    return (
        token.concerns(call.context.connection.principal)
        or call.may(on_token, token.token_id, is_logged=False)
        or call.may(on_owner, str(token.owner), is_logged=False)
    )


@handles(
    DescribeDelegationTokenRequest,
    needs=[
        shown(AclOperation.DESCRIBE, ResourceType.DELEGATION_TOKEN),
        shown(AclOperation.DESCRIBE_TOKENS, ResourceType.USER),
    ],
    guard=guard,
)
async def describe_delegation_token(
    request: DescribeDelegationTokenRequest, context: Context
) -> DescribeDelegationTokenResponse:
    """List the tokens that one of the owners owns, asked for or may renew; all without owners."""
    services = context.services
    try:
        check_may_ask(context.connection)
        secret = secret_key(services.config.current)
    except KafkaError as error:
        return DescribeDelegationTokenResponse(error_code=error.code)
    tokens = [*services.controller.delegation_tokens.values()]
    if request.owners is not None:
        owners = [Principal(owner.principal_type, owner.principal_name) for owner in request.owners]
        tokens = [token for token in tokens if any(map(token.concerns, owners))]
    return DescribeDelegationTokenResponse(tokens=[_described(token, secret) for token in tokens])


def _described(token: DelegationToken, secret: str) -> Token:
    return Token(
        principal_type=token.owner.type,
        principal_name=token.owner.name,
        token_requester_principal_type=token.requester.type,
        token_requester_principal_name=token.requester.name,
        issue_timestamp=token.issued_ms,
        expiry_timestamp=token.expires_ms,
        max_timestamp=token.max_ms,
        token_id=token.token_id,
        hmac=hmac_of(token.token_id, secret),
        renewers=[Token.Renewer(principal_type=each.type, principal_name=each.name) for each in token.renewers],
    )
