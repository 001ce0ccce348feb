"""DescribeShareGroupOffsets (key 90): where share groups are in partitions (KIP-932).

- v1: the lag (KIP-1226).
"""

from ..errors import NONE
from ..primitives import Array, ErrorCode, Int32, Int64, NullableArray, NullableString, String, Uuid
from ..schema import Request, Response, Struct, field
from ..uuids import ZERO_UUID


class DescribeShareGroupOffsetsRequest(Request, api_key=90, versions="0-1", flexible="0+"):
    class Group(Struct):
        class Topic(Struct):
            topic_name: String
            partitions: Array[Int32]

        group_id: String
        topics: NullableArray[Topic]
        """Null for all partitions that the group has begun to read."""

    Topic = Group.Topic

    groups: Array[Group]


class DescribeShareGroupOffsetsResponse(Response, to=DescribeShareGroupOffsetsRequest):
    class Group(Struct):
        class Topic(Struct):
            class Partition(Struct):
                partition_index: Int32
                start_offset: Int64 = -1
                """The first offset whose delivery has not ended; -1 if the group has not begun to read the
                partition."""
                leader_epoch: Int32 = 0
                """That of the leader that wrote the start offset."""
                lag: Int64 = field(since=1, default=-1)
                """Offsets up to the end of the partition whose delivery has not ended; -1 if that is not known."""
                error_code: ErrorCode = NONE
                """TOPIC_AUTHORIZATION_FAILED. LEADER_NOT_AVAILABLE. UNKNOWN_SERVER_ERROR."""
                error_message: NullableString = None

            topic_name: String
            topic_id: Uuid = ZERO_UUID
            partitions: Array[Partition]

        group_id: String
        topics: Array[Topic] = field(default=[])
        error_code: ErrorCode = NONE
        """NOT_COORDINATOR, COORDINATOR_NOT_AVAILABLE, COORDINATOR_LOAD_IN_PROGRESS. GROUP_ID_NOT_FOUND.
        INVALID_GROUP_ID. INVALID_REQUEST. GROUP_AUTHORIZATION_FAILED. UNSUPPORTED_VERSION. UNKNOWN_SERVER_ERROR."""
        error_message: NullableString = None

    Topic = Group.Topic
    Partition = Topic.Partition

    throttle_time_ms: Int32 = 0
    groups: Array[Group]
