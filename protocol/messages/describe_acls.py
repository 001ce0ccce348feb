"""DescribeAcls (key 29): the access rules that a filter matches.

- v1: patterns of resource names (KIP-290). v2: flexible. v3: users as resources (KIP-373).

Numbers of resource types, patterns, operations and permissions are Kafka's; 1 stands for any of them in a filter.
"""

from ..errors import NONE
from ..primitives import Array, ErrorCode, Int8, Int32, NullableString, String
from ..schema import Request, Response, Struct, field

LITERAL = 3
"""The pattern type of a name that stands for itself."""


class DescribeAclsRequest(Request, api_key=29, versions="0-3", flexible="2+"):
    resource_type_filter: Int8
    resource_name_filter: NullableString
    """Null matches every name; so do the other filters."""
    pattern_type_filter: Int8 = field(since=1, default=LITERAL)
    principal_filter: NullableString
    host_filter: NullableString
    operation: Int8
    permission_type: Int8


class DescribeAclsResponse(Response, to=DescribeAclsRequest):
    class Resource(Struct):
        class Acl(Struct):
            principal: String
            host: String
            operation: Int8
            permission_type: Int8

        resource_type: Int8
        resource_name: String
        pattern_type: Int8 = field(since=1, default=LITERAL)
        acls: Array[Acl]

    throttle_time_ms: Int32 = 0
    error_code: ErrorCode = NONE
    """SECURITY_DISABLED: the broker has no authorizer. CLUSTER_AUTHORIZATION_FAILED."""
    error_message: NullableString = None
    resources: Array[Resource] = field(default=[])
