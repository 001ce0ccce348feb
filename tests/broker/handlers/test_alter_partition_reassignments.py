"""AlterPartitionReassignments, where there is nothing to move."""

from __future__ import annotations

import pytest

from kmini.broker.broker import BrokerServer
from kmini.broker.controller import topics
from kmini.protocol.errors import (
    NONE,
    InvalidReplicaAssignment,
    NoReassignmentInProgress,
    RequestTimedOut,
    UnknownTopicOrPartition,
)
from kmini.protocol.messages.alter_partition_reassignments import AlterPartitionReassignmentsRequest

EXAMPLE = AlterPartitionReassignmentsRequest(
    timeout_ms=1000,
    topics=[
        AlterPartitionReassignmentsRequest.Topic(
            name="orders",
            partitions=[AlterPartitionReassignmentsRequest.Topic.Partition(partition_index=0, replicas=None)],
        )
    ],
)

Topic = AlterPartitionReassignmentsRequest.Topic


def request(
    *replicas: list[int] | None, topic: str = "t", partition: int = 0, **options
) -> AlterPartitionReassignmentsRequest:
    partitions = [Topic.Partition(partition_index=partition, replicas=assigned) for assigned in replicas]
    return AlterPartitionReassignmentsRequest(topics=[Topic(name=topic, partitions=partitions)], **options)


def codes(response) -> list[int]:
    return [p.error_code for topic in response.responses for p in topic.partitions]


@pytest.fixture
async def filled(start_broker) -> BrokerServer:
    broker = await start_broker()
    topics.create(broker, "t", partitions=2)
    return broker


@pytest.mark.parametrize("version", [0, 1])
async def test_the_assignment_that_there_is_can_be_asked_for(filled: BrokerServer, ask, version: int) -> None:
    answer = await ask(filled, request([1]), version)
    assert (answer.error_code, codes(answer)) == (NONE, [NONE])
    assert answer.allow_replication_factor_change


async def test_nothing_can_be_called_off(filled: BrokerServer, ask) -> None:
    assert codes(await ask(filled, request(None))) == [NoReassignmentInProgress.code]


@pytest.mark.parametrize("replicas", [[], [1, 1], [2], [-1], [1, 2]])
async def test_an_impossible_assignment_is_refused(filled: BrokerServer, ask, replicas: list[int]) -> None:
    answer = await ask(filled, request(replicas, [1], allow_replication_factor_change=False))
    assert codes(answer) == [InvalidReplicaAssignment.code, NONE]
    assert not answer.allow_replication_factor_change


@pytest.mark.parametrize(("topic", "partition"), [("t", 2), ("t", -1), ("absent", 0), ("no name", 0)])
async def test_an_unknown_partition_is_unknown_whatever_is_asked(filled: BrokerServer, ask, topic, partition) -> None:
    answer = await ask(filled, request([1], None, [], topic=topic, partition=partition))
    assert codes(answer) == [UnknownTopicOrPartition.code] * 3


@pytest.mark.parametrize("timeout_ms", [0, -1])
async def test_without_time_everything_timed_out(filled: BrokerServer, ask, timeout_ms: int) -> None:
    answer = await ask(filled, request([1], None, timeout_ms=timeout_ms))
    assert (answer.error_code, codes(answer)) == (RequestTimedOut.code, [RequestTimedOut.code] * 2)
