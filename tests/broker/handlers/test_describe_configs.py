"""DescribeConfigs: every setting of the tables, with its value and where that comes from."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from kmini.broker.broker import BrokerServer
from kmini.broker.controller import topics
from kmini.broker.security.resources import ResourceType
from kmini.broker.settings.broker_config import BROKER_KEYS
from kmini.protocol.errors import NONE, InvalidRequest, InvalidTopic, KafkaError, UnknownTopicOrPartition
from kmini.protocol.messages.describe_configs import (
    BROKER,
    BROKER_LOGGER,
    DEFAULT_CONFIG,
    DYNAMIC_BROKER_LOGGER_CONFIG,
    DYNAMIC_TOPIC_CONFIG,
    STATIC_BROKER_CONFIG,
    TOPIC,
    DescribeConfigsRequest,
    DescribeConfigsResponse,
)
from kmini.storage.log_config import LogConfig
from support.broker.permission_requests import config_resource


def example(resource: ResourceType, topic_id: bytes) -> DescribeConfigsRequest:
    """A request that needs the permission on this kind of resource; `topic_id` is the one of "orders"."""
    resource_type, name = config_resource(resource)
    return DescribeConfigsRequest(
        resources=[
            DescribeConfigsRequest.Resource(
                resource_type=resource_type, resource_name=name, configuration_keys=["retention.ms"]
            )
        ]
    )


Ask = Callable[..., Awaitable[Any]]
StartBroker = Callable[..., Awaitable[BrokerServer]]

Config = DescribeConfigsResponse.Resource.Config

KAFKAS_TOPIC_SETTINGS = {name for name in LogConfig.KEYS if not name.startswith("kmini.")}
KAFKAS_BROKER_SETTINGS = {
    name for name, line in BROKER_KEYS.items() if not line.internal and not name.startswith("kmini.")
}


def describe(resource_type: int, name: str, keys: list[str] | None = None, **fields: bool) -> DescribeConfigsRequest:
    resource = DescribeConfigsRequest.Resource(resource_type=resource_type, resource_name=name, configuration_keys=keys)
    return DescribeConfigsRequest(resources=[resource], **fields)


async def configs(
    ask: Ask, broker: BrokerServer, request: DescribeConfigsRequest, version: int = 4
) -> dict[str, Config]:
    (result,) = (await ask(broker, request, version)).results
    assert result.error_code == NONE, result
    return {config.name: config for config in result.configs}


def synonyms(config: Config) -> list[tuple[str, str | None, int]]:
    return [(synonym.name, synonym.value, synonym.source) for synonym in config.synonyms]


@pytest.mark.parametrize("version", range(5))
async def test_every_topic_setting_is_described_with_value_and_source(
    broker: BrokerServer, ask: Ask, version: int
) -> None:
    topics.create(broker, "t", configs={"retention.ms": "5"})
    told = await configs(ask, broker, describe(TOPIC, "t"), version)
    assert set(told) == KAFKAS_TOPIC_SETTINGS
    assert (told["retention.ms"].value, told["segment.bytes"].value) == ("5", "1073741824")
    if version >= 1:
        assert told["retention.ms"].config_source == DYNAMIC_TOPIC_CONFIG
        assert told["segment.bytes"].config_source == DEFAULT_CONFIG
    else:
        assert not told["retention.ms"].is_default
        assert told["segment.bytes"].is_default
    assert not any(config.read_only or config.is_sensitive for config in told.values())


@pytest.mark.parametrize("version", range(5))
async def test_every_broker_setting_is_described(broker: BrokerServer, ask: Ask, version: int) -> None:
    told = await configs(ask, broker, describe(BROKER, "1"), version)
    assert set(told) == KAFKAS_BROKER_SETTINGS
    assert told["num.partitions"].value == "1"
    assert told["num.partitions"].read_only
    assert not told["log.retention.ms"].read_only
    assert told["log.retention.hours"].read_only


async def test_a_topics_default_comes_from_the_brokers_setting(start_broker: StartBroker, ask: Ask) -> None:
    broker = await start_broker(log_retention_hours=2)
    topics.create(broker, "t")
    told = (await configs(ask, broker, describe(TOPIC, "t", ["retention.ms"], include_synonyms=True)))["retention.ms"]
    assert (told.value, told.config_source) == ("7200000", DEFAULT_CONFIG)
    assert synonyms(told) == [], "Kafka tells of the coarser units only behind the finest one"


async def test_the_finest_unit_is_told_with_the_coarser_ones_behind_it(start_broker: StartBroker, ask: Ask) -> None:
    broker = await start_broker(log_retention_hours=2, log_retention_ms=5)
    topics.create(broker, "t")
    told = (await configs(ask, broker, describe(TOPIC, "t", ["retention.ms"], include_synonyms=True)))["retention.ms"]
    assert (told.value, told.config_source) == ("5", STATIC_BROKER_CONFIG)
    assert synonyms(told) == [
        ("log.retention.ms", "5", STATIC_BROKER_CONFIG),
        ("log.retention.hours", "2", STATIC_BROKER_CONFIG),
        ("log.retention.hours", "168", DEFAULT_CONFIG),
    ]


async def test_synonyms_go_from_the_strongest_to_the_weakest(start_broker: StartBroker, ask: Ask) -> None:
    broker = await start_broker(log_cleanup_policy="compact")
    topics.create(broker, "t", configs={"cleanup.policy": "compact,delete"})
    told = await configs(ask, broker, describe(TOPIC, "t", ["cleanup.policy"], include_synonyms=True))
    assert synonyms(told["cleanup.policy"]) == [
        ("cleanup.policy", "compact,delete", DYNAMIC_TOPIC_CONFIG),
        ("log.cleanup.policy", "compact", STATIC_BROKER_CONFIG),
        ("log.cleanup.policy", "delete", DEFAULT_CONFIG),
    ]


async def test_of_the_broker_keys_with_one_meaning_the_set_one_shows(start_broker: StartBroker, ask: Ask) -> None:
    broker = await start_broker(log_retention_hours=2)
    keys = ["log.retention.ms", "log.retention.minutes", "log.retention.hours"]
    told = await configs(ask, broker, describe(BROKER, "1", keys, include_synonyms=True))
    assert [told[key].value for key in keys] == [None, None, "2"]
    assert synonyms(told["log.retention.hours"]) == [
        ("log.retention.hours", "2", STATIC_BROKER_CONFIG),
        ("log.retention.hours", "168", DEFAULT_CONFIG),
    ]


async def test_synonyms_and_documentation_come_only_when_asked_for(broker: BrokerServer, ask: Ask) -> None:
    quiet = await configs(ask, broker, describe(BROKER, "1"))
    assert {(config.documentation, len(config.synonyms)) for config in quiet.values()} == {(None, 0)}
    told = await configs(ask, broker, describe(BROKER, "1", include_documentation=True))
    assert all(config.documentation for config in told.values())


async def test_types_are_kafkas_codes(broker: BrokerServer, ask: Ask) -> None:
    told = await configs(ask, broker, describe(BROKER, "1"))
    keys = {"log.preallocate": 1, "compression.type": 2, "num.partitions": 3, "offsets.topic.replication.factor": 4}
    keys |= {"connections.max.idle.ms": 5, "log.cleaner.io.buffer.load.factor": 6, "log.dirs": 7}
    assert {key: told[key].config_type for key in keys} == keys


async def test_asked_for_keys_are_filtered_and_none_at_all_means_all(broker: BrokerServer, ask: Ask) -> None:
    topics.create(broker, "t")
    assert set(await configs(ask, broker, describe(TOPIC, "t", ["retention.ms", "nope"]))) == {"retention.ms"}
    assert set(await configs(ask, broker, describe(TOPIC, "t", []))) == KAFKAS_TOPIC_SETTINGS


async def test_settings_that_kafka_does_not_have_are_told_where_they_are_set(
    start_broker: StartBroker, ask: Ask
) -> None:
    broker = await start_broker(kmini_authentication_timeout_ms=5_000)
    topics.create(broker, "t", configs={"kmini.tombstone.flag.enable": "false"})  # which is its default, too
    told = await configs(ask, broker, describe(TOPIC, "t"))
    assert told.keys() - KAFKAS_TOPIC_SETTINGS == {"kmini.tombstone.flag.enable"}
    assert told["kmini.tombstone.flag.enable"].config_source == DYNAMIC_TOPIC_CONFIG
    told = await configs(ask, broker, describe(BROKER, "1"))
    assert told.keys() - KAFKAS_BROKER_SETTINGS == {"kmini.authentication.timeout.ms"}


async def test_settings_that_kafka_does_not_have_are_told_where_they_are_asked_for(
    broker: BrokerServer, ask: Ask
) -> None:
    topics.create(broker, "t")
    for kind, name, keys in ((TOPIC, "t", LogConfig.KEYS), (BROKER, "1", BROKER_KEYS)):
        ours = [key for key in keys if key.startswith("kmini.")]
        assert ours
        assert list(await configs(ask, broker, describe(kind, name, ours))) == ours


async def test_stored_settings_without_meaning_are_shown(broker: BrokerServer, ask: Ask) -> None:
    topics.create(broker, "t", configs={"internal.segment.bytes": "100", "local.retention.ms": "5"})
    told = await configs(ask, broker, describe(TOPIC, "t"))
    assert told["internal.segment.bytes"].value == "100"
    assert (told["local.retention.ms"].value, told["local.retention.ms"].config_source) == ("5", DYNAMIC_TOPIC_CONFIG)


async def test_loggers_have_their_level_in_force(broker: BrokerServer, ask: Ask) -> None:
    told = await configs(ask, broker, describe(BROKER_LOGGER, "1"))
    assert {"root", "kmini.broker", "kmini.topics"} <= told.keys()
    root = told["root"]
    assert root.value in ("TRACE", "DEBUG", "INFO", "WARN", "ERROR", "FATAL")
    assert (root.config_source, root.config_type) == (DYNAMIC_BROKER_LOGGER_CONFIG, 0)
    assert not any((root.read_only, root.is_sensitive, root.is_default, root.synonyms))


async def test_one_logger_can_be_asked_for(broker: BrokerServer, ask: Ask) -> None:
    assert set(await configs(ask, broker, describe(BROKER_LOGGER, "1", ["root", "nope"]))) == {"root"}


async def test_at_first_nothing_is_set_for_all_brokers_at_once(broker: BrokerServer, ask: Ask) -> None:
    assert await configs(ask, broker, describe(BROKER, "")) == {}


async def test_what_is_asked_for_twice_is_told_once_and_other_keys_of_it_too(broker: BrokerServer, ask: Ask) -> None:
    request = describe(BROKER, "1", ["node.id"])
    request.resources += describe(BROKER, "1", ["node.id"]).resources + describe(BROKER, "1", ["log.dirs"]).resources
    results = (await ask(broker, request)).results
    assert [[config.name for config in result.configs] for result in results] == [["node.id"], ["log.dirs"]]


@pytest.mark.parametrize(
    ("resource_type", "name", "error"),
    [
        (TOPIC, "nope", UnknownTopicOrPartition),
        (TOPIC, "b!", InvalidTopic),
        (TOPIC, "", InvalidTopic),
        (BROKER, "9", InvalidRequest),
        (BROKER, "x", InvalidRequest),
        (BROKER_LOGGER, "", InvalidRequest),
        (99, "1", InvalidRequest),
    ],
)
async def test_what_cannot_be_described_says_why(
    broker: BrokerServer, ask: Ask, resource_type: int, name: str, error: type[KafkaError]
) -> None:
    request = describe(resource_type, name)
    request.resources += describe(BROKER, "1").resources
    bad, good = (await ask(broker, request)).results
    assert (bad.error_code, bad.resource_type, bad.resource_name, bad.configs) == (error.code, resource_type, name, [])
    assert bad.error_message
    assert good.error_code == NONE
