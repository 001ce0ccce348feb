"""DescribeQuorum: a quorum of one."""

from __future__ import annotations

import pytest

from kmini.broker.broker import BrokerServer
from kmini.protocol.errors import NONE, UnknownTopicOrPartition
from kmini.protocol.messages.describe_quorum import METADATA_TOPIC, DescribeQuorumRequest

EXAMPLE = DescribeQuorumRequest(
    topics=[
        DescribeQuorumRequest.Topic(
            topic_name="__cluster_metadata", partitions=[DescribeQuorumRequest.Topic.Partition(partition_index=0)]
        )
    ]
)

Topic = DescribeQuorumRequest.Topic


def request(*topics: tuple[str, list[int]]) -> DescribeQuorumRequest:
    return DescribeQuorumRequest(
        topics=[
            Topic(topic_name=name, partitions=[Topic.Partition(partition_index=number) for number in numbers])
            for name, numbers in topics
        ]
    )


@pytest.mark.parametrize("version", range(3))
async def test_the_broker_is_the_only_voter_and_the_leader(broker: BrokerServer, ask, version: int) -> None:
    answer = await ask(broker, request((METADATA_TOPIC, [0])), version)
    ((partition,),) = (topic.partitions for topic in answer.topics)
    assert (answer.error_code, partition.error_code, partition.leader_id, partition.leader_epoch) == (NONE, NONE, 1, 1)
    ((voter,), observers) = partition.current_voters, partition.observers
    assert (voter.replica_id, observers) == (1, [])
    now_ms = broker.clock.now_ms()
    assert voter.last_caught_up_timestamp == -1 if version == 0 else 0 < voter.last_caught_up_timestamp <= now_ms
    assert [node.node_id for node in answer.nodes] == ([1] if version >= 2 else [])


@pytest.mark.parametrize(
    "topics",
    [
        [("orders", [0])],
        [(METADATA_TOPIC, [1])],
        [(METADATA_TOPIC, [0, 1])],
        [(METADATA_TOPIC, [0]), ("orders", [0])],
    ],
)
async def test_whatever_else_is_asked_for_is_unknown_and_so_is_all_beside_it(broker: BrokerServer, ask, topics) -> None:
    answer = await ask(broker, request(*topics))
    codes = {partition.error_code for topic in answer.topics for partition in topic.partitions}
    assert (answer.error_code, codes, answer.nodes) == (NONE, {UnknownTopicOrPartition.code}, [])


@pytest.mark.parametrize("topics", [[], [(METADATA_TOPIC, [])]])
async def test_an_empty_request_is_answered_with_nothing(broker: BrokerServer, ask, topics) -> None:
    answer = await ask(broker, request(*topics))
    assert (answer.error_code, len(answer.topics), answer.nodes) == (NONE, len(topics), [])
