"""The authentication gate: which requests of a connection are admitted before the client has authenticated.

`tests/broker/security/test_sasl.py` has the end of a session and its renewal (KIP-368).
"""

from __future__ import annotations

import struct
from collections.abc import Awaitable, Callable

import pytest

from kmini.protocol import messages as m
from kmini.protocol.errors import (
    IllegalSaslState,
    SaslAuthenticationFailed,
)
from kmini.testing import ConnectionClosed, Wire
from support.broker.sasl_clients import ALICE, Served, authenticate, handshake, is_served

pytestmark = pytest.mark.sockets

Serve = Callable[..., Awaitable[Served]]


REQUESTS = [request for request in m.REQUESTS.values() if request.name not in ("ApiVersions", "SaslHandshake")]


async def test_every_request_but_three_closes_the_connection(serve: Serve) -> None:
    served = await serve()

    def work(address: str) -> None:
        for request in REQUESTS:
            with Wire(address) as wire:
                header = struct.pack(">hhih", request.api_key, request.max_version, 1, -1)
                wire.socket.sendall(struct.pack(">i", len(header) + 60) + header + bytes(60))
                with pytest.raises(ConnectionClosed):
                    wire.receive_frame()

    await served.in_thread(work)


async def test_versions_can_be_asked_for_and_the_two_requests_are_among_them(serve: Serve) -> None:
    served = await serve()

    def work(address: str) -> None:
        with Wire(address) as wire:
            for version in (0, 3, 4):
                answer = wire.ask(m.ApiVersionsRequest(client_software_name="x", client_software_version="1"), version)
                assert {17, 36} <= {api.api_key for api in answer.api_keys}
            assert handshake(wire).error_code == 0
            assert authenticate(wire).error_code == 0
            assert is_served(wire)

    await served.in_thread(work)


async def test_bare_tokens_follow_a_handshake_of_version_0(serve: Serve) -> None:
    served = await serve()

    def work(address: str) -> None:
        with Wire(address) as wire:
            assert handshake(wire, version=0).error_code == 0
            wire.socket.sendall(struct.pack(">i", len(ALICE)) + ALICE)
            assert wire.receive_frame() == b""
            assert is_served(wire)
        with Wire(address) as wire:
            handshake(wire, version=0)
            wire.socket.sendall(struct.pack(">i", 5) + b"wrong")
            with pytest.raises(ConnectionClosed):
                wire.receive_frame()

    await served.in_thread(work)


async def test_a_token_may_come_in_pieces(serve: Serve) -> None:
    served = await serve()

    def work(address: str) -> None:
        with Wire(address) as wire:
            handshake(wire, version=0)
            for byte in struct.pack(">i", len(ALICE)) + ALICE:
                wire.socket.sendall(bytes([byte]))
            assert wire.receive_frame() == b""

    await served.in_thread(work)


async def test_a_request_beyond_the_limit_before_authentication_ends_the_connection(serve: Serve) -> None:
    served = await serve(**{"sasl.server.max.receive.size": "1000"})

    def work(address: str) -> None:
        with Wire(address) as wire:
            wire.socket.sendall(struct.pack(">i", 1001))
            with pytest.raises(ConnectionClosed):
                wire.receive_frame()
        with Wire(address) as wire:
            handshake(wire)
            authenticate(wire)
            names = [m.MetadataRequest.Topic(name="t" * 200) for _ in range(10)]
            assert wire.ask(m.MetadataRequest(topics=names)).topics, "after authentication the usual limit counts"

    await served.in_thread(work)


async def test_requests_pipelined_behind_a_failure_are_not_served(serve: Serve) -> None:
    served = await serve()

    def work(address: str) -> None:
        with Wire(address) as wire:
            handshake(wire)
            wrong = m.SaslAuthenticateRequest(auth_bytes=b"\0alice\0wrong")
            right, metadata = m.SaslAuthenticateRequest(auth_bytes=ALICE), m.MetadataRequest(topics=[])
            number, *_ = wire.send_together((wrong, 2), (right, 2), (metadata, 12))
            assert wire.receive(wrong.response, 2, number).error_code == SaslAuthenticationFailed.code  # type: ignore[attr-defined]
            with pytest.raises(ConnectionClosed):
                wire.receive_frame()

    await served.in_thread(work)


async def test_a_listener_without_authentication_refuses_to_authenticate(serve: Serve) -> None:
    served = await serve(listeners="PLAINTEXT://127.0.0.1:0")

    def work(address: str) -> None:
        with Wire(address) as wire:
            assert handshake(wire).error_code == IllegalSaslState.code
            assert authenticate(wire).error_code == IllegalSaslState.code
            assert is_served(wire)

    await served.in_thread(work)


async def test_each_listener_has_its_own_security_protocol(serve: Serve) -> None:
    served = await serve(listeners="PLAINTEXT://127.0.0.1:0,SASL_PLAINTEXT://127.0.0.1:0")
    open_one, closed_one = (listener.address for listener in served.broker.server.listeners)

    def work(_: str) -> None:
        with Wire(open_one) as wire:
            assert is_served(wire)
        with Wire(closed_one) as wire:
            assert not is_served(wire)

    await served.in_thread(work)
