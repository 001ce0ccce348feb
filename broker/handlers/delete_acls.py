"""DeleteAcls, versions 0 to 3: remove the access rules that filters match (KIP-140, KIP-290).

Every filter is answered with the rules that it matches, including those that another filter matches as well. Without an
authorizer the answer is SECURITY_DISABLED.
"""

from __future__ import annotations

from ...protocol.errors import SecurityDisabled
from ...protocol.messages.delete_acls import DeleteAclsRequest, DeleteAclsResponse
from ..api.registry import handles
from ..api.request_context import Context
from ..security.acls import AclBinding, AclFilter
from ..security.guarding import on_cluster
from ..security.permission_kinds import whole
from ..security.resources import AclOperation, ResourceType
from .describe_acls import NO_AUTHORIZER, check_known

Result = DeleteAclsResponse.FilterResult


def refused(request: DeleteAclsRequest, code: int) -> DeleteAclsResponse:
    """Refuse every filter."""
    result = DeleteAclsResponse.FilterResult(error_code=code)
    return DeleteAclsResponse(filter_results=[result] * len(request.filters))


@handles(DeleteAclsRequest, needs=[whole(AclOperation.ALTER, ResourceType.CLUSTER)], guard=on_cluster(refused))
async def delete_acls(request: DeleteAclsRequest, context: Context) -> DeleteAclsResponse:
    """Find the rules that each filter matches, then delete all of them together."""
    for f in request.filters:
        check_known(f.resource_type_filter, f.pattern_type_filter, f.operation, f.permission_type)
    if context.services.authorizer is None:
        refusal = Result(error_code=SecurityDisabled.code, error_message=NO_AUTHORIZER)
        return DeleteAclsResponse(filter_results=[refusal] * len(request.filters))
    controller = context.services.controller
    matched = [controller.acls.matching(_filter(asked)) for asked in request.filters]
    controller.delete_acls(acl for acls in matched for acl in acls)
    return DeleteAclsResponse(filter_results=[Result(matching_acls=[_told(acl) for acl in acls]) for acls in matched])


def _filter(asked: DeleteAclsRequest.Filter) -> AclFilter:
    return AclFilter(
        asked.resource_type_filter,
        asked.pattern_type_filter,
        asked.resource_name_filter,
        asked.principal_filter,
        asked.host_filter,
        asked.operation,
        asked.permission_type,
    )


def _told(acl: AclBinding) -> Result.Acl:
    return Result.Acl(
        resource_type=acl.resource_type,
        resource_name=acl.resource_name,
        pattern_type=acl.pattern_type,
        principal=acl.principal,
        host=acl.host,
        operation=acl.operation,
        permission_type=acl.permission_type,
    )
