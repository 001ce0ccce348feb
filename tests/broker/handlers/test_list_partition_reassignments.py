"""ListPartitionReassignments, where nothing is moved."""

from __future__ import annotations

import pytest

from kmini.broker.broker import BrokerServer
from kmini.broker.controller import topics
from kmini.protocol.errors import (
    NONE,
)
from kmini.protocol.messages.list_partition_reassignments import ListPartitionReassignmentsRequest

EXAMPLE = ListPartitionReassignmentsRequest(timeout_ms=1000, topics=None)


@pytest.fixture
async def filled(start_broker) -> BrokerServer:
    broker = await start_broker()
    topics.create(broker, "t", partitions=2)
    return broker


@pytest.mark.parametrize("asked", [None, [], [("t", [0, 9])], [("absent", [0])]])
async def test_nothing_is_under_way(filled: BrokerServer, ask, asked) -> None:
    Listed = ListPartitionReassignmentsRequest.Topic
    wanted = asked and [Listed(name=name, partition_indexes=numbers) for name, numbers in asked]
    answer = await ask(filled, ListPartitionReassignmentsRequest(topics=wanted))
    assert (answer.error_code, answer.topics) == (NONE, [])
