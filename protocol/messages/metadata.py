"""Metadata (key 3): list the brokers, and topics with leader and replicas of each partition.

- v1: null asks for all topics, an empty list for none; racks, the controller, which topics are internal.
- v2: cluster_id (KIP-78). v3: throttle_time_ms. v4: the client decides whether the request creates topics.
- v5: offline_replicas (KIP-112). v6: throttling after the response (KIP-219). v7: leader_epoch (KIP-320).
- v8: authorized operations on request (KIP-430). v9: flexible.
- v10: topic ids in the response. v11: the cluster's operations have moved to DescribeCluster (KIP-700).
- v12: topics may be asked for by id (KIP-516). v13: error_code for the whole response (KIP-1102).
"""

from ..errors import NONE
from ..primitives import Array, Boolean, ErrorCode, Int32, NullableArray, NullableString, String, Uuid
from ..schema import Request, Response, Struct, field
from ..uuids import ZERO_UUID

NOT_ASKED_FOR = -(1 << 31)
"""The value of a set of authorized operations that the client did not ask for."""


class MetadataRequest(Request, api_key=3, versions="0-13", flexible="9+"):
    class Topic(Struct):
        topic_id: Uuid = field(since=10, default=ZERO_UUID)
        """Asks for a topic by its id, from v12 on; the zero id otherwise."""
        name: NullableString = field(nullable_since=10, default=None)
        """Null if, and only if, the topic is asked for by its id."""

    topics: NullableArray[Topic] = field(nullable_since=1, default=None)
    """Null asks for all topics. In v0, which has no null, an empty list does."""
    allow_auto_topic_creation: Boolean = field(since=4, default=True)
    """Whether the request creates missing topics, if the broker's configuration allows it too."""
    include_cluster_authorized_operations: Boolean = field(since=8, until=10, default=False)
    include_topic_authorized_operations: Boolean = field(since=8, default=False)


class MetadataResponse(Response, to=MetadataRequest):
    class Broker(Struct):
        node_id: Int32
        host: String
        port: Int32
        rack: NullableString = field(since=1, default=None)

    class Topic(Struct):
        class Partition(Struct):
            error_code: ErrorCode = NONE
            """LEADER_NOT_AVAILABLE: the partition has no leader now. REPLICA_NOT_AVAILABLE, LISTENER_NOT_FOUND: a
            broker of the partition is not available, or does not have the listener that the client uses."""
            partition_index: Int32
            leader_id: Int32
            """-1 if there is no leader."""
            leader_epoch: Int32 = field(since=7, default=-1)
            replica_nodes: Array[Int32]
            isr_nodes: Array[Int32]
            offline_replicas: Array[Int32] = field(since=5, default=[])

        error_code: ErrorCode = NONE
        """UNKNOWN_TOPIC_OR_PARTITION or UNKNOWN_TOPIC_ID: the topic does not exist, and was not created.
        INVALID_TOPIC_EXCEPTION: the name is invalid. LEADER_NOT_AVAILABLE: the topic is being created; ask again.
        TOPIC_AUTHORIZATION_FAILED."""
        name: NullableString = field(nullable_since=12)
        """Null if the request gives an unknown topic id."""
        topic_id: Uuid = field(since=10, default=ZERO_UUID)
        is_internal: Boolean = field(since=1, default=False)
        partitions: Array[Partition] = field(default=[])
        topic_authorized_operations: Int32 = field(since=8, default=NOT_ASKED_FOR)
        """One bit for each operation of an ACL, by its code."""

    Partition = Topic.Partition

    throttle_time_ms: Int32 = field(since=3, default=0)
    brokers: Array[Broker]
    cluster_id: NullableString = field(since=2, default=None)
    controller_id: Int32 = field(since=1, default=-1)
    topics: Array[Topic]
    cluster_authorized_operations: Int32 = field(since=8, until=10, default=NOT_ASKED_FOR)
    error_code: ErrorCode = field(since=13, default=NONE)
    """REBOOTSTRAP_REQUIRED: the client is to start again from its bootstrap servers."""
