"""DescribeProducers (key 61): the producers that the leader of a partition remembers (KIP-664).

- v0: the KIP.
"""

from ..errors import NONE
from ..primitives import Array, ErrorCode, Int32, Int64, NullableString, String, Timestamp
from ..schema import Request, Response, Struct, field


class DescribeProducersRequest(Request, api_key=61, versions="0", flexible="0+"):
    class Topic(Struct):
        name: String
        partition_indexes: Array[Int32]

    topics: Array[Topic]


class DescribeProducersResponse(Response, to=DescribeProducersRequest):
    class Topic(Struct):
        class Partition(Struct):
            class ProducerState(Struct):
                producer_id: Int64
                producer_epoch: Int32
                """Wider than anywhere else."""
                last_sequence: Int32 = -1
                last_timestamp: Timestamp = -1
                coordinator_epoch: Int32
                """Of the last transaction marker; -1 if there was none."""
                current_txn_start_offset: Int64 = -1
                """-1 if no transaction is open."""

            partition_index: Int32
            error_code: ErrorCode = NONE
            """UNKNOWN_TOPIC_OR_PARTITION, NOT_LEADER_OR_FOLLOWER, INVALID_TOPIC_EXCEPTION,
            TOPIC_AUTHORIZATION_FAILED."""
            error_message: NullableString = None
            active_producers: Array[ProducerState] = field(default=[])

        name: String
        partitions: Array[Partition]

    Partition = Topic.Partition
    ProducerState = Partition.ProducerState

    throttle_time_ms: Int32 = 0
    topics: Array[Topic]
