"""ReadShareGroupStateSummary (key 87): the state of partitions that a share group reads, without batches (KIP-932).

- v1: the number of offsets whose delivery has ended (KIP-1226).
"""

from ..errors import NONE
from ..primitives import Array, ErrorCode, Int32, Int64, NullableString, String, Uuid
from ..schema import Request, Response, Struct, field


class ReadShareGroupStateSummaryRequest(Request, api_key=87, versions="0-1", flexible="0+"):
    class Topic(Struct):
        class Partition(Struct):
            partition: Int32
            leader_epoch: Int32

        topic_id: Uuid
        partitions: Array[Partition]

    group_id: String
    topics: Array[Topic]


class ReadShareGroupStateSummaryResponse(Response, to=ReadShareGroupStateSummaryRequest):
    class Result(Struct):
        class Partition(Struct):
            partition: Int32
            error_code: ErrorCode = NONE
            error_message: NullableString = None
            state_epoch: Int32 = 0
            leader_epoch: Int32 = 0
            start_offset: Int64 = 0
            """-1 where no offset is known."""
            delivery_complete_count: Int32 = field(since=1, default=-1)

        topic_id: Uuid
        partitions: Array[Partition]

    results: Array[Result]
