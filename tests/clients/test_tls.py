"""Real clients over TLS: what they produce and read, the user that a certificate names, and what the log says of those
that are refused."""

from __future__ import annotations

import asyncio
import logging
import socket
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest
from click.testing import CliRunner

from kmini import Broker
from kmini.cli import kmini
from support.certificates import Authority, Signed
from support.java_clients import JavaClients
from support.until import until

PASSWORD = "wonderland"
STANDARD = "org.apache.kafka.metadata.authorizer.StandardAuthorizer"


class Files(NamedTuple):
    """What clients read from files."""

    folder: Path
    authority: Authority

    @property
    def trusted(self) -> str:
        return str(self.authority.write(self.folder))

    def of(self, signed: Signed, name: str) -> tuple[str, str]:
        """The files of a client's certificate and of its key."""
        certificate, key = self.folder / f"{name}.crt", self.folder / f"{name}.key"
        certificate.write_text(signed.certificate_pem)
        key.write_text(signed.key_pem)
        return str(certificate), str(key)


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> Files:
    return Files(tmp_path_factory.mktemp("tls"), Authority())


@pytest.fixture(scope="module")
def broker(files: Files) -> Iterator[Broker]:
    """TLS without and with client certificates, and SCRAM over TLS; alice's certificate names a user that may do all,
    others may only read."""
    signed = files.authority.sign("broker")
    config = {
        "listeners": "TLS://127.0.0.1:0,MUTUAL://127.0.0.1:0,LOGIN://127.0.0.1:0",
        "listener.security.protocol.map": "TLS:SSL,MUTUAL:SSL,LOGIN:SASL_SSL",
        "ssl.keystore.type": "PEM",
        "ssl.keystore.key": signed.key_pem,
        "ssl.keystore.certificate.chain": signed.certificate_pem,
        "listener.name.mutual.ssl.client.auth": "required",
        "ssl.truststore.type": "PEM",
        "ssl.truststore.certificates": files.authority.pem,
        "ssl.principal.mapping.rules": "RULE:^CN=(.*?),.*$/$1/L,DEFAULT",
        "authorizer.class.name": STANDARD,
        "super.users": "User:alice;User:ANONYMOUS;User:carol",
        "inter.broker.listener.name": "TLS",
    }
    with Broker(config=config, topics={"orders": 1}) as started:
        yield started


def address(broker: Broker, listener: str) -> str:
    found = broker._operations.any_broker().server.listener(listener)
    assert found is not None
    return found.address


def test_librdkafka_and_kafka_python_and_aiokafka_exchange_records(broker: Broker, files: Files) -> None:
    from aiokafka import AIOKafkaProducer
    from aiokafka.helpers import create_ssl_context
    from confluent_kafka import Producer
    from kafka import KafkaConsumer

    at = address(broker, "TLS")
    producer = Producer({"bootstrap.servers": at, "security.protocol": "SSL", "ssl.ca.location": files.trusted})
    producer.produce("exchange", b"librdkafka " * 20_000)
    assert producer.flush(30) == 0

    async def produce() -> None:
        context = create_ssl_context(cafile=files.trusted)
        async with AIOKafkaProducer(bootstrap_servers=at, security_protocol="SSL", ssl_context=context) as aio:
            await aio.send_and_wait("exchange", b"aiokafka")

    asyncio.run(produce())
    consumer = KafkaConsumer(
        "exchange",
        bootstrap_servers=at,
        security_protocol="SSL",
        ssl_cafile=files.trusted,
        auto_offset_reset="earliest",
    )
    found = [next(consumer).value[:10] for _ in range(2)]
    consumer.close()
    assert found == [b"librdkafka", b"aiokafka"]


def test_javas_client_speaks_tls_with_a_certificate_and_scram_over_tls(
    broker: Broker, files: Files, java_clients: JavaClients
) -> None:
    trust = {"security_protocol": "SSL", "ssl_truststore_type": "PEM", "ssl_truststore_location": files.trusted}
    signed = files.authority.sign("Alice", unit="people")
    keys = {"ssl_keystore_type": "PEM", "ssl_keystore_key": signed.key_pem.replace("\n", " ")}
    keys["ssl_keystore_certificate_chain"] = signed.certificate_pem.replace("\n", " ")
    with java_clients.producer(address(broker, "MUTUAL"), **trust, **keys) as producer:
        assert producer.send("orders", "signed") >= 0
    give_password(broker, files, "carol")
    jaas = "org.apache.kafka.common.security.scram.ScramLoginModule required"
    login = {"sasl_mechanism": "SCRAM-SHA-256", "sasl_jaas_config": f'{jaas} username="carol" password="{PASSWORD}";'}
    with java_clients.producer(address(broker, "LOGIN"), **trust | {"security_protocol": "SASL_SSL"}, **login) as one:
        assert one.send("orders", "scram") >= 0


def give_password(broker: Broker, files: Files, user: str) -> None:
    from kafka import KafkaAdminClient
    from kafka.admin import UserScramCredentialUpsertion

    at = address(broker, "TLS")
    admin = KafkaAdminClient(bootstrap_servers=at, security_protocol="SSL", ssl_cafile=files.trusted)
    admin.alter_user_scram_credentials([UserScramCredentialUpsertion(user, "SCRAM-SHA-256", PASSWORD)])
    admin.close()


def test_a_certificate_names_the_user_whose_rights_count(broker: Broker, files: Files) -> None:
    from confluent_kafka import KafkaException, Producer

    outcomes: dict[str, object] = {}
    for name in ("Alice", "Mallory"):
        certificate, key = files.of(files.authority.sign(name, unit="people"), name)
        producer = Producer(
            {
                "bootstrap.servers": address(broker, "MUTUAL"),
                "security.protocol": "SSL",
                "ssl.ca.location": files.trusted,
                "ssl.certificate.location": certificate,
                "ssl.key.location": key,
            }
        )
        producer.produce("orders", b"x", on_delivery=lambda error, _, name=name: outcomes.__setitem__(name, error))
        producer.flush(30)
    assert outcomes["Alice"] is None
    assert KafkaException(outcomes["Mallory"]).args[0].name() == "TOPIC_AUTHORIZATION_FAILED"


REFUSED = {
    "without TLS": "it speaks no TLS, which this listener asks for",
    "HTTP": "it speaks HTTP without TLS",
    "no certificate": "it has no certificate, which ssl.client.auth=required asks for",
    "a stranger's certificate": "its certificate is not trusted here",
    "an expired certificate": "its certificate is not trusted here",
}
"""What the log says of each."""


@pytest.mark.parametrize("who", REFUSED)
def test_the_log_says_why_a_handshake_failed_and_others_are_served(
    broker: Broker, files: Files, caplog: pytest.LogCaptureFixture, who: str
) -> None:
    import ssl

    host, _, port = address(broker, "MUTUAL").rpartition(":")
    caplog.set_level(logging.WARNING, "kmini.connection")
    with socket.create_connection((host, int(port)), timeout=30) as plain:
        if who in ("without TLS", "HTTP"):
            plain.sendall(
                b"GET / HTTP/1.1\r\n\r\n" if who == "HTTP" else b"\0\0\0\x14\0\x12\0\0\0\0\0\1\0\4tests\0\0\0\0"
            )
            while plain.recv(4096):
                pass
        else:
            context = ssl.create_default_context(cafile=files.trusted)
            authority = Authority("strangers") if who.startswith("a stranger") else files.authority
            if who != "no certificate":
                signed = authority.sign("eve", is_expired=who.startswith("an expired"))
                context.load_cert_chain(*files.of(signed, "eve"))
            with pytest.raises(OSError), context.wrap_socket(plain, server_hostname="localhost") as secured:  # noqa: PT012
                secured.sendall(b"\0\0\0\x14\0\x12\0\0\0\0\0\1\0\4tests\0\0\0\0")
                while secured.recv(4096):
                    pass
                raise ConnectionResetError
    until(lambda: REFUSED[who] in caplog.text, lambda: caplog.text)
    test_a_certificate_names_the_user_whose_rights_count(broker, files)


@pytest.mark.parametrize("fault", ["expired", "of another name"])
def test_librdkafka_does_not_trust_a_certificate_that_is(files: Files, fault: str) -> None:
    from confluent_kafka import Producer

    signed = files.authority.sign("broker", is_expired=fault == "expired", host=None if fault == "expired" else "other")
    config = {
        "listeners": "SSL://127.0.0.1:0",
        "ssl.keystore.type": "PEM",
        "ssl.keystore.key": signed.key_pem,
        "ssl.keystore.certificate.chain": signed.certificate_pem,
    }
    told: list[str] = []
    with Broker(config=config) as broker:
        settings = {"bootstrap.servers": broker.bootstrap_servers, "security.protocol": "SSL"}
        producer = Producer(
            {**settings, "ssl.ca.location": files.trusted, "error_cb": lambda error: told.append(error.str())}
        )
        producer.produce("orders", b"x")
        until(lambda: producer.poll(0.05) is not None and any("certificate verify failed" in each for each in told))
        producer.purge()


def test_our_own_commands_speak_tls_by_the_settings_of_kafkas_tools(broker: Broker, files: Files) -> None:
    signed = files.authority.sign("Alice", unit="people")
    keys = files.folder / "alice.pem"
    keys.write_text(signed.pem)
    config = files.folder / "client.properties"
    trusting = f"security.protocol=SSL\nssl.truststore.type=PEM\nssl.truststore.location={files.trusted}\n"
    for text, listener in (
        (trusting, "TLS"),
        (f"{trusting}ssl.keystore.type=PEM\nssl.keystore.location={keys}\n", "MUTUAL"),
    ):
        config.write_text(text)
        options = ["-b", address(broker, listener), "--command-config", str(config)]
        listed = CliRunner().invoke(kmini, ["topic", "list", *options])
        assert (listed.exit_code, "orders" in listed.stdout) == (0, True), listed.output
        found = CliRunner().invoke(kmini, ["doctor", address(broker, listener), "--command-config", str(config)])
        assert found.exit_code == 0, found.output
    config.write_text("security.protocol=SSL\nssl.truststore.location=/no/such\n")
    refused = CliRunner().invoke(kmini, ["topic", "list", *options])
    assert refused.exit_code == 2
    assert "ssl.truststore.location=/no/such: No such file" in refused.stderr
