"""DescribeTopicPartitions: pages of topics."""

from __future__ import annotations

import pytest

from kmini.broker.broker import BrokerServer
from kmini.broker.controller import topics
from kmini.protocol.errors import NONE, InvalidRequest, InvalidTopic, UnknownTopicOrPartition
from kmini.protocol.messages.describe_topic_partitions import Cursor, DescribeTopicPartitionsRequest
from kmini.protocol.topics import CONSUMER_OFFSETS

EXAMPLE = DescribeTopicPartitionsRequest(
    topics=[DescribeTopicPartitionsRequest.Topic(name="orders")], response_partition_limit=10, cursor=None
)

Topic = DescribeTopicPartitionsRequest.Topic
At = tuple[str, int]


@pytest.fixture
async def filled(start_broker) -> BrokerServer:
    """Topics a, b and c with 1, 3 and 2 partitions, made in another order."""
    broker = await start_broker()
    for name, partitions in (("b", 3), ("a", 1), ("c", 2)):
        topics.create(broker, name, partitions=partitions)
    return broker


def request(*names: str, limit: int = 2000, cursor: At | None = None) -> DescribeTopicPartitionsRequest:
    at = cursor and Cursor(topic_name=cursor[0], partition_index=cursor[1])
    return DescribeTopicPartitionsRequest(
        topics=[Topic(name=name) for name in names], response_partition_limit=limit, cursor=at
    )


def told(response) -> tuple[list[tuple[str, int, list[int]]], At | None]:
    page = [(topic.name, topic.error_code, [p.partition_index for p in topic.partitions]) for topic in response.topics]
    cursor = response.next_cursor
    return page, cursor and (cursor.topic_name, cursor.partition_index)


A, B, C = ("a", NONE, [0]), ("b", NONE, [0, 1, 2]), ("c", NONE, [0, 1])


@pytest.mark.parametrize(
    ("asked", "page", "cursor"),
    [
        pytest.param({}, [A, B, C], None, id="none names all"),
        pytest.param({"names": ("c", "a", "c")}, [A, C], None, id="in the order of names, each once"),
        pytest.param({"limit": 2}, [A, ("b", NONE, [0])], ("b", 1), id="a page may end inside a topic"),
        pytest.param({"limit": 4}, [A, B], ("c", 0), id="or between two"),
        pytest.param({"limit": 6}, [A, B, C], None, id="the last page has no cursor"),
        pytest.param({"limit": 0}, [A], ("b", 0), id="a page holds at least one partition"),
        pytest.param({"limit": -5}, [A], ("b", 0), id="even with a negative limit"),
        pytest.param({"cursor": ("b", 1), "limit": 2}, [("b", NONE, [1, 2])], ("c", 0), id="from the cursor"),
        pytest.param({"cursor": ("b", 9)}, [("b", NONE, []), C], None, id="beyond the last partition"),
        pytest.param({"cursor": ("bb", 1)}, [C], None, id="a topic that has gone: on with the next, from its start"),
        pytest.param({"cursor": ("zz", 0)}, [], None, id="nothing left"),
        pytest.param({"names": ("b", "c"), "cursor": ("c", 1)}, [("c", NONE, [1])], None, id="named, with a cursor"),
        pytest.param({"cursor": ("b", -1)}, [], None, id="a negative partition, and no topic to say so"),
    ],
)
async def test_a_page_is_what_the_limit_and_the_cursor_allow(filled: BrokerServer, ask, asked, page, cursor) -> None:
    names = asked.pop("names", ()) if "names" in (asked := dict(asked)) else ()
    assert told(await ask(filled, request(*names, **asked))) == (page, cursor)


async def test_topics_that_are_not_there_take_no_room(filled: BrokerServer, ask) -> None:
    page, cursor = told(await ask(filled, request("absent", "a", "no name", "", limit=1)))
    assert page == [
        ("", InvalidTopic.code, []),
        ("a", NONE, [0]),
    ]
    assert cursor == ("absent", 0)
    page, cursor = told(await ask(filled, request("Absent", "a", "A name", limit=2)))
    assert page == [("A name", InvalidTopic.code, []), ("Absent", UnknownTopicOrPartition.code, []), A]
    assert cursor is None


@pytest.mark.parametrize("cursor", [("b", -1), ("aa", 0), ("zz", 0), ("a", 0)])
async def test_a_cursor_outside_the_topics_asked_for_is_an_invalid_request(
    filled: BrokerServer, ask, cursor: At
) -> None:
    page, following = told(await ask(filled, request("c", "b", cursor=cursor)))
    assert page == [("c", InvalidRequest.code, []), ("b", InvalidRequest.code, [])]
    assert following is None


async def test_the_brokers_own_limit_counts_too(start_broker, ask) -> None:
    broker = await start_broker(max_request_partition_size_limit=2)
    topics.create(broker, "t", partitions=5)
    page, cursor = told(await ask(broker, request("t")))
    assert (page, cursor) == ([("t", NONE, [0, 1])], ("t", 2))


async def test_following_the_cursor_leads_through_everything_once(filled: BrokerServer, ask) -> None:
    seen, cursor = [], None
    for _ in range(10):
        page, cursor = told(await ask(filled, request(limit=1, cursor=cursor)))
        seen += [(name, number) for name, _, numbers in page for number in numbers]
        if cursor is None:
            break
    assert seen == [("a", 0), ("b", 0), ("b", 1), ("b", 2), ("c", 0), ("c", 1)]


async def test_a_partition_is_described_whole(filled: BrokerServer, ask) -> None:
    (topic,) = (await ask(filled, request("a"))).topics
    known = filled.controller.topic("a")
    assert known is not None
    assert (topic.topic_id, topic.is_internal, topic.topic_authorized_operations) == (known.id, False, 3576)
    (partition,) = topic.partitions
    assert (partition.leader_id, partition.leader_epoch) == (1, 0)
    assert (partition.replica_nodes, partition.isr_nodes, partition.offline_replicas) == ([1], [1], [])
    assert (partition.eligible_leader_replicas, partition.last_known_elr) == ([], [])


async def test_topics_of_the_broker_itself_are_marked(filled: BrokerServer, ask) -> None:
    answer = await ask(filled, request(CONSUMER_OFFSETS))
    assert answer.topics[0].error_code == UnknownTopicOrPartition.code
