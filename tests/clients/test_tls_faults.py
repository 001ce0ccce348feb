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
