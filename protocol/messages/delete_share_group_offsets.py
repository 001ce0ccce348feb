"""DeleteShareGroupOffsets (key 92): let a share group without members forget topics (KIP-932)."""

from ..errors import NONE
from ..primitives import Array, ErrorCode, Int32, NullableString, String, Uuid
from ..schema import Request, Response, Struct, field
from ..uuids import ZERO_UUID


class DeleteShareGroupOffsetsRequest(Request, api_key=92, versions="0", flexible="0+"):
    class Topic(Struct):
        topic_name: String

    group_id: String
    topics: Array[Topic]


class DeleteShareGroupOffsetsResponse(Response, to=DeleteShareGroupOffsetsRequest):
    class Topic(Struct):
        topic_name: String
        topic_id: Uuid = ZERO_UUID
        error_code: ErrorCode = NONE
        """UNKNOWN_TOPIC_OR_PARTITION: there is no such topic, or the group does not read it.
        TOPIC_AUTHORIZATION_FAILED. NOT_COORDINATOR, COORDINATOR_NOT_AVAILABLE, COORDINATOR_LOAD_IN_PROGRESS.
        UNKNOWN_SERVER_ERROR."""
        error_message: NullableString = None

    throttle_time_ms: Int32 = 0
    error_code: ErrorCode = NONE
    """NON_EMPTY_GROUP: the group has members. GROUP_ID_NOT_FOUND: there is no such group, or it is of another kind.
    INVALID_GROUP_ID. NOT_COORDINATOR, COORDINATOR_NOT_AVAILABLE, COORDINATOR_LOAD_IN_PROGRESS.
    GROUP_AUTHORIZATION_FAILED. KAFKA_STORAGE_ERROR. INVALID_REQUEST. UNSUPPORTED_VERSION. UNKNOWN_SERVER_ERROR."""
    error_message: NullableString = None
    responses: Array[Topic] = field(default=[])
