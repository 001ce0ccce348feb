"""OffsetFetch (key 9): return the committed offsets of groups.

- v0: from ZooKeeper. v1: from the coordinator. v2: null asks for all topics; error_code. v3: throttle_time_ms.
- v4: throttling after the response (KIP-219). v5: leader epochs (KIP-320). v6: flexible.
- v7: require_stable (KIP-447). v8: several groups in one request (KIP-709).
- v9: members of the new consumer protocol (KIP-848). v10: topic ids.
"""

from ..errors import NONE
from ..primitives import Array, Boolean, ErrorCode, Int32, Int64, NullableArray, NullableString, String, Uuid
from ..schema import Request, Response, Struct, field
from ..uuids import ZERO_UUID


class OffsetFetchRequest(Request, api_key=9, versions="0-10", flexible="6+"):
    class Topic(Struct):
        """Of the one group that the versions below 8 ask for."""

        name: String = field(until=7, default="")
        partition_indexes: Array[Int32] = field(until=7, default=[])

    class Group(Struct):
        class Topic(Struct):
            name: String = field(since=8, until=9, default="")
            topic_id: Uuid = field(since=10, default=ZERO_UUID)
            partition_indexes: Array[Int32] = field(since=8, default=[])

        group_id: String = field(since=8, default="")
        member_id: NullableString = field(since=9, default=None)
        """Null with a member epoch of -1: from outside of the group."""
        member_epoch: Int32 = field(since=9, default=-1)
        topics: NullableArray[Topic] = field(since=8, default=None)
        """Null asks for all with a committed offset."""

    group_id: String = field(until=7, default="")
    topics: NullableArray[Topic] = field(until=7, nullable_since=2, default=[])
    """Null asks for all with a committed offset."""
    groups: Array[Group] = field(since=8, default=[])
    require_stable: Boolean = field(since=7, default=False)
    """Refuse offsets that a transaction is about to replace."""


class OffsetFetchResponse(Response, to=OffsetFetchRequest):
    class Topic(Struct):
        """Of the one group that the versions below 8 ask for."""

        class Partition(Struct):
            partition_index: Int32 = field(until=7, default=0)
            committed_offset: Int64 = field(until=7, default=-1)
            """-1 without a committed offset, which is no error."""
            committed_leader_epoch: Int32 = field(since=5, until=7, default=-1)
            metadata: NullableString = field(until=7, default="")
            error_code: ErrorCode = field(until=7, default=NONE)
            """As in the groups of v8; below v2 that of the group as well."""

        name: String = field(until=7, default="")
        partitions: Array[Partition] = field(until=7, default=[])

    Partition = Topic.Partition

    class Group(Struct):
        class Topic(Struct):
            class Partition(Struct):
                partition_index: Int32 = field(since=8, default=0)
                committed_offset: Int64 = field(since=8, default=-1)
                """-1 without a committed offset, which is no error."""
                committed_leader_epoch: Int32 = field(since=8, default=-1)
                metadata: NullableString = field(since=8, default="")
                error_code: ErrorCode = field(since=8, default=NONE)
                """UNSTABLE_OFFSET_COMMIT: a transaction is about to replace it; ask again.
                UNKNOWN_TOPIC_OR_PARTITION, UNKNOWN_TOPIC_ID, TOPIC_AUTHORIZATION_FAILED."""

            name: String = field(since=8, until=9, default="")
            topic_id: Uuid = field(since=10, default=ZERO_UUID)
            partitions: Array[Partition] = field(since=8, default=[])

        Partition = Topic.Partition

        group_id: String = field(since=8, default="")
        topics: Array[Topic] = field(since=8, default=[])
        error_code: ErrorCode = field(since=8, default=NONE)
        """NOT_COORDINATOR, COORDINATOR_NOT_AVAILABLE, COORDINATOR_LOAD_IN_PROGRESS. INVALID_GROUP_ID.
        UNKNOWN_MEMBER_ID, STALE_MEMBER_EPOCH (v9). GROUP_AUTHORIZATION_FAILED. An unknown group is no error: it has no
        committed offsets."""

    throttle_time_ms: Int32 = field(since=3, default=0)
    topics: Array[Topic] = field(until=7, default=[])
    error_code: ErrorCode = field(since=2, until=7, default=NONE)
    groups: Array[Group] = field(since=8, default=[])
