"""ShareGroupDescribe (key 77): state, epochs, members and partitions of share groups (KIP-932).

- v1: the first one; version 0 was that of a preview.
"""

from ..errors import NONE
from ..primitives import Array, Boolean, ErrorCode, Int32, NullableString, String
from ..schema import Request, Response, Struct, field
from .consumer_group_describe import Assignment
from .metadata import NOT_ASKED_FOR


class ShareGroupDescribeRequest(Request, api_key=77, versions="1", flexible="0+"):
    group_ids: Array[String]
    include_authorized_operations: Boolean = False


class ShareGroupDescribeResponse(Response, to=ShareGroupDescribeRequest):
    class Group(Struct):
        class Member(Struct):
            member_id: String
            rack_id: NullableString = None
            member_epoch: Int32
            client_id: String
            client_host: String
            """With a slash in front, as Java shows addresses."""
            subscribed_topic_names: Array[String]
            assignment: Assignment

        error_code: ErrorCode = NONE
        """GROUP_ID_NOT_FOUND: there is no such group, or it is of another kind. INVALID_GROUP_ID. NOT_COORDINATOR,
        COORDINATOR_NOT_AVAILABLE, COORDINATOR_LOAD_IN_PROGRESS. GROUP_AUTHORIZATION_FAILED,
        TOPIC_AUTHORIZATION_FAILED. UNSUPPORTED_VERSION."""
        error_message: NullableString = None
        group_id: String
        group_state: String = ""
        """Empty, Stable or Dead; the empty string with an error."""
        group_epoch: Int32 = 0
        assignment_epoch: Int32 = 0
        assignor_name: String = ""
        members: Array[Member] = field(default=[])
        authorized_operations: Int32 = NOT_ASKED_FOR
        """One bit for each operation of an ACL, by its code."""

    Member = Group.Member

    throttle_time_ms: Int32 = 0
    groups: Array[Group]
