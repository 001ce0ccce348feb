"""The records of share groups in `__consumer_offsets` (KIP-932): values of Kafka's schemas.

| key                        | value                                                                     |
|----------------------------|---------------------------------------------------------------------------|
| 10, group, member          | what a member has told of itself                                          |
| 11, group                  | group epoch, metadata hash                                                |
| 12, group                  | the epoch of the target assignment                                        |
| 13, group, member          | the target of a member                                                    |
| 14, group, member          | the partitions of a member                                                |
| 15, group                  | the partitions whose state is being initialized, is initialized, or is    |
|                            | being deleted                                                             |

Keys and versions are as those of consumer groups.
"""

from ....protocol.primitives import Array, Int8, Int32, Int64, NullableString, String, Uuid
from ....protocol.schema import Message, Struct, field

MEMBER_METADATA = 10
GROUP_METADATA = 11
TARGET_ASSIGNMENT_METADATA = 12
TARGET_ASSIGNMENT_MEMBER = 13
CURRENT_MEMBER_ASSIGNMENT = 14
STATE_PARTITION_METADATA = 15


class TopicPartitions(Struct):
    """Partitions of a topic."""

    topic_id: Uuid
    partitions: Array[Int32]


class ShareGroupMemberMetadataValue(Message, versions="0", flexible="0+"):
    """What a member has told of itself."""

    rack_id: NullableString
    client_id: String
    client_host: String
    subscribed_topic_names: Array[String]


class ShareGroupMetadataValue(Message, versions="0", flexible="0+"):
    """The group epoch."""

    epoch: Int32
    metadata_hash: Int64


class ShareGroupTargetAssignmentMetadataValue(Message, versions="0", flexible="0+"):
    """The epoch of the target assignment."""

    assignment_epoch: Int32
    assignment_timestamp: Int64 = field(tag=0, default=0)


class ShareGroupTargetAssignmentMemberValue(Message, versions="0", flexible="0+"):
    """The target of a member."""

    topic_partitions: Array[TopicPartitions]


class ShareGroupCurrentMemberAssignmentValue(Message, versions="0", flexible="0+"):
    """The partitions of a member."""

    member_epoch: Int32
    previous_member_epoch: Int32
    state: Int8
    """Always 0: a member is STABLE."""
    assigned_partitions: Array[TopicPartitions]


class ShareGroupStatePartitionMetadataValue(Message, versions="0", flexible="0+"):
    """How far the states of the group's partitions are."""

    class TopicPartitionsInfo(Struct):
        topic_id: Uuid
        topic_name: String
        partitions: Array[Int32]

    class TopicInfo(Struct):
        topic_id: Uuid
        topic_name: String

    initializing_topics: Array[TopicPartitionsInfo]
    initialized_topics: Array[TopicPartitionsInfo]
    deleting_topics: Array[TopicInfo]
