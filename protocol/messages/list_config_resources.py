"""ListConfigResources (key 74): list the resources that have a configuration.

- v0: client metrics subscriptions only, under the name ListClientMetricsResources (KIP-714).
- v1: all types of resources (KIP-1142).
"""

from ..errors import NONE
from ..primitives import Array, ErrorCode, Int8, Int32, String
from ..schema import Request, Response, Struct, field

CLIENT_METRICS = 16
"""A resource type, besides those of DescribeConfigs."""


class ListConfigResourcesRequest(Request, api_key=74, versions="0-1", flexible="0+"):
    resource_types: Array[Int8] = field(since=1, default=[])
    """None asks for all types that the broker knows."""


class ListConfigResourcesResponse(Response, to=ListConfigResourcesRequest):
    class ConfigResource(Struct):
        resource_name: String
        resource_type: Int8 = field(since=1, default=CLIENT_METRICS)

    throttle_time_ms: Int32 = 0
    error_code: ErrorCode = NONE
    """UNSUPPORTED_VERSION: an unknown type. CLUSTER_AUTHORIZATION_FAILED."""
    config_resources: Array[ConfigResource] = field(default=[])
