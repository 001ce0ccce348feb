"""The settings of a cluster for both kinds of clients."""

from __future__ import annotations

from typing import Any

import pytest

pytest.importorskip("confluent_kafka")

from kmini.pipeline import Kafka, Pipeline, Stage
from kmini.pipeline.clients import SettingsError


def same(frame: Any) -> Any:
    return frame


A = Stage("a", same, reads="in", writes="between")


def test_where_brokers_are_is_said_by_the_file_or_else_by_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("KAFKA_BOOTSTRAP_SERVERS", raising=False)
    assert Kafka().servers == "127.0.0.1:9092"
    monkeypatch.setenv("KAFKA_BOOTSTRAP_SERVERS", "b:1")
    assert Kafka().servers == "b:1"
    assert Kafka("c:2").servers == "c:2"
    assert Pipeline("p", [A], kafka=Kafka("c:2")).with_kafka("d:3").kafka.servers == "d:3"
    assert Pipeline("p", [A], kafka=Kafka("c:2")).with_kafka().kafka.servers == "c:2"


JAAS = 'org.apache.kafka.common.security.scram.ScramLoginModule required username="alice" password="p\\"w;=";'


def test_settings_of_the_registry_go_to_no_client_of_kafka() -> None:
    kafka = Kafka("b:1", {"schema.registry.url": "http://r:8081", "basic.auth.user.info": "ann:secret"})
    assert kafka.spark_options() == {"kafka.bootstrap.servers": "b:1"}
    assert kafka.admin_config() == {"bootstrap.servers": "b:1"}


def test_who_to_be_is_said_once_for_both_kinds_of_clients() -> None:
    settings = {"security.protocol": "SASL_SSL", "sasl.mechanism": "SCRAM-SHA-256", "sasl.jaas.config": JAAS}
    settings |= {"ssl.truststore.location": "ca.pem", "ssl.truststore.type": "PEM"}
    kafka = Kafka("b:1", settings)
    assert kafka.spark_options() == {f"kafka.{key}": value for key, value in settings.items()} | {
        "kafka.bootstrap.servers": "b:1"
    }
    assert kafka.admin_config() == {
        "bootstrap.servers": "b:1",
        "security.protocol": "SASL_SSL",
        "sasl.mechanism": "SCRAM-SHA-256",
        "sasl.username": "alice",
        "sasl.password": 'p"w;=',
        "ssl.ca.location": "ca.pem",
    }


def test_a_token_endpoint_is_said_once_for_both_kinds_of_clients() -> None:
    jaas = 'a.OAuthBearerLoginModule required clientId="alice" clientSecret="hidden";'
    endpoint = "http://issuer/token"
    settings = {"sasl.mechanism": "OAUTHBEARER", "sasl.jaas.config": jaas}
    settings["sasl.oauthbearer.token.endpoint.url"] = endpoint
    assert Kafka("b:1", settings).admin_config() == {
        "bootstrap.servers": "b:1",
        "sasl.mechanism": "OAUTHBEARER",
        "sasl.oauthbearer.method": "oidc",
        "sasl.oauthbearer.client.id": "alice",
        "sasl.oauthbearer.client.secret": "hidden",
        "sasl.oauthbearer.token.endpoint.url": endpoint,
    }


def test_what_the_admin_client_cannot_be_told_is_refused_without_the_secret() -> None:
    with pytest.raises(SettingsError, match="truststore is JKS"):
        Kafka(settings={"ssl.truststore.location": "trust.jks"}).admin_config()
    with pytest.raises(SettingsError) as refused:
        Kafka(settings={"sasl.jaas.config": 'x.OAuthBearerLoginModule required secret="hidden";'}).admin_config()
    assert "hidden" not in str(refused.value)
    given = {"sasl.username": "a", "sasl.password": "b"}
    assert Kafka("b:1", {"sasl.jaas.config": "x"}, given).admin_config() == given | {"bootstrap.servers": "b:1"}


def test_a_password_is_not_shown() -> None:
    assert "hidden" not in repr(Pipeline("p", [A], kafka=Kafka("b", {"sasl.jaas.config": "hidden"}, {"x": "hidden"})))
