"""WriteShareGroupState (key 85): a leader writes the state of partitions that a share group reads (KIP-932).

- v1: the number of offsets whose delivery has ended (KIP-1226).
"""

from ..errors import NONE
from ..primitives import Array, ErrorCode, Int32, Int64, NullableString, String, Uuid
from ..schema import Request, Response, Struct, field
from .read_share_group_state import StateBatch


class WriteShareGroupStateRequest(Request, api_key=85, versions="0-1", flexible="0+"):
    class Topic(Struct):
        class Partition(Struct):
            partition: Int32
            state_epoch: Int32
            leader_epoch: Int32
            start_offset: Int64
            """-1 if it has not changed."""
            delivery_complete_count: Int32 = field(since=1, default=-1)
            state_batches: Array[StateBatch]

        topic_id: Uuid
        partitions: Array[Partition]

    group_id: String
    topics: Array[Topic]


class WriteShareGroupStateResponse(Response, to=WriteShareGroupStateRequest):
    class Result(Struct):
        class Partition(Struct):
            partition: Int32
            error_code: ErrorCode = NONE
            error_message: NullableString = None

        topic_id: Uuid
        partitions: Array[Partition]

    results: Array[Result]
