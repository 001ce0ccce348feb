"""ShareFetch (KIP-932): share sessions, what the answer names, waits. What becomes of records is in
`tests/broker/share_fetch/`."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from kmini.broker.broker import BrokerServer
from kmini.broker.security.resources import ResourceType
from kmini.protocol.errors import error_name
from kmini.protocol.messages.share_fetch import ShareFetchRequest
from support.broker.share_readers import ACCEPT, ShareReaders


def example(resource: ResourceType, topic_id: bytes) -> ShareFetchRequest:
    Topic = ShareFetchRequest.Topic
    partition = Topic.Partition(partition_index=0, acknowledgement_batches=[])
    return ShareFetchRequest(
        group_id="readers",
        member_id="m",
        share_session_epoch=0,
        max_wait_ms=0,
        min_bytes=1,
        max_records=1,
        batch_size=1,
        topics=[Topic(topic_id=topic_id, partitions=[partition])],
        forgotten_topics_data=[],
    )


@pytest.fixture
async def readers(make_share_readers: Callable[..., Awaitable[ShareReaders]]) -> ShareReaders:
    readers = await make_share_readers(group_share_max_share_sessions=2)
    await readers.initialize()
    return readers


async def test_a_session_counts_its_requests_and_ends(readers: ShareReaders) -> None:
    assert (await readers.fetch(epoch=1)).error == "SHARE_SESSION_NOT_FOUND"
    assert (await readers.fetch(epoch=0)).error == "NONE"
    assert (await readers.fetch(epoch=2)).error == "INVALID_SHARE_SESSION_EPOCH"
    assert (await readers.fetch(epoch=1)).error == "NONE"
    assert (await readers.fetch(epoch=1)).error == "INVALID_SHARE_SESSION_EPOCH"
    assert await readers.acknowledge("m", epoch=2) == "NONE"
    assert await readers.acknowledge("m", epoch=0) == "INVALID_SHARE_SESSION_EPOCH"
    assert (await readers.fetch(epoch=-1)).error == "NONE"
    assert (await readers.fetch(epoch=3)).error == "SHARE_SESSION_NOT_FOUND"


async def test_a_session_that_begins_acknowledges_nothing(readers: ShareReaders) -> None:
    assert (await readers.fetch(epoch=0, acks=[(0, 0, ACCEPT)])).error == "INVALID_REQUEST"


@pytest.mark.parametrize("field", [{"group_id": None}, {"member_id": None}, {"member_id": ""}, {"member_id": "m" * 37}])
async def test_group_and_member_are_checked(readers: ShareReaders, field: dict[str, Any]) -> None:
    answer = await readers.fetch_raw("m", epoch=0, **field)
    assert error_name(answer.error_code) == "INVALID_REQUEST"


async def test_there_are_so_many_sessions_and_no_more(readers: ShareReaders) -> None:
    for member in ("m", "n"):
        assert (await readers.fetch(member)).error == "NONE"
    assert (await readers.fetch("o")).error == "SHARE_SESSION_LIMIT_REACHED"
    assert (await readers.fetch("m", epoch=0)).error == "NONE", "a member may begin anew"


async def test_the_first_answer_names_all_partitions_and_later_ones_those_with_news(readers: ShareReaders) -> None:
    assert len((await readers.fetch_raw("m", epoch=0)).responses) == 1
    assert (await readers.fetch_raw("m", epoch=1, topics=[])).responses == []
    readers.append(1)
    (topic,) = (await readers.fetch_raw("m", epoch=2, topics=[])).responses
    assert len(topic.partitions[0].acquired_records) == 1


async def test_forgotten_partitions_are_read_no_more(readers: ShareReaders) -> None:
    await readers.fetch()
    readers.append(1)
    forgotten = [ShareFetchRequest.ForgottenTopic(topic_id=readers.topic_id, partitions=[0])]
    assert (await readers.fetch(topics=[], forgotten_topics_data=forgotten)).acquired == []
    assert (await readers.fetch()).acquired == [(0, 0, 1)]


async def test_unknown_topics_and_partitions_have_their_own_errors(readers: ShareReaders) -> None:
    Topic = ShareFetchRequest.Topic
    unknown = Topic(
        topic_id=bytes(15) + b"1", partitions=[Topic.Partition(partition_index=0, acknowledgement_batches=[])]
    )
    missing = Topic(
        topic_id=readers.topic_id, partitions=[Topic.Partition(partition_index=9, acknowledgement_batches=[])]
    )
    answer = await readers.fetch_raw("m", epoch=0, topics=[unknown, missing])
    told = {topic.topic_id: error_name(topic.partitions[0].error_code) for topic in answer.responses}
    assert told == {unknown.topic_id: "UNKNOWN_TOPIC_ID", readers.topic_id: "UNKNOWN_TOPIC_OR_PARTITION"}


async def test_a_fetch_waits_for_records_and_the_first_of_two_that_wait_gets_them(
    readers: ShareReaders, in_purgatory: Callable[[BrokerServer, int], Awaitable[None]]
) -> None:
    waiting = [asyncio.ensure_future(readers.fetch(member, max_wait_ms=10_000)) for member in ("m", "n")]
    await in_purgatory(readers.broker, 2)
    readers.append(1)
    (done,), (left,) = await asyncio.wait(waiting, return_when=asyncio.FIRST_COMPLETED)
    assert done.result().acquired == [(0, 0, 1)]
    readers.append(1)
    assert (await left).acquired == [(1, 1, 1)]


async def test_a_fetch_that_waits_is_woken_by_the_end_of_a_lock(
    readers: ShareReaders, in_purgatory: Callable[[BrokerServer, int], Awaitable[None]]
) -> None:
    readers.append(1)
    await readers.fetch("m")
    waiting = asyncio.ensure_future(readers.fetch("n", max_wait_ms=60_000))
    await in_purgatory(readers.broker, 1)
    await readers.advance(30_000)
    assert (await waiting).acquired == [(0, 0, 2)]


async def test_a_fetch_waits_for_its_time_and_no_longer(
    readers: ShareReaders, in_purgatory: Callable[[BrokerServer, int], Awaitable[None]]
) -> None:
    waiting = asyncio.ensure_future(readers.fetch(max_wait_ms=500))
    await in_purgatory(readers.broker, 1)
    await readers.advance(500)
    assert await waiting == ("NONE", [], [], "NONE")


async def test_where_share_groups_are_not_offered_they_are_refused(
    make_share_readers: Callable[..., Awaitable[ShareReaders]],
) -> None:
    readers = await make_share_readers()
    readers.broker.controller.set_feature_levels({"share.version": 0})
    assert (await readers.fetch()).error == "UNSUPPORTED_VERSION"
    assert await readers.acknowledge("m", epoch=1) == "UNSUPPORTED_VERSION"
