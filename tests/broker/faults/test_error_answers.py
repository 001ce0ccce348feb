"""An error code is answered at the level where the API has it, and fails what the rule means and nothing else."""

from __future__ import annotations

import copy
from typing import Any

import pytest

from kmini.broker.faults.documented_errors import possible
from kmini.broker.faults.error_answers import EntryError, FailedEntries, add_missing_fetches, level_of, levels
from kmini.broker.handlers import HANDLERS
from kmini.protocol import messages as m
from kmini.protocol.errors import error_named
from support.broker.permission_requests import NEEDS, codes, request_for

TOPIC_ID = bytes(range(16))
EXAMPLES = {need.api: need.permission.resource_type for need in NEEDS}
"""The kind of resource of an example of each API that needs a permission."""


def topic_name(topic_id: bytes) -> str | None:
    return "orders" if topic_id == TOPIC_ID else None


def error_of(
    request: Any, version: int, code: str, means: Any = None, *, applied: bool = False, of_partition: bool = False
) -> EntryError:
    level = level_of(type(request), version, code, of_partition=of_partition)
    assert level is not None
    return EntryError(error_named(code).code, level, means if level.path else None, applied)


async def answered(request: Any, version: int, error: EntryError, served: Any) -> Any:
    """The answer to a request that the broker would answer as `served(request)`."""

    async def serve() -> Any:
        return served(request)

    return await FailedEntries(request, version, topic_name).answer(error, serve)


def not_served(request: Any) -> Any:
    raise AssertionError(f"{request} was served")


def as_empty(request: Any) -> Any:
    """The answer of a broker that knows nothing."""
    values = {field.name: [] for field in request.response.__fields__ if field.type.element is not None}
    return request.response(**values)


@pytest.mark.sockets
@pytest.mark.parametrize("api", EXAMPLES)
async def test_every_error_of_every_api_is_an_answer_that_has_it(api: str) -> None:
    example = request_for(api, EXAMPLES[api], TOPIC_ID)
    handler = HANDLERS[example.api_key]
    for version in {handler.min_version, (handler.min_version + handler.max_version) // 2, handler.max_version}:
        for code in possible(api):
            if level_of(type(example), version, code) is None:
                continue
            request = copy.deepcopy(example)
            answer = await answered(request, version, error_of(request, version, code), as_empty)
            encoded = b"".join(bytes(part) for part in answer.encode(version, bytearray()))
            found = {*codes(type(answer).decode(encoded, version))}
            assert found <= {error_named(code).code, 0}, (version, code)
            assert api in NO_ENTRIES or error_named(code).code in found, (version, code)


NO_ENTRIES = {
    "AddPartitionsToTxn",
    "AlterReplicaLogDirs",
    "DescribeLogDirs",
    "DescribeQuorum",
    "DescribeTopicPartitions",
    "DescribeUserScramCredentials",
    "Fetch",
    "Metadata",
    "ShareFetch",
    "WriteTxnMarkers",
}
"""APIs with an error that replaces an entry of what the broker answers; here it answers none."""


def of(topic: str, partition: int | None = None) -> Any:
    return lambda name, index: name == topic and partition in (None, index)


def produce(*topics: str) -> m.ProduceRequest:
    Topic = m.ProduceRequest.Topic
    return m.ProduceRequest(
        acks=1,
        timeout_ms=1,
        topic_data=[
            Topic(name=name, partition_data=[Topic.Partition(index=i, records=b"") for i in (0, 1)]) for name in topics
        ],
    )


def appended(request: Any) -> Any:
    Topic = m.ProduceResponse.Topic
    return m.ProduceResponse(
        responses=[
            Topic(
                name=topic.name,
                partition_responses=[Topic.Partition(index=p.index, base_offset=7) for p in topic.partition_data],
            )
            for topic in request.topic_data
        ]
    )


def outcome(answer: Any) -> dict[tuple[str, int], tuple[int, int]]:
    """Error code and base offset by partition."""
    return {
        (topic.name, one.index): (one.error_code, one.base_offset)
        for topic in answer.responses
        for one in topic.partition_responses
    }


OTHER = {("other", 0): (0, 7), ("other", 1): (0, 7)}
"""What becomes of the topic that no error is about."""


async def test_a_rule_with_a_partition_fails_this_one_and_the_rest_is_applied() -> None:
    request = produce("orders", "other")
    answer = await answered(request, 9, error_of(request, 9, "NOT_LEADER_OR_FOLLOWER", of("orders", 1)), appended)
    assert outcome(answer) == {
        ("orders", 0): (0, 7),
        ("orders", 1): (6, -1),
        ("other", 0): (0, 7),
        ("other", 1): (0, 7),
    }
    assert [topic.name for topic in answer.responses] == ["orders", "other"]


async def test_nothing_is_served_where_everything_fails() -> None:
    request = produce("orders")
    answer = await answered(request, 9, error_of(request, 9, "NOT_LEADER_OR_FOLLOWER", of("orders")), not_served)
    assert outcome(answer) == {("orders", 0): (6, -1), ("orders", 1): (6, -1)}


async def test_an_error_after_the_append_replaces_the_answer() -> None:
    request = produce("orders", "other")
    error = error_of(request, 9, "REQUEST_TIMED_OUT", of("orders", 0), applied=True)
    answer = await answered(request, 9, error, appended)
    assert outcome(answer) == {
        ("orders", 0): (7, -1),
        ("orders", 1): (0, 7),
        ("other", 0): (0, 7),
        ("other", 1): (0, 7),
    }


async def test_a_topic_that_is_named_by_its_id_is_found_by_its_name() -> None:
    Topic = m.ProduceRequest.Topic
    named = Topic(topic_id=TOPIC_ID, partition_data=[Topic.Partition(index=0, records=b"")])
    request = m.ProduceRequest(acks=1, timeout_ms=1, topic_data=[named])
    answer = await answered(request, 13, error_of(request, 13, "UNKNOWN_TOPIC_ID", of("orders")), not_served)
    (topic,) = answer.responses
    assert (topic.topic_id, topic.partition_responses[0].error_code) == (TOPIC_ID, 100)


async def test_metadata_of_all_topics_has_the_error_at_the_topic_that_is_meant_and_keeps_its_brokers() -> None:
    Response = m.MetadataResponse
    state = Response.Partition(partition_index=0, leader_id=1, replica_nodes=[1], isr_nodes=[1])
    broker = Response.Broker(node_id=1, host="h", port=1)

    def served(request: Any) -> Any:
        topics = [Response.Topic(name=name, partitions=[copy.copy(state)]) for name in ("orders", "other")]
        return Response(brokers=[broker], topics=topics)

    request = m.MetadataRequest(topics=None)
    answer = await answered(request, 9, error_of(request, 9, "LEADER_NOT_AVAILABLE", of("orders")), served)
    assert [(one.name, one.error_code, len(one.partitions)) for one in answer.topics] == [
        ("orders", 5, 0),
        ("other", 0, 1),
    ]
    assert answer.brokers == [broker]
    error = error_of(request, 9, "LEADER_NOT_AVAILABLE", of("orders", 0), of_partition=True)
    (orders, _) = (await answered(request, 9, error, served)).topics
    assert (orders.error_code, orders.partitions[0].error_code, orders.partitions[0].leader_id) == (0, 5, -1)


async def test_a_topic_that_metadata_does_not_know_is_not_created() -> None:
    asked: list[Any] = []
    request = m.MetadataRequest(topics=[m.MetadataRequest.Topic(name="orders")])

    def served(request: Any) -> Any:
        asked.extend(request.topics)
        return m.MetadataResponse(brokers=[], topics=[])

    answer = await answered(request, 9, error_of(request, 9, "UNKNOWN_TOPIC_OR_PARTITION", of("orders")), served)
    assert asked == []
    assert [(one.name, one.error_code) for one in answer.topics] == [("orders", 3)]


async def test_an_error_of_a_group_is_that_of_the_group_in_each_version() -> None:
    Group = m.OffsetFetchRequest.Group
    many = m.OffsetFetchRequest(groups=[Group(group_id="billing")])
    answer = await answered(many, 8, error_of(many, 8, "NOT_COORDINATOR"), not_served)
    assert [(one.group_id, one.error_code) for one in answer.groups] == [("billing", 16)]
    one = m.OffsetFetchRequest(group_id="billing", topics=[m.OffsetFetchRequest.Topic(name="t", partition_indexes=[0])])
    assert (await answered(copy.deepcopy(one), 7, error_of(one, 7, "NOT_COORDINATOR"), not_served)).error_code == 16
    oldest = await answered(one, 1, error_of(one, 1, "NOT_COORDINATOR"), not_served)
    assert oldest.topics[0].partitions[0].error_code == 16


async def test_a_fetch_is_answered_at_once_with_the_partitions_of_its_session() -> None:
    request = m.FetchRequest(max_wait_ms=500, min_bytes=1, session_id=3, session_epoch=2, topics=[])
    error = error_of(request, 12, "OFFSET_OUT_OF_RANGE", of("orders"))

    def served(request: Any) -> Any:
        assert request.max_wait_ms == 0
        return m.FetchResponse(session_id=3)

    answer = await answered(request, 12, error, served)
    add_missing_fetches(answer, iter([("orders", bytes(16), 0), ("orders", bytes(16), 1)]), error)
    (topic,) = answer.responses
    assert [(one.partition_index, one.error_code, one.records) for one in topic.partitions] == [
        (0, 1, b""),
        (1, 1, b""),
    ]


def test_the_whole_answer_is_the_first_level() -> None:
    assert [level.name for level in levels(m.FetchResponse)] == ["", "Partition"]
    level = level_of(m.FetchRequest, 12, "FETCH_SESSION_ID_NOT_FOUND")
    assert level is not None
    assert level.name == ""
    old = level_of(m.FetchRequest, 4, "UNKNOWN_SERVER_ERROR")
    assert old is not None
    assert old.name == "Partition"


async def test_a_request_that_asks_for_no_answer_gets_none() -> None:
    request = produce("orders")
    error = error_of(request, 9, "REQUEST_TIMED_OUT", of("orders"), applied=True)
    assert await answered(request, 9, error, lambda request: None) is None
