"""LeaveGroup (key 13): remove members from a group.

- v1: throttle_time_ms. v2: throttling after the response (KIP-219).
- v3: several members, and static ones by their instance id (KIP-345). v4: flexible. v5: the reason to leave (KIP-800).
"""

from ..errors import NONE
from ..primitives import Array, ErrorCode, Int32, NullableString, String
from ..schema import Request, Response, Struct, field


class LeaveGroupRequest(Request, api_key=13, versions="0-5", flexible="4+"):
    class Member(Struct):
        member_id: String = field(since=3, default="")
        """May be empty if there is an instance id; if both are given they must belong together."""
        group_instance_id: NullableString = field(since=3, default=None)
        reason: NullableString = field(since=5, default=None)

    group_id: String
    member_id: String = field(until=2, default="")
    members: Array[Member] = field(since=3, default=[])


class LeaveGroupResponse(Response, to=LeaveGroupRequest):
    class Member(Struct):
        member_id: String = field(since=3, default="")
        group_instance_id: NullableString = field(since=3, default=None)
        error_code: ErrorCode = field(since=3, default=NONE)
        """UNKNOWN_MEMBER_ID, also for an instance id. FENCED_INSTANCE_ID: instance id and member id differ."""

    throttle_time_ms: Int32 = field(since=1, default=0)
    error_code: ErrorCode = NONE
    """Below v3 also that of the one member. INVALID_GROUP_ID. NOT_COORDINATOR, COORDINATOR_NOT_AVAILABLE,
    COORDINATOR_LOAD_IN_PROGRESS. GROUP_AUTHORIZATION_FAILED."""
    members: Array[Member] = field(since=3, default=[])
