"""Listeners with authentication, and clients that authenticate by hand."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

from kmini.broker.broker import BrokerServer
from kmini.protocol import messages as m
from kmini.testing import ConnectionClosed, Wire

MODULE = "org.apache.kafka.common.security.plain.PlainLoginModule"


PLAIN_USERS = f'{MODULE} required user_admin="admin-secret" user_alice="wonderland";'


SETTINGS = {
    "listeners": "SASL_PLAINTEXT://127.0.0.1:0",
    "sasl.enabled.mechanisms": "PLAIN,SCRAM-SHA-256,SCRAM-SHA-512",
    "listener.name.sasl_plaintext.plain.sasl.jaas.config": PLAIN_USERS,
    "connection.failed.authentication.delay.ms": "0",
}


ALICE = b"\0alice\0wonderland"


class Served:
    """A broker on a loop of the test's, and clients in threads."""

    def __init__(self, broker: BrokerServer) -> None:
        self.broker = broker

    async def in_thread(self, work: Callable[[str], Any]) -> Any:
        return await asyncio.get_running_loop().run_in_executor(None, work, self.broker.address)


def handshake(wire: Wire, mechanism: str = "PLAIN", version: int = 1) -> Any:
    return wire.ask(m.SaslHandshakeRequest(mechanism=mechanism), version)


def authenticate(wire: Wire, token: bytes = ALICE, version: int = 2) -> Any:
    return wire.ask(m.SaslAuthenticateRequest(auth_bytes=token), version)


def is_served(wire: Wire) -> bool:
    try:
        wire.ask(m.MetadataRequest(topics=[]))
    except ConnectionClosed:
        return False
    return True
