"""The table of broker settings: parsing a server.properties, and printing one."""

from __future__ import annotations

from pathlib import Path

import pytest

from kmini.broker.network.listeners import Endpoint
from kmini.broker.settings.broker_config import BROKER_KEYS, BrokerConfig, ConfigError
from kmini.broker.settings.config_reference import server_properties
from kmini.broker.settings.properties import parse_properties
from kmini.storage.log_config import LogConfig

ROOT = Path(__file__).resolve().parents[3]

KAFKAS_OWN = """
# what a server.properties of Apache Kafka 4.x sets
process.roles=broker,controller
node.id=7
controller.quorum.bootstrap.servers=localhost:9093
listeners=PLAINTEXT://:9092,CONTROLLER://:9093
inter.broker.listener.name=PLAINTEXT
advertised.listeners=PLAINTEXT://localhost:9092,CONTROLLER://localhost:9093
controller.listener.names=CONTROLLER
listener.security.protocol.map=CONTROLLER:PLAINTEXT,PLAINTEXT:PLAINTEXT,SSL:SSL,SASL_PLAINTEXT:SASL_PLAINTEXT
num.network.threads=3
num.io.threads=8
socket.send.buffer.bytes=102400
socket.receive.buffer.bytes=102400
socket.request.max.bytes=104857600
log.dirs=/var/lib/kafka
num.partitions=1
num.recovery.threads.per.data.dir=2
offsets.topic.replication.factor=1
share.coordinator.state.topic.replication.factor=1
transaction.state.log.replication.factor=1
transaction.state.log.min.isr=1
#log.flush.interval.messages=10000
log.retention.hours=168
#log.retention.bytes=1073741824
log.retention.check.interval.ms=300000
"""


# --- keys


def test_a_server_properties_of_kafkas_starts_kmini() -> None:
    config = BrokerConfig.parse(parse_properties(KAFKAS_OWN))
    assert config.node_id == 7
    assert config.listeners == (Endpoint("PLAINTEXT", "", 9092),)
    assert config.advertised_listeners == {"PLAINTEXT": ("localhost", 9092)}
    assert config.data_dir == "/var/lib/kafka"


@pytest.mark.parametrize(
    ("properties", "message"),
    [
        ({"log.retenton.ms": "1"}, "log.retenton.ms=1: no such setting (did you mean log.retention.ms?)"),
        ({"zzz": "1"}, "zzz=1: no such setting"),
        (
            {"retention.ms": "1"},
            "retention.ms=1: this is a topic's setting; its default for all topics is log.retention.ms",
        ),
        ({"num.partitions": "0"}, "num.partitions=0: must be at least 1"),
        ({"num.partitions": "many"}, "num.partitions=many: must be a whole number"),
        ({"log.retention.hours": "-2"}, "log.retention.hours=-2: must be at least -1"),
        ({"log.dirs": "/a,/b"}, "log.dirs=/a,/b: must name one directory"),
        ({"log.segment.bytes": "1"}, "log.segment.bytes=1: must be at least 14"),
        (
            {"group.min.session.timeout.ms": "9", "group.max.session.timeout.ms": "8"},
            "group.min.session.timeout.ms=9: must be at most group.max.session.timeout.ms=8",
        ),
        (
            {"log.cleaner.min.compaction.lag.ms": "9", "log.cleaner.max.compaction.lag.ms": "8"},
            "log.cleaner.min.compaction.lag.ms=9: must be at most log.cleaner.max.compaction.lag.ms=8",
        ),
    ],
)
def test_a_mistake_is_one_sentence_with_key_value_and_rule(properties: dict[str, str], message: str) -> None:
    with pytest.raises(ConfigError) as raised:
        BrokerConfig.parse(properties)
    assert str(raised.value) == message


@pytest.mark.parametrize(
    ("properties", "node_id"),
    [({}, 1), ({"broker.id": "4"}, 4), ({"broker.id": "4", "node.id": "5"}, 5), ({"broker.id": "-1"}, 1)],
)
def test_the_old_name_of_the_node_id_is_the_weaker_one(properties: dict[str, str], node_id: int) -> None:
    assert BrokerConfig.parse(properties).node_id == node_id


def test_log_dir_is_the_weaker_name_of_log_dirs() -> None:
    assert BrokerConfig.parse({"log.dir": "/a"}).data_dir == "/a"
    assert BrokerConfig.parse({"log.dir": "/a", "log.dirs": "/b"}).data_dir == "/b"


def test_without_a_data_directory_there_is_none() -> None:
    assert BrokerConfig().data_dir is None


def test_no_settings_at_all_are_the_defaults() -> None:
    assert BrokerConfig.parse({}) == BrokerConfig()


def test_the_internal_topics_and_first_rebalance_are_as_the_design_says() -> None:
    config = BrokerConfig()
    assert (config.offsets_topic_num_partitions, config.transaction_state_log_num_partitions) == (8, 8)
    assert (config.offsets_topic_replication_factor, config.transaction_state_log_min_isr) == (3, 2)
    assert config.group_initial_rebalance_delay_ms == 0


# --- the defaults of topics


@pytest.mark.parametrize(
    ("properties", "retention_ms"),
    [
        ({"log.retention.hours": "2"}, 7_200_000),
        ({"log.retention.hours": "2", "log.retention.minutes": "3"}, 180_000),
        ({"log.retention.minutes": "3", "log.retention.ms": "4", "log.retention.hours": "2"}, 4),
        ({"log.retention.hours": "-1"}, -1),
        ({"log.retention.ms": "", "log.retention.hours": "2"}, 7_200_000),
        ({}, 604_800_000),
    ],
)
def test_the_finer_unit_wins(properties: dict[str, str], retention_ms: int) -> None:
    assert BrokerConfig.parse(properties).log_config.retention_ms == retention_ms


def test_a_weaker_key_is_checked_although_a_stronger_one_wins() -> None:
    with pytest.raises(ConfigError, match=r"log\.retention\.hours=x"):
        BrokerConfig.parse({"log.retention.ms": "1", "log.retention.hours": "x"})


def test_every_topic_setting_with_a_broker_key_takes_its_default_from_there() -> None:
    for line in LogConfig.KEYS.values():
        for name in line.broker_keys[:1]:
            text = BROKER_KEYS[name].type.text(line.default)
            assert BrokerConfig.parse({name: text}).log_config == LogConfig(), name


def test_the_weakest_key_shows_the_default_as_in_kafka() -> None:
    assert {name: BROKER_KEYS[name].default for name in LogConfig.KEYS["retention.ms"].broker_keys} == {
        "log.retention.ms": None,
        "log.retention.minutes": None,
        "log.retention.hours": 168,
    }


# --- the printed table


def test_the_server_properties_in_the_repository_is_the_rendered_table() -> None:
    assert (ROOT / "config" / "server.properties").read_text() == server_properties(), (
        "run: python -m kmini.broker.settings.config_reference > config/server.properties"
    )


def test_the_printed_defaults_are_the_defaults() -> None:
    uncommented = "\n".join(
        line.removeprefix("#") for line in server_properties().splitlines() if line.startswith("#") and line[1:2] != " "
    )
    properties = parse_properties(uncommented)
    given = BrokerConfig.parse(properties)
    assert given.replace(given={}) == BrokerConfig()
    assert given.log_config == LogConfig()


def test_every_key_of_the_table_is_printed() -> None:
    text = server_properties()
    for name in BROKER_KEYS:
        assert name in text, name


def test_every_difference_from_kafka_has_its_reason_in_print() -> None:
    text = " ".join(server_properties().replace("#", " ").split())
    for line in BROKER_KEYS.values():
        assert line.differs in text, line
