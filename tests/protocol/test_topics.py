import pytest

from kmini.protocol.errors import InvalidTopic
from kmini.protocol.topics import TopicPartition, is_internal, validate_topic_name


@pytest.mark.parametrize("name", ["a", "orders", "Orders_2.eu-west", "...", "-", "x" * 249, "__consumer_offsets"])
def test_legal_names_pass(name: str) -> None:
    validate_topic_name(name)


@pytest.mark.parametrize(
    ("name", "reason"),
    [
        ("", "empty"),
        (".", "cannot be"),
        ("..", "cannot be"),
        ("x" * 250, "250 characters"),
        ("a/b", "ASCII"),
        ("a b", "ASCII"),
        ("a\0", "ASCII"),
        ("naïve", "ASCII"),
        ("orders\n", "ASCII"),
    ],
)
def test_illegal_names_are_refused_with_the_rule_they_break(name: str, reason: str) -> None:
    with pytest.raises(InvalidTopic, match=reason):
        validate_topic_name(name)


def test_a_topic_partition_is_the_plain_tuple() -> None:
    assert TopicPartition("orders", 3) == ("orders", 3)
    assert {("orders", 3): 1}[TopicPartition("orders", 3)] == 1
    assert str(TopicPartition("orders", 3)) == "orders-3"


def test_the_brokers_own_topics_are_known() -> None:
    assert is_internal("__consumer_offsets")
    assert is_internal("__transaction_state")
    assert not is_internal("__mine")
