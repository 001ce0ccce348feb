"""ElectLeaders, versions 0 to 2: give partitions their preferred leader back, or any at all (KIP-460).

One broker leads every partition it has, and is the only replica: no election is ever needed. Before version 1 only
preferred leaders can be asked for.
"""

from __future__ import annotations

from ...protocol.errors import NONE, ElectionNotNeeded, InvalidRequest, KafkaError, RequestTimedOut
from ...protocol.messages.elect_leaders import PREFERRED, UNCLEAN, ElectLeadersRequest, ElectLeadersResponse
from ...protocol.topics import TopicPartition
from ..background import Turn
from ..context import Context
from ..registry import handles


@handles(ElectLeadersRequest)
async def elect_leaders(request: ElectLeadersRequest, context: Context) -> ElectLeadersResponse:
    """Say of each partition why nothing happens. Of all of them (null) only the topics are told, as in Kafka."""
    refusal = _refusal(request)
    error_code = refusal.code if refusal else NONE
    wanted = request.topic_partitions
    if wanted is None:
        topics = [] if refusal else list(context.broker.controller.topics)
        results = [ElectLeadersResponse.ReplicaElectionResult(topic=name, partition_result=[]) for name in topics]
        return ElectLeadersResponse(error_code=error_code, replica_election_results=results)
    turn = Turn()
    results = []
    for topic in wanted:
        outcomes = []
        for number in topic.partitions:
            if turn.is_over:
                await turn.next()
            error = refusal or _outcome(context, TopicPartition(topic.topic, number))
            outcomes.append(
                ElectLeadersResponse.PartitionResult(
                    partition_id=number, error_code=error.code, error_message=error.message
                )
            )
        results.append(ElectLeadersResponse.ReplicaElectionResult(topic=topic.topic, partition_result=outcomes))
    return ElectLeadersResponse(error_code=error_code, replica_election_results=results)


def _refusal(request: ElectLeadersRequest) -> KafkaError | None:
    """What is wrong with the request as a whole."""
    if request.timeout_ms <= 0:
        return RequestTimedOut("the request allows no time")
    if request.election_type not in (PREFERRED, UNCLEAN):
        return InvalidRequest(f"there is no election type {request.election_type}")
    return None


def _outcome(context: Context, topic_partition: TopicPartition) -> KafkaError:
    try:
        context.broker.check_partition_exists(topic_partition)
    except KafkaError as error:
        return error
    return ElectionNotNeeded(f"{topic_partition} has its preferred leader")
