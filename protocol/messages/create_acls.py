"""CreateAcls (key 30): add access rules.

- v1: patterns of resource names (KIP-290). v2: flexible. v3: users as resources (KIP-373).
"""

from ..errors import NONE
from ..primitives import Array, ErrorCode, Int8, Int32, NullableString, String
from ..schema import Request, Response, Struct, field
from .describe_acls import LITERAL


class CreateAclsRequest(Request, api_key=30, versions="0-3", flexible="2+"):
    class Creation(Struct):
        resource_type: Int8
        resource_name: String
        resource_pattern_type: Int8 = field(since=1, default=LITERAL)
        principal: String
        host: String
        operation: Int8
        permission_type: Int8

    creations: Array[Creation]


class CreateAclsResponse(Response, to=CreateAclsRequest):
    class Result(Struct):
        error_code: ErrorCode = NONE
        """SECURITY_DISABLED: the broker has no authorizer. CLUSTER_AUTHORIZATION_FAILED. INVALID_REQUEST: the rule
        means nothing. NOT_CONTROLLER."""
        error_message: NullableString = None

    throttle_time_ms: Int32 = 0
    results: Array[Result]
    """In the order of the request."""
