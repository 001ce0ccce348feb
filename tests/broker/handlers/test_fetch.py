"""Fetch: versions, topics by name and by id, errors, and sessions that there are not. How partitions are read and
waited for is in `tests/broker/replication/`."""

from __future__ import annotations

import pytest

from kmini.broker.broker import BrokerServer
from kmini.broker.controller import topics
from kmini.broker.security.resources import ResourceType
from kmini.protocol.errors import (
    NONE,
    FetchSessionIdNotFound,
    UnknownTopicId,
    UnknownTopicOrPartition,
)
from kmini.protocol.messages.fetch import FetchRequest
from support.broker.fetching import append, of, request, values


def example(resource: ResourceType, topic_id: bytes) -> FetchRequest:
    """A request that needs the permission on this kind of resource; `topic_id` is the one of "orders"."""
    return FetchRequest(
        replica_id=1 if resource is ResourceType.CLUSTER else -1,
        replica_state=FetchRequest.ReplicaState(replica_id=1) if resource is ResourceType.CLUSTER else None,
        max_wait_ms=0,
        min_bytes=0,
        topics=[
            FetchRequest.Topic(
                topic="orders",
                topic_id=topic_id,
                partitions=[FetchRequest.Topic.Partition(partition=0, fetch_offset=0, partition_max_bytes=100)],
            )
        ],
    )


@pytest.fixture
async def topic(broker: BrokerServer) -> str:
    topics.create(broker, "t", partitions=3)
    return "t"


@pytest.mark.parametrize("version", range(4, 13))
async def test_every_version_by_name_reads_from_the_offset_on(
    broker: BrokerServer, topic: str, ask, version: int
) -> None:
    append(broker, topic, b"a")
    append(broker, topic, b"b")
    answer = of(await ask(broker, request(offset=1), version))
    assert (answer.error_code, answer.high_watermark, values(answer)) == (NONE, 2, [b"b"])


@pytest.mark.parametrize("version", range(13, 19))
async def test_every_version_by_id_reads_and_answers_with_the_id(
    broker: BrokerServer, topic: str, ask, version: int
) -> None:
    append(broker, topic, b"a")
    asked = request()
    asked.topics[0].topic_id = broker.controller.topics[topic].id
    response = await ask(broker, asked, version)
    assert response.responses[0].topic_id == asked.topics[0].topic_id
    assert values(of(response)) == [b"a"]


async def test_an_unknown_topic_id_is_an_error_of_its_partitions(broker: BrokerServer, topic: str, ask) -> None:
    asked = request()
    asked.topics[0].topic_id = b"\1" * 16
    assert of(await ask(broker, asked, 13)).error_code == UnknownTopicId.code


async def test_unknown_topics_and_partitions_are_told_apart_from_known_ones(
    broker: BrokerServer, topic: str, ask
) -> None:
    assert of(await ask(broker, request("nope"), 12)).error_code == UnknownTopicOrPartition.code
    assert of(await ask(broker, request(partition=3), 12)).error_code == UnknownTopicOrPartition.code


async def test_an_error_answers_with_empty_records_and_no_offsets(broker: BrokerServer, topic: str, ask) -> None:
    answer = of(await ask(broker, request("nope"), 12))
    assert (answer.high_watermark, answer.last_stable_offset, answer.log_start_offset) == (-1, -1, -1)
    assert bytes(answer.records) == b""


async def test_a_session_that_is_claimed_is_unknown(broker: BrokerServer, topic: str, ask) -> None:
    assert (await ask(broker, request(session_id=7, session_epoch=1), 12)).error_code == FetchSessionIdNotFound.code
