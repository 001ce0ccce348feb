"""DescribeQuorum (key 55): leader, voters and observers of the metadata log (KIP-595).

- v1: when a replica has fetched (KIP-836). v2: directory ids, error messages, addresses of the voters (KIP-853).
"""

from ..errors import NONE
from ..primitives import Array, ErrorCode, Int32, Int64, NullableString, String, Timestamp, Uint16, Uuid
from ..schema import Request, Response, Struct, field
from ..uuids import ZERO_UUID

METADATA_TOPIC = "__cluster_metadata"
"""The only one that can be asked for, with partition 0."""


class DescribeQuorumRequest(Request, api_key=55, versions="0-2", flexible="0+"):
    class Topic(Struct):
        class Partition(Struct):
            partition_index: Int32

        topic_name: String
        partitions: Array[Partition]

    Partition = Topic.Partition

    topics: Array[Topic]


class DescribeQuorumResponse(Response, to=DescribeQuorumRequest):
    class Topic(Struct):
        class Partition(Struct):
            class ReplicaState(Struct):
                replica_id: Int32
                replica_directory_id: Uuid = field(since=2, default=ZERO_UUID)
                log_end_offset: Int64
                """-1 if it is not known."""
                last_fetch_timestamp: Timestamp = field(since=1, default=-1)
                """By the leader's clock."""
                last_caught_up_timestamp: Timestamp = field(since=1, default=-1)

            partition_index: Int32
            error_code: ErrorCode = NONE
            """UNKNOWN_TOPIC_OR_PARTITION, NOT_LEADER_OR_FOLLOWER."""
            error_message: NullableString = field(since=2, default=None)
            leader_id: Int32 = -1
            leader_epoch: Int32 = -1
            high_watermark: Int64 = -1
            current_voters: Array[ReplicaState] = field(default=[])
            observers: Array[ReplicaState] = field(default=[])
            """They follow without a vote: the brokers that are no controllers."""

        topic_name: String
        partitions: Array[Partition]

    Partition = Topic.Partition
    ReplicaState = Partition.ReplicaState

    class Node(Struct):
        class Listener(Struct):
            name: String = field(since=2, default="")
            host: String = field(since=2, default="")
            port: Uint16 = field(since=2, default=0)

        node_id: Int32 = field(since=2, default=0)
        listeners: Array[Listener] = field(since=2, default=[])

    Listener = Node.Listener

    error_code: ErrorCode = NONE
    """INVALID_REQUEST, NOT_CONTROLLER. CLUSTER_AUTHORIZATION_FAILED."""
    error_message: NullableString = field(since=2, default=None)
    topics: Array[Topic] = field(default=[])
    nodes: Array[Node] = field(since=2, default=[])
