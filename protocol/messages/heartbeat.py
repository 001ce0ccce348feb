"""Heartbeat (key 12): a member is alive, and asks whether its generation still is.

- v1: throttle_time_ms. v2: throttling after the response (KIP-219). v3: static members (KIP-345). v4: flexible.
"""

from ..errors import NONE
from ..primitives import ErrorCode, Int32, NullableString, String
from ..schema import Request, Response, field


class HeartbeatRequest(Request, api_key=12, versions="0-4", flexible="4+"):
    group_id: String
    generation_id: Int32
    member_id: String
    group_instance_id: NullableString = field(since=3, default=None)


class HeartbeatResponse(Response, to=HeartbeatRequest):
    throttle_time_ms: Int32 = field(since=1, default=0)
    error_code: ErrorCode = NONE
    """REBALANCE_IN_PROGRESS: join again; the heartbeat counts all the same. ILLEGAL_GENERATION: join again.
    UNKNOWN_MEMBER_ID: join again, without a member id. FENCED_INSTANCE_ID: another member has come under this instance
    id. INVALID_GROUP_ID. NOT_COORDINATOR, COORDINATOR_NOT_AVAILABLE, COORDINATOR_LOAD_IN_PROGRESS.
    GROUP_AUTHORIZATION_FAILED."""
