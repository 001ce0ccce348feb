"""Settings of topics, brokers and groups: their values, the sources of these, and changes."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Collection, Mapping
from typing import NamedTuple, TypeVar

from ..protocol.errors import KafkaError, NotController, UnknownTopicOrPartition
from ..protocol.messages.describe_configs import BROKER, GROUP, TOPIC, DescribeConfigsRequest, DescribeConfigsResponse
from ..protocol.messages.incremental_alter_configs import (
    DELETE,
    SET,
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsResponse,
)
from .cluster_connections import ClusterConnections
from .connection import Connection
from .deadline import Deadline
from .errors import check, error_of

T = TypeVar("T")

SOURCES = {
    1: "dynamic-topic",
    2: "dynamic-broker",
    3: "dynamic-default-broker",
    4: "static-broker",
    5: "default",
    6: "dynamic-broker-logger",
    7: "dynamic-client-metrics",
    8: "dynamic-group",
}
"""Names of the sources of a value: Kafka's, in lower case with dashes."""


class ConfigResource(NamedTuple):
    """A topic, a broker or a group that has settings."""

    type: int
    name: str

    @classmethod
    def topic(cls, name: str) -> ConfigResource:
        return cls(TOPIC, name)

    @classmethod
    def broker(cls, node_id: int | None) -> ConfigResource:
        """Return one broker, or the cluster-wide default (None)."""
        return cls(BROKER, "" if node_id is None else str(node_id))

    @classmethod
    def group(cls, group_id: str) -> ConfigResource:
        """Return a group, which need not exist."""
        return cls(GROUP, group_id)

    @property
    def node_id(self) -> int | None:
        """The node id of the only broker that can answer; None if any can."""
        return int(self.name) if self.type == BROKER and self.name else None


class ConfigEntry(NamedTuple):
    """The value of a setting."""

    name: str
    value: str | None
    """None if it is not set, or is secret."""
    source: str
    """One of SOURCES, or empty."""
    is_read_only: bool
    is_sensitive: bool


async def describe_configs(
    cluster: ClusterConnections, resource: ConfigResource, deadline: Deadline, names: Collection[str] = ()
) -> list[ConfigEntry]:
    """See `Client.describe_configs`."""
    asked = DescribeConfigsRequest.Resource(
        resource_type=resource.type, resource_name=resource.name, configuration_keys=list(names) or None
    )
    request = DescribeConfigsRequest(resources=[asked])

    async def attempt(connection: Connection) -> DescribeConfigsResponse.Resource:
        response: DescribeConfigsResponse = await connection.send(request, timeout_ms=deadline.remaining_ms)
        return response.results[0]

    answer = await _at(cluster, resource.node_id, deadline, attempt)
    unknown = f"there is no topic {resource.name}" if answer.error_code == UnknownTopicOrPartition.code else ""
    check(answer.error_code, answer.error_message or unknown)
    entries = (
        ConfigEntry(one.name, one.value, SOURCES.get(one.config_source, ""), one.read_only, one.is_sensitive)
        for one in answer.configs
    )
    return sorted(entries)


async def alter_configs(
    cluster: ClusterConnections,
    changes: Mapping[ConfigResource, Mapping[str, str | None]],
    deadline: Deadline,
    *,
    validate_only: bool = False,
) -> dict[ConfigResource, KafkaError | None]:
    """See `Client.alter_configs`."""
    outcomes: dict[ConfigResource, KafkaError | None] = {}
    for resource, settings in changes.items():
        request = _alteration(resource, settings, validate_only=validate_only)

        async def attempt(
            connection: Connection, request: IncrementalAlterConfigsRequest = request
        ) -> KafkaError | None:
            response: IncrementalAlterConfigsResponse = await connection.send(request, timeout_ms=deadline.remaining_ms)
            error = error_of(response.responses[0].error_code, response.responses[0].error_message)
            if isinstance(error, NotController):
                raise error
            return error

        outcomes[resource] = await _at(cluster, resource.node_id, deadline, attempt)
    return outcomes


def _alteration(
    resource: ConfigResource, settings: Mapping[str, str | None], *, validate_only: bool
) -> IncrementalAlterConfigsRequest:
    Resource = IncrementalAlterConfigsRequest.Resource
    configs = [
        Resource.Config(name=key, config_operation=DELETE if value is None else SET, value=value)
        for key, value in settings.items()
    ]
    return IncrementalAlterConfigsRequest(
        resources=[Resource(resource_type=resource.type, resource_name=resource.name, configs=configs)],
        validate_only=validate_only,
    )


async def _at(
    cluster: ClusterConnections, node_id: int | None, deadline: Deadline, attempt: Callable[[Connection], Awaitable[T]]
) -> T:
    """Return what `attempt` returns at this broker, or at the controller; retry after retriable errors."""
    if node_id is None:
        return await cluster.at_controller(deadline, attempt)
    return await cluster.at_broker(node_id, deadline, attempt)
