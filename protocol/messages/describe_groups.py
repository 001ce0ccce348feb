"""DescribeGroups (key 15): state, members and assignments of groups that speak the classic protocol.

- v1: throttle_time_ms. v2: throttling after the response (KIP-219). v3: authorized operations (KIP-430).
- v4: group_instance_id (KIP-345). v5: flexible. v6: GROUP_ID_NOT_FOUND and error_message (KIP-1043).
"""

from ..errors import NONE
from ..primitives import Array, Boolean, Bytes, ErrorCode, Int32, NullableString, String
from ..schema import Request, Response, Struct, field
from .metadata import NOT_ASKED_FOR


class DescribeGroupsRequest(Request, api_key=15, versions="0-6", flexible="5+"):
    groups: Array[String]
    include_authorized_operations: Boolean = field(since=3, default=False)


class DescribeGroupsResponse(Response, to=DescribeGroupsRequest):
    class Group(Struct):
        class Member(Struct):
            member_id: String
            group_instance_id: NullableString = field(since=4, default=None)
            client_id: String
            client_host: String
            """With a slash in front, as Java shows addresses."""
            member_metadata: Bytes = b""
            """The metadata with which the member joined, for the protocol that the group has chosen."""
            member_assignment: Bytes = b""

        error_code: ErrorCode = NONE
        """GROUP_ID_NOT_FOUND (v6; before it the group is Dead, without an error). INVALID_GROUP_ID. NOT_COORDINATOR,
        COORDINATOR_NOT_AVAILABLE, COORDINATOR_LOAD_IN_PROGRESS. GROUP_AUTHORIZATION_FAILED."""
        error_message: NullableString = field(since=6, default=None)
        group_id: String
        group_state: String = ""
        """Empty, PreparingRebalance, CompletingRebalance, Stable or Dead; the empty string with an error."""
        protocol_type: String = ""
        protocol_data: String = ""
        """The name of the chosen protocol; only of a group that is Stable."""
        members: Array[Member] = field(default=[])
        authorized_operations: Int32 = field(since=3, default=NOT_ASKED_FOR)
        """One bit for each operation of an ACL, by its code."""

    Member = Group.Member

    throttle_time_ms: Int32 = field(since=1, default=0)
    groups: Array[Group]
