"""Who is asked, what is retried, and when it is given up."""

from __future__ import annotations

import asyncio

import pytest

from kmini.client import Address, Client, Disconnected, NoBrokerAnswers, NotAKafkaBroker
from kmini.client.connection import Connection
from kmini.client.deadline import Deadline
from kmini.protocol.errors import (
    LeaderNotAvailable,
    NotCoordinator,
    NotLeaderOrFollower,
    RequestTimedOut,
    TopicAuthorizationFailed,
    UnknownTopicOrPartition,
)
from kmini.protocol.messages.api_versions import ApiVersionsRequest
from kmini.protocol.messages.find_coordinator import GROUP, TRANSACTION, FindCoordinatorRequest, FindCoordinatorResponse
from kmini.protocol.messages.list_offsets import EARLIEST, ListOffsetsRequest, ListOffsetsResponse
from kmini.protocol.messages.metadata import MetadataRequest
from kmini.protocol.topics import TopicPartition
from support.scripted_offsets import offsets
from support.until import PATIENCE, until_async


async def test_each_partition_is_asked_for_at_its_leader(cluster, client) -> None:
    cluster.lead("t", 1, 2, 3)
    for broker in cluster.brokers.values():
        broker.answers[ListOffsetsRequest] = offsets()
    await client.beginning([("t", 0), ("t", 1), ("t", 2)])
    for node_id, broker in cluster.brokers.items():
        asked = [
            p.partition_index for request in broker.asked(ListOffsetsRequest) for p in request.topics[0].partitions
        ]
        assert asked == [node_id - 1]


async def test_leaders_are_looked_up_once(cluster, client) -> None:
    cluster.lead("t", 2)
    cluster[2].answers[ListOffsetsRequest] = offsets()
    for _ in range(3):
        await client.beginning([("t", 0)])
    assert cluster.metadata_asked == 1
    assert cluster[2].connections == 1


async def test_when_the_leader_moves_the_new_one_is_found_and_asked(cluster, client) -> None:
    cluster.lead("t", 1)
    old, new = cluster[1], cluster[2]
    new.answers[ListOffsetsRequest] = offsets()

    def move(request: ListOffsetsRequest) -> ListOffsetsResponse:
        cluster.lead("t", 2)
        return offsets(NotLeaderOrFollower.code)(request)

    old.answers[ListOffsetsRequest] = move
    assert await client.beginning([("t", 0)]) == {("t", 0): 7}
    assert len(old.asked(ListOffsetsRequest)) == len(new.asked(ListOffsetsRequest)) == 1


async def test_a_leader_that_is_dropped_while_others_are_looked_up_is_looked_up_too(cluster, client) -> None:
    cluster.lead("known", 1)
    cluster.lead("new", 2)
    known, new = TopicPartition("known", 0), TopicPartition("new", 0)
    await client.cluster.leader_of(known, Deadline(20_000))
    asked = asyncio.ensure_future(client.cluster.leaders([known, new], Deadline(20_000)))
    await asyncio.sleep(0)
    client.cluster.forget_leader(known)
    assert await asked == ({1: [known], 2: [new]}, {})


async def test_when_the_leader_dies_its_successor_is_asked(cluster, client) -> None:
    cluster.lead("t", 3)
    cluster[1].answers[ListOffsetsRequest] = offsets()

    def die(_: ListOffsetsRequest) -> None:
        cluster.lead("t", 1)
        raise cluster[3].HangUp

    cluster[3].answers[ListOffsetsRequest] = die
    assert await client.beginning([("t", 0)]) == {("t", 0): 7}


async def test_a_retriable_error_is_raised_once_the_time_is_over(cluster) -> None:
    cluster.lead("t", 1)
    cluster[1].answers[ListOffsetsRequest] = offsets(*[NotLeaderOrFollower.code] * 100)
    async with Client(cluster.bootstrap, timeout_ms=1_000 * PATIENCE) as client:
        with pytest.raises(NotLeaderOrFollower):
            await client.beginning([("t", 0)])
    assert len(cluster[1].asked(ListOffsetsRequest)) > 1


async def test_any_other_error_is_raised_at_once(cluster, client) -> None:
    cluster.lead("t", 1)
    cluster[1].answers[ListOffsetsRequest] = offsets(TopicAuthorizationFailed.code)
    with pytest.raises(TopicAuthorizationFailed):
        await client.beginning([("t", 0)])
    assert len(cluster[1].asked(ListOffsetsRequest)) == 1


async def test_a_partition_without_a_leader_is_waited_for(cluster, client) -> None:
    cluster.lead("t", -1)
    cluster[2].answers[ListOffsetsRequest] = offsets()
    asked = asyncio.ensure_future(client.beginning([("t", 0)]))
    await until_async(lambda: cluster.metadata_asked >= 2)
    cluster.lead("t", 2)
    assert await asked == {("t", 0): 7}


async def test_a_partition_without_a_leader_by_the_deadline_is_an_error(cluster) -> None:
    cluster.lead("t", -1)
    async with Client(cluster.bootstrap, timeout_ms=800 * PATIENCE) as client:
        with pytest.raises(LeaderNotAvailable, match="t-0 has no leader"):
            await client.beginning([("t", 0)])


async def test_an_unknown_topic_is_looked_up_again_for_a_moment_only(cluster, monkeypatch) -> None:
    monkeypatch.setattr("kmini.client.cluster_connections.UNKNOWN_TOPIC_RETRY_MS", 300)
    async with Client(cluster.bootstrap, timeout_ms=3_600_000) as client:
        with pytest.raises(UnknownTopicOrPartition, match="there is no topic nowhere"):
            await client.beginning([("nowhere", 0)])
    assert cluster.metadata_asked > 1


async def test_an_unknown_partition_is_an_error_with_the_number_of_partitions(cluster, client, monkeypatch) -> None:
    monkeypatch.setattr("kmini.client.cluster_connections.UNKNOWN_TOPIC_RETRY_MS", 300)
    cluster.lead("t", 1, 1)
    with pytest.raises(UnknownTopicOrPartition, match="t has no partition 7, it has 2 of them"):
        await client.beginning([("t", 7)])


async def test_a_topic_that_asking_makes_is_waited_for_longer(cluster, client, monkeypatch) -> None:
    monkeypatch.setattr("kmini.client.cluster_connections.UNKNOWN_TOPIC_RETRY_MS", 0)
    asked = asyncio.ensure_future(client.partitions("new", create_missing=True))
    await until_async(lambda: cluster.metadata_asked >= 2)
    cluster.lead("new", 1, 2)
    assert await asked == [("new", 0), ("new", 1)]
    with pytest.raises(UnknownTopicOrPartition, match="new has no partition 2"):
        await client.cluster.leader_of(TopicPartition("new", 2), Deadline(60_000), create_missing=True)


async def test_a_topic_that_is_not_created_is_an_error(cluster, client, monkeypatch) -> None:
    monkeypatch.setattr("kmini.client.cluster_connections.CREATION_RETRY_MS", 300)
    with pytest.raises(UnknownTopicOrPartition, match="there is no topic nowhere"):
        await client.partitions("nowhere", create_missing=True)


async def test_only_producing_and_partitions_on_request_let_topics_come_into_being(cluster, client) -> None:
    cluster.lead("t", 1)
    await client.partitions("t")
    client.cluster.forget_leader(("t", 0))
    await client.partitions("t", create_missing=True)
    requests = [request for broker in cluster.brokers.values() for request in broker.asked(MetadataRequest)]
    assert [request.allow_auto_topic_creation for request in requests] == [False, False, True, False]


async def test_a_bootstrap_server_that_is_down_is_passed_over(cluster) -> None:
    cluster.lead("t", 2)
    cluster[2].answers[ListOffsetsRequest] = offsets()
    await cluster[1].stop()
    async with Client(cluster.bootstrap, timeout_ms=20_000) as client:
        assert await client.beginning([("t", 0)]) == {("t", 0): 7}


async def test_without_any_bootstrap_server_nothing_is_retried(cluster) -> None:
    for broker in cluster.brokers.values():
        await broker.stop()
    async with Client(cluster.bootstrap, timeout_ms=3_600_000) as client:
        with pytest.raises(NoBrokerAnswers, match=str(cluster[3].address)):
            await client.metadata()


async def test_a_cluster_that_was_there_and_is_gone_is_waited_for(cluster) -> None:
    cluster.lead("t", 1)
    cluster[1].answers[ListOffsetsRequest] = offsets()
    async with Client(cluster.bootstrap, timeout_ms=1_000 * PATIENCE) as client:
        await client.beginning([("t", 0)])
        for broker in cluster.brokers.values():
            await broker.stop()
        with pytest.raises(Disconnected) as raised:
            await client.list_offsets({("t", 0): EARLIEST})
    assert not isinstance(raised.value, NoBrokerAnswers)


async def test_a_broker_that_cannot_be_reached_is_named_with_the_broker_that_advertises_it(cluster) -> None:
    cluster.lead("t", 2)
    await cluster[2].stop()
    async with Client([cluster[1].address], timeout_ms=600 * PATIENCE) as client:
        with pytest.raises(Disconnected) as raised:
            await client.beginning([("t", 0)])
    assert raised.value.message == (
        f"cannot connect to broker 2 at {cluster[2].address}, as {cluster[1].address} advertises it: Connection refused"
        "; is that broker down, or its advertised.listeners wrong?"
    )


@pytest.mark.parametrize("key_type", [GROUP, TRANSACTION])
async def test_a_coordinator_that_moves_is_looked_up_again(cluster, client, coordinate, key_type: int) -> None:
    named, asked = coordinate(1, 2), []

    async def attempt(connection: Connection) -> Address:
        asked.append(connection.address)
        if connection.address == cluster[1].address:
            raise NotCoordinator("it has moved")
        return connection.address

    for _ in range(2):
        found = await client.cluster.at_coordinator("key", Deadline(20_000), attempt, key_type=key_type)
        assert found == cluster[2].address
    assert named == [1, 2], "it is looked up once for each broker that coordinates"
    assert asked == [cluster[1].address, *[cluster[2].address] * 2]


async def test_a_coordinator_that_cannot_be_reached_is_named_with_the_broker_that_names_it(cluster) -> None:
    cluster[1].answers[FindCoordinatorRequest] = lambda _: FindCoordinatorResponse(
        coordinators=[FindCoordinatorResponse.Coordinator(key="g", node_id=7, host="127.0.0.1", port=1)]
    )
    async with Client([cluster[1].address], timeout_ms=600 * PATIENCE) as client:
        with pytest.raises(Disconnected, match=f"broker 7 at 127.0.0.1:1, as {cluster[1].address} advertises it"):
            await client.committed_offsets("g")


async def test_a_broker_that_stays_silent_when_asked_is_named_with_the_broker_that_advertises_it(cluster) -> None:
    cluster.lead("t", 2)
    cluster[2].answers[ListOffsetsRequest] = lambda _: None
    async with Client([cluster[1].address], timeout_ms=600 * PATIENCE) as client:
        with pytest.raises(
            RequestTimedOut, match=f"broker 2 at .* as {cluster[1].address} advertises it did not answer"
        ):
            await client.beginning([("t", 0)])


async def test_a_broker_that_is_unreachable_for_long_is_reported_once_while_the_client_tries(
    cluster, monkeypatch
) -> None:
    monkeypatch.setattr("kmini.client.cluster_connections.REPORT_AFTER_MS", 1)
    cluster.lead("t", 2)
    await cluster[2].stop()
    told: list[str] = []
    async with Client([cluster[1].address], timeout_ms=600 * PATIENCE, on_unreachable=told.append) as client:
        with pytest.raises(Disconnected):
            await client.beginning([("t", 0)])
    assert sum(f"broker 2 at {cluster[2].address}, as {cluster[1].address} advertises it" in line for line in told) == 1


async def test_a_bootstrap_server_that_is_silent_leaves_time_for_the_others(cluster) -> None:
    cluster.lead("t", 2)
    cluster[1].answers[ApiVersionsRequest] = lambda _: None
    cluster[2].answers[ListOffsetsRequest] = offsets()
    async with Client(cluster.bootstrap, timeout_ms=1_500 * PATIENCE) as client:
        assert await client.beginning([("t", 0)]) == {("t", 0): 7}


async def test_an_advertised_address_that_is_no_kafka_broker_is_not_tried_again(cluster) -> None:
    connections = 0

    async def answer_in_http(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        nonlocal connections
        connections += 1
        writer.write(b"HTTP/1.1 400 Bad Request\r\n\r\n")
        await reader.read()
        writer.close()

    cluster.lead("t", 2)
    async with await asyncio.start_server(answer_in_http, "127.0.0.1", 0) as server:
        cluster[2].address = Address(*server.sockets[0].getsockname())
        async with Client([cluster[1].address], timeout_ms=60_000) as client:
            with pytest.raises(NotAKafkaBroker, match=r"broker 2 at .* answers in HTTP"):
                await client.beginning([("t", 0)])
    assert connections == 1


async def test_callers_at_the_same_time_share_one_connection(cluster, client) -> None:
    cluster.lead("t", 2)
    cluster[2].answers[ListOffsetsRequest] = offsets()
    await client.partitions("t")
    await asyncio.gather(*(client.beginning([("t", 0)]) for _ in range(20)))
    assert cluster[2].connections == 1


async def test_one_caller_that_gives_up_does_not_end_the_connecting_of_others(cluster, client) -> None:
    cluster.lead("t", 2)
    cluster[2].answers[ListOffsetsRequest] = offsets()
    await client.partitions("t")
    leaver, stayer = (asyncio.ensure_future(client.beginning([("t", 0)])) for _ in range(2))
    await asyncio.sleep(0)
    leaver.cancel()
    assert await stayer == {("t", 0): 7}
