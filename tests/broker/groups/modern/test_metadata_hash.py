"""The hash of a group's topics (KIP-1101): Apache Kafka's value, and what it depends on."""

from __future__ import annotations

import pytest

from kmini.broker.groups.modern.topic_catalog import group_hash, topic_hash
from kmini.protocol.uuids import parse_uuid

TOPIC_ID = parse_uuid("WZ-3EnHnQNKuvQ6TERmr9w")
GOLDEN = -2632728644596677093
"""The hash of the topic "t" of this id with four partitions and no racks, of a log that Apache Kafka 4.3.1 wrote."""


def test_a_topic_has_the_hash_that_apache_kafka_gives_it() -> None:
    assert topic_hash(TOPIC_ID, "t", [[]] * 4) == GOLDEN


def test_a_group_has_the_hash_that_apache_kafka_gives_it() -> None:
    assert group_hash({"t": GOLDEN}) == 4163798175305069103


def test_a_group_without_topics_has_the_hash_0() -> None:
    assert group_hash({}) == 0


def test_the_order_in_which_topics_are_found_does_not_matter() -> None:
    assert group_hash({"a": 1, "b": 2}) == group_hash({"b": 2, "a": 1})
    assert group_hash({"a": 1, "b": 2}) != group_hash({"a": 2, "b": 1})


@pytest.mark.parametrize(
    ("topic_id", "name", "racks"),
    [
        (bytes(16), "t", [[]] * 4),
        (TOPIC_ID, "u", [[]] * 4),
        (TOPIC_ID, "t", [[]] * 5),
        (TOPIC_ID, "t", [["r"], [], [], []]),
    ],
)
def test_id_name_partitions_and_racks_count(topic_id: bytes, name: str, racks: list[list[str]]) -> None:
    assert topic_hash(topic_id, name, racks) != GOLDEN


def test_the_order_of_replicas_does_not_count_and_their_partition_does() -> None:
    assert topic_hash(TOPIC_ID, "t", [["a", "b"]]) == topic_hash(TOPIC_ID, "t", [["b", "a"]])
    assert topic_hash(TOPIC_ID, "t", [["a"], ["b"]]) != topic_hash(TOPIC_ID, "t", [["b"], ["a"]])


def test_texts_count_in_utf_16_units() -> None:
    """As Java has them, also outside of the basic plane; a hash is an int64."""
    found = {topic_hash(TOPIC_ID, name, [["𝄞"]]) for name in ("𝄞", "𝄢", "ä")}
    assert len(found) == 3
    assert all(-(1 << 63) <= value < 1 << 63 for value in found)
