"""WriteTxnMarkers: an administrator ends a hanging transaction (KIP-664)."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from kmini.protocol.errors import (
    NONE,
    InvalidProducerEpoch,
    TransactionCoordinatorFenced,
    UnknownTopicOrPartition,
)
from kmini.protocol.messages.write_txn_markers import WriteTxnMarkersRequest
from kmini.protocol.topics import TopicPartition
from support.broker.txn_client import TxnClient

EXAMPLE = WriteTxnMarkersRequest(
    markers=[
        WriteTxnMarkersRequest.Marker(
            producer_id=4_000,  # none that a server has given out
            producer_epoch=0,
            transaction_result=True,
            coordinator_epoch=0,
            topics=[WriteTxnMarkersRequest.Marker.Topic(name="orders", partition_indexes=[0])],
        )
    ]
)

Ask = Callable[..., Awaitable[Any]]


def markers(client: TxnClient, *partitions: int, committed: bool = False, **fields: Any) -> WriteTxnMarkersRequest:
    Marker = WriteTxnMarkersRequest.Marker
    topic = Marker.Topic(name="orders", partition_indexes=list(partitions))
    return WriteTxnMarkersRequest(
        markers=[
            Marker(
                **{
                    "producer_id": client.producer_id,
                    "producer_epoch": client.epoch,
                    "transaction_result": committed,
                    "topics": [topic],
                    "coordinator_epoch": 0,
                    **fields,
                }
            )
        ]
    )


async def write(client: TxnClient, request: WriteTxnMarkersRequest, version: int = 2) -> list[int]:
    (marker,) = (await client.ask(request, version)).markers
    assert marker.producer_id == request.markers[0].producer_id
    return [partition.error_code for topic in marker.topics for partition in topic.partitions]


@pytest.mark.parametrize("version", range(3))
async def test_an_administrator_ends_a_hanging_transaction(client: TxnClient, version: int) -> None:
    await client.init()
    await client.add()
    await client.produce()
    log = client.broker.replica_manager.partitions[TopicPartition("orders", 0)].log
    assert log.last_stable_offset == 0
    assert await write(client, markers(client, 0, 5), version) == [NONE, UnknownTopicOrPartition.code]
    assert log.last_stable_offset == 2


async def test_markers_of_older_epochs_are_refused(client: TxnClient) -> None:
    await client.init()
    await client.init()
    await client.add()
    await client.produce()
    assert await write(client, markers(client, 0, producer_epoch=0)) == [InvalidProducerEpoch.code]
    assert await write(client, markers(client, 0, coordinator_epoch=5)) == [NONE]
    assert await write(client, markers(client, 0, coordinator_epoch=4)) == [TransactionCoordinatorFenced.code]


async def test_in_the_second_version_a_marker_has_the_next_epoch(client: TxnClient) -> None:
    await client.init()
    await client.add()
    await client.produce()
    two = {"transaction_version": 2}
    assert await write(client, markers(client, 0, **two)) == [InvalidProducerEpoch.code]
    assert await write(client, markers(client, 0, producer_epoch=1, **two)) == [NONE]
    assert await write(client, markers(client, 0, producer_epoch=1, **two)) == [NONE]  # once more changes nothing
    assert await write(client, markers(client, 0, producer_epoch=0, **two)) == [InvalidProducerEpoch.code]
