"""ApiVersions (key 18): which requests, in which versions, the broker serves. The first request of most clients.

A client may ask in a version that the broker does not have. The answer is then in version 0, with UNSUPPORTED_VERSION
and the list all the same, so that the client can ask again (KIP-511). For this to be readable before anything is agreed
upon, the header of the response is never flexible.

- v1: throttle_time_ms. v2: as v1; the client obeys throttling after the response (KIP-219).
- v3: flexible; the client's name and version (KIP-511), the cluster's features (KIP-584).
- v4: as v3, and features whose lowest version is 0 may be listed.
"""

from ..errors import NONE, UnsupportedVersion
from ..primitives import Array, Boolean, Buffer, ErrorCode, Int16, Int32, Int64, String
from ..schema import Request, Response, Struct, field


class ApiVersionsRequest(Request, api_key=18, versions="0-4", flexible="3+"):
    client_software_name: String = field(since=3, default="")
    """Letters, digits, dots and dashes, and so for the version: anything else is INVALID_REQUEST."""
    client_software_version: String = field(since=3, default="")


class ApiVersionsResponse(Response, to=ApiVersionsRequest):
    class ApiVersion(Struct):
        api_key: Int16
        min_version: Int16
        max_version: Int16

    class SupportedFeature(Struct):
        name: String
        min_version: Int16
        max_version: Int16

    class FinalizedFeature(Struct):
        name: String
        max_version_level: Int16
        min_version_level: Int16

    error_code: ErrorCode = NONE
    """UNSUPPORTED_VERSION: the version of the request is unknown, and this answer is of version 0.
    INVALID_REQUEST: the name or version of the client's software is not well-formed."""
    api_keys: Array[ApiVersion] = field(default=[])
    throttle_time_ms: Int32 = field(since=1, default=0)
    supported_features: Array[SupportedFeature] = field(since=3, tag=0, default=[])
    finalized_features_epoch: Int64 = field(since=3, tag=1, default=-1)
    """Raised with every change of the finalized features; -1 if the broker does not know."""
    finalized_features: Array[FinalizedFeature] = field(since=3, tag=2, default=[])
    zk_migration_ready: Boolean = field(since=3, tag=3, default=False)

    @classmethod
    def header_version(cls, version: int) -> int:
        """Always 0: the client may not yet know what the broker can do."""
        return 0

    @classmethod
    def version_of(cls, body: Buffer, requested: int) -> int:
        """Version 0 if it begins with UNSUPPORTED_VERSION (KIP-511)."""
        return 0 if bytes(body[:2]) == UnsupportedVersion.code.to_bytes(2, "big") else requested
