"""CreateDelegationToken, versions 0 to 3: make a token with which clients log in as its owner (KIP-48).

The owner is the client itself; with the permission CREATE_TOKENS on another user, that user (KIP-373). A client that
has not authenticated, or has done so by a token, is refused. Without `delegation.token.secret.key` there are no tokens.
"""

from __future__ import annotations

from typing import Any

from ...protocol.errors import (
    DelegationTokenAuthDisabled,
    DelegationTokenRequestNotAllowed,
    InvalidPrincipalType,
    KafkaError,
)
from ...protocol.messages.create_delegation_token import (
    CreateDelegationTokenRequest,
    CreateDelegationTokenResponse,
)
from ..api.registry import handles
from ..api.request_context import Context
from ..security.delegation_tokens import NO_TIME, create, hmac_of, may_ask, secret_key
from ..security.guarding import Call
from ..security.permission_kinds import whole
from ..security.resources import AclOperation, Principal, ResourceType


async def guard(call: Call) -> Any:
    """Refuse a token for another owner without the permission."""
    (permission,) = call.permissions
    connection = call.context.connection
    owner = owner_of(call.request, connection.principal)
    if may_ask(connection) and owner != connection.principal and not call.may(permission, str(owner)):
        return _refusal(call.request, connection.principal, permission.refusal, NO_TIME)
    return await call.serve()


def owner_of(request: CreateDelegationTokenRequest, requester: Principal) -> Principal:
    """The owner that a request is about: the requester, if it names none."""
    if not request.owner_principal_name:
        return requester
    return Principal(request.owner_principal_type or "", request.owner_principal_name)


@handles(
    CreateDelegationTokenRequest,
    needs=[whole(AclOperation.CREATE_TOKENS, ResourceType.USER, when="for another owner")],
    guard=guard,
)
async def create_delegation_token(
    request: CreateDelegationTokenRequest, context: Context
) -> CreateDelegationTokenResponse:
    """Make a token, and answer with its secret."""
    services, requester = context.services, context.connection.principal
    if not may_ask(context.connection):
        return _refusal(request, requester, DelegationTokenRequestNotAllowed, NO_TIME)
    if any(each.principal_type != "User" for each in request.renewers):
        return _refusal(request, requester, InvalidPrincipalType, NO_TIME)
    settings = services.config.current
    try:
        secret = secret_key(settings)
    except DelegationTokenAuthDisabled as error:
        return _refusal(request, requester, type(error), 0)
    token = create(
        services.controller,
        settings,
        services.clock.now_ms(),
        owner=owner_of(request, requester),
        requester=requester,
        renewers=[Principal(each.principal_type, each.principal_name) for each in request.renewers],
        lifetime_ms=request.max_lifetime_ms,
    )
    return CreateDelegationTokenResponse(
        principal_type=token.owner.type,
        principal_name=token.owner.name,
        token_requester_principal_type=requester.type,
        token_requester_principal_name=requester.name,
        issue_timestamp_ms=token.issued_ms,
        expiry_timestamp_ms=token.expires_ms,
        max_timestamp_ms=token.max_ms,
        token_id=token.token_id,
        hmac=hmac_of(token.token_id, secret),
    )


def _refusal(
    request: CreateDelegationTokenRequest, requester: Principal, error: type[KafkaError], time_ms: int
) -> CreateDelegationTokenResponse:
    owner = owner_of(request, requester)
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
