"""ElectLeaders, versions 0 to 2: elect the preferred leader of partitions, or any live replica (KIP-460).

The preferred leader is the first replica, if it is live and in sync. An unclean election makes any live replica the
leader of a partition without one, and loses the records that the replica lacks. Version 0 asks for preferred leaders
only.
"""

from __future__ import annotations

from collections.abc import Sequence

from ...protocol.errors import NONE, ElectionNotNeeded, InvalidRequest, KafkaError, RequestTimedOut
from ...protocol.messages.elect_leaders import PREFERRED, UNCLEAN, ElectLeadersRequest, ElectLeadersResponse
from ...protocol.topics import TopicPartition
from ..api.registry import handles
from ..api.request_context import Context
from ..controller import elections
from ..scheduler import Turn
from ..security.guarding import on_cluster
from ..security.permission_kinds import whole
from ..security.resources import AclOperation, ResourceType


def refused(request: ElectLeadersRequest, code: int) -> ElectLeadersResponse:
    """Refuse the request, and every partition that it names."""
    Result = ElectLeadersResponse.ReplicaElectionResult
    results = [
        Result(
            topic=topic.topic,
            partition_result=[
                Result.PartitionResult(partition_id=number, error_code=code) for number in topic.partitions
            ],
        )
        for topic in request.topic_partitions or ()
    ]
    return ElectLeadersResponse(error_code=code, replica_election_results=results)


@handles(ElectLeadersRequest, needs=[whole(AclOperation.ALTER, ResourceType.CLUSTER)], guard=on_cluster(refused))
async def elect_leaders(request: ElectLeadersRequest, context: Context) -> ElectLeadersResponse:
    """Hold the elections. A request for all partitions (null) is not answered for those that need none, as in Kafka."""
    refusal = _refusal(request)
    wanted: list[tuple[str, Sequence[int]]]
    if request.topic_partitions is None:
        topics = {} if refusal else dict(context.services.controller.topics)
        wanted = [(topic.name, range(len(topic.partitions))) for topic in topics.values()]
    else:
        wanted = [(topic.topic, topic.partitions) for topic in request.topic_partitions]
    turn = Turn()
    results = []
    for name, numbers in wanted:
        outcomes = []
        for number in numbers:
            if turn.is_over:
                await turn.next()
            error = refusal or _elect(context, TopicPartition(name, number), request.election_type)
            if request.topic_partitions is None and isinstance(error, ElectionNotNeeded):
                continue
            outcomes.append(
                ElectLeadersResponse.PartitionResult(
                    partition_id=number,
                    error_code=error.code if error else NONE,
                    error_message=error.message if error else None,
                )
            )
        results.append(ElectLeadersResponse.ReplicaElectionResult(topic=name, partition_result=outcomes))
    return ElectLeadersResponse(error_code=refusal.code if refusal else NONE, replica_election_results=results)


def _refusal(request: ElectLeadersRequest) -> KafkaError | None:
    """The error of the request as a whole, or None."""
    if request.timeout_ms <= 0:
        return RequestTimedOut("the request allows no time")
    if request.election_type not in (PREFERRED, UNCLEAN):
        return InvalidRequest(f"there is no election type {request.election_type}")
    return None


def _elect(context: Context, topic_partition: TopicPartition, election_type: int) -> KafkaError | None:
    """Hold one election; returns the error if it elects no leader."""
    try:
        elections.elect(context.services.controller, topic_partition, is_unclean=election_type == UNCLEAN)
    except KafkaError as error:
        return error
    return None
