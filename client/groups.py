"""Consumer groups from outside: list, delete, and committed offsets. `group_descriptions.py` describes them.

A request about one group goes to its coordinator (`ClusterConnections.at_coordinator`), a listing to every broker. The
client does not join groups.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple, TypeVar

from ..protocol.errors import (
    CoordinatorLoadInProgress,
    CoordinatorNotAvailable,
    KafkaError,
    NotCoordinator,
)
from ..protocol.messages.delete_groups import DeleteGroupsRequest, DeleteGroupsResponse
from ..protocol.messages.list_groups import ListGroupsRequest, ListGroupsResponse
from ..protocol.messages.offset_commit import OffsetCommitRequest, OffsetCommitResponse
from ..protocol.messages.offset_delete import OffsetDeleteRequest, OffsetDeleteResponse
from ..protocol.messages.offset_fetch import OffsetFetchRequest, OffsetFetchResponse
from ..protocol.schema import Request
from ..protocol.topics import TopicPartition
from .cluster_connections import ClusterConnections
from .connection import Connection
from .deadline import Deadline
from .errors import NoBrokerAnswers, check, error_of
from .topics import Outcomes

V = TypeVar("V")

ASK_ELSEWHERE = (CoordinatorLoadInProgress, CoordinatorNotAvailable, NotCoordinator)
"""Errors of a partition that concern the coordinator, and so all partitions: the request is retried."""

LAST_VERSION_WITH_NAMES = 9
"""The last version of OffsetCommit and OffsetFetch with topic names. Later ones have topic ids, and a group may have
offsets of deleted topics."""


class GroupListing(NamedTuple):
    """A group in a list. State and type are empty where the broker is too old to tell."""

    group_id: str
    protocol_type: str
    """"consumer", or another use of groups. Empty for a group that only has committed offsets."""
    state: str
    type: str
    """The group protocol of its members: "classic" or "consumer"."""


class CommittedOffset(NamedTuple):
    """The committed offset of a group in a partition."""

    offset: int
    """The offset of the next record to read."""
    metadata: str = ""
    leader_epoch: int = -1


PartitionOutcomes = dict[TopicPartition, "KafkaError | None"]
"""The error of each partition; None for success."""


async def list_groups(
    cluster: ClusterConnections, deadline: Deadline, *, states: Sequence[str] = (), types: Sequence[str] = ()
) -> list[GroupListing]:
    """See `Client.list_groups`."""
    request = ListGroupsRequest(states_filter=list(states), types_filter=list(types))

    async def attempt(connection: Connection) -> list[GroupListing]:
        response: ListGroupsResponse = await connection.send(request, timeout_ms=deadline.remaining_ms)
        check(response.error_code)
        return [GroupListing(g.group_id, g.protocol_type, g.group_state, g.group_type) for g in response.groups]

    answers = await cluster.at_every_broker(deadline, attempt)
    return sorted({group.group_id: group for answer in answers.values() for group in answer}.values())


async def delete_groups(cluster: ClusterConnections, group_ids: Iterable[str], deadline: Deadline) -> Outcomes:
    """See `Client.delete_groups`. Raises NoBrokerAnswers."""

    async def delete(group_id: str) -> KafkaError | None:
        async def attempt(connection: Connection) -> None:
            request = DeleteGroupsRequest(groups_names=[group_id])
            response: DeleteGroupsResponse = await connection.send(request, timeout_ms=deadline.remaining_ms)
            check(response.results[0].error_code)

        try:
            await cluster.at_coordinator(group_id, deadline, attempt)
        except NoBrokerAnswers:
            raise
        except KafkaError as error:
            return error
        return None

    wanted = list(dict.fromkeys(group_ids))
    return dict(zip(wanted, await asyncio.gather(*map(delete, wanted)), strict=True))


async def committed_offsets(
    cluster: ClusterConnections, group_id: str, deadline: Deadline
) -> dict[TopicPartition, CommittedOffset]:
    """See `Client.committed_offsets`."""
    request = OffsetFetchRequest(
        group_id=group_id, topics=None, groups=[OffsetFetchRequest.Group(group_id=group_id, topics=None)]
    )

    async def attempt(connection: Connection) -> dict[TopicPartition, CommittedOffset]:
        response: OffsetFetchResponse = await _send_with_names(connection, request, deadline)
        group = response.groups[0] if response.groups else response
        check(group.error_code)
        found = {}
        for topic in group.topics:
            for answer in topic.partitions:
                at = TopicPartition(topic.name, answer.partition_index)
                check(answer.error_code, str(at))
                if answer.committed_offset >= 0:
                    found[at] = CommittedOffset(
                        answer.committed_offset, answer.metadata or "", answer.committed_leader_epoch
                    )
        return dict(sorted(found.items()))

    return await cluster.at_coordinator(group_id, deadline, attempt)


async def commit_offsets(
    cluster: ClusterConnections, group_id: str, offsets: Mapping[TopicPartition, CommittedOffset], deadline: Deadline
) -> PartitionOutcomes:
    """See `Client.commit_offsets`."""
    Topic = OffsetCommitRequest.Topic
    topics = [
        Topic(
            name=name,
            partitions=[
                Topic.Partition(
                    partition_index=index,
                    committed_offset=committed.offset,
                    committed_leader_epoch=committed.leader_epoch,
                    committed_metadata=committed.metadata,
                )
                for index, committed in partitions.items()
            ],
        )
        for name, partitions in _by_topic(offsets).items()
    ]
    request = OffsetCommitRequest(group_id=group_id, topics=topics)

    async def attempt(connection: Connection) -> PartitionOutcomes:
        response: OffsetCommitResponse = await _send_with_names(connection, request, deadline)
        return _outcomes(
            (topic.name, answer.partition_index, answer.error_code)
            for topic in response.topics
            for answer in topic.partitions
        )

    return await cluster.at_coordinator(group_id, deadline, attempt)


async def delete_offsets(
    cluster: ClusterConnections, group_id: str, partitions: Iterable[TopicPartition], deadline: Deadline
) -> PartitionOutcomes:
    """See `Client.delete_offsets`."""
    Topic = OffsetDeleteRequest.Topic
    topics = [
        Topic(name=name, partitions=[Topic.Partition(partition_index=index) for index in indexes])
        for name, indexes in _by_topic(dict.fromkeys(partitions)).items()
    ]
    request = OffsetDeleteRequest(group_id=group_id, topics=topics)

    async def attempt(connection: Connection) -> PartitionOutcomes:
        response: OffsetDeleteResponse = await connection.send(request, timeout_ms=deadline.remaining_ms)
        check(response.error_code)
        return _outcomes(
            (topic.name, answer.partition_index, answer.error_code)
            for topic in response.topics
            for answer in topic.partitions
        )

    return await cluster.at_coordinator(group_id, deadline, attempt)


async def _send_with_names(connection: Connection, request: Request, deadline: Deadline) -> Any:
    version = min(connection.version_for(type(request)), LAST_VERSION_WITH_NAMES)
    return await connection.send(request, version=version, timeout_ms=deadline.remaining_ms)


def _by_topic(partitions: Mapping[TopicPartition, V]) -> dict[str, dict[int, V]]:
    topics: dict[str, dict[int, V]] = {}
    for (name, index), value in partitions.items():
        topics.setdefault(name, {})[index] = value
    return topics


def _outcomes(answers: Iterable[tuple[str, int, int]]) -> PartitionOutcomes:
    """Collect the outcomes by partition. Raises an error that concerns the coordinator, so that the request is
    retried."""
    outcomes: PartitionOutcomes = {}
    for name, index, code in answers:
        error = error_of(code)
        if isinstance(error, ASK_ELSEWHERE):
            raise error
        outcomes[TopicPartition(name, index)] = error
    return outcomes
