"""DescribeCluster (key 60): the brokers and the controller (KIP-700).

- v1: brokers or controllers, as the client says (KIP-919). v2: fenced brokers on request (KIP-1073).
"""

from ..errors import NONE
from ..primitives import Array, Boolean, ErrorCode, Int8, Int32, NullableString, String
from ..schema import Request, Response, Struct, field

BROKERS = 1
CONTROLLERS = 2
"""Endpoint types."""

NOT_ASKED_FOR = -(1 << 31)
"""In place of a set of authorized operations."""


class DescribeClusterRequest(Request, api_key=60, versions="0-2", flexible="0+"):
    include_cluster_authorized_operations: Boolean = False
    endpoint_type: Int8 = field(since=1, default=BROKERS)
    include_fenced_brokers: Boolean = field(since=2, default=False)


class DescribeClusterResponse(Response, to=DescribeClusterRequest):
    class Broker(Struct):
        broker_id: Int32
        host: String
        port: Int32
        rack: NullableString = None
        is_fenced: Boolean = field(since=2, default=False)

    throttle_time_ms: Int32 = 0
    error_code: ErrorCode = NONE
    """MISMATCHED_ENDPOINT_TYPE: brokers were asked for controllers or the reverse. UNSUPPORTED_ENDPOINT_TYPE."""
    error_message: NullableString = None
    endpoint_type: Int8 = field(since=1, default=BROKERS)
    cluster_id: String = ""
    controller_id: Int32 = -1
    brokers: Array[Broker] = field(default=[])
    cluster_authorized_operations: Int32 = NOT_ASKED_FOR
