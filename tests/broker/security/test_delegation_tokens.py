"""Logins with delegation tokens, how long they hold, and what becomes of tokens: expiry, restart, reset, cluster."""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Awaitable, Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from kmini.broker.broker import BrokerServer
from kmini.broker.security.delegation_tokens import DelegationToken, TokenLogins, hmac_of
from kmini.broker.security.resources import Principal
from kmini.broker.security.sasl import API_VERSIONS, SASL_HANDSHAKE, SaslSession
from kmini.broker.security.sasl_exchange import AuthenticationFailed
from kmini.broker.security.security_settings import SaslSettings
from kmini.protocol import messages as m
from kmini.protocol import scram
from kmini.protocol.errors import DelegationTokenRequestNotAllowed, SaslAuthenticationFailed
from kmini.testing import ConnectionClosed, Wire
from support.broker.clusters import Clusters
from support.broker.consumer_lab import StillClock
from support.broker.sasl_clients import ALICE, Served, authenticate, handshake, is_served
from support.broker.scram_logins import TOKEN, prove
from support.broker.token_requests import DAY, HOUR, SECRET, create, creation, described, expire, renew
from support.for_each import for_each

METADATA = 3
BOB, ALICES = Principal.user("bob"), Principal.user("alice")


class Side:
    """The server's side of connections, by a clock that stands still, and the tokens that it knows."""

    def __init__(self, *, max_reauth_ms: int = 0, is_turned_on: bool = True) -> None:
        self.clock = StillClock()
        now_ms = self.clock.now_ms()
        self.token = DelegationToken("some-token", BOB, ALICES, (), now_ms, now_ms + 7 * DAY, now_ms + DAY)
        self.tokens = {self.token.token_id: self.token}
        self.settings = SaslSettings(
            tuple(scram.MECHANISMS), {}, dict.fromkeys(scram.MECHANISMS, max_reauth_ms), 524_288
        )
        salted = scram.salted_password(scram.SHA_256, "wonderland", b"salt", 4096)
        self.users = {("alice", 1): scram.credential_of(scram.SHA_256, salted, b"salt", 4096)}
        self.logins = TokenLogins(self.tokens, SECRET, self.clock) if is_turned_on else None

    def connect(self) -> SaslSession:
        connection: Any = SimpleNamespace(authenticated=lambda principal, for_good: None, is_closing=False)
        times: Any = SimpleNamespace(kmini_authentication_timeout_ms=1000, connection_failed_authentication_delay_ms=0)
        return SaslSession(
            self.settings,
            connection,
            times=times,
            clock=self.clock,
            scram_credentials=self.users,
            token_logins=self.logins,
        )


def password(token_id: str = "some-token") -> str:
    return b64encode(hmac_of(token_id, SECRET)).decode()


def log_in(
    session: SaslSession,
    mechanism: scram.Mechanism = scram.SHA_512,
    *,
    name: str = "some-token",
    secret: str | None = None,
    extensions: str = TOKEN,
    header: str = "n,,",
) -> SaslSession:
    """Log in, by default with the right password of the token. Raises AuthenticationFailed."""
    session.start(mechanism.name, with_bare_tokens=False)
    prove(session.evaluate, mechanism, name, password() if secret is None else secret, extensions, header)
    return session


@pytest.mark.parametrize("mechanism", scram.MECHANISMS.values(), ids=lambda one: one.name)
def test_a_client_with_a_token_is_its_owner_until_the_token_expires(mechanism: scram.Mechanism) -> None:
    session = log_in(Side().connect(), mechanism)
    assert (session.principal, session.is_by_token) == (BOB, True)
    assert session.session_lifetime_ms == DAY


@for_each("setting_ms, lifetime_ms", [(0, DAY), (HOUR, HOUR), (2 * DAY, DAY)])
def test_a_session_lasts_as_long_as_the_token_and_the_setting_allow(setting_ms: int, lifetime_ms: int) -> None:
    assert log_in(Side(max_reauth_ms=setting_ms).connect()).session_lifetime_ms == lifetime_ms


async def test_once_the_token_has_expired_only_a_new_login_is_admitted() -> None:
    side = Side()
    session = log_in(side.connect())
    await side.clock.advance(DAY - 1)
    assert session.admits(METADATA)
    await side.clock.advance(1)
    assert not session.admits(METADATA)
    assert session.admits(SASL_HANDSHAKE)
    await side.clock.advance(1)
    with pytest.raises(AuthenticationFailed):
        log_in(session)


async def test_a_token_that_is_renewed_lets_the_client_authenticate_again_for_more_time() -> None:
    side = Side()
    session = log_in(side.connect())
    side.tokens["some-token"] = side.token._replace(expires_ms=side.token.expires_ms + HOUR)
    await side.clock.advance(DAY)
    assert log_in(session).session_lifetime_ms == HOUR
    assert session.admits(METADATA)
    await side.clock.advance(HOUR)
    assert not session.admits(METADATA)


async def test_the_session_of_a_token_ends_by_the_time_of_liveness_too() -> None:
    side = Side()
    session = log_in(side.connect())
    await side.clock.advance(DAY, liveness=True)
    assert not session.admits(METADATA)


async def test_a_token_logs_in_until_it_has_expired() -> None:
    side = Side()
    await side.clock.advance(DAY)
    log_in(side.connect())
    await side.clock.advance(1)
    with pytest.raises(AuthenticationFailed):
        log_in(side.connect())


def test_a_wrong_secret_an_unknown_and_an_expired_token_are_refused_with_the_same_words() -> None:
    side = Side()
    side.tokens["old"] = side.token._replace(token_id="old", expires_ms=side.clock.now_ms() - 1)
    said = set()
    for name, secret in (("some-token", "wrong"), ("no-such-token", password()), ("old", password("old"))):
        session = side.connect()
        with pytest.raises(AuthenticationFailed, match="invalid credentials") as refused:
            log_in(session, name=name, secret=secret)
        assert session.principal is None
        said.add((str(refused.value), refused.value.reason))
    assert len(said) == 1


def test_without_a_secret_key_no_token_logs_in() -> None:
    with pytest.raises(AuthenticationFailed, match="invalid credentials") as refused:
        log_in(Side(is_turned_on=False).connect())
    assert "not turned on" in refused.value.reason


@for_each("extensions", ["", ",tokenauth=false", ",tokenauth=yes"])
def test_without_the_extension_the_name_is_that_of_a_user(extensions: str) -> None:
    side = Side()
    with pytest.raises(AuthenticationFailed):
        log_in(side.connect(), extensions=extensions)
    session = log_in(side.connect(), scram.SHA_256, name="alice", secret="wonderland", extensions=extensions)
    assert (session.principal, session.is_by_token, session.session_lifetime_ms) == (ALICES, False, 0)


@for_each("extensions", [",tokenauth=true", ",tokenauth=TRUE"])
def test_with_the_extension_it_is_the_id_of_a_token(extensions: str) -> None:
    side = Side()
    assert log_in(side.connect(), extensions=extensions).is_by_token
    with pytest.raises(AuthenticationFailed):
        log_in(side.connect(), scram.SHA_256, name="alice", secret="wonderland", extensions=extensions)


@for_each("extensions", [",x=y", ",x=y,tokenauth=true", ",tokenauth=true,x=y"])
def test_other_extensions_are_refused(extensions: str) -> None:
    side = Side()
    with pytest.raises(AuthenticationFailed) as refused:
        log_in(side.connect(), extensions=extensions)
    assert "extensions" in refused.value.reason


def test_a_client_with_a_token_may_name_the_token_but_no_user_to_act_for() -> None:
    side = Side()
    log_in(side.connect(), header="n,a=some-token,")
    with pytest.raises(AuthenticationFailed, match="authorization id"):
        log_in(side.connect(), header="n,a=bob,")


def test_a_client_does_not_become_another_user_by_a_token() -> None:
    side = Side(max_reauth_ms=HOUR)
    session = log_in(side.connect(), scram.SHA_256, name="alice", secret="wonderland", extensions="")
    with pytest.raises(AuthenticationFailed, match="Cannot change principals"):
        log_in(session, scram.SHA_256)


def test_a_password_ends_what_a_token_began() -> None:
    side = Side()
    side.tokens["some-token"] = side.token._replace(owner=ALICES)
    session = log_in(side.connect(), scram.SHA_256)
    assert session.is_by_token
    log_in(session, scram.SHA_256, name="alice", secret="wonderland", extensions="")
    assert (session.is_by_token, session.session_lifetime_ms) == (False, 0)
    assert session.admits(API_VERSIONS)


# --- what becomes of tokens

StartBroker = Callable[..., Awaitable[BrokerServer]]
KEY = {"delegation_token_secret_key": SECRET}


async def test_expired_tokens_are_removed_at_the_interval_of_the_setting(start_broker: StartBroker) -> None:
    clock = StillClock()
    broker = await start_broker(clock, **KEY, delegation_token_expiry_check_interval_ms=2 * HOUR)
    short, long = [await create(broker, "alice", lifetime_ms=lifetime_ms) for lifetime_ms in (HOUR, 3 * HOUR)]
    known = broker.controller.delegation_tokens
    await clock.advance(2 * HOUR - 1)
    assert set(known) == {short.token_id, long.token_id}
    await clock.advance(1)
    assert set(known) == {long.token_id}
    assert (await expire(broker, "alice", long.hmac, 10 * HOUR))[0] == 0
    await clock.advance(2 * HOUR)
    assert set(known) == set()


async def test_a_token_is_swept_that_was_made_after_none_was_left(start_broker: StartBroker) -> None:
    """The sweep skips its runs while there is nothing to expire."""
    clock = StillClock()
    broker = await start_broker(clock, **KEY)
    await clock.advance(30 * DAY)
    await create(broker, "alice")
    await clock.advance(DAY)
    assert len(broker.controller.delegation_tokens) == 1
    await clock.advance(HOUR)
    assert broker.controller.delegation_tokens == {}


async def test_tokens_survive_a_restart_and_their_secret_is_that_of_the_key(start_broker: StartBroker) -> None:
    first = await start_broker(**KEY)
    token, gone = [await create(first, "alice", "carol") for _ in range(2)]
    assert (await expire(first, "alice", gone.hmac))[0] == 0
    assert (await renew(first, "carol", token.hmac, HOUR))[0] == 0
    known = dict(first.controller.delegation_tokens)
    await first.stop()
    second = await start_broker(**KEY)
    assert second.controller.delegation_tokens == known
    assert await described(second, "carol") == [token.token_id]
    assert (await renew(second, "carol", token.hmac))[0] == 0
    await second.stop()
    other = await start_broker(delegation_token_secret_key="another key")
    assert (await renew(other, "carol", token.hmac))[0] != 0


def written_below(directory: Path) -> dict[Path, bytes]:
    return {path: path.read_bytes() for path in directory.rglob("*") if path.is_file()}


async def test_no_file_has_the_secret_of_a_token_or_the_key(start_broker: StartBroker, tmp_path: Path) -> None:
    broker = await start_broker(**KEY)
    token = await create(broker, "alice")
    await renew(broker, "alice", token.hmac)
    while_it_runs = written_below(tmp_path)
    await broker.stop()
    for files in (while_it_runs, written_below(tmp_path)):
        assert any(token.token_id.encode() in written for written in files.values())
        for secret in (token.hmac, token.hmac.hex().encode(), b64encode(token.hmac), SECRET.encode()):
            assert [path for path, written in files.items() if secret in written] == []


async def test_every_broker_of_a_cluster_knows_a_token(clusters: Clusters) -> None:
    cluster = await clusters.start(3, **KEY)
    token = await create(cluster.brokers[2], "alice")
    for broker in cluster.brokers.values():
        assert await described(broker, "alice") == [token.token_id]
    assert (await expire(cluster.brokers[3], "alice", token.hmac))[0] == 0
    assert await described(cluster.brokers[1], "alice") == []


async def test_a_reset_forgets_tokens(clusters: Clusters) -> None:
    cluster = await clusters.start(1, **KEY)
    token = await create(cluster.brokers[1], "alice")
    await cluster.reset()
    assert await described(cluster.brokers[1], "alice") == []
    assert (await renew(cluster.brokers[1], "alice", token.hmac))[0] != 0


# --- over sockets


@pytest.mark.sockets
async def test_a_client_gets_a_token_logs_in_with_it_and_gets_no_other(
    serve: Callable[..., Awaitable[Served]],
) -> None:
    clock = StillClock()
    served = await serve(clock, **KEY)

    def token_login(wire: Wire, token: Any) -> Any:
        """The last answer to the login."""
        answers = []

        def send(message: bytes) -> bytes:
            answers.append(authenticate(wire, message))
            return bytes(answers[-1].auth_bytes)

        assert handshake(wire, scram.SHA_256.name).error_code == 0
        try:
            prove(send, scram.SHA_256, token.token_id, b64encode(token.hmac).decode(), TOKEN)
        except scram.ScramError:
            assert answers[-1].error_code != 0
        return answers[-1]

    def made(address: str) -> Any:
        with Wire(address) as wire:
            handshake(wire)
            assert authenticate(wire, ALICE).error_code == 0
            return wire.ask(creation())

    token = await served.in_thread(made)
    assert (token.error_code, token.principal_name) == (0, "alice")
    wire = Wire(served.broker.address)
    try:

        def logged_in(_: str) -> None:
            answer = token_login(wire, token)
            assert (answer.error_code, answer.session_lifetime_ms) == (0, DAY)
            assert is_served(wire)
            refused = wire.ask(creation())
            assert (refused.error_code, refused.principal_name) == (DelegationTokenRequestNotAllowed.code, "alice")

        await served.in_thread(logged_in)
        await clock.advance(DAY)

        def ended(address: str) -> None:
            with pytest.raises(ConnectionClosed):
                wire.ask(m.MetadataRequest(topics=[]))

        await served.in_thread(ended)
        await clock.advance(1)

        def refused(address: str) -> None:
            with Wire(address) as again:
                assert token_login(again, token).error_code == SaslAuthenticationFailed.code

        await served.in_thread(refused)
    finally:
        wire.close()
