"""The authentication of one connection: mechanisms, failures, time limits and re-authentication."""

from __future__ import annotations

import asyncio
import json
import logging
import time
from base64 import urlsafe_b64encode
from collections.abc import Awaitable, Callable

import pytest

from kmini.broker.clock import MovableClock
from kmini.broker.security.sasl import SaslSession, State
from kmini.client import Client, Sasl
from kmini.protocol import messages as m
from kmini.protocol.errors import (
    IllegalSaslState,
    KafkaError,
    SaslAuthenticationFailed,
    UnsupportedSaslMechanism,
)
from kmini.testing import ConnectionClosed, Wire
from support.broker.sasl_clients import Served, authenticate, handshake, is_served

pytestmark = pytest.mark.sockets

Serve = Callable[..., Awaitable[Served]]


@pytest.mark.parametrize("version", [0, 1, 2])
async def test_plain_in_every_version(serve: Serve, version: int) -> None:
    served = await serve()

    def work(address: str) -> None:
        with Wire(address) as wire:
            answer = handshake(wire)
            assert (answer.error_code, set(answer.mechanisms)) == (0, {"PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512"})
            answer = authenticate(wire, version=version)
            assert (answer.error_code, answer.error_message, answer.auth_bytes) == (0, "", b"")
            assert is_served(wire)

    await served.in_thread(work)


def test_every_state_admits_its_requests() -> None:
    for state in State:
        session = SaslSession.__new__(SaslSession)
        session.state, session._expires_ms = state, None
        admitted = {key for key in m.REQUESTS if session.admits(key)}
        assert (
            admitted
            == {
                State.WAITING: {17, 18},
                State.EXCHANGING: {36},
                State.DONE: set(m.REQUESTS),
                State.FAILED: set(),
            }[state]
        )


async def test_a_mechanism_that_is_not_offered_ends_the_connection_with_a_list(serve: Serve) -> None:
    served = await serve(**{"sasl.enabled.mechanisms": "SCRAM-SHA-512"})

    def work(address: str) -> None:
        for mechanism in ("PLAIN", "GSSAPI", "SCRAM-SHA-256", ""):
            with Wire(address) as wire:
                answer = handshake(wire, mechanism)
                assert (answer.error_code, answer.mechanisms) == (UnsupportedSaslMechanism.code, ["SCRAM-SHA-512"])
                with pytest.raises(ConnectionClosed):
                    handshake(wire, "SCRAM-SHA-512")

    await served.in_thread(work)


async def test_a_client_that_does_not_authenticate_in_time_is_disconnected(serve: Serve) -> None:
    clock = MovableClock()
    served = await serve(clock, **{"kmini.authentication.timeout.ms": "5000"})
    silent, done = Wire(served.broker.address), Wire(served.broker.address)
    try:
        await served.in_thread(lambda _: (handshake(silent), handshake(done), authenticate(done)))
        await clock.advance(5001, liveness=True)

        def work(_: str) -> None:
            with pytest.raises(ConnectionClosed):
                silent.receive_frame()
            assert is_served(done)

        await served.in_thread(work)
    finally:
        silent.close()
        done.close()


async def test_a_failure_is_answered_logged_once_with_the_address_and_ends_the_connection(
    serve: Serve, caplog: pytest.LogCaptureFixture
) -> None:
    served = await serve()

    def work(address: str) -> tuple[str, int]:
        with Wire(address) as wire:
            handshake(wire)
            answer = authenticate(wire, b"\0alice\0not-the-password")
            assert answer.error_code == SaslAuthenticationFailed.code
            assert answer.error_message == "Authentication failed: Invalid username or password"
            with pytest.raises(ConnectionClosed):
                authenticate(wire)
            name: tuple[str, int] = wire.socket.getsockname()
            return name

    with caplog.at_level(logging.INFO):
        peer = await served.in_thread(work)
    lines = [record.getMessage() for record in caplog.records if f":{peer[1]}" in record.getMessage()]
    assert len(lines) == 1
    assert f"{peer[0]}:{peer[1]}" in lines[0]
    assert "not-the-password" not in caplog.text
    assert "wonderland" not in caplog.text


async def test_a_failure_is_answered_after_a_delay_in_which_others_are_served(serve: Serve) -> None:
    clock = MovableClock()
    served = await serve(clock, **{"connection.failed.authentication.delay.ms": "60000"})
    failing, fine = Wire(served.broker.address), Wire(served.broker.address)
    wrong = m.SaslAuthenticateRequest(auth_bytes=b"\0alice\0wrong")
    try:
        await served.in_thread(lambda _: handshake(failing))
        number = failing.send(wrong, 2)
        answered = asyncio.ensure_future(served.in_thread(lambda _: failing.receive(wrong.response, 2, number)))
        await served.in_thread(lambda _: (handshake(fine), authenticate(fine)))
        assert not answered.done()
        await clock.advance(60_000, liveness=True)
        assert (await answered).error_code == SaslAuthenticationFailed.code
    finally:
        failing.close()
        fine.close()


async def test_after_authentication_another_one_is_refused(serve: Serve) -> None:
    served = await serve()

    def work(address: str) -> None:
        with Wire(address) as wire:
            handshake(wire)
            authenticate(wire)
            assert handshake(wire).error_code == IllegalSaslState.code
            assert authenticate(wire).error_code == IllegalSaslState.code
            assert is_served(wire)

    await served.in_thread(work)


async def test_a_session_ends_with_the_token_or_after_max_reauth_whichever_is_sooner(serve: Serve) -> None:
    served = await serve(None, **{"connections.max.reauth.ms": "10000", "sasl.enabled.mechanisms": "OAUTHBEARER"})

    def token(good_for_s: int) -> bytes:
        claims = {"sub": "alice", "exp": int(time.time()) + good_for_s}
        parts = (urlsafe_b64encode(json.dumps(part).encode()).rstrip(b"=") for part in ({"alg": "none"}, claims))
        return b"n,,\x01auth=Bearer " + b".".join(parts) + b".\x01\x01"

    def work(address: str) -> None:
        for good_for_s, least_ms, most_ms in ((60, 10_000, 10_000), (5, 1, 5_000)):
            with Wire(address) as wire:
                handshake(wire, "OAUTHBEARER")
                assert least_ms <= authenticate(wire, token(good_for_s)).session_lifetime_ms <= most_ms

    await served.in_thread(work)


async def test_an_authentication_expires_and_can_be_renewed_by_the_same_user_only(serve: Serve) -> None:
    clock = MovableClock()
    served = await serve(clock, **{"connections.max.reauth.ms": "10000"})
    address = served.broker.address
    late, renewed, other, mixed = (Wire(address) for _ in range(4))
    wires = (late, renewed, other, mixed)
    try:

        def log_in(_: str) -> None:
            for wire in wires:
                handshake(wire)
                assert authenticate(wire).session_lifetime_ms == 10_000

        await served.in_thread(log_in)
        await clock.advance(9_000, liveness=True)

        def renew(_: str) -> None:
            assert handshake(renewed).error_code == 0
            assert authenticate(renewed).session_lifetime_ms == 10_000
            assert handshake(other).error_code == 0
            assert authenticate(other, b"\0admin\0admin-secret").error_code == SaslAuthenticationFailed.code
            assert handshake(mixed, "SCRAM-SHA-256").error_code == UnsupportedSaslMechanism.code
            assert is_served(late)

        await served.in_thread(renew)
        await clock.advance(2_000, liveness=True)
        await served.in_thread(lambda _: None)
        assert await served.in_thread(lambda _: is_served(renewed))
        assert not await served.in_thread(lambda _: is_served(late))
    finally:
        for wire in wires:
            wire.close()


@pytest.mark.parametrize(
    ("sasl", "error"),
    [
        (None, KafkaError),
        (Sasl("PLAIN", "alice", "wrong"), SaslAuthenticationFailed),
        (Sasl("GSSAPI", "alice", "x"), UnsupportedSaslMechanism),
        (Sasl("SCRAM-SHA-256", "alice", "wonderland"), SaslAuthenticationFailed),
    ],
)
async def test_a_client_reports_why_its_authentication_failed(
    serve: Serve, sasl: Sasl | None, error: type[KafkaError]
) -> None:
    served = await serve()
    with pytest.raises(error):
        async with Client(served.broker.address, sasl=sasl, timeout_ms=2_000) as client:
            await client.metadata()
