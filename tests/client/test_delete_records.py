"""DeleteRecords as KIP-107 asks it of a client (steps 2 and 9)."""

from __future__ import annotations

import asyncio

import pytest

from kmini.client import Client, DeleteRecordsResult, NoBrokerAnswers
from kmini.protocol.errors import (
    NotLeaderOrFollower,
    OffsetOutOfRange,
    PolicyViolation,
    RequestTimedOut,
    UnknownTopicOrPartition,
)
from kmini.protocol.messages.api_versions import ApiVersionsRequest
from kmini.protocol.messages.delete_records import DeleteRecordsRequest, DeleteRecordsResponse
from support.until import PATIENCE, until_async


def deletes(**codes: int):
    """Answers DeleteRecords: low watermark = offset, or for the named topics an error."""

    def answer(request: DeleteRecordsRequest) -> DeleteRecordsResponse:
        Topic = DeleteRecordsResponse.Topic
        return DeleteRecordsResponse(
            topics=[
                Topic(
                    name=topic.name,
                    partitions=[
                        Topic.Partition(
                            partition_index=p.partition_index,
                            low_watermark=-1 if topic.name in codes else p.offset,
                            error_code=codes.get(topic.name, 0),
                        )
                        for p in topic.partitions
                    ],
                )
                for topic in request.topics
            ]
        )

    return answer


def asked(broker) -> list[dict[tuple[str, int], int]]:
    """The offsets of each DeleteRecords request that a broker got."""
    return [
        {(topic.name, p.partition_index): p.offset for topic in request.topics for p in topic.partitions}
        for request in broker.asked(DeleteRecordsRequest)
    ]


async def test_each_leader_gets_one_request_with_its_partitions_only(cluster, client) -> None:
    cluster.lead("a", 1, 2, 1)
    cluster.lead("b", 2)
    for broker in cluster.brokers.values():
        broker.answers[DeleteRecordsRequest] = deletes()
    offsets = {("a", 0): 10, ("a", 1): 11, ("a", 2): -1, ("b", 0): 13}
    results = await client.delete_records_before(offsets, timeout_ms=20_000)
    assert asked(cluster[1]) == [{("a", 0): 10, ("a", 2): -1}]
    assert asked(cluster[2]) == [{("a", 1): 11, ("b", 0): 13}]
    assert asked(cluster[3]) == []
    assert results == {partition: DeleteRecordsResult(offset) for partition, offset in offsets.items()}
    assert list(results) == list(offsets)


async def test_the_leaders_are_looked_up_afresh_with_one_question(cluster, client) -> None:
    cluster.lead("a", 1, 2)
    for broker in cluster.brokers.values():
        broker.answers[DeleteRecordsRequest] = deletes()
    await client.partitions("a")
    before = cluster.metadata_asked
    cluster.lead("a", 3, 3)
    await client.delete_records_before({("a", 0): 1, ("a", 1): 1}, timeout_ms=20_000)
    assert asked(cluster[3]) == [{("a", 0): 1, ("a", 1): 1}]
    assert cluster.metadata_asked == before + 1


async def test_the_request_has_the_time_that_the_leader_may_wait(cluster, client) -> None:
    cluster.lead("a", 1)
    cluster[1].answers[DeleteRecordsRequest] = deletes()
    await client.delete_records_before({("a", 0): 1}, timeout_ms=60_000)
    (request,) = cluster[1].asked(DeleteRecordsRequest)
    assert 50_000 < request.timeout_ms < 60_000


async def test_what_a_leader_answers_is_the_result(cluster, client) -> None:
    codes = {"range": OffsetOutOfRange, "moved": NotLeaderOrFollower, "compacted": PolicyViolation}
    for name in codes:
        cluster.lead(name, 1)
    cluster[1].answers[DeleteRecordsRequest] = deletes(**{name: error.code for name, error in codes.items()})
    results = await client.delete_records_before(dict.fromkeys([(name, 0) for name in codes], 5), timeout_ms=20_000)
    for name, error in codes.items():
        assert results[(name, 0)].low_watermark == -1
        assert type(results[(name, 0)].error) is error
    assert len(asked(cluster[1])) == 1


async def test_a_time_out_at_the_leader_keeps_its_low_watermark(cluster, client) -> None:
    cluster.lead("a", 1)
    Topic = DeleteRecordsResponse.Topic
    partition = Topic.Partition(partition_index=0, low_watermark=3, error_code=RequestTimedOut.code)
    cluster[1].answers[DeleteRecordsRequest] = lambda _: DeleteRecordsResponse(
        topics=[Topic(name="a", partitions=[partition])]
    )
    results = await client.delete_records_before({("a", 0): 5}, timeout_ms=20_000)
    assert results[("a", 0)].low_watermark == 3
    assert type(results[("a", 0)].error) is RequestTimedOut


async def test_a_leader_that_does_not_answer_in_time_leaves_minus_one_and_timed_out(cluster, client) -> None:
    cluster.lead("a", 1, 2)
    cluster[2].answers[DeleteRecordsRequest] = deletes()
    results = await client.delete_records_before({("a", 0): 5, ("a", 1): 6}, timeout_ms=1_000 * PATIENCE)
    assert results[("a", 0)].low_watermark == -1
    assert type(results[("a", 0)].error) is RequestTimedOut
    assert results[("a", 1)] == (6, None)


async def test_a_leader_that_hangs_up_is_not_asked_twice(cluster, client) -> None:
    """-1 would mean another high watermark the second time."""

    def hang_up(_: DeleteRecordsRequest) -> None:
        raise cluster[1].HangUp

    cluster.lead("a", 1)
    cluster[1].answers[DeleteRecordsRequest] = hang_up
    results = await client.delete_records_before({("a", 0): -1}, timeout_ms=20_000)
    assert results[("a", 0)].low_watermark == -1
    assert type(results[("a", 0)].error) is RequestTimedOut
    assert asked(cluster[1]) == [{("a", 0): -1}]


async def test_a_partition_that_the_answer_leaves_out_has_timed_out(cluster, client) -> None:
    cluster.lead("a", 1)
    cluster[1].answers[DeleteRecordsRequest] = lambda _: DeleteRecordsResponse(topics=[])
    results = await client.delete_records_before({("a", 0): 5}, timeout_ms=20_000)
    assert type(results[("a", 0)].error) is RequestTimedOut


async def test_while_the_leader_cannot_be_reached_its_successor_is_looked_for(cluster, client) -> None:
    cluster.lead("a", 1)
    cluster[2].answers[DeleteRecordsRequest] = deletes()
    await cluster[1].stop()
    deletion = client.delete_records_before({("a", 0): 5}, timeout_ms=20_000)
    await until_async(lambda: cluster.metadata_asked)
    cluster.lead("a", 2)
    assert await deletion == {("a", 0): (5, None)}


async def test_a_leader_that_is_never_reached_has_timed_out(cluster, client) -> None:
    cluster.lead("a", 1)
    await cluster[1].stop()
    results = await client.delete_records_before({("a", 0): 5}, timeout_ms=1_000 * PATIENCE)
    assert type(results[("a", 0)].error) is RequestTimedOut


async def test_unknown_partitions_do_not_hinder_the_others(cluster, client, monkeypatch) -> None:
    monkeypatch.setattr("kmini.client.cluster_connections.UNKNOWN_TOPIC_RETRY_MS", 300)
    cluster.lead("a", 1)
    cluster[1].answers[DeleteRecordsRequest] = deletes()
    results = await client.delete_records_before({("a", 0): 5, ("a", 1): 5, ("b", 0): 5}, timeout_ms=20_000)
    assert results[("a", 0)] == (5, None)
    for unknown in (("a", 1), ("b", 0)):
        assert results[unknown].low_watermark == -1
        assert type(results[unknown].error) is UnknownTopicOrPartition


async def test_the_call_returns_a_future_at_once(cluster, client) -> None:
    cluster.lead("a", 1)
    release = asyncio.Event()

    async def answer(request: DeleteRecordsRequest) -> DeleteRecordsResponse:
        await release.wait()
        return deletes()(request)

    cluster[1].answers[DeleteRecordsRequest] = answer
    deletion = client.delete_records_before({("a", 0): 5}, timeout_ms=20_000)
    assert isinstance(deletion, asyncio.Future)
    await until_async(lambda: cluster[1].asked(DeleteRecordsRequest))
    assert not deletion.done()
    release.set()
    assert await deletion == {("a", 0): (5, None)}


async def test_other_requests_do_not_wait_behind_a_deletion(cluster, client) -> None:
    cluster.lead("a", 1)
    deletion = client.delete_records_before({("a", 0): 5}, timeout_ms=20_000)
    await until_async(lambda: cluster[1].asked(DeleteRecordsRequest))
    assert await client.partitions("a") == [("a", 0)]
    deletion.cancel()


async def test_a_cluster_that_does_not_answer_has_timed_out(broker) -> None:
    broker.answers[ApiVersionsRequest] = lambda _: None
    async with Client([broker.address]) as client:
        results = await client.delete_records_before({("a", 0): 5}, timeout_ms=50)
    assert type(results[("a", 0)].error) is RequestTimedOut


async def test_a_cluster_that_is_not_there_is_an_error_of_the_call(broker) -> None:
    await broker.stop()
    async with Client([broker.address]) as client:
        with pytest.raises(NoBrokerAnswers):
            await client.delete_records_before({("a", 0): 5}, timeout_ms=60_000)
