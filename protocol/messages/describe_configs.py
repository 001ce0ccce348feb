"""DescribeConfigs (key 32): the configuration of topics, brokers and groups, and where each value comes from (KIP-133).

- v1: config_source instead of is_default, synonyms (KIP-226). v2: throttling after the response (KIP-219).
- v3: types and documentation (KIP-569). v4: flexible.
"""

from ..errors import NONE
from ..primitives import Array, Boolean, ErrorCode, Int8, Int32, NullableArray, NullableString, String
from ..schema import Request, Response, Struct, field

TOPIC = 2
BROKER = 4
BROKER_LOGGER = 8
GROUP = 32
"""Resource types; a broker's name is its id, an empty one stands for the default of all brokers."""

UNKNOWN_SOURCE = 0
DYNAMIC_TOPIC_CONFIG = 1
DYNAMIC_BROKER_CONFIG = 2
DYNAMIC_DEFAULT_BROKER_CONFIG = 3
STATIC_BROKER_CONFIG = 4
DEFAULT_CONFIG = 5
DYNAMIC_BROKER_LOGGER_CONFIG = 6
GROUP_CONFIG = 8
"""Where a value comes from: config_source, and the source of a synonym."""


class DescribeConfigsRequest(Request, api_key=32, versions="0-4", flexible="4+"):
    class Resource(Struct):
        resource_type: Int8
        resource_name: String
        configuration_keys: NullableArray[String] = None
        """Null asks for all."""

    resources: Array[Resource]
    include_synonyms: Boolean = field(since=1, default=False)
    include_documentation: Boolean = field(since=3, default=False)


class DescribeConfigsResponse(Response, to=DescribeConfigsRequest):
    class Resource(Struct):
        class Config(Struct):
            class Synonym(Struct):
                name: String
                value: NullableString
                source: Int8

            name: String
            value: NullableString
            """Null if it is not set, or is sensitive."""
            read_only: Boolean = False
            """Cannot be changed while the broker runs."""
            config_source: Int8 = field(since=1, default=-1)
            is_default: Boolean = field(until=0, default=False)
            is_sensitive: Boolean = False
            synonyms: Array[Synonym] = field(since=1, default=[])
            """All places that say something about this key, the one that counts first."""
            config_type: Int8 = field(since=3, default=0)
            """0 unknown, 1 boolean, 2 string, 3 int, 4 short, 5 long, 6 double, 7 list, 8 class, 9 password."""
            documentation: NullableString = field(since=3, default=None)

        error_code: ErrorCode = NONE
        """UNKNOWN_TOPIC_OR_PARTITION, INVALID_TOPIC_EXCEPTION, INVALID_REQUEST (a type or name that this broker cannot
        answer for). TOPIC_, GROUP_ and CLUSTER_AUTHORIZATION_FAILED."""
        error_message: NullableString = None
        resource_type: Int8
        resource_name: String
        configs: Array[Config] = field(default=[])

    Config = Resource.Config
    Synonym = Config.Synonym

    throttle_time_ms: Int32 = 0
    results: Array[Resource]
