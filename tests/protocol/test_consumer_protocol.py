"""What consumers put into JoinGroup and SyncGroup, against kafka-python's reading of it."""

from __future__ import annotations

import pytest

from kmini.protocol.consumer_protocol import (
    ConsumerProtocolAssignment,
    ConsumerProtocolSubscription,
    read_assignment,
    read_subscription,
    subscribed_topics,
)
from kmini.protocol.errors import MalformedMessage

TopicPartitions = ConsumerProtocolSubscription.TopicPartitions


@pytest.mark.parametrize("version", range(4))
def test_a_subscription_is_what_kafka_python_writes(version: int) -> None:
    from kafka.protocol.consumer.metadata import ConsumerProtocolSubscription as Theirs

    values = {"topics": ["orders", "é"], "user_data": b"\0\1"}
    ours = ConsumerProtocolSubscription(**values)
    theirs = dict(values)
    if version >= 1:
        ours.owned_partitions = [TopicPartitions(topic="orders", partitions=[0, 7])]
        theirs["owned_partitions"] = [Theirs.TopicPartition(version=version, topic="orders", partitions=[0, 7])]
    if version >= 2:
        ours.generation_id = theirs["generation_id"] = 5
    if version >= 3:
        ours.rack_id = theirs["rack_id"] = "r"
    encoded = version.to_bytes(2, "big") + b"".join(ours.encode(version))
    assert encoded == Theirs(version=version, **theirs).encode(version=version, header=True)
    assert read_subscription(encoded) == ours


@pytest.mark.parametrize("version", range(4))
def test_an_assignment_is_what_kafka_python_writes(version: int) -> None:
    from kafka.protocol.consumer.metadata import ConsumerProtocolAssignment as Theirs

    ours = ConsumerProtocolAssignment(
        assigned_partitions=[ConsumerProtocolAssignment.TopicPartitions(topic="orders", partitions=[0, 7])]
    )
    theirs = Theirs(
        version=version,
        assigned_partitions=[Theirs.TopicPartition(version=version, topic="orders", partitions=[0, 7])],
        user_data=None,
    )
    encoded = version.to_bytes(2, "big") + b"".join(ours.encode(version))
    assert encoded == theirs.encode(version=version, header=True)
    assert read_assignment(encoded) == ours


def test_a_newer_version_is_read_as_far_as_it_is_known() -> None:
    ours = ConsumerProtocolSubscription(topics=["orders"], rack_id="r")
    newer = b"\0\x09" + b"".join(ours.encode(3)) + b"more"
    assert read_subscription(newer) == ours


@pytest.mark.parametrize("version", [b"\0\0", b"\0\3", b"\0\x09", b"\xff\xff"])
def test_the_topics_are_read_whatever_the_version_and_whatever_follows(version: bytes) -> None:
    topics = b"\0\0\0\3" + b"\0\6orders" + b"\0\2\xc3\xa9" + b"\0\6orders"
    for rest in (b"", b"\xff", b"\x7f\xff\xff\xff"):
        assert subscribed_topics(version + topics + rest) == {"orders", "é"}


def test_a_subscription_to_very_many_topics_is_read() -> None:
    topics = [f"{number:05}" for number in range(100_000)]
    assert len(subscribed_topics(b"\0\0" + b"".join(ConsumerProtocolSubscription(topics=topics).encode(0)))) == 100_000


DAMAGED_COUNTS = [b"", b"\0\0\0", b"\0\0\0\1", b"\0\0\0\2\0\1a", b"\x7f\xff\xff\xff", b"\xff\xff\xff\xff"]
DAMAGED_NAMES = [b"\0\0\0\1\0\2a", b"\0\0\0\1\xff\xff", b"\0\0\0\1\0\1\xff"]


@pytest.mark.parametrize("damaged", [b"", b"\0", *(b"\0\0" + topics for topics in DAMAGED_COUNTS + DAMAGED_NAMES)])
def test_topics_that_are_not_there_are_malformed(damaged: bytes) -> None:
    with pytest.raises(MalformedMessage):
        subscribed_topics(damaged)


def test_no_bytes_are_an_empty_assignment() -> None:
    assert read_assignment(b"") == ConsumerProtocolAssignment()


@pytest.mark.parametrize("data", [b"\0", b"\xff\xff", b"\0\0\0\0\0\1", b"\0\0\xff\xff\xff\xff"])
def test_what_is_none_is_malformed(data: bytes) -> None:
    with pytest.raises(MalformedMessage):
        read_subscription(data)
    with pytest.raises(MalformedMessage):
        read_assignment(data)
