"""IncrementalAlterConfigs about topics: changes are in force and stay; refusals come in Kafka's order."""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from kmini.broker.broker import BrokerServer
from kmini.broker.controller import topics
from kmini.broker.controller.config_changes import MAX_VALUE_LENGTH
from kmini.broker.controller.database import ControllerDatabase
from kmini.broker.security.resources import ResourceType
from kmini.protocol.errors import (
    NONE,
    InvalidConfig,
    InvalidRequest,
    InvalidTopic,
    KafkaError,
    KafkaStorageError,
    UnknownTopicOrPartition,
)
from kmini.protocol.messages.describe_configs import (
    BROKER,
    BROKER_LOGGER,
    DEFAULT_CONFIG,
    DYNAMIC_DEFAULT_BROKER_CONFIG,
    DYNAMIC_TOPIC_CONFIG,
    TOPIC,
)
from kmini.protocol.messages.incremental_alter_configs import (
    APPEND,
    DELETE,
    SET,
    SUBTRACT,
    IncrementalAlterConfigsRequest,
)
from kmini.protocol.messages.list_config_resources import CLIENT_METRICS
from kmini.storage.log_config import LogConfig
from support.broker.config_requests import Change, alter, change, log_config, places
from support.broker.permission_requests import config_resource

Ask = Callable[..., Awaitable[Any]]
StartBroker = Callable[..., Awaitable[BrokerServer]]


def example(resource: ResourceType, topic_id: bytes) -> IncrementalAlterConfigsRequest:
    """A request that needs the permission on this kind of resource; `topic_id` is the one of "orders"."""
    resource_type, name = config_resource(resource)
    return IncrementalAlterConfigsRequest(
        validate_only=True,
        resources=[
            IncrementalAlterConfigsRequest.Resource(resource_type=resource_type, resource_name=name, configs=[])
        ],
    )


@pytest.mark.parametrize("version", range(2))
async def test_a_setting_of_a_topic_is_in_force_in_all_its_logs(broker: BrokerServer, ask: Ask, version: int) -> None:
    topics.create(broker, "t", partitions=2, configs={"segment.bytes": "100"})
    assert await alter(ask, broker, change(TOPIC, "t", ("retention.ms", SET, " 7 ")), version=version) == [NONE]
    for partition in range(2):
        config = log_config(broker, "t", partition)
        assert (config.retention_ms, config.segment_bytes) == (7, 100)
    assert await places(ask, broker, TOPIC, "t", "retention.ms") == [
        ("retention.ms", "7", DYNAMIC_TOPIC_CONFIG),
        ("retention.ms", "7", DYNAMIC_TOPIC_CONFIG),
    ]


async def test_a_deleted_setting_goes_back_to_its_default(broker: BrokerServer, ask: Ask) -> None:
    topics.create(broker, "t", configs={"segment.bytes": "100"})
    assert await alter(ask, broker, change(TOPIC, "t", ("segment.bytes", DELETE, "ignored"))) == [NONE]
    assert log_config(broker, "t") == LogConfig()
    assert await alter(ask, broker, change(TOPIC, "t", ("segment.bytes", DELETE, None))) == [NONE], "again"
    assert await alter(ask, broker, change(TOPIC, "t", ("no.such.key", DELETE, None))) == [NONE], "as in Kafka"


async def test_changes_survive_a_restart(start_broker: StartBroker, ask: Ask) -> None:
    broker = await start_broker()
    topics.create(broker, "t", configs={"segment.bytes": "100"})
    codes = await alter(
        ask,
        broker,
        change(TOPIC, "t", ("retention.ms", SET, "7"), ("segment.bytes", DELETE, None)),
        change(BROKER, "", ("log.retention.bytes", SET, "11")),
        change(BROKER, "1", ("message.max.bytes", SET, "12")),
    )
    assert codes == [NONE] * 3
    await broker.stop()
    again = await start_broker()
    assert log_config(again, "t") == LogConfig(retention_ms=7, retention_bytes=11, max_message_bytes=12)
    assert again.controller.topics["t"].configs == {"retention.ms": "7"}
    assert await places(ask, again, BROKER, "1", "log.retention.bytes") == [
        ("log.retention.bytes", "11", DYNAMIC_DEFAULT_BROKER_CONFIG),
        ("log.retention.bytes", "11", DYNAMIC_DEFAULT_BROKER_CONFIG),
        ("log.retention.bytes", "-1", DEFAULT_CONFIG),
    ]


@pytest.mark.parametrize(
    ("before", "operation", "value", "after"),
    [
        (None, APPEND, "compact", "delete,compact"),
        (None, APPEND, "delete", "delete"),
        (None, SUBTRACT, "delete", ""),
        (None, SUBTRACT, "compact", "delete"),
        ("compact", APPEND, "delete", "compact,delete"),
        ("compact, delete", APPEND, " delete , compact ", "compact,delete"),
        ("compact,delete", SUBTRACT, "compact,delete", ""),
        ("compact,delete", SUBTRACT, "compact", "delete"),
        ("", APPEND, "compact", "compact"),
        ("compact", SET, "delete,delete", "delete"),
        ("compact", SET, "", ""),
    ],
)
async def test_lists_grow_and_shrink(
    broker: BrokerServer, ask: Ask, before: str | None, operation: int, value: str, after: str
) -> None:
    topics.create(broker, "t", configs={} if before is None else {"cleanup.policy": before})
    assert await alter(ask, broker, change(TOPIC, "t", ("cleanup.policy", operation, value))) == [NONE]
    assert (await places(ask, broker, TOPIC, "t", "cleanup.policy"))[0] == (
        "cleanup.policy",
        after,
        DYNAMIC_TOPIC_CONFIG,
    )


async def test_validate_only_changes_nothing_and_finds_the_same_errors(broker: BrokerServer, ask: Ask) -> None:
    topics.create(broker, "t")
    good, bad = ("retention.ms", SET, "7"), ("retention.ms", SET, "x")
    assert await alter(ask, broker, change(TOPIC, "t", good), validate_only=True) == [NONE]
    assert await alter(ask, broker, change(TOPIC, "t", bad), validate_only=True) == [InvalidConfig.code]
    assert await alter(ask, broker, change(BROKER, "", ("log.retention.ms", SET, "7")), validate_only=True) == [NONE]
    assert await alter(ask, broker, change(BROKER_LOGGER, "1", ("root", SET, "FATAL")), validate_only=True) == [NONE]
    assert log_config(broker, "t") == LogConfig()
    assert broker.controller.topics["t"].configs == broker.controller.broker_configs("") == {}
    assert logging.getLogger("kmini").level != logging.CRITICAL


@pytest.mark.parametrize(
    ("name", "changes", "error"),
    [
        ("t", [("retention.ms", SET, "x")], InvalidConfig),
        ("t", [("retention.ms", SET, "-2")], InvalidConfig),
        ("t", [("retention.ms", SET, "")], InvalidConfig),
        ("t", [("cleanup.policy", SET, "burn")], InvalidConfig),
        ("t", [("cleanup.policy", APPEND, "burn")], InvalidConfig),
        ("t", [("cleanup.policy", APPEND, "")], InvalidConfig),
        ("t", [("no.such.key", SET, "1")], InvalidConfig),
        ("t", [("min.compaction.lag.ms", SET, "2"), ("max.compaction.lag.ms", SET, "1")], InvalidConfig),
        ("t", [("remote.storage.enable", SET, "true")], InvalidConfig),
        ("t", [("leader.replication.throttled.replicas", SET, "*" * (MAX_VALUE_LENGTH + 1))], InvalidConfig),
        ("t", [("retention.ms", APPEND, "1")], InvalidConfig),
        ("t", [("retention.ms", SUBTRACT, "1")], InvalidConfig),
        ("t", [("no.such.key", APPEND, "1")], InvalidConfig),
        ("t", [("retention.ms", 4, "1")], InvalidRequest),
        ("t", [("retention.ms", -1, "1")], InvalidRequest),
        ("t", [("retention.ms", SET, None)], InvalidRequest),
        ("t", [("cleanup.policy", APPEND, None)], InvalidRequest),
        ("t", [("retention.ms", SET, "1"), ("retention.ms", DELETE, None)], InvalidRequest),
        ("", [("retention.ms", SET, "1")], InvalidRequest),
        ("b!", [("retention.ms", SET, "1")], InvalidTopic),
        ("nope", [("retention.ms", SET, "1")], UnknownTopicOrPartition),
        ("nope", [], UnknownTopicOrPartition),
        # the order of the checks
        ("nope", [("retention.ms", SET, None)], InvalidRequest),
        ("nope", [("retention.ms", SET, "1"), ("retention.ms", SET, None)], InvalidRequest),
        ("nope", [("retention.ms", APPEND, "1")], InvalidConfig),
        ("", [("retention.ms", APPEND, "1")], InvalidConfig),
        ("b!", [("no.such.key", SET, "1")], InvalidTopic),
        ("nope", [("no.such.key", SET, "1")], InvalidConfig),
    ],
)
async def test_what_is_wrong_with_a_topics_change(
    broker: BrokerServer, ask: Ask, name: str, changes: list[Change], error: type[KafkaError]
) -> None:
    topics.create(broker, "t", configs={"segment.bytes": "100"})
    beside = [("retention.bytes", SET, "5")] if changes else []
    assert await alter(ask, broker, change(TOPIC, name, *beside, *changes)) == [error.code]
    assert log_config(broker, "t") == LogConfig(segment_bytes=100), "all or nothing"


async def test_the_message_names_key_and_value(broker: BrokerServer, ask: Ask) -> None:
    topics.create(broker, "t")
    request = IncrementalAlterConfigsRequest(resources=[change(TOPIC, "t", ("retention.ms", SET, "soon"))])
    (told,) = (await ask(broker, request)).responses
    assert told.error_message == "retention.ms=soon: must be a whole number"


async def test_each_resource_is_a_matter_of_its_own(broker: BrokerServer, ask: Ask) -> None:
    for name in "abc":
        topics.create(broker, name)
    good, bad = ("retention.ms", SET, "7"), ("retention.ms", SET, "x")
    request = [change(TOPIC, "a", good), change(TOPIC, "b", bad), change(TOPIC, "c", good), change(TOPIC, "c", bad)]
    codes = await alter(ask, broker, *request)
    assert codes == [NONE, InvalidConfig.code, InvalidRequest.code, InvalidRequest.code]
    assert [log_config(broker, name).retention_ms for name in "abc"] == [7, 604_800_000, 604_800_000]


async def test_a_disk_that_refuses_leaves_what_is_in_force(
    broker: BrokerServer, ask: Ask, monkeypatch: pytest.MonkeyPatch
) -> None:
    topics.create(broker, "t")

    def refuse(*arguments: object) -> None:
        raise KafkaStorageError("the disk is full")

    monkeypatch.setattr(ControllerDatabase, "replace_configs", refuse)
    codes = await alter(
        ask, broker, change(TOPIC, "t", ("retention.ms", SET, "7")), change(BROKER, "", ("log.retention.ms", SET, "8"))
    )
    assert codes == [KafkaStorageError.code] * 2
    assert log_config(broker, "t") == LogConfig()


@pytest.mark.parametrize("resource_type", [0, 1, CLIENT_METRICS, 99, -1])
async def test_other_types_have_no_settings(broker: BrokerServer, ask: Ask, resource_type: int) -> None:
    assert await alter(ask, broker, change(resource_type, "x", ("interval.ms", SET, "1000"))) == [InvalidRequest.code]
