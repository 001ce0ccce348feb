"""Transactions from outside: listed at every broker, described at their coordinator, ended at either (KIP-664)."""

from __future__ import annotations

from typing import Any

import pytest

from kmini.protocol.errors import InvalidTxnState, TransactionalIdNotFound
from kmini.protocol.messages.describe_producers import DescribeProducersRequest, DescribeProducersResponse
from kmini.protocol.messages.describe_transactions import DescribeTransactionsRequest, DescribeTransactionsResponse
from kmini.protocol.messages.find_coordinator import FindCoordinatorRequest, FindCoordinatorResponse
from kmini.protocol.messages.init_producer_id import InitProducerIdRequest, InitProducerIdResponse
from kmini.protocol.messages.list_transactions import ListTransactionsRequest, ListTransactionsResponse
from kmini.protocol.messages.write_txn_markers import WriteTxnMarkersRequest, WriteTxnMarkersResponse
from kmini.protocol.topics import TopicPartition


@pytest.fixture
def coordinator(cluster: Any) -> Any:
    """The broker that coordinates every transactional id: number 2."""
    address = cluster[2].address
    found = {"node_id": 2, "host": address.host, "port": address.port}
    Coordinator = FindCoordinatorResponse.Coordinator
    for broker in cluster.brokers.values():
        broker.answers[FindCoordinatorRequest] = lambda request: FindCoordinatorResponse(
            **found, coordinators=[Coordinator(key=key, **found) for key in request.coordinator_keys]
        )
    return cluster[2]


def describes(error_code: int = 0) -> Any:
    state = DescribeTransactionsResponse.TransactionState(
        error_code=error_code,
        transactional_id="tx",
        transaction_state="Ongoing",
        transaction_timeout_ms=60_000,
        transaction_start_time_ms=5,
        producer_id=7,
        producer_epoch=3,
        topics=[DescribeTransactionsResponse.TransactionState.Topic(topic="t", partitions=[0, 2])],
    )
    return lambda _: DescribeTransactionsResponse(transaction_states=[state])


async def test_the_transactions_of_all_brokers_are_listed_in_order(cluster, client) -> None:
    def lists(*names: str) -> Any:
        State = ListTransactionsResponse.TransactionState
        states = [State(transactional_id=name, producer_id=7, transaction_state="Ongoing") for name in names]
        return lambda _: ListTransactionsResponse(transaction_states=states)

    for node_id, names in {1: ("b",), 2: (), 3: ("c", "a")}.items():
        cluster[node_id].answers[ListTransactionsRequest] = lists(*names)
    listed = await client.list_transactions(states=["Ongoing"])
    assert [(one.transactional_id, one.coordinator) for one in listed] == [("a", 3), ("b", 1), ("c", 3)]
    assert cluster[1].asked(ListTransactionsRequest)[0].state_filters == ["Ongoing"]


async def test_a_transaction_is_described_with_its_partitions(cluster, client, coordinator) -> None:
    coordinator.answers[DescribeTransactionsRequest] = describes()
    found = await client.describe_transaction("tx")
    assert (found.state, found.producer_id, found.producer_epoch, found.start_ms) == ("Ongoing", 7, 3, 5)
    assert found.partitions == (TopicPartition("t", 0), TopicPartition("t", 2))
    assert found.coordinator.node_id == 2


async def test_an_unknown_transactional_id_is_an_error_and_is_not_made_by_aborting(client, coordinator) -> None:
    coordinator.answers[DescribeTransactionsRequest] = describes(TransactionalIdNotFound.code)
    with pytest.raises(TransactionalIdNotFound):
        await client.abort_transaction("tx")
    assert coordinator.asked(InitProducerIdRequest) == []


async def test_aborting_fences_the_producer_with_the_timeout_it_had(client, coordinator) -> None:
    coordinator.answers[DescribeTransactionsRequest] = describes()
    coordinator.answers[InitProducerIdRequest] = lambda _: InitProducerIdResponse(producer_id=7, producer_epoch=4)
    await client.abort_transaction("tx")
    (request,) = coordinator.asked(InitProducerIdRequest)
    assert (request.transactional_id, request.transaction_timeout_ms) == ("tx", 60_000)


def with_producer(broker: Any, start_offset: int) -> None:
    Topic = DescribeProducersResponse.Topic
    producer = Topic.Partition.ProducerState(
        producer_id=7,
        producer_epoch=3,
        last_sequence=0,
        last_timestamp=1,
        coordinator_epoch=-1,
        current_txn_start_offset=start_offset,
    )
    partition = Topic.Partition(partition_index=0, active_producers=[producer])
    broker.answers[DescribeProducersRequest] = lambda _: DescribeProducersResponse(
        topics=[Topic(name="t", partitions=[partition])]
    )
    Marker = WriteTxnMarkersResponse.Marker
    written = Marker(
        producer_id=7, topics=[Marker.Topic(name="t", partitions=[Marker.Topic.Partition(partition_index=0)])]
    )
    broker.answers[WriteTxnMarkersRequest] = lambda _: WriteTxnMarkersResponse(markers=[written])


async def test_a_hanging_transaction_is_aborted_at_the_leader_with_its_producers_epoch(cluster, client) -> None:
    cluster.lead("t", 3)
    with_producer(cluster[3], start_offset=40)
    await client.abort_hanging_transaction(("t", 0), 40)
    (request,) = cluster[3].asked(WriteTxnMarkersRequest)
    (marker,) = request.markers
    assert (marker.producer_id, marker.producer_epoch, marker.transaction_result) == (7, 3, False)
    assert marker.coordinator_epoch == 0, "a producer that no coordinator has fenced"


async def test_at_an_offset_where_no_transaction_is_open_nothing_is_written(cluster, client) -> None:
    cluster.lead("t", 3)
    with_producer(cluster[3], start_offset=40)
    with pytest.raises(InvalidTxnState, match="since offset 41"):
        await client.abort_hanging_transaction(("t", 0), 41)
    assert cluster[3].asked(WriteTxnMarkersRequest) == []
