"""Kafka's server.properties follow from kmini's."""

from __future__ import annotations

import pytest

from kmini.broker.security.security_settings import sasl_settings
from kmini.broker.settings.broker_config import BrokerConfig
from kmini.broker.settings.properties import parse_properties
from kmini.graduation.kafka_settings import ChangedSetting, for_kafka
from kmini.graduation.server_properties import server_properties

STANDARD = "org.apache.kafka.metadata.authorizer.StandardAuthorizer"
PLAIN_MODULE = "org.apache.kafka.common.security.plain.PlainLoginModule"

ONE_NODE = {
    "offsets.topic.replication.factor": "1",
    "transaction.state.log.replication.factor": "1",
    "transaction.state.log.min.isr": "1",
    "share.coordinator.state.topic.replication.factor": "1",
    "share.coordinator.state.topic.min.isr": "1",
}

SECURED = {
    "listeners": "SECURED://0.0.0.0:9093",
    "listener.security.protocol.map": "SECURED:SASL_PLAINTEXT",
    "sasl.enabled.mechanisms": "PLAIN,SCRAM-SHA-256",
    "sasl.jaas.config": f'{PLAIN_MODULE} required user_carol="a \\"b\\\\c";',
    "authorizer.class.name": "kafka.security.authorizer.AclAuthorizer",
    "super.users": "User:admin;",
}


def written(configured: dict[str, str] | None, **options: int | None) -> dict[str, str]:
    made = server_properties("/kafka", options.get("node_id"), configured)
    return parse_properties(made.text)


def test_without_settings_it_is_what_comes_with_kafka_on_the_directory() -> None:
    assert written(None) == {
        "process.roles": "broker,controller",
        "node.id": "1",
        "log.dirs": "/kafka",
        "controller.quorum.bootstrap.servers": "localhost:9093",
        "controller.listener.names": "CONTROLLER",
        "listeners": "PLAINTEXT://:9092,CONTROLLER://localhost:9093",
        "advertised.listeners": "PLAINTEXT://localhost:9092,CONTROLLER://localhost:9093",
        "inter.broker.listener.name": "PLAINTEXT",
        "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT",
        **ONE_NODE,
    }


def test_settings_go_along_unless_kafka_has_none_of_that_name_or_kind() -> None:
    configured = {
        "node.id": "5",
        "log.dirs": "data",
        "listeners": "PLAINTEXT://127.0.0.1:9093,OTHER://10.0.0.1:9094",
        "advertised.listeners": "OTHER://kafka.example:19094",
        "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,OTHER:PLAINTEXT",
        "log.retention.ms": "1000",
        "log.segment.bytes": "1000",
        "offsets.topic.replication.factor": "3",
        "transaction.state.log.min.isr": "1",
        "kmini.as.version": "3.9",
    }
    made = server_properties("/kafka", None, configured)
    properties = parse_properties(made.text)
    assert properties == {
        "process.roles": "broker,controller",
        "node.id": "5",
        "log.dirs": "/kafka",
        "controller.quorum.bootstrap.servers": "localhost:9095",
        "controller.listener.names": "CONTROLLER",
        "listeners": "PLAINTEXT://127.0.0.1:9093,OTHER://10.0.0.1:9094,CONTROLLER://localhost:9095",
        "advertised.listeners": "PLAINTEXT://127.0.0.1:9093,OTHER://kafka.example:19094,CONTROLLER://localhost:9095",
        "inter.broker.listener.name": "PLAINTEXT",
        "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,OTHER:PLAINTEXT,CONTROLLER:PLAINTEXT",
        "log.retention.ms": "1000",
        "log.segment.bytes": "1048576",
        **ONE_NODE,
    }
    assert (made.node_id, made.controller_port, made.holds_secrets) == (5, 9095, False)
    assert {(each.name, each.becomes) for each in made.changed} == {
        ("kmini.as.version", None),
        ("log.segment.bytes", "1048576"),
        ("offsets.topic.replication.factor", "1"),
    }
    assert server_properties("/kafka", 8, configured).node_id == 8


def test_a_controllers_listener_in_the_file_keeps_its_port() -> None:
    listeners = "PLAINTEXT://localhost:9092,CONTROLLER://:29093,"
    properties = written({"listeners": listeners, "controller.listener.names": "CONTROLLER"})
    assert properties["listeners"] == "PLAINTEXT://localhost:9092,CONTROLLER://localhost:29093"


def test_where_clients_need_passwords_the_node_needs_one_too() -> None:
    made = server_properties("/kafka", None, SECURED)
    properties = parse_properties(made.text)
    assert properties["listeners"] == "SECURED://0.0.0.0:9093,NODE://localhost:9095,CONTROLLER://localhost:9094"
    assert properties["advertised.listeners"] == (
        "SECURED://localhost:9093,NODE://localhost:9095,CONTROLLER://localhost:9094"
    )
    assert properties["listener.security.protocol.map"] == (
        "SECURED:SASL_PLAINTEXT,CONTROLLER:SASL_PLAINTEXT,NODE:SASL_PLAINTEXT"
    )
    assert properties["inter.broker.listener.name"] == "NODE"
    login = properties["listener.name.node.plain.sasl.jaas.config"]
    assert properties["listener.name.controller.plain.sasl.jaas.config"] == login
    assert login not in server_properties("/kafka", None, SECURED).text  # another one each time
    user = properties["super.users"].split(";")[1].removeprefix("User:")
    assert f'username="{user}"' in login
    assert properties["authorizer.class.name"] == STANDARD
    assert made.holds_secrets


def test_every_mechanism_of_a_listener_has_a_login_module() -> None:
    properties = written(SECURED)
    prefix = "listener.name.secured."
    assert properties[f"{prefix}sasl.enabled.mechanisms"] == "PLAIN,SCRAM-SHA-256"
    assert properties[f"{prefix}scram-sha-256.sasl.jaas.config"] == (
        "org.apache.kafka.common.security.scram.ScramLoginModule required;"
    )
    read = sasl_settings(BrokerConfig.parse({**SECURED, **properties, "sasl.jaas.config": ""}), "SECURED")
    assert read is not None
    assert read.plain_users == {"carol": 'a "b\\c'}
    assert "sasl.jaas.config" not in properties


@pytest.mark.parametrize("has_keys", [False, True])
def test_a_listener_that_takes_tokens_has_their_login_module_and_signed_ones_what_checks_them(
    has_keys: bool,
) -> None:
    signed = {"sasl.oauthbearer.jwks.endpoint.url": "https://issuer.example/keys"} if has_keys else {}
    properties = written({**SECURED, "sasl.enabled.mechanisms": "PLAIN,OAUTHBEARER", **signed})
    prefix = "listener.name.secured.oauthbearer.sasl."
    package = "org.apache.kafka.common.security.oauthbearer"
    assert properties[f"{prefix}jaas.config"] == f"{package}.OAuthBearerLoginModule required;"
    checks = properties.get(f"{prefix}server.callback.handler.class")
    assert checks == (f"{package}.OAuthBearerValidatorCallbackHandler" if has_keys else None)
    assert signed.items() <= properties.items()


def test_a_listener_called_as_the_nodes_own_keeps_its_name() -> None:
    configured = {**SECURED, "listeners": "NODE://:9092", "listener.security.protocol.map": "NODE:SASL_PLAINTEXT"}
    properties = written(configured)
    assert properties["listeners"] == "NODE://:9092,NODE1://localhost:9094,CONTROLLER://localhost:9093"
    assert properties["inter.broker.listener.name"] == "NODE1"


def test_texts_that_java_would_read_otherwise_are_escaped() -> None:
    odd = {"broker.rack": " größe \\ x = # \U0001f600"}
    made = server_properties("/käfka", None, odd)
    assert made.text.isascii()
    properties = parse_properties(made.text)
    assert properties["broker.rack"] == odd["broker.rack"]
    assert properties["log.dirs"] == "/käfka"


def test_topic_settings_that_kafka_has_stay_as_they_were() -> None:
    settings = {"cleanup.policy": "compact", "retention.ms": "-1", "internal.segment.bytes": "50"}
    assert for_kafka("topic t", settings) == (settings, [])
    kept, changed = for_kafka("topic t", {"segment.bytes": "1048575", "kmini.tombstone.null.refuse": "true"})
    assert kept == {"segment.bytes": "1048576"}
    assert [(each.name, each.becomes) for each in changed] == [
        ("segment.bytes", "1048576"),
        ("kmini.tombstone.null.refuse", None),
    ]
    assert all(isinstance(each, ChangedSetting) and each.resource == "topic t" for each in changed)
