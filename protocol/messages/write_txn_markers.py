"""WriteTxnMarkers (key 27): how transactions have ended, for the partitions that they wrote to (KIP-98).

Sent by coordinators, and by administrators to end transactions that hang (KIP-664).

- v0: the KIP. v1: flexible. v2: transaction_version, so that markers of old epochs can be refused (KIP-1228).
"""

from ..errors import NONE
from ..primitives import Array, Boolean, ErrorCode, Int8, Int16, Int32, Int64, String
from ..schema import Request, Response, Struct, field


class WriteTxnMarkersRequest(Request, api_key=27, versions="0-2", flexible="1+"):
    class Marker(Struct):
        class Topic(Struct):
            name: String
            partition_indexes: Array[Int32]

        producer_id: Int64
        producer_epoch: Int16
        transaction_result: Boolean
        """True: committed."""
        topics: Array[Topic]
        coordinator_epoch: Int32
        transaction_version: Int8 = field(since=2, default=0)
        """Of the feature transaction.version, under which the transaction ran."""

    Topic = Marker.Topic

    markers: Array[Marker]


class WriteTxnMarkersResponse(Response, to=WriteTxnMarkersRequest):
    class Marker(Struct):
        class Topic(Struct):
            class Partition(Struct):
                partition_index: Int32
                error_code: ErrorCode = NONE
                """TRANSACTION_COORDINATOR_FENCED: the partition has heard from a newer coordinator.
                INVALID_PRODUCER_EPOCH. UNKNOWN_TOPIC_OR_PARTITION, NOT_LEADER_OR_FOLLOWER, KAFKA_STORAGE_ERROR.
                NOT_ENOUGH_REPLICAS, NOT_ENOUGH_REPLICAS_AFTER_APPEND, REQUEST_TIMED_OUT: write it again.
                UNSUPPORTED_FOR_MESSAGE_FORMAT: the log is too old. CLUSTER_AUTHORIZATION_FAILED."""

            name: String
            partitions: Array[Partition]

        producer_id: Int64
        topics: Array[Topic]

    Topic = Marker.Topic
    Partition = Topic.Partition

    markers: Array[Marker]
