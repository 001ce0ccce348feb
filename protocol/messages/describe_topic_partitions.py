"""DescribeTopicPartitions (key 75): describe topics as Metadata does, in pages (KIP-966).

- v0: the KIP.
"""

from ..errors import NONE
from ..primitives import Array, Boolean, ErrorCode, Int32, NullableArray, NullableString, String, Uuid
from ..schema import Request, Response, Struct, field
from ..uuids import ZERO_UUID
from .metadata import NOT_ASKED_FOR


class Cursor(Struct):
    """Where a page begins; that of a response goes into the next request as it is."""

    topic_name: String
    partition_index: Int32


class DescribeTopicPartitionsRequest(Request, api_key=75, versions="0", flexible="0+"):
    class Topic(Struct):
        name: String

    topics: Array[Topic]
    """None asks for all."""
    response_partition_limit: Int32 = 2000
    """The broker has a limit of its own, and the smaller one counts."""
    cursor: Cursor | None = None


class DescribeTopicPartitionsResponse(Response, to=DescribeTopicPartitionsRequest):
    class Topic(Struct):
        class Partition(Struct):
            error_code: ErrorCode = NONE
            """LEADER_NOT_AVAILABLE: the partition has no leader now. LISTENER_NOT_FOUND: the leader does not have the
            listener that the client uses."""
            partition_index: Int32
            leader_id: Int32
            """-1 if there is no leader."""
            leader_epoch: Int32 = -1
            replica_nodes: Array[Int32]
            isr_nodes: Array[Int32]
            eligible_leader_replicas: NullableArray[Int32] = None
            """Not in sync, but known to have everything up to the high watermark."""
            last_known_elr: NullableArray[Int32] = None
            """The last known eligible leader replicas."""
            offline_replicas: Array[Int32] = field(default=[])

        error_code: ErrorCode = NONE
        """UNKNOWN_TOPIC_OR_PARTITION, INVALID_TOPIC_EXCEPTION, TOPIC_AUTHORIZATION_FAILED."""
        name: NullableString
        topic_id: Uuid = ZERO_UUID
        is_internal: Boolean = False
        partitions: Array[Partition] = field(default=[])
        topic_authorized_operations: Int32 = NOT_ASKED_FOR
        """One bit for each operation of an ACL, by its code."""

    Partition = Topic.Partition

    throttle_time_ms: Int32 = 0
    topics: Array[Topic]
    """In the order of their names."""
    next_cursor: Cursor | None = None
    """Null on the last page."""
