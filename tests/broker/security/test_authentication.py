"""One connection after the other at a listener that asks who is there."""

from __future__ import annotations

import asyncio
import logging
import os
import stat
import struct
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from kmini.broker.broker import Broker
from kmini.broker.clock import MovableClock
from kmini.broker.security.credentials import MAX_SALT_BYTES
from kmini.broker.security.sasl import SaslSession, State
from kmini.broker.settings.broker_config import BrokerConfig, ConfigError
from kmini.client import Client, Sasl
from kmini.protocol import messages as m
from kmini.protocol import scram
from kmini.protocol.errors import (
    DuplicateResource,
    IllegalSaslState,
    KafkaError,
    ResourceNotFound,
    SaslAuthenticationFailed,
    UnacceptableCredential,
    UnsupportedSaslMechanism,
)
from kmini.testing import ConnectionClosed, Wire
from support.broker.access_rules import STANDARD

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

    def __init__(self, broker: Broker) -> None:
        self.broker = broker

    async def in_thread(self, work: Callable[[str], Any]) -> Any:
        return await asyncio.get_running_loop().run_in_executor(None, work, self.broker.address)


@pytest.fixture
async def serve(tmp_path: Path) -> Any:
    started: list[Broker] = []

    async def start(clock: MovableClock | None = None, **changed: str) -> Served:
        settings = {**SETTINGS, **{name.replace("_", "."): value for name, value in changed.items()}}
        broker = await Broker.start(BrokerConfig.parse(settings), str(tmp_path), clock=clock)
        started.append(broker)
        return Served(broker)

    yield start
    for broker in started:
        if broker.server.listeners:
            await broker.stop()


Serve = Callable[..., Awaitable[Served]]


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


# --- before authentication


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


def test_all_of_the_states_are_about_what_is_admitted() -> None:
    for state in State:
        session = SaslSession.__new__(SaslSession)
        session.state, session._expires_ms = state, None
        admitted = {key for key in m.REQUESTS if session.admits(key)}
        assert (
            admitted
            == {
                State.WAITING: {17, 18},
                State.EXCHANGING: {18, 36},
                State.DONE: set(m.REQUESTS),
                State.FAILED: set(),
            }[state]
        )


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


async def test_who_does_not_authenticate_in_time_is_hung_up_on(serve: Serve) -> None:
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


# --- failures


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


async def test_what_was_pipelined_behind_a_failure_is_not_served(serve: Serve) -> None:
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


# --- afterwards


async def test_after_authentication_another_one_is_out_of_place(serve: Serve) -> None:
    served = await serve()

    def work(address: str) -> None:
        with Wire(address) as wire:
            handshake(wire)
            authenticate(wire)
            assert handshake(wire).error_code == IllegalSaslState.code
            assert authenticate(wire).error_code == IllegalSaslState.code
            assert is_served(wire)

    await served.in_thread(work)


async def test_a_listener_without_authentication_has_nothing_to_authenticate(serve: Serve) -> None:
    served = await serve(listeners="PLAINTEXT://127.0.0.1:0")

    def work(address: str) -> None:
        with Wire(address) as wire:
            assert handshake(wire).error_code == IllegalSaslState.code
            assert authenticate(wire).error_code == IllegalSaslState.code
            assert is_served(wire)

    await served.in_thread(work)


async def test_each_listener_has_its_own_protocol(serve: Serve) -> None:
    served = await serve(listeners="PLAINTEXT://127.0.0.1:0,SASL_PLAINTEXT://127.0.0.1:0")
    open_one, closed_one = (listener.address for listener in served.broker.server.listeners)

    def work(_: str) -> None:
        with Wire(open_one) as wire:
            assert is_served(wire)
        with Wire(closed_one) as wire:
            assert not is_served(wire)

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


# --- SCRAM with credentials that are managed over the wire


def upsertion(name: str, password: str, mechanism: scram.Mechanism, iterations: int = 4096) -> Any:
    salt = os.urandom(16)
    return m.AlterUserScramCredentialsRequest.Upsertion(
        name=name,
        mechanism=mechanism.wire_code,
        iterations=iterations,
        salt=salt,
        salted_password=scram.salted_password(mechanism, password, salt, iterations),
    )


async def alter(client: Client, *, upsertions: Any = (), deletions: Any = ()) -> dict[str, int]:
    request = m.AlterUserScramCredentialsRequest(
        deletions=[m.AlterUserScramCredentialsRequest.Deletion(name=name, mechanism=code) for name, code in deletions],
        upsertions=list(upsertions),
    )
    answer = await client.send(None, request)
    return {result.user: result.error_code for result in answer.results}


def log_in(address: str, mechanism: str, user: str, password: str) -> Client:
    return Client(address, sasl=Sasl(mechanism, user, password), timeout_ms=10_000)


@pytest.mark.parametrize("mechanism", scram.MECHANISMS.values(), ids=lambda mechanism: mechanism.name)
async def test_scram_from_making_a_user_to_losing_it(serve: Serve, mechanism: scram.Mechanism) -> None:
    served = await serve()
    address = served.broker.address
    async with log_in(address, "PLAIN", "admin", "admin-secret") as admin:
        assert await alter(admin, upsertions=[upsertion("carol", "first", mechanism)]) == {"carol": 0}
        async with log_in(address, mechanism.name, "carol", "first") as carol:
            assert (await carol.metadata()).brokers
        assert await alter(admin, upsertions=[upsertion("carol", "second", mechanism)]) == {"carol": 0}
        with pytest.raises(SaslAuthenticationFailed):
            async with log_in(address, mechanism.name, "carol", "first") as carol:
                await carol.metadata()
        assert await alter(admin, deletions=[("carol", mechanism.wire_code)]) == {"carol": 0}
        with pytest.raises(SaslAuthenticationFailed):
            async with log_in(address, mechanism.name, "carol", "second") as carol:
                await carol.metadata()


async def test_credentials_survive_a_restart_and_are_for_their_owner_only(serve: Serve, tmp_path: Path) -> None:
    served = await serve()
    async with log_in(served.broker.address, "PLAIN", "admin", "admin-secret") as admin:
        await alter(admin, upsertions=[upsertion("carol", "keep-me-secret", scram.SHA_256)])
        await alter(admin, upsertions=[upsertion("dave", "keep-me-secret", scram.SHA_256)])
    files = list(tmp_path.glob("kmini.db*"))  # noqa: ASYNC240
    assert files
    for path in files:
        assert stat.S_IMODE(path.stat().st_mode) == 0o600
        assert b"keep-me-secret" not in path.read_bytes()
    stored = served.broker.controller.scram_credentials
    assert stored["carol", 1].stored_key != stored["dave", 1].stored_key, "equal passwords have different salts"
    await served.broker.stop()
    served = await serve()
    async with log_in(served.broker.address, "SCRAM-SHA-256", "carol", "keep-me-secret") as carol:
        assert (await carol.metadata()).brokers


async def test_a_database_of_anybodys_becomes_its_owners(serve: Serve, tmp_path: Path) -> None:
    served = await serve()
    await served.broker.stop()
    (tmp_path / "kmini.db").chmod(0o644)
    await serve()
    assert stat.S_IMODE((tmp_path / "kmini.db").stat().st_mode) == 0o600


async def test_what_is_described_holds_nothing_secret(serve: Serve) -> None:
    served = await serve()
    async with log_in(served.broker.address, "PLAIN", "admin", "admin-secret") as admin:
        await alter(admin, upsertions=[upsertion("carol", "x", scram.SHA_256), upsertion("carol", "x", scram.SHA_512)])
        Asked = m.DescribeUserScramCredentialsRequest.User
        answer = await admin.send(None, m.DescribeUserScramCredentialsRequest(users=None))
        assert [(result.user, result.error_code) for result in answer.results] == [("carol", 0)]
        assert [(info.mechanism, info.iterations) for info in answer.results[0].credential_infos] == [
            (1, 4096),
            (2, 4096),
        ]
        asked = [Asked(name="carol"), Asked(name="nobody"), Asked(name="carol"), Asked(name="")]
        answer = await admin.send(None, m.DescribeUserScramCredentialsRequest(users=asked))
        assert {result.user: result.error_code for result in answer.results} == {
            "carol": DuplicateResource.code,
            "nobody": ResourceNotFound.code,
            "": ResourceNotFound.code,
        }
        configs = await admin.send(
            1,
            m.DescribeConfigsRequest(
                resources=[
                    m.DescribeConfigsRequest.Resource(
                        resource_type=4, resource_name="1", configuration_keys=["sasl.jaas.config"]
                    )
                ]
            ),
        )
        (entry,) = configs.results[0].configs
        assert (entry.value, entry.is_sensitive) == (None, True)
        assert "wonderland" not in repr(served.broker.config)


async def test_credentials_that_are_no_good_are_refused_user_by_user(serve: Serve) -> None:
    served = await serve()
    good = upsertion("good", "x", scram.SHA_256)
    few, many = (upsertion(f"i{count}", "x", scram.SHA_256, count) for count in (4095, 16_385))
    empty = upsertion("empty", "x", scram.SHA_256)
    empty.salted_password = b""
    huge = upsertion("huge", "x", scram.SHA_256)
    huge.salt = bytes(MAX_SALT_BYTES + 1)
    unknown = upsertion("unknown", "x", scram.SHA_256)
    unknown.mechanism = 3
    twice = [upsertion("twice", "x", scram.SHA_256), upsertion("twice", "y", scram.SHA_256)]
    nameless = upsertion("", "x", scram.SHA_256)
    async with log_in(served.broker.address, "PLAIN", "admin", "admin-secret") as admin:
        outcomes = await alter(
            admin,
            upsertions=[good, few, many, empty, huge, unknown, *twice, nameless],
            deletions=[("nobody", 1), ("unknown-mechanism", 9)],
        )
    assert outcomes == {
        "good": 0,
        "i4095": UnacceptableCredential.code,
        "i16385": UnacceptableCredential.code,
        "empty": UnacceptableCredential.code,
        "huge": UnacceptableCredential.code,
        "unknown": UnsupportedSaslMechanism.code,
        "twice": DuplicateResource.code,
        "": UnacceptableCredential.code,
        "nobody": ResourceNotFound.code,
        "unknown-mechanism": UnsupportedSaslMechanism.code,
    }
    assert {name for name, _ in served.broker.controller.scram_credentials} == {"good"}


@pytest.mark.parametrize("mechanism", scram.MECHANISMS.values(), ids=lambda mechanism: mechanism.name)
@pytest.mark.parametrize("salt_bytes", [0, 1, 5_000])
async def test_a_salt_of_any_length_is_taken_and_lets_its_user_in_after_a_restart_too(
    serve: Serve, mechanism: scram.Mechanism, salt_bytes: int
) -> None:
    salt = os.urandom(salt_bytes)
    carol = upsertion("carol", "x", mechanism)
    carol.salt, carol.salted_password = salt, scram.salted_password(mechanism, "x", salt, carol.iterations)
    served = await serve()
    async with log_in(served.broker.address, "PLAIN", "admin", "admin-secret") as admin:
        assert await alter(admin, upsertions=[carol]) == {"carol": 0}
    for _ in range(2):
        async with log_in(served.broker.address, mechanism.name, "carol", "x") as client:
            assert (await client.metadata()).brokers
        with pytest.raises(SaslAuthenticationFailed):
            async with log_in(served.broker.address, mechanism.name, "carol", "y") as client:
                await client.metadata()
        await served.broker.stop()
        served = await serve()


# --- the client's side


@pytest.mark.parametrize(
    ("sasl", "error"),
    [
        (None, KafkaError),
        (Sasl("PLAIN", "alice", "wrong"), SaslAuthenticationFailed),
        (Sasl("GSSAPI", "alice", "x"), UnsupportedSaslMechanism),
        (Sasl("SCRAM-SHA-256", "alice", "wonderland"), SaslAuthenticationFailed),
    ],
)
async def test_our_client_says_why_it_was_not_let_in(serve: Serve, sasl: Sasl | None, error: type[KafkaError]) -> None:
    served = await serve()
    with pytest.raises(error):
        async with Client(served.broker.address, sasl=sasl, timeout_ms=2_000) as client:
            await client.metadata()


# --- settings


def refusals() -> Iterator[tuple[dict[str, str], str]]:
    yield {"sasl.enabled.mechanisms": "GSSAPI"}, "GSSAPI is not offered"
    yield {"sasl.enabled.mechanisms": ""}, "at least one mechanism"
    yield {"listener.name.sasl_plaintext.plain.sasl.jaas.config": ""}, "needs the users"
    yield {"listener.name.sasl_plaintext.plain.sasl.jaas.config": "secret-word"}, "of the form"
    yield {"listener.name.sasl_plaintext.plain.sasl.jaas.config": 'A required user_x="secret-word";'}, "must name"
    yield {"listener.name.sasl_plaintext.connections.max.reauth.ms": "soon"}, "whole number"
    yield {"super.users": "alice"}, "no principal"
    yield {"authorizer.class.name": "com.example.Mine"}, "StandardAuthorizer"
    yield {"inter.broker.listener.name": "INTERNAL"}, "no listener of that name"
    yield {"listeners": "SASL_SSL://127.0.0.1:0"}, "not offered yet"


@pytest.mark.parametrize(("changed", "message"), [*refusals()], ids=lambda value: str(value)[:40])
def test_settings_that_cannot_be_followed_are_refused_without_quoting_secrets(
    changed: dict[str, str], message: str
) -> None:
    with pytest.raises(ConfigError, match=message) as refused:
        BrokerConfig.parse({**SETTINGS, **changed})
    assert "secret-word" not in str(refused.value)


def test_brokers_reach_each_other_through_the_listener_that_is_named() -> None:
    from kmini.broker.security.inter_broker import inter_broker_connection, inter_broker_listener

    two = {**SETTINGS, "listeners": "PLAINTEXT://127.0.0.1:0,SASL_PLAINTEXT://127.0.0.1:1"}
    config = BrokerConfig.parse(two)
    assert inter_broker_listener(config) == "PLAINTEXT"
    assert inter_broker_connection(config, "b").sasl is None
    with_users = PLAIN_USERS.replace("required", 'required username="admin" password="admin-secret"')
    two["listener.name.sasl_plaintext.plain.sasl.jaas.config"] = with_users
    for key, value in (
        ("inter.broker.listener.name", "SASL_PLAINTEXT"),
        ("security.inter.broker.protocol", "SASL_PLAINTEXT"),
    ):
        config = BrokerConfig.parse({**two, key: value})
        assert inter_broker_listener(config) == "SASL_PLAINTEXT"
        assert inter_broker_connection(config, "b").sasl == Sasl("PLAIN", "admin", "admin-secret")
        without = BrokerConfig.parse({**SETTINGS, key: value})
        with pytest.raises(ValueError, match="needs username"):
            inter_broker_connection(without, "b")
    assert inter_broker_listener(BrokerConfig.parse(SETTINGS)) == "SASL_PLAINTEXT", "the only one that there is"


def test_the_settings_of_a_listener_are_stronger_than_those_of_all() -> None:
    from kmini.broker.security.security_settings import sasl_settings

    config = BrokerConfig.parse(
        {
            **SETTINGS,
            "sasl.jaas.config": PLAIN_USERS.replace("wonderland", "everywhere"),
            "connections.max.reauth.ms": "1",
            "listener.name.sasl_plaintext.connections.max.reauth.ms": "2",
            "listener.name.sasl_plaintext.plain.connections.max.reauth.ms": "3",
            "authorizer.class.name": STANDARD,
        }
    )
    found = sasl_settings(config, "SASL_PLAINTEXT")
    assert found is not None
    assert found.plain_users["alice"] == "wonderland"
    assert found.max_reauth_ms == {"PLAIN": 3, "SCRAM-SHA-256": 2, "SCRAM-SHA-512": 2}
