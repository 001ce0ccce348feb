"""The records of streams groups in `__consumer_offsets` (KIP-1071): values of Kafka's schemas.

| key                        | value                                                                     |
|----------------------------|---------------------------------------------------------------------------|
| 17, group                  | group epoch, metadata hash, the epoch of the topology that is ready       |
| 19, group, member          | what a member has told of itself                                          |
| 20, group                  | the epoch of the target assignment                                        |
| 21, group, member          | the target of a member                                                    |
| 22, group, member          | the tasks of a member                                                     |
| 23, group                  | the topology                                                              |

Keys and versions are as those of consumer groups.
"""

from ....protocol.messages.streams_group_heartbeat import Endpoint, KeyValue, Subtopology
from ....protocol.primitives import Array, Int8, Int32, Int64, NullableArray, NullableString, String
from ....protocol.schema import Message, Struct, field

GROUP_METADATA = 17
MEMBER_METADATA = 19
TARGET_ASSIGNMENT_METADATA = 20
TARGET_ASSIGNMENT_MEMBER = 21
CURRENT_MEMBER_ASSIGNMENT = 22
TOPOLOGY = 23


class StreamsGroupMetadataValue(Message, versions="0", flexible="0+"):
    """The group epoch."""

    epoch: Int32
    metadata_hash: Int64
    validated_topology_epoch: Int32 = field(tag=0, default=-1)
    """The epoch of the topology whose topics all exist; -1 for none."""
    last_assignment_configs: NullableArray[KeyValue] = field(tag=1, default=[])


class StreamsGroupMemberMetadataValue(Message, versions="0", flexible="0+"):
    """What a member has told of itself."""

    instance_id: NullableString
    rack_id: NullableString
    client_id: String
    client_host: String
    rebalance_timeout_ms: Int32 = -1
    topology_epoch: Int32
    process_id: String
    user_endpoint: Endpoint | None = None
    client_tags: Array[KeyValue]


class StreamsGroupTargetAssignmentMetadataValue(Message, versions="0", flexible="0+"):
    """The epoch of the target assignment."""

    assignment_epoch: Int32
    assignment_timestamp: Int64 = field(tag=0, default=0)


class StreamsGroupTargetAssignmentMemberValue(Message, versions="0", flexible="0+"):
    """The target of a member."""

    class TaskIds(Struct):
        subtopology_id: String
        partitions: Array[Int32]

    active_tasks: Array[TaskIds]
    standby_tasks: Array[TaskIds]
    warmup_tasks: Array[TaskIds]


class StreamsGroupCurrentMemberAssignmentValue(Message, versions="0", flexible="0+"):
    """The tasks of a member."""

    class TaskIds(Struct):
        subtopology_id: String
        partitions: Array[Int32]
        assignment_epochs: NullableArray[Int32] = field(tag=0, default=None)
        """Of active tasks, the epoch at which each was assigned, in the order of the partitions."""

    member_epoch: Int32
    previous_member_epoch: Int32
    state: Int8
    active_tasks: Array[TaskIds]
    standby_tasks: Array[TaskIds]
    warmup_tasks: Array[TaskIds]
    active_tasks_pending_revocation: Array[TaskIds]
    standby_tasks_pending_revocation: Array[TaskIds]
    warmup_tasks_pending_revocation: Array[TaskIds]


class StreamsGroupTopologyValue(Message, versions="0", flexible="0+"):
    """The topology."""

    epoch: Int32
    subtopologies: Array[Subtopology]
