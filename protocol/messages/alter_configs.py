"""AlterConfigs (key 33): replace the whole dynamic configuration of topics or brokers (KIP-133).

A setting that the request does not name returns to its default. IncrementalAlterConfigs, which changes only the
settings that it names, has replaced this API (KIP-339).

- v1: throttling after the response (KIP-219). v2: flexible.
"""

from ..errors import NONE
from ..primitives import Array, Boolean, ErrorCode, Int8, Int32, NullableString, String
from ..schema import Request, Response, Struct


class AlterConfigsRequest(Request, api_key=33, versions="0-2", flexible="2+"):
    class Resource(Struct):
        class Config(Struct):
            name: String
            value: NullableString
            """Null is refused."""

        resource_type: Int8
        """As in DescribeConfigs."""
        resource_name: String
        configs: Array[Config]

    Config = Resource.Config

    resources: Array[Resource]
    validate_only: Boolean = False


class AlterConfigsResponse(Response, to=AlterConfigsRequest):
    class Resource(Struct):
        error_code: ErrorCode = NONE
        """INVALID_CONFIG: a key or value cannot be. INVALID_REQUEST: a resource or key is named twice, or this broker
        cannot answer for it. UNKNOWN_TOPIC_OR_PARTITION, INVALID_TOPIC_EXCEPTION. POLICY_VIOLATION. NOT_CONTROLLER.
        TOPIC_, GROUP_ and CLUSTER_AUTHORIZATION_FAILED."""
        error_message: NullableString = None
        resource_type: Int8
        resource_name: String

    throttle_time_ms: Int32 = 0
    responses: Array[Resource]
