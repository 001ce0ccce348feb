"""ShareAcknowledge (key 79): a member of a share group acknowledges records (KIP-932).

- v1: the first stable version. v2: renewed acknowledgements (KIP-1222).
"""

from ..errors import NONE
from ..primitives import Array, Boolean, ErrorCode, Int32, NullableString, Uuid
from ..schema import Request, Response, Struct, field
from .share_fetch import AcknowledgementBatch, LeaderIdAndEpoch, NodeEndpoint


class ShareAcknowledgeRequest(Request, api_key=79, versions="1-2", flexible="0+"):
    class Topic(Struct):
        class Partition(Struct):
            partition_index: Int32
            acknowledgement_batches: Array[AcknowledgementBatch]

        topic_id: Uuid
        partitions: Array[Partition]

    group_id: NullableString = None
    member_id: NullableString = None
    share_session_epoch: Int32
    is_renew_ack: Boolean = field(since=2, default=False)
    topics: Array[Topic]


class ShareAcknowledgeResponse(Response, to=ShareAcknowledgeRequest):
    class Topic(Struct):
        class Partition(Struct):
            partition_index: Int32
            error_code: ErrorCode = NONE
            error_message: NullableString = None
            current_leader: LeaderIdAndEpoch

        topic_id: Uuid
        partitions: Array[Partition]

    throttle_time_ms: Int32 = 0
    error_code: ErrorCode = NONE
    error_message: NullableString = None
    acquisition_lock_timeout_ms: Int32 = field(since=2, default=0)
    responses: Array[Topic] = field(default=[])
    node_endpoints: Array[NodeEndpoint] = field(default=[])
