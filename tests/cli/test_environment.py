"""`kmini serve --env`: what variables say of a broker, by the rule of the image apache/kafka."""

from __future__ import annotations

import click
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kmini.broker.settings.broker_config import BROKER_KEYS, BrokerConfig
from kmini.broker.settings.ignored_keys import is_ignored
from kmini.cli.environment import (
    NOT_SETTINGS,
    key_of,
    read_environment,
    variable_of,
)
from kmini.cli.wanted_topics import NewTopic
from support.container_variables import config_of
from support.for_each import for_each


def refusal_of(environ: dict[str, str]) -> str:
    with pytest.raises(click.UsageError) as raised:
        read_environment(environ)
    return raised.value.message


@pytest.mark.parametrize(
    ("variable", "key"),
    [
        ("KAFKA_LOG_RETENTION_MS", "log.retention.ms"),
        ("KAFKA_UNDER__SCORE", "under_score"),
        ("KAFKA_DA___SH", "da-sh"),
        ("KAFKA_A____B", "a-.b"),
        ("KAFKA_A_____B", "a-_b"),
        ("KAFKA_KAFKA_METRICS_REPORTERS", "kafka.metrics.reporters"),
        ("KAFKA_Node_Id", "node.id"),
    ],
)
def test_a_variable_is_a_key_in_capitals(variable: str, key: str) -> None:
    assert key_of(variable) == key


@given(st.from_regex(r"[a-z0-9]+([._-][a-z0-9]+){0,5}", fullmatch=True))
def test_a_key_comes_back_from_its_variable(key: str) -> None:
    assert key_of(variable_of(key)) == key


@for_each("key", [key for key in BROKER_KEYS if not key.startswith("kmini.")])
def test_every_setting_can_be_said(key: str) -> None:
    line = BROKER_KEYS[key]
    text = line.text(line.default) or ""
    assert read_environment({variable_of(key): text}).properties[key] == text.strip()


def test_what_is_not_said_keeps_its_default() -> None:
    config = config_of({"KAFKA_NUM_PARTITIONS": "7"})
    assert config.num_partitions == 7
    assert config.replace(num_partitions=1, given={}) == BrokerConfig()


def test_a_value_is_read_as_a_line_of_a_properties_file() -> None:
    said = {"KAFKA_BROKER_RACK": "  a\\tb", "KAFKA_LOG_RETENTION_MS": "5\nnum.partitions=3"}
    assert read_environment(said).properties == {
        "broker.rack": "a\tb",
        "log.retention.ms": "5",
        "num.partitions": "3",
    }


def test_settings_of_our_own_are_said_with_our_own_prefix() -> None:
    config = config_of({"KMINI_MAPPED_LISTENERS": "PLAINTEXT://localhost:29092"})
    assert config.kmini_mapped_listeners == {"PLAINTEXT": ("localhost", 29092)}


def test_bitnamis_prefix_means_the_same() -> None:
    assert config_of({"KAFKA_CFG_NUM_PARTITIONS": "4"}).num_partitions == 4


def test_what_kafka_knows_and_we_do_not_is_accepted_and_named_once() -> None:
    said = {"KAFKA_HEAP_OPTS": "-Xmx1G", "KAFKA_JMX_PORT": "9101", "KAFKA_LOG4J_LOGGERS": "kafka=WARN", "PATH": "/bin"}
    environment = read_environment(said)
    assert environment.properties == {}
    assert environment.ignored == ["KAFKA_HEAP_OPTS", "KAFKA_JMX_PORT", "KAFKA_LOG4J_LOGGERS"]
    ignored = read_environment({"KAFKA_ZOOKEEPER_CONNECT": "zookeeper:2181", "KAFKA_CONFLUENT_SUPPORT_ID": "x"})
    assert all(is_ignored(key) for key in ignored.properties)
    assert len(ignored.properties) == 2


@pytest.mark.parametrize(
    ("variable", "said"),
    [
        ("KAFKA_LOG_RETENTOIN_MS", "no setting log.retentoin.ms (did you mean KAFKA_LOG_RETENTION_MS?)"),
        ("KAFKA_LOG_RETENTION__MS", "no setting log.retention_ms (did you mean KAFKA_LOG_RETENTION_MS?)"),
        ("KAFKA_CREATE_TOPIC", "no setting create.topic (did you mean KAFKA_CREATE_TOPICS?)"),
        ("KAFKA_ADVERTISED_LISTENER", "no setting advertised.listener (did you mean KAFKA_ADVERTISED_LISTENERS?)"),
        ("KMINI_MAPED_LISTENERS", "no setting kmini.maped.listeners (did you mean KMINI_MAPPED_LISTENERS?)"),
        ("KAFKA_QQQ", "no setting qqq"),
    ],
)
def test_a_misspelt_variable_is_an_error_with_the_right_one(variable: str, said: str) -> None:
    assert refusal_of({variable: "1"}) == f"{variable}: there is {said}"


def test_what_kubernetes_says_of_a_service_called_kafka_is_no_setting() -> None:
    links = {
        "KAFKA_SERVICE_HOST": "10.0.0.1",
        "KAFKA_SERVICE_PORT": "9092",
        "KAFKA_SERVICE_PORT_CLIENTS": "9092",
        "KAFKA_PORT": "tcp://10.0.0.1:9092",
        "KAFKA_PORT_9092_TCP": "tcp://10.0.0.1:9092",
        "KAFKA_PORT_9092_TCP_ADDR": "10.0.0.1",
        "KAFKA_UI_SERVICE_HOST": "10.0.0.2",
        "KAFKA_UI_PORT_8080_TCP_PROTO": "tcp",
    }
    environment = read_environment(links)
    assert (environment.properties, environment.ignored) == ({}, [])


@pytest.mark.parametrize(
    ("level", "ours"), [("", ""), ("INFO", "info"), ("warn", "warning"), ("TRACE", "debug"), ("FATAL", "error")]
)
def test_the_level_of_log4js_root_is_the_level_of_our_log(level: str, ours: str) -> None:
    assert read_environment({"KAFKA_LOG4J_ROOT_LOGLEVEL": level}).log_level == ours


def test_a_number_that_is_none_is_named(run) -> None:
    result = run("serve", "--env", KAFKA_NUM_PARTITIONS="many")
    assert result.exit_code == 2
    assert "num.partitions=many: must be a whole number" in result.stderr


def test_a_controller_alone_is_refused() -> None:
    assert "remove this service, keep the broker" in refusal_of({"KAFKA_PROCESS_ROLES": "controller"})


def test_an_empty_role_is_none() -> None:
    assert "remove this service, keep the broker" in refusal_of({"KAFKA_PROCESS_ROLES": "controller,"})


def test_one_of_several_brokers_is_refused() -> None:
    said = {"KAFKA_PROCESS_ROLES": "broker,controller", "KAFKA_CONTROLLER_QUORUM_VOTERS": "1@a:1,2@b:1,3@c:1"}
    assert "names 3 brokers: several kmini form no cluster" in refusal_of(said)


def test_a_broker_beside_its_controller_is_the_whole_cluster() -> None:
    said = {
        "KAFKA_PROCESS_ROLES": "broker",
        "KAFKA_CONTROLLER_QUORUM_VOTERS": "4@controller:9093",
        "KAFKA_NODE_ID": "2",
    }
    assert config_of(said).node_id == 2


def test_topics_are_those_of_a_variable_with_a_separator_of_its_own() -> None:
    said = {"KAFKA_CREATE_TOPICS": "a:1:1;b:2:1:compact", "KAFKA_CREATE_TOPICS_SEPARATOR": ";"}
    assert read_environment(said).topics == [
        NewTopic("a", 1, "", "KAFKA_CREATE_TOPICS", replicas=1),
        NewTopic("b", 2, "compact", "KAFKA_CREATE_TOPICS", replicas=1),
    ]
    assert refusal_of({"KAFKA_CREATE_TOPICS": "a"}).startswith("KAFKA_CREATE_TOPICS: a: name:partitions:replicas ")


def test_the_init_directory_and_its_time_are_read() -> None:
    environment = read_environment({"KMINI_INIT_DIR": "/etc/kmini/init/ready.d", "KMINI_INIT_TIMEOUT_MS": " 5000 "})
    assert (environment.init_dir, environment.init_timeout_ms) == ("/etc/kmini/init/ready.d", 5000)
    assert (read_environment({}).init_dir, read_environment({}).init_timeout_ms) == ("", None)


@pytest.mark.parametrize("text", ["0", "-1", "1s", "86400001", "٣"])
def test_a_time_of_the_init_directory_that_is_none_is_named(text: str) -> None:
    assert refusal_of({"KMINI_INIT_TIMEOUT_MS": text}).endswith("milliseconds was expected, from 1 to 86400000")


def test_the_number_of_brokers_is_read() -> None:
    assert read_environment({"KMINI_BROKERS": "3"}).brokers == 3
    assert read_environment({"KMINI_BROKERS": ""}).brokers == 1
    said = "KMINI_BROKERS=0: a number of brokers was expected, from 1 to 100"
    assert refusal_of({"KMINI_BROKERS": "0"}) == said


def test_the_names_that_are_no_settings_are_none() -> None:
    assert not {key_of(variable) for variable in NOT_SETTINGS} & BROKER_KEYS.keys()


def test_the_control_api_is_where_its_variables_say_and_nowhere_without_them() -> None:
    assert (read_environment({}).http_port, read_environment({}).http_host) == (None, "")
    assert read_environment({"KMINI_HTTP": ""}).http_port is None
    said = read_environment({"KMINI_HTTP": " 8090 ", "KMINI_HTTP_HOST": "127.0.0.1", "KMINI_HTTP_TOKEN": "secret"})
    assert (said.http_port, said.http_host, said.properties) == (8090, "127.0.0.1", {})
    assert "secret" not in repr(said)


@pytest.mark.parametrize("port", ["x", "-1", "65536", "8090:8090"])
def test_a_port_of_the_control_api_that_is_none_is_named(port: str) -> None:
    expected = f"KMINI_SCHEMA_REGISTRY={port}: a port was expected, or nothing for no schema registry"
    assert refusal_of({"KMINI_SCHEMA_REGISTRY": port}) == expected
    assert refusal_of({"KMINI_HTTP": port}) == f"KMINI_HTTP={port}: a port was expected, or nothing for no control API"


def test_the_variables_that_scripts_and_clients_in_a_container_have_are_no_settings() -> None:
    said = {
        "KMINI_COMMAND_CONFIG": "a.properties",
        "KMINI_HTTP_URL": "http://x",
        "KMINI_SCHEMA_REGISTRY_URL": "http://y",
    }
    assert read_environment(said).properties == {}


def test_a_misspelt_variable_of_the_program_is_an_error_with_the_right_one() -> None:
    assert "did you mean KMINI_HTTP_TOKEN?" in refusal_of({"KMINI_HTTP_TOKNE": "secret"})
