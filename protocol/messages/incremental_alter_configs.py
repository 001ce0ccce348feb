"""IncrementalAlterConfigs (key 44): change single settings of topics, brokers and groups (KIP-339).

A resource changes as a whole or, if one of its changes cannot be, not at all.

- v0: the KIP. v1: flexible.
"""

from ..errors import NONE
from ..primitives import Array, Boolean, ErrorCode, Int8, Int32, NullableString, String
from ..schema import Request, Response, Struct

SET = 0
DELETE = 1
"""Back to the default."""
APPEND = 2
SUBTRACT = 3
"""Put into, or take out of, a setting that is a list."""


class IncrementalAlterConfigsRequest(Request, api_key=44, versions="0-1", flexible="1+"):
    class Resource(Struct):
        class Config(Struct):
            name: String
            config_operation: Int8
            value: NullableString
            """Null only with DELETE."""

        resource_type: Int8
        """As in DescribeConfigs."""
        resource_name: String
        configs: Array[Config]

    Config = Resource.Config

    resources: Array[Resource]
    validate_only: Boolean = False


class IncrementalAlterConfigsResponse(Response, to=IncrementalAlterConfigsRequest):
    class Resource(Struct):
        error_code: ErrorCode = NONE
        """INVALID_CONFIG: a key or value cannot be, or the key is no list to put something into. INVALID_REQUEST: a
        resource or key is named twice, a value is null, the operation is not known, or this broker cannot answer for
        it. UNKNOWN_TOPIC_OR_PARTITION, INVALID_TOPIC_EXCEPTION. POLICY_VIOLATION. NOT_CONTROLLER. TOPIC_, GROUP_ and
        CLUSTER_AUTHORIZATION_FAILED."""
        error_message: NullableString = None
        resource_type: Int8
        resource_name: String

    throttle_time_ms: Int32 = 0
    responses: Array[Resource]
