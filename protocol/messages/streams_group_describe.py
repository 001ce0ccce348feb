"""StreamsGroupDescribe (key 89): state, epochs, topology, members and tasks of streams groups (KIP-1071)."""

from ..errors import NONE
from ..primitives import Array, Boolean, ErrorCode, Int32, NullableArray, NullableString, String
from ..schema import Request, Response, Struct, field
from .metadata import NOT_ASKED_FOR
from .streams_group_heartbeat import Endpoint, KeyValue, TaskIds, TaskOffset, TopicInfo


class StreamsGroupDescribeRequest(Request, api_key=89, versions="0", flexible="0+"):
    group_ids: Array[String]
    include_authorized_operations: Boolean = False


class Assignment(Struct):
    """Tasks of a member."""

    active_tasks: Array[TaskIds] = field(default=[])
    standby_tasks: Array[TaskIds] = field(default=[])
    warmup_tasks: Array[TaskIds] = field(default=[])


class StreamsGroupDescribeResponse(Response, to=StreamsGroupDescribeRequest):
    class Group(Struct):
        class Topology(Struct):
            class Subtopology(Struct):
                subtopology_id: String
                source_topics: Array[String]
                repartition_sink_topics: Array[String]
                state_changelog_topics: Array[TopicInfo]
                repartition_source_topics: Array[TopicInfo]

            epoch: Int32
            subtopologies: NullableArray[Subtopology] = None
            """With the numbers of partitions that were decided; null while topics are missing or do not fit."""

        class Member(Struct):
            member_id: String
            member_epoch: Int32
            instance_id: NullableString = None
            rack_id: NullableString = None
            client_id: String
            client_host: String
            """With a slash in front, as Java shows addresses."""
            topology_epoch: Int32
            process_id: String
            user_endpoint: Endpoint | None = None
            client_tags: Array[KeyValue]
            task_offsets: Array[TaskOffset] = field(default=[])
            task_end_offsets: Array[TaskOffset] = field(default=[])
            assignment: Assignment
            target_assignment: Assignment
            is_classic: Boolean = False

        error_code: ErrorCode = NONE
        """GROUP_ID_NOT_FOUND: there is no such group, or it is of another kind. INVALID_GROUP_ID. NOT_COORDINATOR,
        COORDINATOR_NOT_AVAILABLE, COORDINATOR_LOAD_IN_PROGRESS. GROUP_AUTHORIZATION_FAILED,
        TOPIC_AUTHORIZATION_FAILED. UNSUPPORTED_VERSION."""
        error_message: NullableString = None
        group_id: String
        group_state: String = ""
        """Empty, NotReady, Assigning, Reconciling, Stable or Dead; the empty string with an error."""
        group_epoch: Int32 = 0
        assignment_epoch: Int32 = 0
        topology: Topology | None = None
        """Null with an error."""
        members: Array[Member] = field(default=[])
        authorized_operations: Int32 = NOT_ASKED_FOR
        """One bit for each operation of an ACL, by its code."""

    Member = Group.Member
    Topology = Group.Topology
    Subtopology = Topology.Subtopology

    throttle_time_ms: Int32 = 0
    groups: Array[Group]
