"""CreateAcls, versions 0 to 3: SECURITY_DISABLED for every rule, Kafka's answer without an authorizer."""

from __future__ import annotations

from ...protocol.errors import SecurityDisabled
from ...protocol.messages.create_acls import CreateAclsRequest, CreateAclsResponse
from ..context import Context
from ..registry import handles
from .describe_acls import NO_AUTHORIZER, check_known


@handles(CreateAclsRequest)
async def create_acls(request: CreateAclsRequest, context: Context) -> CreateAclsResponse:
    """Refuse each rule."""
    for rule in request.creations:
        check_known(rule.resource_type, rule.resource_pattern_type, rule.operation, rule.permission_type)
    refusal = CreateAclsResponse.Result(error_code=SecurityDisabled.code, error_message=NO_AUTHORIZER)
    return CreateAclsResponse(results=[refusal] * len(request.creations))
