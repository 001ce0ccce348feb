"""DeleteAcls (key 31): remove the access rules that filters match.

- v1: patterns of resource names (KIP-290). v2: flexible. v3: users as resources (KIP-373).
"""

from ..errors import NONE
from ..primitives import Array, ErrorCode, Int8, Int32, NullableString, String
from ..schema import Request, Response, Struct, field
from .describe_acls import LITERAL


class DeleteAclsRequest(Request, api_key=31, versions="0-3", flexible="2+"):
    class Filter(Struct):
        resource_type_filter: Int8
        resource_name_filter: NullableString
        """Null matches every name; so do the other filters."""
        pattern_type_filter: Int8 = field(since=1, default=LITERAL)
        principal_filter: NullableString
        host_filter: NullableString
        operation: Int8
        permission_type: Int8

    filters: Array[Filter]


class DeleteAclsResponse(Response, to=DeleteAclsRequest):
    class FilterResult(Struct):
        class Acl(Struct):
            error_code: ErrorCode = NONE
            error_message: NullableString = None
            resource_type: Int8
            resource_name: String
            pattern_type: Int8 = field(since=1, default=LITERAL)
            principal: String
            host: String
            operation: Int8
            permission_type: Int8

        error_code: ErrorCode = NONE
        """SECURITY_DISABLED: the broker has no authorizer. CLUSTER_AUTHORIZATION_FAILED. NOT_CONTROLLER."""
        error_message: NullableString = None
        matching_acls: Array[Acl] = field(default=[])
        """The rules that the filter matched. Those without an error were deleted."""

    Acl = FilterResult.Acl

    throttle_time_ms: Int32 = 0
    filter_results: Array[FilterResult]
    """In the order of the request."""
