"""The consumer protocol: subscriptions and assignments, in the bytes of JoinGroup and SyncGroup.

Consumers exchange them through the classic group protocol, whose coordinator does not read them; it does, and writes
assignments, where consumers of both protocols share a group (KIP-848). `read_subscription`, `read_assignment` and
`subscribed_topics` say which topics a member subscribes to and which partitions it has. The bytes
begin with a version. Newer versions only add fields at the end, so their known part is read, as Kafka does.
"""

from collections.abc import Collection, Mapping

from .errors import MalformedMessage
from .primitives import Array, Int32, NullableBytes, NullableString, String
from .schema import Message, Struct, field

PROTOCOL_TYPE = "consumer"
"""The protocol type of groups of consumers."""

VERSION_BYTES = 2
"""Bytes of the version in front of a subscription or assignment."""


class ConsumerProtocolSubscription(Message, versions="0-3"):
    """The subscription of a member: the metadata of each of its protocols in JoinGroup.

    - v1: owned_partitions, for cooperative assignors (KIP-429). v2: generation_id (KIP-792). v3: rack_id (KIP-881).
    """

    ignores_trailing_bytes = True

    class TopicPartitions(Struct):
        topic: String = field(since=1, default="")
        partitions: Array[Int32] = field(since=1, default=[])

    topics: Array[String]
    user_data: NullableBytes = None
    """Bytes for the assignor."""
    owned_partitions: Array[TopicPartitions] = field(since=1, default=[])
    generation_id: Int32 = field(since=2, default=-1)
    """The generation in which the member got these partitions."""
    rack_id: NullableString = field(since=3, default=None)


class SubscribedTopics(Message, versions="0"):
    """The start of a subscription of any version."""

    ignores_trailing_bytes = True
    memory_per_byte = 64
    """The coordinator has accepted and stored these bytes already, even with tens of thousands of topics."""

    topics: Array[String]


class ConsumerProtocolAssignment(Message, versions="0-3"):
    """The assignment of a member. All versions have the same fields: they keep step with the subscription."""

    ignores_trailing_bytes = True

    class TopicPartitions(Struct):
        topic: String
        partitions: Array[Int32]

    assigned_partitions: Array[TopicPartitions] = field(default=[])
    user_data: NullableBytes = None
    """Bytes for the assignor."""


def read_subscription(metadata: bytes) -> ConsumerProtocolSubscription:
    """The subscription in these bytes. Raises MalformedMessage if they are none."""
    version = _version(metadata, ConsumerProtocolSubscription.max_version)
    return ConsumerProtocolSubscription.decode(metadata[VERSION_BYTES:], version)


def subscribed_topics(metadata: bytes) -> set[str]:
    """The topics of a subscription of any version; the rest of it may be damaged.

    Raises MalformedMessage for other bytes, which a member may send: the coordinator does not check them.
    """
    return set(SubscribedTopics.decode(metadata[VERSION_BYTES:], 0).topics)


def read_assignment(assignment: bytes) -> ConsumerProtocolAssignment:
    """The assignment in these bytes. No bytes are an empty one, which a member without partitions may get.

    Raises MalformedMessage if they are none.
    """
    if not assignment:
        return ConsumerProtocolAssignment()
    version = _version(assignment, ConsumerProtocolAssignment.max_version)
    return ConsumerProtocolAssignment.decode(assignment[VERSION_BYTES:], version)


def write_assignment(partitions: Mapping[str, Collection[int]], metadata: bytes) -> bytes:
    """The bytes of an assignment, given by topic name, in the version of a member's subscription; in the first version
    if these bytes have none, because the coordinator has not checked all that a client sends."""
    try:
        version = _version(metadata, ConsumerProtocolAssignment.max_version)
    except MalformedMessage:
        version = 0
    assignment = ConsumerProtocolAssignment(
        assigned_partitions=[
            ConsumerProtocolAssignment.TopicPartitions(topic=topic, partitions=sorted(numbers))
            for topic, numbers in partitions.items()
        ]
    )
    return b"".join(assignment.encode(version, bytearray(version.to_bytes(VERSION_BYTES, "big"))))


def _version(data: bytes, highest: int) -> int:
    if len(data) < VERSION_BYTES:
        raise MalformedMessage("it ends within its version")
    version = int.from_bytes(data[:VERSION_BYTES], "big", signed=True)
    if version < 0:
        raise MalformedMessage(f"version {version} is none")
    return min(version, highest)
