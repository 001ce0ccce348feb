"""ElectLeaders, where every partition has the leader it should have."""

from __future__ import annotations

import pytest

from kmini.broker.broker import BrokerServer
from kmini.broker.controller import topics
from kmini.protocol.errors import NONE, ElectionNotNeeded, InvalidRequest, RequestTimedOut, UnknownTopicOrPartition
from kmini.protocol.messages.elect_leaders import PREFERRED, UNCLEAN, ElectLeadersRequest

EXAMPLE = ElectLeadersRequest(
    timeout_ms=1000, topic_partitions=[ElectLeadersRequest.TopicPartitions(topic="orders", partitions=[0])]
)

TopicPartitions = ElectLeadersRequest.TopicPartitions


def request(**options) -> ElectLeadersRequest:
    wanted = [TopicPartitions(topic="t", partitions=[0, 9]), TopicPartitions(topic="absent", partitions=[0])]
    return ElectLeadersRequest(**{"topic_partitions": wanted, "timeout_ms": 1_000, **options})


def codes(response) -> list[tuple[str, int, int]]:
    results = response.replica_election_results
    return [(result.topic, p.partition_id, p.error_code) for result in results for p in result.partition_result]


@pytest.fixture
async def filled(start_broker) -> BrokerServer:
    broker = await start_broker()
    topics.create(broker, "t")
    return broker


@pytest.mark.parametrize("version", range(3))
async def test_no_election_is_needed(filled: BrokerServer, ask, version: int) -> None:
    answer = await ask(filled, request(), version)
    assert answer.error_code == NONE
    assert codes(answer) == [
        ("t", 0, ElectionNotNeeded.code),
        ("t", 9, UnknownTopicOrPartition.code),
        ("absent", 0, UnknownTopicOrPartition.code),
    ]


@pytest.mark.parametrize("election_type", [PREFERRED, UNCLEAN])
async def test_of_all_partitions_those_without_an_election_are_left_out(
    filled: BrokerServer, ask, election_type
) -> None:
    answer = await ask(filled, request(topic_partitions=None, election_type=election_type))
    assert answer.error_code == NONE
    assert [(result.topic, result.partition_result) for result in answer.replica_election_results] == [("t", [])]


@pytest.mark.parametrize("timeout_ms", [0, -1])
async def test_without_time_everything_timed_out(filled: BrokerServer, ask, timeout_ms: int) -> None:
    answer = await ask(filled, request(timeout_ms=timeout_ms, election_type=7))
    assert answer.error_code == RequestTimedOut.code
    assert {code for *_, code in codes(answer)} == {RequestTimedOut.code}


async def test_an_unknown_type_of_election_is_an_invalid_request(filled: BrokerServer, ask) -> None:
    answer = await ask(filled, request(election_type=2))
    assert answer.error_code == InvalidRequest.code
    assert {code for *_, code in codes(answer)} == {InvalidRequest.code}
    answer = await ask(filled, request(election_type=-1, topic_partitions=None))
    assert (answer.error_code, answer.replica_election_results) == (InvalidRequest.code, [])
