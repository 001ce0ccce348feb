"""The records of consumer groups in `__consumer_offsets` (KIP-848): keys and values of Kafka's schemas.

| key                        | value                                                                          |
|----------------------------|--------------------------------------------------------------------------------|
| 3, group                   | group epoch and metadata hash                                                  |
| 4, group                   | the topics of the group, in Apache Kafka 4.0: read over, because the hash does |
| 5, group, member           | what a member has told of itself                                               |
| 6, group                   | the epoch of the target assignment                                             |
| 7, group, member           | the target assignment of a member                                              |
| 8, group, member           | the present assignment of a member                                             |
| 16, group, expression      | the topics that a regular expression stands for                                |

`modern/record_format.py` has the shape of keys and values.
"""

from ....protocol.primitives import Array, Bytes, Int8, Int32, Int64, NullableArray, NullableString, String, Uuid
from ....protocol.schema import Message, Struct, field

GROUP_METADATA = 3
PARTITION_METADATA = 4
MEMBER_METADATA = 5
TARGET_ASSIGNMENT_METADATA = 6
TARGET_ASSIGNMENT_MEMBER = 7
CURRENT_MEMBER_ASSIGNMENT = 8
REGULAR_EXPRESSION = 16


class ConsumerGroupMetadataValue(Message, versions="0", flexible="0+"):
    """The group epoch."""

    epoch: Int32
    metadata_hash: Int64 = field(tag=0, default=0)


class ConsumerGroupMemberMetadataValue(Message, versions="0", flexible="0+"):
    """What a member has told of itself."""

    class ClassicMemberMetadata(Struct):
        class ClassicProtocol(Struct):
            name: String
            metadata: Bytes

        session_timeout_ms: Int32
        supported_protocols: Array[ClassicProtocol]

    instance_id: NullableString
    rack_id: NullableString
    client_id: String
    client_host: String
    subscribed_topic_names: Array[String]
    subscribed_topic_regex: NullableString
    rebalance_timeout_ms: Int32
    server_assignor: NullableString
    classic_member_metadata: ClassicMemberMetadata | None = field(
        tag=0, default=ClassicMemberMetadata(session_timeout_ms=0, supported_protocols=[])
    )
    """Of a member that speaks the classic protocol. Kafka takes a member without this tag for one, so null is written
    for all others."""


class ConsumerGroupTargetAssignmentMetadataValue(Message, versions="0", flexible="0+"):
    """The epoch of the target assignment."""

    assignment_epoch: Int32
    assignment_timestamp: Int64 = field(tag=0, default=0)


class ConsumerGroupTargetAssignmentMemberValue(Message, versions="0", flexible="0+"):
    """The target assignment of a member."""

    class TopicPartition(Struct):
        topic_id: Uuid
        partitions: Array[Int32]

    topic_partitions: Array[TopicPartition]


class ConsumerGroupCurrentMemberAssignmentValue(Message, versions="0", flexible="0+"):
    """The present assignment of a member."""

    class TopicPartitions(Struct):
        topic_id: Uuid
        partitions: Array[Int32]
        assignment_epochs: NullableArray[Int32] = field(tag=0, default=None)
        """The epoch at which each was assigned, in the order of the partitions."""

    member_epoch: Int32
    previous_member_epoch: Int32
    state: Int8
    assigned_partitions: Array[TopicPartitions]
    partitions_pending_revocation: Array[TopicPartitions]


class ConsumerGroupRegularExpressionValue(Message, versions="0", flexible="0+"):
    """The topics that a regular expression stands for."""

    topics: Array[String]
    version: Int64
    timestamp: Int64
