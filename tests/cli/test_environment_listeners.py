"""`kmini serve --env`: the listeners that variables set, by the rules of the image apache/kafka."""

from __future__ import annotations

import pytest

from kmini.broker.network import port_mapping
from kmini.broker.network.listeners import Endpoint
from kmini.broker.settings.broker_config import BrokerConfig
from kmini.cli.environment import (
    complete,
    read_environment,
)
from support.container_variables import BITNAMI, CONFLUENT, SINGLE_NODE, WURSTMEISTER, config_of


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
