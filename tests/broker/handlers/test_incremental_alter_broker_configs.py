"""IncrementalAlterConfigs about brokers and their loggers: layers of settings, and refusals in Kafka's order."""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Iterator
from typing import Any

import pytest

from kmini.broker.broker import BrokerServer
from kmini.broker.controller import topics
from kmini.broker.controller.config_changes import MAX_CHANGES, MAX_UNKNOWN_KEYS
from kmini.protocol.errors import (
    NONE,
    InvalidConfig,
    InvalidRequest,
    KafkaError,
    PolicyViolation,
)
from kmini.protocol.messages.describe_configs import (
    BROKER,
    BROKER_LOGGER,
    DEFAULT_CONFIG,
    DYNAMIC_BROKER_CONFIG,
    DYNAMIC_DEFAULT_BROKER_CONFIG,
    STATIC_BROKER_CONFIG,
    TOPIC,
)
from kmini.protocol.messages.incremental_alter_configs import (
    APPEND,
    DELETE,
    SET,
    SUBTRACT,
)
from kmini.protocol.topics import TopicPartition
from kmini.storage.log_config import LogConfig
from support.broker.config_requests import Change, alter, change, log_config, places

Ask = Callable[..., Awaitable[Any]]
StartBroker = Callable[..., Awaitable[BrokerServer]]


async def test_the_place_nearest_to_the_broker_wins(start_broker: StartBroker, ask: Ask) -> None:
    broker = await start_broker(log_retention_ms=1, log_retention_hours=3)
    topics.create(broker, "t")
    topics.create(broker, "own", configs={"retention.ms": "99"})

    def retention() -> tuple[int, int]:
        return log_config(broker, "t").retention_ms, log_config(broker, "own").retention_ms

    assert await alter(ask, broker, change(BROKER, "", ("log.retention.ms", SET, "2"))) == [NONE]
    assert retention() == (2, 99)
    assert await alter(ask, broker, change(BROKER, "1", ("log.retention.ms", SET, "3"))) == [NONE]
    assert retention() == (3, 99)
    layers = [
        ("log.retention.ms", "3", DYNAMIC_BROKER_CONFIG),
        ("log.retention.ms", "2", DYNAMIC_DEFAULT_BROKER_CONFIG),
        ("log.retention.ms", "1", STATIC_BROKER_CONFIG),
        ("log.retention.hours", "3", STATIC_BROKER_CONFIG),
        ("log.retention.hours", "168", DEFAULT_CONFIG),
    ]
    assert (await places(ask, broker, BROKER, "1", "log.retention.ms"))[1:] == layers
    assert (await places(ask, broker, TOPIC, "t", "retention.ms"))[1:] == layers
    assert (
        await places(ask, broker, BROKER, "", "log.retention.ms")
        == [("log.retention.ms", "2", DYNAMIC_DEFAULT_BROKER_CONFIG)] * 2
    )
    await alter(ask, broker, change(BROKER, "1", ("log.retention.ms", DELETE, None)))
    assert retention() == (2, 99)
    await alter(ask, broker, change(BROKER, "", ("log.retention.ms", DELETE, None)))
    assert retention() == (1, 99)


async def test_a_topic_made_later_has_the_new_defaults(broker: BrokerServer, ask: Ask) -> None:
    await alter(ask, broker, change(BROKER, "", ("log.segment.bytes", SET, "100")))
    topics.create(broker, "t")
    assert log_config(broker, "t").segment_bytes == 100


async def test_settings_of_the_broker_itself_are_in_force(broker: BrokerServer, ask: Ask) -> None:
    topics.create(broker, "t")
    settings = [("max.connections", SET, "3"), ("max.connections.per.ip.overrides", SET, "127.0.0.1:2,[::1]:4")]
    settings += [("producer.id.expiration.ms", SET, "5000")]
    assert await alter(ask, broker, change(BROKER, "1", *settings)) == [NONE]
    assert broker.config.current.max_connections == 3
    assert broker.config.current.max_connections_per_ip_overrides == {"127.0.0.1": 2, "::1": 4}
    topics.create(broker, "later")
    for name in ("t", "later"):
        assert broker.replica_manager.leader_of(TopicPartition(name, 0)).log.producers.expiration_ms == 5000


@pytest.mark.parametrize("name", ["", "1"])
@pytest.mark.parametrize(
    ("changes", "error"),
    [
        ([("num.partitions", SET, "2")], InvalidRequest),
        ([("log.retention.hours", SET, "2")], InvalidRequest),
        ([("broker.id", SET, "2")], InvalidRequest),
        ([("process.roles", SET, "broker")], InvalidRequest),
        ([("listeners", SET, "PLAINTEXT://127.0.0.1:1")], InvalidRequest),
        ([("ssl.keystore.location", SET, "/x")], InvalidRequest),
        ([("log.cleaner.threads", SET, "x")], InvalidRequest),
        ([("log.retention.ms", SET, "")], InvalidRequest),
        ([("log.retention.ms", SET, None)], InvalidRequest),
        ([("log.retention.ms", 9, "1")], InvalidRequest),
        ([("num.io.threads", SET, "17")], InvalidRequest),
        ([("num.io.threads", SET, "3")], InvalidRequest),
        ([("max.connections.per.ip.overrides", SET, "127.0.0.1")], InvalidRequest),
        ([("max.connections.per.ip.overrides", SET, "127.0.0.1:x")], InvalidRequest),
        (
            [("log.cleaner.min.compaction.lag.ms", SET, "2"), ("log.cleaner.max.compaction.lag.ms", SET, "1")],
            InvalidRequest,
        ),
        ([("log.retention.ms", APPEND, "1")], InvalidConfig),
        ([("no.such.key", APPEND, "1")], InvalidConfig),
        ([("log.cleanup.policy", APPEND, "burn")], InvalidRequest),
        ([(f"unknown.{number}", SET, "1") for number in range(MAX_UNKNOWN_KEYS + 1)], PolicyViolation),
        ([(f"unknown.{number}", DELETE, None) for number in range(MAX_CHANGES + 1)], PolicyViolation),
    ],
)
async def test_what_is_wrong_with_a_brokers_change(
    broker: BrokerServer, ask: Ask, name: str, changes: list[Change], error: type[KafkaError]
) -> None:
    assert await alter(ask, broker, change(BROKER, name, *changes)) == [error.code]
    assert broker.controller.broker_configs(name) == {}


@pytest.mark.parametrize("name", ["2", "x", "-1", " 1"])
async def test_another_broker_is_not_changed_here(broker: BrokerServer, ask: Ask, name: str) -> None:
    assert await alter(ask, broker, change(BROKER, name)) == [InvalidRequest.code]


async def test_a_value_that_cannot_be_is_refused_also_where_a_stronger_one_hides_it(
    broker: BrokerServer, ask: Ask
) -> None:
    assert await alter(ask, broker, change(BROKER, "1", ("log.retention.ms", SET, "5"))) == [NONE]
    assert await alter(ask, broker, change(BROKER, "", ("log.retention.ms", SET, "x"))) == [InvalidRequest.code]


async def test_two_layers_that_contradict_each_other_are_refused(broker: BrokerServer, ask: Ask) -> None:
    codes = await alter(
        ask,
        broker,
        change(BROKER, "", ("log.cleaner.min.compaction.lag.ms", SET, "2")),
        change(BROKER, "1", ("log.cleaner.max.compaction.lag.ms", SET, "1")),
    )
    assert codes == [NONE, InvalidRequest.code]


async def test_threads_double_and_halve_step_by_step(broker: BrokerServer, ask: Ask) -> None:
    for count in (16, 32, 16, 8, 4):
        assert await alter(ask, broker, change(BROKER, "1", ("num.io.threads", SET, str(count)))) == [NONE]
    assert broker.config.current.num_io_threads == 4


@pytest.mark.parametrize("name", ["", "1"])
async def test_unknown_keys_are_kept_and_their_values_never_shown(broker: BrokerServer, ask: Ask, name: str) -> None:
    settings = [
        ("my.secret", SET, "a"),
        ("principal.builder.class", SET, "b"),
        ("listener.name.x.ssl.key.password", SET, "c"),
    ]
    assert await alter(ask, broker, change(BROKER, name, *settings)) == [NONE]
    source = DYNAMIC_BROKER_CONFIG if name else DYNAMIC_DEFAULT_BROKER_CONFIG
    for key, _, _ in settings:
        assert await places(ask, broker, BROKER, name, key) == [(key, None, source)] * 2
    assert await alter(ask, broker, change(BROKER, name, *((key, DELETE, None) for key, _, _ in settings))) == [NONE]
    assert broker.controller.broker_configs(name) == {}


@pytest.mark.parametrize("key", ["sasl.jaas.config", "listener.name.x.plain.sasl.jaas.config"])
async def test_passwords_of_clients_are_not_stored_as_settings(broker: BrokerServer, ask: Ask, key: str) -> None:
    assert await alter(ask, broker, change(BROKER, "1", (key, SET, "secret"))) == [InvalidRequest.code]
    assert broker.controller.broker_configs("1") == {}


async def test_a_stored_setting_that_cannot_be_any_more_does_not_stop_the_start(
    start_broker: StartBroker, caplog: pytest.LogCaptureFixture
) -> None:
    broker = await start_broker()
    broker.controller.set_broker_configs("", {"log.retention.ms": "soon", "log.retention.bytes": "9"})
    await broker.stop()
    again = await start_broker()
    assert again.config.current.log_config == LogConfig(retention_bytes=9)
    assert "log.retention.ms=soon: must be a whole number" in caplog.text


async def test_stored_settings_that_contradict_the_given_ones_do_not_stop_the_start(
    start_broker: StartBroker, caplog: pytest.LogCaptureFixture
) -> None:
    broker = await start_broker()
    broker.controller.set_broker_configs("", {"log.cleaner.max.compaction.lag.ms": "5"})
    await broker.stop()
    again = await start_broker(log_cleaner_min_compaction_lag_ms=7)
    assert again.config.current.log_config.min_compaction_lag_ms == 7
    assert "are left out" in caplog.text


@pytest.fixture
def levels() -> Iterator[Callable[[], tuple[str, str]]]:
    """The levels in force of a logger and of ours above all; put back at the end."""
    above, below = logging.getLogger("kmini"), logging.getLogger("kmini.topics")
    before = above.level, below.level

    def names() -> tuple[str, str]:
        return logging.getLevelName(below.getEffectiveLevel()), logging.getLevelName(above.getEffectiveLevel())

    yield names
    above.setLevel(before[0])
    below.setLevel(before[1])


async def test_levels_of_loggers_are_set_and_forgotten(
    broker: BrokerServer, ask: Ask, levels: Callable[[], tuple[str, str]]
) -> None:
    changes = change(BROKER_LOGGER, "1", ("root", SET, "ERROR"), ("kmini.topics", SET, "DEBUG"))
    assert await alter(ask, broker, changes) == [NONE]
    assert levels() == ("DEBUG", "ERROR")
    assert (await places(ask, broker, BROKER_LOGGER, "1", "kmini.topics"))[0][1] == "DEBUG"
    assert await alter(ask, broker, change(BROKER_LOGGER, "1", ("kmini.topics", DELETE, None))) == [NONE]
    assert levels() == ("ERROR", "ERROR")


@pytest.mark.parametrize(
    ("name", "changes", "error"),
    [
        ("1", ("root", SET, "LOUD"), InvalidConfig),
        ("1", ("root", SET, "debug"), InvalidConfig),
        ("1", ("root", SET, "WARNING"), InvalidConfig),
        ("1", ("asyncio", SET, "INFO"), InvalidConfig),
        ("1", ("kmini.nope", DELETE, None), InvalidConfig),
        ("1", ("root", DELETE, None), InvalidRequest),
        ("1", ("root", SET, None), InvalidRequest),
        ("1", ("root", APPEND, "INFO"), InvalidRequest),
        ("1", ("root", SUBTRACT, "INFO"), InvalidRequest),
        ("2", ("root", SET, "INFO"), InvalidRequest),
        ("", ("root", SET, "INFO"), InvalidRequest),
    ],
)
async def test_what_is_wrong_with_a_loggers_change(
    broker: BrokerServer,
    ask: Ask,
    levels: Callable[[], tuple[str, str]],
    name: str,
    changes: Change,
    error: type[KafkaError],
) -> None:
    before = levels()
    assert await alter(ask, broker, change(BROKER_LOGGER, name, ("kmini.topics", SET, "FATAL"), changes)) == [
        error.code
    ]
    assert levels() == before
