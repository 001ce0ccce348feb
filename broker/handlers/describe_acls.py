"""DescribeAcls, versions 0 to 3: list the access rules that a filter matches (KIP-140, KIP-290).

Without an authorizer the answer is SECURITY_DISABLED, as user interfaces expect.
"""

from __future__ import annotations

from ...protocol.errors import SecurityDisabled
from ...protocol.messages.describe_acls import DescribeAclsRequest, DescribeAclsResponse
from ..api.registry import handles
from ..api.request_context import CloseConnection, Context
from ..security.acls import AclFilter
from ..security.guarding import on_cluster, refused_by_code
from ..security.permission_kinds import whole
from ..security.resources import AclOperation, ResourceType

NO_AUTHORIZER = "no authorizer is configured"

UNKNOWN = 0
"""The code to which clients decode an unknown type, pattern, operation or permission. As in Apache Kafka, the
connection is closed."""

Resource = DescribeAclsResponse.Resource


@handles(
    DescribeAclsRequest,
    needs=[whole(AclOperation.DESCRIBE, ResourceType.CLUSTER)],
    guard=on_cluster(refused_by_code(DescribeAclsResponse)),
)
async def describe_acls(request: DescribeAclsRequest, context: Context) -> DescribeAclsResponse:
    """List the matching rules by resource."""
    check_known(request.resource_type_filter, request.pattern_type_filter, request.operation, request.permission_type)
    if context.services.authorizer is None:
        return DescribeAclsResponse(error_code=SecurityDisabled.code, error_message=NO_AUTHORIZER)
    wanted = AclFilter(
        request.resource_type_filter,
        request.pattern_type_filter,
        request.resource_name_filter,
        request.principal_filter,
        request.host_filter,
        request.operation,
        request.permission_type,
    )
    resources: dict[tuple[int, int, str], Resource] = {}
    for acl in context.services.controller.acls.matching(wanted):
        resource = resources.setdefault(
            acl[:3],
            Resource(
                resource_type=acl.resource_type,
                resource_name=acl.resource_name,
                pattern_type=acl.pattern_type,
                acls=[],
            ),
        )
        resource.acls.append(
            Resource.Acl(
                principal=acl.principal,
                host=acl.host,
                operation=acl.operation,
                permission_type=acl.permission_type,
            )
        )
    return DescribeAclsResponse(resources=list(resources.values()))


def check_known(*codes: int) -> None:
    """Raise CloseConnection if one of a rule's or filter's codes is UNKNOWN."""
    if UNKNOWN in codes:
        raise CloseConnection("an ACL request with an unknown element")
