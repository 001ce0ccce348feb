"""SyncGroup (key 14): take the assignment of a generation from the leader, and give each member its share.

- v1: throttle_time_ms. v2: throttling after the response (KIP-219). v3: static members (KIP-345). v4: flexible.
- v5: protocol type and name on both sides (KIP-559).
"""

from ..errors import NONE
from ..primitives import Array, Bytes, ErrorCode, Int32, NullableString, String
from ..schema import Request, Response, Struct, field


class SyncGroupRequest(Request, api_key=14, versions="0-5", flexible="4+"):
    class Assignment(Struct):
        member_id: String
        assignment: Bytes

    group_id: String
    generation_id: Int32
    member_id: String
    group_instance_id: NullableString = field(since=3, default=None)
    protocol_type: NullableString = field(since=5, default=None)
    protocol_name: NullableString = field(since=5, default=None)
    """Null, or the value that JoinGroup answered."""
    assignments: Array[Assignment] = field(default=[])
    """The leader's assignments; a member without one gets an empty share. Empty from all other members."""


class SyncGroupResponse(Response, to=SyncGroupRequest):
    throttle_time_ms: Int32 = field(since=1, default=0)
    error_code: ErrorCode = NONE
    """REBALANCE_IN_PROGRESS, ILLEGAL_GENERATION: join again. UNKNOWN_MEMBER_ID: join again, without a member id.
    FENCED_INSTANCE_ID: another member has joined with this instance id. INCONSISTENT_GROUP_PROTOCOL: type or name are
    not the group's. INVALID_GROUP_ID. NOT_COORDINATOR, COORDINATOR_NOT_AVAILABLE (also if the assignment could not be
    stored), COORDINATOR_LOAD_IN_PROGRESS. GROUP_AUTHORIZATION_FAILED."""
    protocol_type: NullableString = field(since=5, default=None)
    protocol_name: NullableString = field(since=5, default=None)
    assignment: Bytes = b""
