"""The topics that a start is to have, as options, a variable and files say them."""

from __future__ import annotations

import click
import pytest

from kmini import Broker
from kmini.broker.broker import BrokerServer
from kmini.cli.wanted_topics import NewTopic, create_missing, parse_topic, parse_topic_lines, parse_topics


def in_broker(broker: Broker, topics: list[NewTopic]) -> None:
    async def create(core: BrokerServer) -> None:
        create_missing(core, topics)

    broker._thread.run(create(broker._operations.any_broker()), deadline_s=30)


@pytest.mark.parametrize(
    ("text", "topics"),
    [
        ("", []),
        ("orders:3:1", [("orders", 3, "")]),
        ("a:1:1,b:2:1:compact", [("a", 1, ""), ("b", 2, "compact")]),
        ("a:1:1\nb:2:1:compact,delete\n", [("a", 1, ""), ("b", 2, "compact,delete")]),
        (" a : 1 : 1 , b:2:1 ,", [("a", 1, ""), ("b", 2, "")]),
        ("a:1:1:delete,b:1:1:compact", [("a", 1, "delete"), ("b", 1, "compact")]),
    ],
)
def test_topics_are_in_the_grammar_of_wurstmeister(text: str, topics: list[tuple[str, int, str]]) -> None:
    expected = [NewTopic(*topic, "KAFKA_CREATE_TOPICS", replicas=1) for topic in topics]
    assert list(parse_topics(text, "KAFKA_CREATE_TOPICS")) == expected


@pytest.mark.parametrize(
    ("separator", "text"), [("$'\\n'", "a:1:1\nb:1:1"), (";", "a:1:1;b:1:1"), (" ", "a:1:1 b:1:1")]
)
def test_another_separator_can_be_said(separator: str, text: str) -> None:
    assert [topic.name for topic in parse_topics(text, "X", separator)] == ["a", "b"]


@pytest.mark.parametrize(
    "text",
    ["a", "a:1", "a:b:c", "a:0:1", "a:1:0", "a:1:1:compact:x", "a:-1:1", "a:1:1,b", "a:٣:1", "a:2147483648:1"],
)
def test_a_topic_in_no_such_grammar_is_named(text: str) -> None:
    with pytest.raises(click.UsageError, match=r"^X: .*name:partitions:replicas:cleanup\.policy was expected"):
        list(parse_topics(text, "X"))


def test_a_number_of_any_length_is_refused_and_not_computed() -> None:
    for parse in (lambda: list(parse_topics(f"a:{'9' * 5000}:1", "X")), lambda: parse_topic(f"a:{'9' * 5000}")):
        with pytest.raises(click.UsageError, match="was expected"):
            parse()


def test_a_file_has_a_topic_a_line_and_comments() -> None:
    text = "# ours\r\norders:3:1   # of the shop\r\n\r\n  profiles:1:1:compact,delete\r\n#last:1:1"
    assert [(topic.name, topic.partitions, topic.cleanup_policy) for topic in parse_topic_lines(text, "f")] == [
        ("orders", 3, ""),
        ("profiles", 1, "compact,delete"),
    ]


def test_a_wrong_line_of_a_file_is_named() -> None:
    with pytest.raises(click.UsageError) as raised:
        list(parse_topic_lines("orders:3:1\n\nprofiles\n", "10.topics"))
    assert raised.value.message.startswith("10.topics, line 3: profiles: name:partitions:replicas or ")


def test_a_topic_that_the_broker_refuses_is_named_with_its_line(broker) -> None:
    topics = list(parse_topic_lines("orders:3:1\na b:1:1\n", "10.topics"))
    with pytest.raises(click.UsageError) as raised:
        in_broker(broker, topics)
    assert raised.value.message.startswith("10.topics, line 2: a b: ")
    assert broker.topics() == ["orders"]


def test_a_topic_that_exists_stays_as_it_is(broker, capsys) -> None:
    broker.create_topic("orders", 2)
    in_broker(broker, [NewTopic("orders", 5), NewTopic("new", 1, "compact", replicas=3)])
    assert [len(broker.topic(name).partitions()) for name in ("orders", "new")] == [2, 1]
    assert capsys.readouterr().err.splitlines() == [
        "kmini: topic orders exists with 2 partitions and stays so",
        "kmini: topic new gets 1 replica instead of 3: there is one broker",
    ]
