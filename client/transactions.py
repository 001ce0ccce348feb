"""Transactions from outside: list, describe, and abort those that hang (KIP-664).

A request about one transactional id goes to its coordinator, a listing to every broker, and a request about the
producers of a partition to its leader. The client does not produce in transactions.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from ..protocol.errors import InvalidTxnState
from ..protocol.messages.describe_producers import DescribeProducersRequest, DescribeProducersResponse
from ..protocol.messages.describe_transactions import DescribeTransactionsRequest, DescribeTransactionsResponse
from ..protocol.messages.find_coordinator import TRANSACTION
from ..protocol.messages.init_producer_id import InitProducerIdRequest, InitProducerIdResponse
from ..protocol.messages.list_transactions import ListTransactionsRequest, ListTransactionsResponse
from ..protocol.messages.write_txn_markers import WriteTxnMarkersRequest, WriteTxnMarkersResponse
from ..protocol.topics import TopicPartition
from .cluster_connections import ClusterConnections, Coordinator
from .connection import Connection
from .deadline import Deadline
from .errors import check


class TransactionListing(NamedTuple):
    """A transactional id in a list."""

    transactional_id: str
    state: str
    """Such as Ongoing, CompleteCommit, or Empty."""
    producer_id: int
    coordinator: int
    """The node id of its coordinator."""


class TransactionDescription(NamedTuple):
    """A transactional id and its open, ending or last transaction."""

    transactional_id: str
    state: str
    producer_id: int
    producer_epoch: int
    timeout_ms: int
    start_ms: int
    """When the transaction began, in milliseconds since 1970 UTC; -1 for none."""
    coordinator: Coordinator
    partitions: tuple[TopicPartition, ...]
    """The partitions of the transaction."""


async def list_transactions(
    cluster: ClusterConnections, deadline: Deadline, *, states: Sequence[str] = ()
) -> list[TransactionListing]:
    """See `Client.list_transactions`."""
    request = ListTransactionsRequest(state_filters=list(states))

    async def attempt(connection: Connection) -> list[ListTransactionsResponse.TransactionState]:
        response: ListTransactionsResponse = await connection.send(request, timeout_ms=deadline.remaining_ms)
        check(response.error_code)
        return list(response.transaction_states)

    answers = await cluster.at_every_broker(deadline, attempt)
    listings = {
        one.transactional_id: TransactionListing(one.transactional_id, one.transaction_state, one.producer_id, node_id)
        for node_id, answer in answers.items()
        for one in answer
    }
    return sorted(listings.values())


async def describe_transaction(
    cluster: ClusterConnections, transactional_id: str, deadline: Deadline
) -> TransactionDescription:
    """See `Client.describe_transaction`."""
    request = DescribeTransactionsRequest(transactional_ids=[transactional_id])

    async def attempt(connection: Connection) -> DescribeTransactionsResponse.TransactionState:
        response: DescribeTransactionsResponse = await connection.send(request, timeout_ms=deadline.remaining_ms)
        (found,) = response.transaction_states
        check(found.error_code)
        return found

    found = await cluster.at_coordinator(transactional_id, deadline, attempt, key_type=TRANSACTION)
    return TransactionDescription(
        transactional_id,
        found.transaction_state,
        found.producer_id,
        found.producer_epoch,
        found.transaction_timeout_ms,
        found.transaction_start_time_ms,
        await cluster.coordinator_of(transactional_id, deadline, key_type=TRANSACTION),
        tuple(TopicPartition(topic.topic, number) for topic in found.topics for number in topic.partitions),
    )


async def abort_transaction(cluster: ClusterConnections, transactional_id: str, deadline: Deadline) -> None:
    """See `Client.abort_transaction`."""
    known = await describe_transaction(cluster, transactional_id, deadline)  # InitProducerId would create an unknown id
    request = InitProducerIdRequest(transactional_id=transactional_id, transaction_timeout_ms=known.timeout_ms)

    async def attempt(connection: Connection) -> None:
        response: InitProducerIdResponse = await connection.send(request, timeout_ms=deadline.remaining_ms)
        check(response.error_code)

    await cluster.at_coordinator(transactional_id, deadline, attempt, key_type=TRANSACTION)


async def abort_hanging_transaction(
    cluster: ClusterConnections, topic_partition: TopicPartition, start_offset: int, deadline: Deadline
) -> None:
    """See `Client.abort_hanging_transaction`."""
    topic, number = topic_partition

    async def attempt(connection: Connection) -> None:
        Topic = DescribeProducersRequest.Topic
        asked = DescribeProducersRequest(topics=[Topic(name=topic, partition_indexes=[number])])
        described: DescribeProducersResponse = await connection.send(asked, timeout_ms=deadline.remaining_ms)
        (partition,) = described.topics[0].partitions
        check(partition.error_code, partition.error_message)
        producer = next((p for p in partition.active_producers if p.current_txn_start_offset == start_offset), None)
        if producer is None:
            raise InvalidTxnState(f"no transaction is open in {topic_partition} since offset {start_offset}")
        Marker = WriteTxnMarkersRequest.Marker
        marker = Marker(
            producer_id=producer.producer_id,
            producer_epoch=producer.producer_epoch,
            transaction_result=False,
            topics=[Marker.Topic(name=topic, partition_indexes=[number])],
            coordinator_epoch=max(producer.coordinator_epoch, 0),
        )
        request = WriteTxnMarkersRequest(markers=[marker])
        written: WriteTxnMarkersResponse = await connection.send(request, timeout_ms=deadline.remaining_ms)
        check(written.markers[0].topics[0].partitions[0].error_code)

    await cluster.at_leader(topic_partition, deadline, attempt)
