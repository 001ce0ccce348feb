"""DeleteAcls, versions 0 to 3: SECURITY_DISABLED for every filter, Kafka's answer without an authorizer."""

from __future__ import annotations

from ...protocol.errors import SecurityDisabled
from ...protocol.messages.delete_acls import DeleteAclsRequest, DeleteAclsResponse
from ..context import Context
from ..registry import handles
from .describe_acls import NO_AUTHORIZER, check_known


@handles(DeleteAclsRequest)
async def delete_acls(request: DeleteAclsRequest, context: Context) -> DeleteAclsResponse:
    """Refuse each filter."""
    for f in request.filters:
        check_known(f.resource_type_filter, f.pattern_type_filter, f.operation, f.permission_type)
    refusal = DeleteAclsResponse.FilterResult(error_code=SecurityDisabled.code, error_message=NO_AUTHORIZER)
    return DeleteAclsResponse(filter_results=[refusal] * len(request.filters))
