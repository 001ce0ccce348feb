"""DeleteShareGroupState (key 86): delete the state of partitions that a share group has read (KIP-932)."""

from ..errors import NONE
from ..primitives import Array, ErrorCode, Int32, NullableString, String, Uuid
from ..schema import Request, Response, Struct


class DeleteShareGroupStateRequest(Request, api_key=86, versions="0", flexible="0+"):
    class Topic(Struct):
        class Partition(Struct):
            partition: Int32

        topic_id: Uuid
        partitions: Array[Partition]

    group_id: String
    topics: Array[Topic]


class DeleteShareGroupStateResponse(Response, to=DeleteShareGroupStateRequest):
    class Result(Struct):
        class Partition(Struct):
            partition: Int32
            error_code: ErrorCode = NONE
            error_message: NullableString = None

        topic_id: Uuid
        partitions: Array[Partition]

    results: Array[Result]
