"""DescribeUserScramCredentials (key 50): list users and their SCRAM mechanisms, without the passwords (KIP-554)."""

from ..errors import NONE
from ..primitives import Array, ErrorCode, Int8, Int32, NullableArray, NullableString, String
from ..schema import Request, Response, Struct, field


class DescribeUserScramCredentialsRequest(Request, api_key=50, versions="0", flexible="0+"):
    class User(Struct):
        name: String

    users: NullableArray[User]
    """Null or empty: all users with credentials."""


class DescribeUserScramCredentialsResponse(Response, to=DescribeUserScramCredentialsRequest):
    class Result(Struct):
        class Credential(Struct):
            mechanism: Int8
            """1: SCRAM-SHA-256. 2: SCRAM-SHA-512."""
            iterations: Int32

        user: String
        error_code: ErrorCode = NONE
        """RESOURCE_NOT_FOUND: the user has none. DUPLICATE_RESOURCE: the request names the user twice."""
        error_message: NullableString = None
        credential_infos: Array[Credential] = field(default=[])

    throttle_time_ms: Int32 = 0
    error_code: ErrorCode = NONE
    """CLUSTER_AUTHORIZATION_FAILED."""
    error_message: NullableString = None
    results: Array[Result] = field(default=[])
