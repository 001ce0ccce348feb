"""Creating and deleting topics. Each topic has its own outcome: one that fails does not affect the others."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import NamedTuple

from ..protocol.errors import KafkaError, NotController
from ..protocol.messages.create_partitions import CreatePartitionsRequest, CreatePartitionsResponse
from ..protocol.messages.create_topics import CreateTopicsRequest, CreateTopicsResponse
from ..protocol.messages.delete_topics import DeleteTopicsRequest, DeleteTopicsResponse
from .cluster_connections import ClusterConnections
from .connection import Connection
from .deadline import Deadline
from .errors import error_of

Outcomes = dict[str, "KafkaError | None"]
"""The error of each topic; None for success."""


class NewTopic(NamedTuple):
    """A topic to create; -1 leaves a number to the broker."""

    partitions: int = -1
    replication_factor: int = -1
    configs: Mapping[str, str] = {}


async def create_topics(cluster: ClusterConnections, topics: Mapping[str, NewTopic], deadline: Deadline) -> Outcomes:
    """See `Client.create_topics`."""
    request = CreateTopicsRequest(
        topics=[
            CreateTopicsRequest.Topic(
                name=name,
                num_partitions=topic.partitions,
                replication_factor=topic.replication_factor,
                configs=[CreateTopicsRequest.Topic.Config(name=key, value=text) for key, text in topic.configs.items()],
            )
            for name, topic in topics.items()
        ],
        timeout_ms=deadline.remaining_ms,
    )

    async def attempt(connection: Connection) -> Outcomes:
        response: CreateTopicsResponse = await connection.send(request, timeout_ms=deadline.remaining_ms)
        return _outcomes((topic.name, topic.error_code, topic.error_message) for topic in response.topics)

    return await cluster.at_controller(deadline, attempt)


async def delete_topics(cluster: ClusterConnections, names: Iterable[str], deadline: Deadline) -> Outcomes:
    """See `Client.delete_topics`."""
    names = list(names)
    request = DeleteTopicsRequest(
        topics=[DeleteTopicsRequest.Topic(name=name) for name in names],
        topic_names=names,
        timeout_ms=deadline.remaining_ms,
    )

    async def attempt(connection: Connection) -> Outcomes:
        response: DeleteTopicsResponse = await connection.send(request, timeout_ms=deadline.remaining_ms)
        return _outcomes((topic.name, topic.error_code, topic.error_message) for topic in response.responses)

    return await cluster.at_controller(deadline, attempt)


async def create_partitions(
    cluster: ClusterConnections, counts: Mapping[str, int], deadline: Deadline, *, validate_only: bool = False
) -> Outcomes:
    """See `Client.create_partitions`."""
    request = CreatePartitionsRequest(
        topics=[CreatePartitionsRequest.Topic(name=name, count=count) for name, count in counts.items()],
        timeout_ms=deadline.remaining_ms,
        validate_only=validate_only,
    )

    async def attempt(connection: Connection) -> Outcomes:
        response: CreatePartitionsResponse = await connection.send(request, timeout_ms=deadline.remaining_ms)
        return _outcomes((topic.name, topic.error_code, topic.error_message) for topic in response.results)

    return await cluster.at_controller(deadline, attempt)


def _outcomes(answers: Iterable[tuple[str | None, int, str | None]]) -> Outcomes:
    """Collect the outcomes by topic. Raises NotController if an answer has it, so that the request is retried."""
    outcomes: Outcomes = {}
    for name, code, message in answers:
        error = error_of(code, message)
        if isinstance(error, NotController):
            raise error
        outcomes[name or ""] = error
    return outcomes
