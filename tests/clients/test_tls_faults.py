"""Faults of TLS and of authentication, as rules of the test kit, and what real clients make of them."""

from __future__ import annotations

import asyncio
import logging
import ssl
from collections.abc import Iterator

import pytest
from aiokafka import AIOKafkaProducer
from confluent_kafka import Producer

from kmini import Broker
from support.java_clients import JavaClients, JavaError
from support.until import until


@pytest.fixture
def broker() -> Iterator[Broker]:
    with Broker(tls="auto", topics=["orders"]) as broker:
        yield broker


def test_librdkafka_does_not_trust_a_wrong_certificate_and_goes_on_once_it_is_right(broker: Broker) -> None:
    told: list[str] = []
    wrong = broker.faults.on("tls").wrong_certificate()
    producer = Producer(broker.client_config("confluent-kafka") | {"error_cb": lambda error: told.append(error.str())})
    producer.produce("orders", b"x")
    until(lambda: producer.poll(0.05) is not None and any("certificate verify failed" in each for each in told))
    assert wrong.hits > 0
    wrong.remove()
    assert producer.flush(30) == 0
    assert [record.value for record in broker.records("orders")] == [b"x"]


def test_javas_client_fails_at_once_where_the_certificate_is_wrong(broker: Broker, java_clients: JavaClients) -> None:
    settings = {name.replace(".", "_"): text for name, text in broker.client_config("java").items()}
    at = settings.pop("bootstrap_servers")
    with broker.faults.on("tls").wrong_certificate(), java_clients.producer(at, **settings) as producer:
        with pytest.raises(JavaError) as thrown:
            producer.send("orders", "x")
        assert any(name.endswith("SslAuthenticationException") for name in thrown.value.thrown), thrown.value.thrown


def test_a_handshake_that_is_refused_or_stalls_is_tried_again(broker: Broker, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.WARNING, "kmini.connection")
    refused = broker.faults.on("tls", name="no handshake").times(2).refuse()
    stalled = broker.faults.on("tls").times(1).silent()
    settings = broker.client_config("confluent-kafka")
    settings["socket.connection.setup.timeout.ms"] = 1_000  # short: the stalled handshake has to run out of time
    producer = Producer(settings)
    producer.produce("orders", b"x")
    assert producer.flush(60) == 0
    assert (stalled.hits, refused.hits) == (1, 2)
    assert "closed a connection: fault rule 'no handshake'" in caplog.text


async def test_aiokafka_says_that_the_certificate_is_not_trusted(broker: Broker) -> None:
    with broker.faults.on("tls").wrong_certificate():
        producer = AIOKafkaProducer(**broker.client_config("aiokafka"))
        with pytest.raises(Exception, match=r"Unable to bootstrap|certificate"):
            await producer.start()
        await producer.stop()
    reader, writer = await asyncio.open_connection(
        *address(broker), ssl=broker.client_config("aiokafka")["ssl_context"]
    )
    assert isinstance(writer.get_extra_info("ssl_object"), ssl.SSLObject)
    writer.close()
    del reader


def address(broker: Broker) -> tuple[str, int]:
    host, _, port = broker.bootstrap_servers.rpartition(":")
    return host, int(port)


OAUTH = {"sasl": "OAUTHBEARER", "topics": ["orders"]}


def test_librdkafka_logs_in_again_when_its_token_is_refused_as_expired(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.WARNING, "kmini.authentication")
    told: list[str] = []
    with Broker(**OAUTH) as broker:
        expired = broker.faults.on("SaslAuthenticate").times(2).expired_token()
        settings = broker.client_config("confluent-kafka") | {"error_cb": lambda error: told.append(error.str())}
        producer = Producer(settings)
        producer.produce("orders", b"x")
        assert producer.flush(60) == 0
        assert expired.hits == 2
    assert "failed: it has expired" in caplog.text
    assert any("invalid_token" in each for each in told), told


def test_javas_client_fails_while_its_tokens_are_refused_as_expired(java_clients: JavaClients) -> None:
    with Broker(**OAUTH) as broker:
        settings = {name.replace(".", "_"): text for name, text in broker.client_config("java").items()}
        at, endpoint = settings.pop("bootstrap_servers"), settings["sasl_oauthbearer_token_endpoint_url"]
        settings["system_org_apache_kafka_sasl_oauthbearer_allowed_urls"] = endpoint
        expired = broker.faults.on("SaslAuthenticate").expired_token()
        with java_clients.producer(at, **settings) as producer:
            with pytest.raises(JavaError, match="invalid_token") as thrown:
                producer.send("orders", "x")
            assert any(name.endswith("SaslAuthenticationException") for name in thrown.value.thrown)
        expired.remove()
        with java_clients.producer(at, **settings) as producer:
            assert producer.send("orders", "x") == 0


def test_a_login_without_a_token_does_not_meet_the_rule_of_expired_ones() -> None:
    with Broker(sasl="SCRAM-SHA-256", topics=["orders"]) as broker:
        expired = broker.faults.on("SaslAuthenticate").expired_token()
        producer = Producer(broker.client_config("confluent-kafka"))
        producer.produce("orders", b"x")
        assert producer.flush(30) == 0
        assert expired.hits == 0
        with pytest.raises(ValueError, match="expired_token is for SaslAuthenticate alone; not for Fetch"):
            broker.faults.on("Fetch").expired_token()


def test_rules_about_handshakes_know_their_conditions_and_acts(broker: Broker) -> None:
    with pytest.raises(ValueError, match="a TLS handshake has no topic: the conditions are broker, listener, where"):
        broker.faults.on("tls", topic="orders").refuse()
    with pytest.raises(ValueError, match="error is no act on a TLS handshake; there are: refuse, silent, wrong_certif"):
        broker.faults.on("tls").error("UNKNOWN_SERVER_ERROR")
    other = broker.faults.on("tls", listener="PLAINTEXT").refuse()
    producer = Producer(broker.client_config("confluent-kafka"))
    producer.produce("orders", b"x")
    assert producer.flush(30) == 0
    assert other.hits == 0
