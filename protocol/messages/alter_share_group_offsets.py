"""AlterShareGroupOffsets (key 91): let a share group without members read partitions from other offsets (KIP-932)."""

from ..errors import NONE
from ..primitives import Array, ErrorCode, Int32, Int64, NullableString, String, Uuid
from ..schema import Request, Response, Struct, field
from ..uuids import ZERO_UUID


class AlterShareGroupOffsetsRequest(Request, api_key=91, versions="0", flexible="0+"):
    class Topic(Struct):
        class Partition(Struct):
            partition_index: Int32
            start_offset: Int64

        topic_name: String
        partitions: Array[Partition]

    Partition = Topic.Partition

    group_id: String
    topics: Array[Topic]


class AlterShareGroupOffsetsResponse(Response, to=AlterShareGroupOffsetsRequest):
    class Topic(Struct):
        class Partition(Struct):
            partition_index: Int32
            error_code: ErrorCode = NONE
            """UNKNOWN_TOPIC_OR_PARTITION. TOPIC_AUTHORIZATION_FAILED. NOT_COORDINATOR, COORDINATOR_NOT_AVAILABLE,
            COORDINATOR_LOAD_IN_PROGRESS. UNKNOWN_SERVER_ERROR."""
            error_message: NullableString = None

        topic_name: String
        topic_id: Uuid = ZERO_UUID
        partitions: Array[Partition]

    Partition = Topic.Partition

    throttle_time_ms: Int32 = 0
    error_code: ErrorCode = NONE
    """NON_EMPTY_GROUP: the group has members. GROUP_ID_NOT_FOUND: the group is of another kind. INVALID_GROUP_ID.
    NOT_COORDINATOR, COORDINATOR_NOT_AVAILABLE, COORDINATOR_LOAD_IN_PROGRESS. GROUP_AUTHORIZATION_FAILED.
    KAFKA_STORAGE_ERROR. INVALID_REQUEST. UNSUPPORTED_VERSION. UNKNOWN_SERVER_ERROR."""
    error_message: NullableString = None
    responses: Array[Topic] = field(default=[])
