"""Changes of settings by IncrementalAlterConfigs, and the settings in force."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

from kmini.broker.broker import BrokerServer
from kmini.protocol.errors import (
    NONE,
)
from kmini.protocol.messages.describe_configs import (
    DescribeConfigsRequest,
)
from kmini.protocol.messages.incremental_alter_configs import (
    IncrementalAlterConfigsRequest,
)
from kmini.protocol.topics import TopicPartition
from kmini.storage.log_config import LogConfig

Ask = Callable[..., Awaitable[Any]]


Change = tuple[str, int, str | None]


Place = tuple[str, str | None, int]


def change(resource_type: int, name: str, *changes: Change) -> IncrementalAlterConfigsRequest.Resource:
    configs = [
        IncrementalAlterConfigsRequest.Config(name=key, config_operation=operation, value=value)
        for key, operation, value in changes
    ]
    return IncrementalAlterConfigsRequest.Resource(resource_type=resource_type, resource_name=name, configs=configs)


async def alter(
    ask: Ask,
    broker: BrokerServer,
    *resources: IncrementalAlterConfigsRequest.Resource,
    version: int = 1,
    validate_only: bool = False,
) -> list[int]:
    """The codes of the answers, each of which has a text if it is an error."""
    request = IncrementalAlterConfigsRequest(resources=list(resources), validate_only=validate_only)
    responses = (await ask(broker, request, version)).responses
    assert [(told.resource_type, told.resource_name) for told in responses] == [
        (resource.resource_type, resource.resource_name) for resource in resources
    ]
    for told in responses:
        assert bool(told.error_message) == (told.error_code != NONE), told
    return [told.error_code for told in responses]


async def places(ask: Ask, broker: BrokerServer, resource_type: int, name: str, key: str) -> list[Place]:
    """What DescribeConfigs tells about a key: its value in force, and the places that speak of it."""
    resource = DescribeConfigsRequest.Resource(
        resource_type=resource_type, resource_name=name, configuration_keys=[key]
    )
    request = DescribeConfigsRequest(resources=[resource], include_synonyms=True)
    (result,) = (await ask(broker, request, 4)).results
    (config,) = result.configs
    return [
        (config.name, config.value, config.config_source),
        *((place.name, place.value, place.source) for place in config.synonyms),
    ]


def log_config(broker: BrokerServer, topic: str, partition: int = 0) -> LogConfig:
    return broker.replica_manager.leader_of(TopicPartition(topic, partition)).log.config
