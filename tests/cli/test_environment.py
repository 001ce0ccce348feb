"""`kmini serve --env`: what variables say of a broker, by the rule of the image apache/kafka."""

from __future__ import annotations

import subprocess

import click
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kmini.broker.network import port_mapping
from kmini.broker.network.listeners import Endpoint
from kmini.broker.settings.broker_config import BROKER_KEYS, BrokerConfig
from kmini.broker.settings.ignored_keys import is_ignored
from kmini.cli.environment import (
    NOT_SETTINGS,
    NewTopic,
    complete,
    key_of,
    read_environment,
    variable_of,
)
from kmini.protocol.messages.describe_cluster import DescribeClusterRequest
from kmini.protocol.messages.find_coordinator import FindCoordinatorRequest
from kmini.protocol.messages.metadata import MetadataRequest
from kmini.testing import Wire

SINGLE_NODE = {
    "KAFKA_NODE_ID": "1",
    "KAFKA_LISTENER_SECURITY_PROTOCOL_MAP": "CONTROLLER:PLAINTEXT,PLAINTEXT:PLAINTEXT,PLAINTEXT_HOST:PLAINTEXT",
    "KAFKA_ADVERTISED_LISTENERS": "PLAINTEXT_HOST://localhost:9092,PLAINTEXT://broker:19092",
    "KAFKA_PROCESS_ROLES": "broker,controller",
    "KAFKA_CONTROLLER_QUORUM_VOTERS": "1@broker:29093",
    "KAFKA_LISTENERS": "CONTROLLER://:29093,PLAINTEXT_HOST://:9092,PLAINTEXT://:19092",
    "KAFKA_INTER_BROKER_LISTENER_NAME": "PLAINTEXT",
    "KAFKA_CONTROLLER_LISTENER_NAMES": "CONTROLLER",
    "CLUSTER_ID": "4L6g3nShT-eMCtK--X86sw",
    "KAFKA_OFFSETS_TOPIC_REPLICATION_FACTOR": "1",
    "KAFKA_GROUP_INITIAL_REBALANCE_DELAY_MS": "0",
    "KAFKA_TRANSACTION_STATE_LOG_MIN_ISR": "1",
    "KAFKA_TRANSACTION_STATE_LOG_REPLICATION_FACTOR": "1",
    "KAFKA_SHARE_COORDINATOR_STATE_TOPIC_REPLICATION_FACTOR": "1",
    "KAFKA_LOG_DIRS": "/tmp/kraft-combined-logs",
}
"""The environment of apache/kafka's example for one node, with its two listeners for clients."""


CONFLUENT = {
    "KAFKA_BROKER_ID": "1",
    "KAFKA_ZOOKEEPER_CONNECT": "zookeeper:2181",
    "KAFKA_LISTENER_SECURITY_PROTOCOL_MAP": "PLAINTEXT:PLAINTEXT,PLAINTEXT_HOST:PLAINTEXT",
    "KAFKA_ADVERTISED_LISTENERS": "PLAINTEXT://broker:29092,PLAINTEXT_HOST://localhost:9092",
    "KAFKA_OFFSETS_TOPIC_REPLICATION_FACTOR": "1",
    "KAFKA_TRANSACTION_STATE_LOG_MIN_ISR": "1",
    "KAFKA_TRANSACTION_STATE_LOG_REPLICATION_FACTOR": "1",
    "KAFKA_GROUP_INITIAL_REBALANCE_DELAY_MS": "0",
    "KAFKA_CONFLUENT_LICENSE_TOPIC_REPLICATION_FACTOR": "1",
    "KAFKA_METRIC_REPORTERS": "io.confluent.metrics.reporter.ConfluentMetricsReporter",
    "KAFKA_JMX_PORT": "9101",
    "KAFKA_JMX_HOSTNAME": "localhost",
    "CONFLUENT_METRICS_ENABLE": "true",
}
BITNAMI = {
    "KAFKA_CFG_NODE_ID": "0",
    "KAFKA_CFG_PROCESS_ROLES": "controller,broker",
    "KAFKA_CFG_CONTROLLER_QUORUM_VOTERS": "0@kafka:9093",
    "KAFKA_CFG_LISTENERS": "PLAINTEXT://:9092,CONTROLLER://:9093,EXTERNAL://:9094",
    "KAFKA_CFG_ADVERTISED_LISTENERS": "PLAINTEXT://:9092,EXTERNAL://localhost:9094",
    "KAFKA_CFG_LISTENER_SECURITY_PROTOCOL_MAP": "CONTROLLER:PLAINTEXT,EXTERNAL:PLAINTEXT,PLAINTEXT:PLAINTEXT",
    "KAFKA_CFG_CONTROLLER_LISTENER_NAMES": "CONTROLLER",
    "KAFKA_KRAFT_CLUSTER_ID": "abcdefghijklmnopqrstuv",
    "KAFKA_ENABLE_KRAFT": "yes",
    "ALLOW_PLAINTEXT_LISTENER": "yes",
}
WURSTMEISTER = {
    "KAFKA_ADVERTISED_LISTENERS": "INSIDE://kafka:9093,OUTSIDE://localhost:9092",
    "KAFKA_LISTENER_SECURITY_PROTOCOL_MAP": "INSIDE:PLAINTEXT,OUTSIDE:PLAINTEXT",
    "KAFKA_LISTENERS": "INSIDE://0.0.0.0:9093,OUTSIDE://0.0.0.0:9092",
    "KAFKA_INTER_BROKER_LISTENER_NAME": "INSIDE",
    "KAFKA_CREATE_TOPICS": "orders:1:1",
    "KAFKA_ZOOKEEPER_CONNECT": "zookeeper:2181",
}


def config_of(environ: dict[str, str]) -> BrokerConfig:
    return BrokerConfig.parse(read_environment(environ).properties)


def refusal_of(environ: dict[str, str]) -> str:
    with pytest.raises(click.UsageError) as raised:
        read_environment(environ)
    return raised.value.message


# --- the rule


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


@pytest.mark.parametrize("key", [key for key in BROKER_KEYS if not key.startswith("kmini.")])
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


# --- what is no setting


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


# --- listeners


def test_the_example_for_one_node_has_a_listener_for_containers_and_one_for_the_host() -> None:
    config = config_of(SINGLE_NODE)
    assert config.listeners == (Endpoint("PLAINTEXT_HOST", "", 9092), Endpoint("PLAINTEXT", "", 19092))
    assert config.advertised_listeners == {"PLAINTEXT_HOST": ("localhost", 9092), "PLAINTEXT": ("broker", 19092)}
    assert config.data_dir == "/tmp/kraft-combined-logs"
    assert read_environment(SINGLE_NODE).cluster_id == "4L6g3nShT-eMCtK--X86sw"


@pytest.mark.parametrize(
    ("said", "told"),
    [
        (CONFLUENT, {"PLAINTEXT": ("broker", 29092), "PLAINTEXT_HOST": ("localhost", 9092)}),
        (BITNAMI, {"EXTERNAL": ("localhost", 9094)}),
        (WURSTMEISTER, {"INSIDE": ("kafka", 9093), "OUTSIDE": ("localhost", 9092)}),
    ],
    ids=["confluentinc/cp-kafka", "bitnami/kafka", "wurstmeister/kafka"],
)
def test_files_for_other_images_have_their_listeners_too(said: dict[str, str], told) -> None:
    config = config_of(said)
    assert config.advertised_listeners == told
    assert told.keys() <= {listener.name for listener in config.listeners}
    assert "CONTROLLER" not in {listener.name for listener in config.listeners}


def test_an_advertised_listener_without_a_host_is_told_as_if_it_were_not_advertised() -> None:
    config = config_of({"KAFKA_ADVERTISED_LISTENERS": "PLAINTEXT://:9095"})
    assert config.advertised_listeners == {}
    assert config.listeners == (Endpoint("PLAINTEXT", "0.0.0.0", 9095),)


def test_without_listeners_they_are_the_advertised_ones_on_every_address() -> None:
    said = {
        "KAFKA_ADVERTISED_LISTENERS": "PLAINTEXT://kafka:29092,OUTSIDE://localhost:9092",
        "KAFKA_LISTENER_SECURITY_PROTOCOL_MAP": "PLAINTEXT:PLAINTEXT,OUTSIDE:PLAINTEXT",
        "KAFKA_LISTENERS": "",
    }
    assert config_of(said).listeners == (Endpoint("PLAINTEXT", "0.0.0.0", 29092), Endpoint("OUTSIDE", "0.0.0.0", 9092))


def test_a_list_of_advertised_listeners_may_end_with_a_comma() -> None:
    config = config_of({"KAFKA_ADVERTISED_LISTENERS": "PLAINTEXT://localhost:9095,"})
    assert config.advertised_listeners == {"PLAINTEXT": ("localhost", 9095)}
    assert config.listeners == (Endpoint("PLAINTEXT", "0.0.0.0", 9095),)


@pytest.mark.parametrize(
    ("said", "listener", "advertised"),
    [
        ({"KAFKA_ADVERTISED_HOST_NAME": "localhost"}, 9092, ("localhost", 9092)),
        ({"KAFKA_ADVERTISED_HOST_NAME": "h", "KAFKA_PORT": "9095"}, 9095, ("h", 9095)),
        ({"KAFKA_ADVERTISED_HOST_NAME": "h", "KAFKA_ADVERTISED_PORT": "1"}, 9092, ("h", 1)),
        ({"KAFKA_ADVERTISED_HOST_NAME": "h", "KAFKA_PORT": "tcp://10.0.0.1:9092"}, 9092, ("h", 9092)),
    ],
)
def test_host_name_and_port_of_old_files_still_mean_what_they_meant(said, listener: int, advertised) -> None:
    config = config_of(said)
    assert config.listeners == (Endpoint("PLAINTEXT", "", listener),)
    assert config.advertised_listeners == {"PLAINTEXT": advertised}


def test_a_container_that_is_told_nothing_listens_on_every_address() -> None:
    properties: dict[str, str] = {}
    complete(properties, {})
    assert BrokerConfig.parse(properties).listeners == (Endpoint("PLAINTEXT", "", 9092),)


@pytest.fixture
def behind_a_port_mapping(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(port_mapping, "is_behind_port_mapping", lambda environ: True)


@pytest.mark.usefixtures("behind_a_port_mapping")
@pytest.mark.parametrize(
    ("said", "mapped"),
    [
        ({}, {"PLAINTEXT": ("localhost", 9092)}),
        ({"listeners": "PLAINTEXT://:19092"}, {"PLAINTEXT": ("localhost", 19092)}),
        ({"advertised.listeners": "PLAINTEXT://kafka:1"}, {}),
        ({"kmini.mapped.listeners": "PLAINTEXT://localhost:29092"}, {"PLAINTEXT": ("localhost", 29092)}),
        ({"kmini.mapped.listeners": ""}, {}),
        (
            {
                "listeners": "IN://:19092,OUT://:9092,CONTROLLER://:9093",
                "listener.security.protocol.map": "IN:PLAINTEXT,OUT:PLAINTEXT,CONTROLLER:PLAINTEXT",
                "controller.listener.names": "CONTROLLER",
                "advertised.listeners": "IN://kafka:19092",
            },
            {"OUT": ("localhost", 9092)},
        ),
    ],
)
def test_behind_published_ports_the_host_is_told_localhost_and_the_same_port(said: dict[str, str], mapped) -> None:
    complete(said, {})
    assert BrokerConfig.parse(said).kmini_mapped_listeners == mapped


def test_elsewhere_nobody_is_told_so() -> None:
    properties: dict[str, str] = {}
    complete(properties, {"KUBERNETES_SERVICE_HOST": "10.0.0.1"})
    assert "kmini.mapped.listeners" not in properties


# --- what would only look like a cluster


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


# --- topics


@pytest.mark.parametrize(
    ("text", "topics"),
    [
        ("", []),
        ("orders:3:1", [("orders", 3, "")]),
        ("a:1:1,b:2:1:compact", [("a", 1, ""), ("b", 2, "compact")]),
        ("a:1:1\nb:2:1:compact,delete\n", [("a", 1, ""), ("b", 2, "compact,delete")]),
        (" a : 1 : 1 , b:2:1 ,", [("a", 1, ""), ("b", 2, "")]),
        ("a:1:1:delete,b:1:1:compact", [("a", 1, "delete"), ("b", 1, "compact")]),
    ],
)
def test_topics_are_in_the_grammar_of_wurstmeister(text: str, topics: list[tuple[str, int, str]]) -> None:
    expected = [NewTopic(*topic, "KAFKA_CREATE_TOPICS", replicas=1) for topic in topics]
    assert read_environment({"KAFKA_CREATE_TOPICS": text}).topics == expected


@pytest.mark.parametrize(
    ("separator", "text"), [("$'\\n'", "a:1:1\nb:1:1"), (";", "a:1:1;b:1:1"), (" ", "a:1:1 b:1:1")]
)
def test_another_separator_can_be_said(separator: str, text: str) -> None:
    environment = read_environment({"KAFKA_CREATE_TOPICS": text, "KAFKA_CREATE_TOPICS_SEPARATOR": separator})
    assert [topic.name for topic in environment.topics] == ["a", "b"]


@pytest.mark.parametrize(
    ("brokers", "said"),
    [
        (1, "topic a gets 1 replica instead of 3: there is one broker"),
        (2, "topic a gets 2 replicas instead of 3: there are 2 brokers"),
    ],
)
def test_more_replicas_than_brokers_are_one_each_and_it_is_said(start, stop, brokers: int, said: str) -> None:
    environment = {"KAFKA_CREATE_TOPICS": "a:1:3,b:1:1", "PATH": ""}
    process = start("serve", "--env", "--host", "127.0.0.1", "--port", 0, "--brokers", brokers, env=environment)
    with Wire(process.stdout.readline().strip()) as wire:
        asked = [MetadataRequest.Topic(name=name) for name in ("a", "b")]
        told = wire.ask(MetadataRequest(topics=asked, allow_auto_topic_creation=False)).topics
    assert [len(topic.partitions[0].replica_nodes) for topic in told] == [brokers, 1]
    assert said in stop(process)[1]


@pytest.mark.parametrize("text", ["a", "a:1", "a:b:c", "a:0:1", "a:1:0", "a:1:1:compact:x", "a:-1:1", "a:1:1,b"])
def test_a_topic_in_no_such_grammar_is_named(text: str) -> None:
    assert "name:partitions:replicas:cleanup.policy was expected" in refusal_of({"KAFKA_CREATE_TOPICS": text})


# --- the program


def test_a_broker_starts_with_the_environment_of_a_compose_file(start, stop, run, tmp_path) -> None:
    ports = {"KAFKA_LISTENERS": "CONTROLLER://:29093,PLAINTEXT_HOST://127.0.0.1:0,PLAINTEXT://127.0.0.1:0"}
    told = {"KAFKA_CREATE_TOPICS": "orders:3:1,profiles:1:1:compact", "KAFKA_HEAP_OPTS": "-Xmx1G"}
    data = {"KAFKA_LOG_DIRS": str(tmp_path / "data")}
    process = start("serve", "--env", env={**SINGLE_NODE, **ports, **told, **data, "PATH": ""})
    addresses = [process.stdout.readline().strip() for _ in range(2)]
    stderr = until_ready(process)
    assert process.stdout.readline() == stderr.splitlines(keepends=True)[-1], "some wrappers read stdout, some stderr"
    assert run("health", "-b", addresses[0]).exit_code == 0
    assert [told_at(address) for address in addresses] == [("localhost", 9092), ("broker", 19092)]
    assert stop(process)[0] == 0
    assert "environment variables that have no effect here: KAFKA_HEAP_OPTS\n" in stderr
    assert stderr.count("settings of Apache Kafka that have no effect here: ") == 1
    assert {"orders-2", "profiles-0"} <= {path.name for path in (tmp_path / "data" / "broker-1").iterdir()}
    assert "4L6g3nShT-eMCtK--X86sw" in (tmp_path / "data" / "broker-1" / "meta.properties").read_text()


def told_at(address: str) -> tuple[str, int]:
    """Where a client that bootstraps here is told to go."""
    with Wire(address) as wire:
        (node,) = wire.ask(MetadataRequest(topics=[])).brokers
        (same,) = wire.ask(DescribeClusterRequest()).brokers
        (coordinator,) = wire.ask(FindCoordinatorRequest(coordinator_keys=["billing"])).coordinators
    assert (same.host, same.port) == (coordinator.host, coordinator.port) == (node.host, node.port)
    return node.host, node.port


def until_ready(process: subprocess.Popen[str]) -> str:
    """What it says until it says what Testcontainers waits for, which differs by image."""
    assert process.stderr is not None
    said = ""
    while not said.rpartition("\n")[0].rpartition("\n")[2].startswith("ready: "):
        line = process.stderr.readline()
        assert line, said
        said += line
    for awaited in ("[KafkaServer id=1] started", "Kafka Server started", "Transitioning from RECOVERY to RUNNING"):
        assert awaited in line
    return said


def test_options_win_over_the_environment_and_the_environment_over_the_file(start, tmp_path) -> None:
    properties = tmp_path / "server.properties"
    properties.write_text("node.id=2\nnum.partitions=2\nlisteners=PLAINTEXT://127.0.0.1:1\n")
    said = {"KAFKA_NODE_ID": "3", "KAFKA_NUM_PARTITIONS": "3", "PATH": ""}
    arguments = ("-c", "num.partitions=4", "--port", 0, "--data-dir", tmp_path / "data")
    process = start("serve", properties, "--env", *arguments, env=said)
    assert process.stdout.readline().startswith("127.0.0.1:")
    assert (tmp_path / "data" / "broker-3").exists()


def test_data_of_another_cluster_are_refused(start, stop, tmp_path) -> None:
    arguments = ("serve", "--env", "--host", "127.0.0.1", "--port", 0, "--data-dir", tmp_path)
    process = start(*arguments, env={"CLUSTER_ID": "first", "PATH": ""})
    process.stdout.readline()
    stop(process)
    process = start(*arguments, env={"CLUSTER_ID": "second", "PATH": ""})
    _, stderr = process.communicate(timeout=30)
    assert process.returncode == 1
    assert "belongs to cluster first, not to second" in stderr


def test_the_names_that_are_no_settings_are_none() -> None:
    assert not {key_of(variable) for variable in NOT_SETTINGS} & BROKER_KEYS.keys()
