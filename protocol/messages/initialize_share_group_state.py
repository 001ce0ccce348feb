"""InitializeShareGroupState (key 83): begin the state of partitions that a share group reads (KIP-932)."""

from ..errors import NONE
from ..primitives import Array, ErrorCode, Int32, Int64, NullableString, String, Uuid
from ..schema import Request, Response, Struct


class InitializeShareGroupStateRequest(Request, api_key=83, versions="0", flexible="0+"):
    class Topic(Struct):
        class Partition(Struct):
            partition: Int32
            state_epoch: Int32
            start_offset: Int64
            """-1 where the leader is to find the first offset."""

        topic_id: Uuid
        partitions: Array[Partition]

    group_id: String
    topics: Array[Topic]


class InitializeShareGroupStateResponse(Response, to=InitializeShareGroupStateRequest):
    class Result(Struct):
        class Partition(Struct):
            partition: Int32
            error_code: ErrorCode = NONE
            error_message: NullableString = None

        topic_id: Uuid
        partitions: Array[Partition]

    results: Array[Result]
