"""ConsumerGroupDescribe (key 69): state, epochs, members and assignments of consumer groups (KIP-848).

- v1: member_type (KIP-1099).
"""

from ..errors import NONE
from ..primitives import Array, Boolean, ErrorCode, Int8, Int32, NullableString, String, Uuid
from ..schema import Request, Response, Struct, field
from .metadata import NOT_ASKED_FOR


class ConsumerGroupDescribeRequest(Request, api_key=69, versions="0-1", flexible="0+"):
    group_ids: Array[String]
    include_authorized_operations: Boolean = False


class TopicPartitions(Struct):
    """Partitions of a topic."""

    topic_id: Uuid
    topic_name: String
    partitions: Array[Int32]


class Assignment(Struct):
    """Partitions of a member."""

    topic_partitions: Array[TopicPartitions] = field(default=[])


class ConsumerGroupDescribeResponse(Response, to=ConsumerGroupDescribeRequest):
    class Group(Struct):
        class Member(Struct):
            member_id: String
            instance_id: NullableString = None
            rack_id: NullableString = None
            member_epoch: Int32
            client_id: String
            client_host: String
            """With a slash in front, as Java shows addresses."""
            subscribed_topic_names: Array[String]
            subscribed_topic_regex: NullableString = None
            assignment: Assignment
            """What it has, with what it has not given up yet."""
            target_assignment: Assignment
            member_type: Int8 = field(since=1, default=-1)
            """0 speaks the classic protocol, 1 the consumer protocol; -1 is unknown."""

        error_code: ErrorCode = NONE
        """GROUP_ID_NOT_FOUND: there is no such group, or it is of another kind. INVALID_GROUP_ID. NOT_COORDINATOR,
        COORDINATOR_NOT_AVAILABLE, COORDINATOR_LOAD_IN_PROGRESS. GROUP_AUTHORIZATION_FAILED,
        TOPIC_AUTHORIZATION_FAILED. UNSUPPORTED_VERSION."""
        error_message: NullableString = None
        group_id: String
        group_state: String = ""
        """Empty, Assigning, Reconciling, Stable or Dead; the empty string with an error."""
        group_epoch: Int32 = 0
        assignment_epoch: Int32 = 0
        assignor_name: String = ""
        members: Array[Member] = field(default=[])
        authorized_operations: Int32 = NOT_ASKED_FOR
        """One bit for each operation of an ACL, by its code."""

    Member = Group.Member

    throttle_time_ms: Int32 = 0
    groups: Array[Group]
