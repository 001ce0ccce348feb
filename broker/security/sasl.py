"""The authentication of one connection: a state, and the requests that each state admits.

    WAITING      only ApiVersions and SaslHandshake
    EXCHANGING   only SaslAuthenticate, or bare tokens after a SaslHandshake of version 0
    DONE         everything, until the authentication expires (KIP-368)
    FAILED       nothing: the connection closes when the answer is sent

A client authenticates again by the same walk, from DONE over EXCHANGING: as the same principal, by the same mechanism.
A request that its state does not admit closes the connection.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Awaitable, Mapping
from enum import Enum
from typing import TYPE_CHECKING, Protocol

from ...protocol import scram
from ...protocol.errors import UnsupportedSaslMechanism
from ...protocol.jaas import OAUTHBEARER, PLAIN
from ..network.peer_log import PeerLog
from .resources import Principal
from .sasl_exchange import AuthenticationFailed, Exchange
from .sasl_plain import PlainExchange
from .sasl_scram import ScramExchange
from .security_settings import SaslSettings

if TYPE_CHECKING:
    from ..clock import Clock, Timer
    from .delegation_tokens import DelegationToken, TokenLogins

peer_log = PeerLog(logging.getLogger("kmini.authentication"))

SASL_HANDSHAKE = 17
API_VERSIONS = 18
SASL_AUTHENTICATE = 36


class State(Enum):
    WAITING = "waiting"
    EXCHANGING = "exchanging"
    DONE = "done"
    FAILED = "failed"


_ADMITTED = {
    State.WAITING: frozenset({API_VERSIONS, SASL_HANDSHAKE}),
    State.EXCHANGING: frozenset({SASL_AUTHENTICATE}),
    State.DONE: frozenset({SASL_HANDSHAKE}),
    State.FAILED: frozenset[int](),
}
"""API keys that a state admits. Those of DONE hold once the authentication has expired; before, it admits all."""


class AuthenticatingConnection(Protocol):
    """The connection of a session, as the session uses it."""

    peer: tuple[str, int]
    waiting: asyncio.Future[bool] | None

    @property
    def is_closing(self) -> bool: ...

    def abort(self) -> None: ...

    def authenticated(self, principal: Principal, *, for_good: bool) -> None: ...


class AuthenticationTimes(Protocol):
    """The settings of the broker that a session reads."""

    kmini_authentication_timeout_ms: int
    connection_failed_authentication_delay_ms: int


class SaslSession:
    """Authenticates the client of one connection."""

    def __init__(
        self,
        settings: SaslSettings,
        connection: AuthenticatingConnection,
        *,
        times: AuthenticationTimes,
        clock: Clock,
        scram_credentials: Mapping[tuple[str, int], scram.ScramCredential],
        token_logins: TokenLogins | None = None,
    ) -> None:
        """`scram_credentials` are by user name and mechanism number. `token_logins` is None where delegation tokens
        are not turned on."""
        self.state = State.WAITING
        self.principal: Principal | None = None
        self.mechanism = ""
        self.takes_tokens = False
        """Whether the next frame is a bare token, not a request."""
        self._settings = settings
        self._connection = connection
        self._times = times
        self._clock = clock
        self._scram_credentials = scram_credentials
        self._token_logins = token_logins
        self._token: DelegationToken | None = None
        """The delegation token that the client has shown last."""
        self._exchange: Exchange | None = None
        self._expires_ms: int | None = None
        self._session_ms = 0
        self._timer: Timer | None = None

    # --- time

    def begin(self) -> None:
        """Start the time limit of the authentication."""
        limit_ms = self._times.kmini_authentication_timeout_ms
        self._timer = self._clock.call_later(limit_ms, self._time_out, liveness=True)

    def _time_out(self) -> None:
        if self.state is not State.DONE and not self._connection.is_closing:
            peer_log.warning("closed the connection of %s:%d: it did not authenticate in time", *self._connection.peer)
            self.state = State.FAILED
            self._connection.abort()

    def end(self) -> None:
        """Cancel the time limit: the connection is closed, or authenticated."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def begin_anew(
        self,
        scram_credentials: Mapping[tuple[str, int], scram.ScramCredential],
        token_logins: TokenLogins | None,
        *,
        set_back_ms: int,
    ) -> None:
        """Authenticate by these credentials from now on; the clock of liveness was set back by `set_back_ms`."""
        self._scram_credentials = scram_credentials
        self._token_logins = token_logins
        if self._expires_ms is not None:
            self._expires_ms -= set_back_ms

    # --- what is served

    def admits(self, api_key: int) -> bool:
        """Whether a request may be served now."""
        if self.state is State.DONE and (self._expires_ms is None or not self._has_expired(self._expires_ms)):
            return True
        return api_key in _ADMITTED[self.state]

    def _has_expired(self, expires_ms: int) -> bool:
        if self._clock.liveness_ms() >= expires_ms:
            return True
        # Tests move the log time alone, and with it the end of a delegation token.
        return self._token is not None and self._clock.now_ms() >= self._token.expires_ms

    @property
    def is_by_token(self) -> bool:
        """Whether a delegation token has authenticated the client."""
        return self._token is not None

    @property
    def refusal_reason(self) -> str:
        """Why a request is not admitted."""
        return "the authentication has expired" if self.state is State.DONE else "it came before authentication"

    @property
    def has_failed(self) -> bool:
        return self.state is State.FAILED

    @property
    def is_exchanging(self) -> bool:
        return self.state is State.EXCHANGING

    @property
    def may_start(self) -> bool:
        """Whether this state allows a SaslHandshake."""
        return self.state is State.WAITING or (self.state is State.DONE and self._expires_ms is not None)

    @property
    def mechanisms(self) -> tuple[str, ...]:
        return self._settings.mechanisms

    # --- the exchange

    def start(self, mechanism: str, *, with_bare_tokens: bool) -> None:
        """Begin to authenticate. Raises UnsupportedSaslMechanism."""
        is_other = self.state is State.DONE and mechanism != self.mechanism
        if mechanism not in self._settings.mechanisms or is_other:
            self.state = State.FAILED
            raise UnsupportedSaslMechanism(f"the listener does not offer {mechanism}")
        self.mechanism = mechanism
        self.takes_tokens = with_bare_tokens
        self._exchange = self._new_exchange(mechanism)
        self.state = State.EXCHANGING

    def _new_exchange(self, mechanism: str) -> Exchange:
        self._token = None
        if mechanism == PLAIN:
            return PlainExchange(self._settings.plain_users)
        if mechanism == OAUTHBEARER:
            from .sasl_oauthbearer import OAuthBearerExchange  # most brokers take no tokens

            assert self._settings.tokens is not None
            return OAuthBearerExchange(self._settings.tokens.validate)
        kind = scram.MECHANISMS[mechanism]
        return ScramExchange(
            kind,
            lambda name: self._scram_credentials.get((name, kind.wire_code)),
            None if self._token_logins is None else lambda token_id: self._find_token(token_id, kind),
        )

    def _find_token(self, token_id: str, kind: scram.Mechanism) -> tuple[str, scram.ScramCredential] | None:
        found = None if self._token_logins is None else self._token_logins.find(token_id, kind)
        if found is None:
            return None
        self._token, credential = found
        return self._token.owner.name, credential

    def expire_token(self) -> bool:
        """Take the bearer token that comes next for one that has expired. False if the client is to send none now."""
        from .sasl_oauthbearer import OAuthBearerExchange  # most brokers take no tokens

        return isinstance(self._exchange, OAuthBearerExchange) and self._exchange.expire()

    def preparation(self, token: bytes) -> Awaitable[None] | None:
        """What has to be awaited before a token is evaluated: keys that are fetched. Mostly None."""
        tokens = self._settings.tokens
        if self.mechanism != OAUTHBEARER or tokens is None:
            return None
        return tokens.preparation(bytes(token).partition(b"auth=Bearer ")[2].partition(b"\x01")[0].decode("latin-1"))

    def evaluate(self, token: bytes) -> bytes:
        """Take a token and return its answer; `state` tells whether it was the last token.

        Raises AuthenticationFailed: the caller awaits `wait_after_failure` before it answers.
        """
        assert self._exchange is not None
        try:
            answer = self._exchange.evaluate(token)
            if self._exchange.username is not None:
                self._finish(Principal.user(self._exchange.username), self._exchange.expires_s)
        except AuthenticationFailed:
            self.state = State.FAILED
            self._exchange = None
            raise
        return answer

    def _finish(self, principal: Principal, expires_s: float | None) -> None:
        if self.principal not in (None, principal):
            raise AuthenticationFailed("Cannot change principals during re-authentication")
        self.principal = principal
        self.state = State.DONE
        self.takes_tokens = False
        self._exchange = None
        self.end()
        self._session_ms = self._settings.max_reauth_ms.get(self.mechanism, 0)
        left_ms = None
        if expires_s is not None:
            left_ms = max(int((expires_s - time.time()) * 1000), 0)  # none is left of one that ended within the skew
        elif self._token is not None:
            left_ms = max(self._token.expires_ms - self._clock.now_ms(), 0)
        if left_ms is not None:  # the token's end and connections.max.reauth.ms, whichever is sooner (KIP-368)
            self._session_ms = min(self._session_ms or left_ms, left_ms)
        if self._session_ms > 0 or left_ms is not None:
            self._expires_ms = self._clock.liveness_ms() + self._session_ms
        self._connection.authenticated(principal, for_good=self._expires_ms is None)

    @property
    def session_lifetime_ms(self) -> int:
        """Milliseconds until a client that has just authenticated must do so again; 0 if it never must, or failed."""
        return self._session_ms if self.state is State.DONE else 0

    async def wait_after_failure(self, failure: AuthenticationFailed) -> None:
        """Log a failure, then wait for `connection.failed.authentication.delay.ms`, which slows guessing down.

        Raises CancelledError if the client leaves.
        """
        peer_log.warning(
            "authentication of %s:%d with %s failed: %s", *self._connection.peer, self.mechanism, failure.reason
        )
        self.end()
        delay_ms = self._times.connection_failed_authentication_delay_ms
        if delay_ms <= 0:
            return
        due: asyncio.Future[bool] = asyncio.get_running_loop().create_future()
        timer = self._clock.call_later(delay_ms, lambda: None if due.done() else due.set_result(True), liveness=True)
        if self._connection.is_closing:
            raise asyncio.CancelledError
        self._connection.waiting = due
        try:
            await due
        finally:
            self._connection.waiting = None
            timer.cancel()
