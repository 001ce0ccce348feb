"""What consumers tell each other through the classic group protocol, in the bytes of JoinGroup and SyncGroup.

The coordinator passes these bytes on unread. Whoever does want to read them (which topics a member subscribes to, which
partitions it has) uses `read_subscription`, `read_assignment` and `subscribed_topics`. A version in front says how to
read on; of a newer version than ours the part that we know is read, as Kafka does, because versions only ever add at
the end.
"""

from .errors import MalformedMessage
from .primitives import Array, Int32, NullableBytes, NullableString, String
from .schema import Message, Struct, field

PROTOCOL_TYPE = "consumer"
"""The protocol type of the groups whose members speak so."""

VERSION_BYTES = 2


class ConsumerProtocolSubscription(Message, versions="0-3"):
    """What a member wants; the metadata of each of its protocols in JoinGroup.

    - v1: owned_partitions, for cooperative assignors (KIP-429). v2: generation_id (KIP-792). v3: rack_id (KIP-881).
    """

    ignores_trailing_bytes = True

    class TopicPartitions(Struct):
        topic: String = field(since=1, default="")
        partitions: Array[Int32] = field(since=1, default=[])

    topics: Array[String]
    user_data: NullableBytes = None
    """The assignor's own."""
    owned_partitions: Array[TopicPartitions] = field(since=1, default=[])
    generation_id: Int32 = field(since=2, default=-1)
    """In which it came to own them."""
    rack_id: NullableString = field(since=3, default=None)


class SubscribedTopics(Message, versions="0"):
    """What a subscription of any version begins with."""

    ignores_trailing_bytes = True
    memory_per_byte = 64
    """The coordinator reads what it has taken and stored already, be it tens of thousands of topics."""

    topics: Array[String]


class ConsumerProtocolAssignment(Message, versions="0-3"):
    """What a member gets. All versions look the same: v1, v2 and v3 keep step with the subscription."""

    ignores_trailing_bytes = True

    class TopicPartitions(Struct):
        topic: String
        partitions: Array[Int32]

    assigned_partitions: Array[TopicPartitions] = field(default=[])
    user_data: NullableBytes = None
    """The assignor's own."""


def read_subscription(metadata: bytes) -> ConsumerProtocolSubscription:
    """Raises MalformedMessage if it is none."""
    version = _version(metadata, ConsumerProtocolSubscription.max_version)
    return ConsumerProtocolSubscription.decode(metadata[VERSION_BYTES:], version)


def subscribed_topics(metadata: bytes) -> set[str]:
    """The topics of a subscription, whatever version it says it has; the rest of it may be damaged.

    Raises MalformedMessage if it is none; nobody has to keep to this protocol.
    """
    return set(SubscribedTopics.decode(metadata[VERSION_BYTES:], 0).topics)


def read_assignment(assignment: bytes) -> ConsumerProtocolAssignment:
    """No bytes at all, which is what a member without partitions may have got, are an empty assignment.

    Raises MalformedMessage if it is none.
    """
    if not assignment:
        return ConsumerProtocolAssignment()
    version = _version(assignment, ConsumerProtocolAssignment.max_version)
    return ConsumerProtocolAssignment.decode(assignment[VERSION_BYTES:], version)


def _version(data: bytes, highest: int) -> int:
    if len(data) < VERSION_BYTES:
        raise MalformedMessage("it ends within its version")
    version = int.from_bytes(data[:VERSION_BYTES], "big", signed=True)
    if version < 0:
        raise MalformedMessage(f"version {version} is none")
    return min(version, highest)
