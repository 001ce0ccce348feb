"""The client as one object: any request, what it offers, and how it ends."""

from __future__ import annotations

import pytest

from kmini.client import Client, Disconnected, record
from kmini.client.deadline import Deadline
from kmini.protocol.errors import RequestTimedOut
from kmini.protocol.messages.list_offsets import ListOffsetsRequest, ListOffsetsResponse
from kmini.protocol.messages.metadata import MetadataRequest
from support.scripted_offsets import offsets


async def test_any_request_can_be_sent_to_any_broker(cluster, client) -> None:
    cluster[3].answers[ListOffsetsRequest] = offsets()
    response = await client.send(3, ListOffsetsRequest(topics=[]))
    assert response == ListOffsetsResponse(topics=[])
    assert [broker.node_id for broker in (await client.send(None, MetadataRequest(topics=[]))).brokers] == [1, 2, 3]
    with pytest.raises(Disconnected, match="broker 9"):
        await client.send(9, ListOffsetsRequest(topics=[]))


async def test_the_partitions_of_a_topic_come_in_order(cluster, client) -> None:
    cluster.lead("t", 3, 1, 2)
    assert await client.partitions("t") == [("t", 0), ("t", 1), ("t", 2)]


async def test_a_call_has_the_clients_time_unless_it_has_its_own(cluster) -> None:
    cluster.lead("t", 1)
    async with Client(cluster.bootstrap, timeout_ms=300) as client:
        with pytest.raises(RequestTimedOut):
            await client.produce("t", 0, [record(b"v")])
    async with Client(cluster.bootstrap, timeout_ms=60_000) as client:
        with pytest.raises(RequestTimedOut):
            await client.produce("t", 0, [record(b"v")], timeout_ms=300)


async def test_a_client_connects_with_its_first_call_and_hangs_up_at_its_end(cluster) -> None:
    async with Client(cluster.bootstrap) as client:
        assert [broker.connections for broker in cluster.brokers.values()] == [0, 0, 0]
        await client.metadata()
        connection = await client.cluster.any_connection(Deadline(20_000))
    assert not connection.is_open


@pytest.mark.parametrize("servers", ["", "no port:", "host:99999"])
def test_addresses_that_cannot_be_are_refused_at_once(servers: str) -> None:
    with pytest.raises(ValueError, match="was expected"):
        Client(servers)
