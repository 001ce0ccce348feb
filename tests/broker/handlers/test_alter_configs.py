"""AlterConfigs: the settings of a resource are replaced as a whole.

The rules it shares with IncrementalAlterConfigs are tested there.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from kmini.broker.broker import BrokerServer
from kmini.broker.controller import topics
from kmini.broker.security.resources import ResourceType
from kmini.protocol.errors import (
    NONE,
    InvalidConfig,
    InvalidRequest,
    InvalidTopic,
    KafkaError,
    UnknownTopicOrPartition,
)
from kmini.protocol.messages.alter_configs import AlterConfigsRequest
from kmini.protocol.messages.describe_configs import BROKER, BROKER_LOGGER, TOPIC
from kmini.protocol.topics import TopicPartition
from kmini.storage.log_config import LogConfig
from support.broker.permission_requests import config_resource


def example(resource: ResourceType, topic_id: bytes) -> AlterConfigsRequest:
    """A request that needs the permission on this kind of resource; `topic_id` is the one of "orders"."""
    resource_type, name = config_resource(resource)
    return AlterConfigsRequest(
        validate_only=True,
        resources=[AlterConfigsRequest.Resource(resource_type=resource_type, resource_name=name, configs=[])],
    )


Ask = Callable[..., Awaitable[Any]]


def replace(resource_type: int, name: str, *configs: tuple[str, str | None]) -> AlterConfigsRequest.Resource:
    return AlterConfigsRequest.Resource(
        resource_type=resource_type,
        resource_name=name,
        configs=[AlterConfigsRequest.Config(name=key, value=value) for key, value in configs],
    )


async def alter(
    ask: Ask,
    broker: BrokerServer,
    *resources: AlterConfigsRequest.Resource,
    version: int = 2,
    validate_only: bool = False,
) -> list[int]:
    request = AlterConfigsRequest(resources=list(resources), validate_only=validate_only)
    responses = (await ask(broker, request, version)).responses
    assert [(told.resource_type, told.resource_name) for told in responses] == [
        (resource.resource_type, resource.resource_name) for resource in resources
    ]
    return [told.error_code for told in responses]


def log_config(broker: BrokerServer) -> LogConfig:
    return broker.replica_manager.leader_of(TopicPartition("t", 0)).log.config


@pytest.mark.parametrize("version", range(3))
async def test_what_is_not_named_goes_back_to_its_default(broker: BrokerServer, ask: Ask, version: int) -> None:
    topics.create(broker, "t", configs={"segment.bytes": "100"})
    assert await alter(ask, broker, replace(TOPIC, "t", ("retention.ms", "7")), version=version) == [NONE]
    assert log_config(broker) == LogConfig(retention_ms=7)
    assert await alter(ask, broker, replace(TOPIC, "t"), version=version) == [NONE]
    assert log_config(broker) == LogConfig()
    assert broker.controller.topics["t"].configs == {}


async def test_settings_of_a_broker_and_of_all_are_replaced_each_by_itself(broker: BrokerServer, ask: Ask) -> None:
    topics.create(broker, "t")
    await alter(ask, broker, replace(BROKER, "", ("log.retention.ms", "5"), ("log.retention.bytes", "6")))
    await alter(ask, broker, replace(BROKER, "1", ("log.segment.bytes", "100")))
    assert log_config(broker) == LogConfig(retention_ms=5, retention_bytes=6, segment_bytes=100)
    await alter(ask, broker, replace(BROKER, "", ("log.retention.ms", "8")))
    assert log_config(broker) == LogConfig(retention_ms=8, segment_bytes=100)
    await alter(ask, broker, replace(BROKER, "1"), replace(BROKER, ""))
    assert log_config(broker) == LogConfig()


async def test_validate_only_changes_nothing(broker: BrokerServer, ask: Ask) -> None:
    topics.create(broker, "t", configs={"segment.bytes": "100"})
    assert await alter(ask, broker, replace(TOPIC, "t"), validate_only=True) == [NONE]
    assert log_config(broker) == LogConfig(segment_bytes=100)


@pytest.mark.parametrize(
    ("resource", "error"),
    [
        (replace(TOPIC, "t", ("retention.ms", "x")), InvalidConfig),
        (replace(TOPIC, "t", ("no.such.key", "1")), InvalidConfig),
        (replace(TOPIC, "t", ("retention.ms", None)), InvalidRequest),
        (replace(TOPIC, "t", ("retention.ms", "1"), ("retention.ms", "2")), InvalidRequest),
        (replace(TOPIC, "nope"), UnknownTopicOrPartition),
        (replace(TOPIC, ""), InvalidRequest),
        (replace(TOPIC, "b!"), InvalidTopic),
        (replace(BROKER, "2"), InvalidRequest),
        (replace(BROKER, "1", ("num.partitions", "2")), InvalidRequest),
        (replace(BROKER_LOGGER, "1", ("root", "INFO")), InvalidRequest),
        (replace(99, "x"), InvalidRequest),
    ],
)
async def test_what_cannot_be_changes_nothing(
    broker: BrokerServer, ask: Ask, resource: AlterConfigsRequest.Resource, error: type[KafkaError]
) -> None:
    topics.create(broker, "t", configs={"segment.bytes": "100"})
    assert await alter(ask, broker, resource) == [error.code]
    assert log_config(broker) == LogConfig(segment_bytes=100)


async def test_a_resource_that_is_named_twice_stays_as_it_is(broker: BrokerServer, ask: Ask) -> None:
    topics.create(broker, "t")
    twice = [replace(TOPIC, "t", ("retention.ms", "1")), replace(TOPIC, "t", ("retention.ms", "2"))]
    assert await alter(ask, broker, *twice, replace(BROKER, "1")) == [InvalidRequest.code, InvalidRequest.code, NONE]
    assert log_config(broker) == LogConfig()
