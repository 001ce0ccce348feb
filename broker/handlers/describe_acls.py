"""DescribeAcls, versions 0 to 3: SECURITY_DISABLED, Kafka's answer without an authorizer; user interfaces expect it."""

from __future__ import annotations

from ...protocol.errors import SecurityDisabled
from ...protocol.messages.describe_acls import DescribeAclsRequest, DescribeAclsResponse
from ..connection import CloseConnection
from ..context import Context
from ..registry import handles

NO_AUTHORIZER = "no authorizer is configured"

UNKNOWN = 0
"""The type, pattern, operation or permission that clients take a number they do not know for. Kafka hangs up on it."""


@handles(DescribeAclsRequest)
async def describe_acls(request: DescribeAclsRequest, context: Context) -> DescribeAclsResponse:
    """Refuse."""
    check_known(request.resource_type_filter, request.pattern_type_filter, request.operation, request.permission_type)
    return DescribeAclsResponse(error_code=SecurityDisabled.code, error_message=NO_AUTHORIZER)


def check_known(*codes: int) -> None:
    """Raise CloseConnection if one of a rule's or filter's codes is UNKNOWN."""
    if UNKNOWN in codes:
        raise CloseConnection("an ACL request with an unknown element")
