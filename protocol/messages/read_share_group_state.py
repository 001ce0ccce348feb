"""ReadShareGroupState (key 84): a leader reads the state of partitions that a share group reads (KIP-932)."""

from ..errors import NONE
from ..primitives import Array, ErrorCode, Int8, Int16, Int32, Int64, NullableString, String, Uuid
from ..schema import Request, Response, Struct, field


class StateBatch(Struct):
    """Offsets of one state."""

    first_offset: Int64
    last_offset: Int64
    delivery_state: Int8
    """0 available, 2 acknowledged, 4 archived."""
    delivery_count: Int16


class ReadShareGroupStateRequest(Request, api_key=84, versions="0", flexible="0+"):
    class Topic(Struct):
        class Partition(Struct):
            partition: Int32
            leader_epoch: Int32

        topic_id: Uuid
        partitions: Array[Partition]

    group_id: String
    topics: Array[Topic]


class ReadShareGroupStateResponse(Response, to=ReadShareGroupStateRequest):
    class Result(Struct):
        class Partition(Struct):
            partition: Int32
            error_code: ErrorCode = NONE
            error_message: NullableString = None
            state_epoch: Int32 = 0
            start_offset: Int64 = 0
            """-1 before the first leader has found one."""
            state_batches: Array[StateBatch] = field(default=[])

        topic_id: Uuid
        partitions: Array[Partition]

    results: Array[Result]
