"""Stores of TLS that are replaced while the broker runs: new connections meet the new ones, and those before stay."""

from __future__ import annotations

import logging
import os
import socket
import ssl
import struct
from pathlib import Path

import pytest

from kmini import Broker
from kmini.broker.security import tls
from kmini.client import Client, ConfigResource
from kmini.protocol.errors import InvalidRequest, KafkaError
from support.certificates import Authority, Signed

pytestmark = pytest.mark.sockets

AUTHORITY = Authority()
API_VERSIONS = struct.pack(">ihhih", 10, 18, 0, 7, -1)
PREFIX = "listener.name.ssl."


class Session:
    """A connection over TLS."""

    def __init__(self, address: str, authority: Authority = AUTHORITY, signed: Path | None = None) -> None:
        host, _, port = address.rpartition(":")
        context = ssl.create_default_context(cadata=authority.pem)
        if signed is not None:
            context.load_cert_chain(signed)
        plain = socket.create_connection((host, int(port)), 30)
        self._secured = context.wrap_socket(plain, server_hostname="localhost")

    @property
    def name(self) -> str:
        """The organizational unit in the broker's certificate."""
        certificate = self._secured.getpeercert()
        assert certificate is not None
        return next(text for ((key, text),) in certificate["subject"] if key == "organizationalUnitName")

    def is_served(self) -> bool:
        """Whether the broker answers."""
        self._secured.sendall(API_VERSIONS)
        return len(self._secured.recv(4096)) > 8

    def close(self) -> None:
        self._secured.close()


def write(path: Path, signed: Signed) -> Path:
    path.write_text(signed.pem)
    return path


def name_at(address: str) -> str:
    session = Session(address)
    assert session.is_served()
    name = session.name
    session.close()
    return name


@pytest.fixture
def keys(tmp_path: Path) -> Path:
    return write(tmp_path / "keys.pem", AUTHORITY.sign("broker", unit="first"))


@pytest.fixture
def broker(keys: Path, monkeypatch: pytest.MonkeyPatch) -> Broker:
    monkeypatch.setattr(tls, "LOOK_S", 0.0)
    config = {"listeners": "SSL://127.0.0.1:0", "ssl.keystore.type": "PEM", "ssl.keystore.location": str(keys)}
    return Broker(config=config)


async def altered(broker: Broker, changes: dict[str, str]) -> KafkaError | None:
    """Change settings of the listener as an administrator's client does; return the error."""
    tls = ssl.create_default_context(cadata=AUTHORITY.pem)
    async with Client(broker.bootstrap_servers, tls=tls) as client:
        resource = ConfigResource.broker(1)
        outcomes = await client.alter_configs({resource: {f"{PREFIX}{name}": text for name, text in changes.items()}})
        return outcomes[resource]


async def test_an_administrator_replaces_the_keys_of_a_listener(broker: Broker, tmp_path: Path) -> None:
    second = write(tmp_path / "second.pem", AUTHORITY.sign("broker", unit="second"))
    third = AUTHORITY.sign("broker", unit="third")
    with broker:
        before = Session(broker.bootstrap_servers)
        assert await altered(broker, {"ssl.keystore.location": str(second)}) is None
        assert name_at(broker.bootstrap_servers) == "second"
        error = await altered(broker, {"ssl.keystore.location": "/no/such"})
        assert isinstance(error, InvalidRequest)
        assert error.message == "listener.name.ssl.ssl.keystore.location=/no/such: No such file or directory"
        assert name_at(broker.bootstrap_servers) == "second"
        inline = {"ssl.keystore.key": third.key_pem, "ssl.keystore.certificate.chain": third.certificate_pem}
        assert await altered(broker, inline) is None
        assert name_at(broker.bootstrap_servers) == "third"
        assert before.is_served()
        before.close()
        described = await settings_of(broker)
        assert described[f"{PREFIX}ssl.keystore.location"] == str(second)
        assert described[f"{PREFIX}ssl.keystore.key"] is None
        broker.stop()
        broker.start()
        assert name_at(broker.bootstrap_servers) == "third"


async def settings_of(broker: Broker) -> dict[str, str | None]:
    async with Client(broker.bootstrap_servers, tls=ssl.create_default_context(cadata=AUTHORITY.pem)) as client:
        return {entry.name: entry.value for entry in await client.describe_configs(ConfigResource.broker(1))}


def test_another_trust_store_lets_other_clients_in(keys: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tls, "LOOK_S", 0.0)
    others = Authority("others")
    trusted = AUTHORITY.write(tmp_path)
    alice = write(tmp_path / "alice.pem", AUTHORITY.sign("alice"))
    olga = write(tmp_path / "olga.pem", others.sign("olga"))
    config = {
        "listeners": "SSL://127.0.0.1:0",
        "ssl.keystore.type": "PEM",
        "ssl.keystore.location": str(keys),
        "ssl.truststore.type": "PEM",
        "ssl.truststore.location": str(trusted),
        "ssl.client.auth": "required",
    }
    with Broker(config=config) as broker:
        assert come_in(broker, alice)
        assert not come_in(broker, olga)
        trusted.write_text(others.pem)
        assert come_in(broker, olga)
        assert not come_in(broker, alice)


def come_in(broker: Broker, signed: Path) -> bool:
    session = Session(broker.bootstrap_servers, signed=signed)
    try:
        return session.is_served()
    except OSError:  # with TLS 1.3 a client learns it with its first answer
        return False
    finally:
        session.close()


def test_a_file_that_has_changed_is_met_by_new_connections_while_those_before_stay(broker: Broker, keys: Path) -> None:
    with broker:
        before = Session(broker.bootstrap_servers)
        assert before.name == "first"
        write(keys, AUTHORITY.sign("broker", unit="second"))
        assert name_at(broker.bootstrap_servers) == "second"
        assert before.is_served()
        before.close()


def test_a_file_that_cannot_be_used_is_told_and_the_keys_before_stay(
    broker: Broker, keys: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.WARNING, "kmini.broker")
    with broker:
        keys.write_text("no key at all")
        assert name_at(broker.bootstrap_servers) == "first"
        assert "goes on with the TLS that it had: ssl.keystore.location: it lacks a certificate" in caplog.text
        told = caplog.text
        assert name_at(broker.bootstrap_servers) == "first"
        assert caplog.text == told, "once"
        os.remove(keys)
        assert name_at(broker.bootstrap_servers) == "first"
        write(keys, AUTHORITY.sign("broker", unit="third"))
        assert name_at(broker.bootstrap_servers) == "third"
