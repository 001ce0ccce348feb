"""The authentication of one connection.

    WAITING      nothing but ApiVersions and SaslHandshake is understood
    EXCHANGING   … and SaslAuthenticate, or bare tokens after a SaslHandshake of version 0
    DONE         everything is, until the authentication expires (KIP-368)
    FAILED       nothing is: the connection closes when the answer is out

The same walk, from DONE over EXCHANGING, authenticates again where that is due: the same principal, by the same
mechanism. Everything else in a wrong moment closes the connection.
"""

from __future__ import annotations

import asyncio
import logging
from enum import Enum
from typing import TYPE_CHECKING

from ...protocol import scram
from ...protocol.errors import UnsupportedSaslMechanism
from ..clock import Timer
from ..network.peer_log import PeerLog
from .resources import Principal
from .sasl_exchange import AuthenticationFailed, Exchange
from .sasl_plain import PlainExchange
from .sasl_scram import ScramExchange
from .security_settings import PLAIN, SaslSettings

if TYPE_CHECKING:
    from ..broker import Broker
    from ..network.connection import Connection

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
    State.EXCHANGING: frozenset({API_VERSIONS, SASL_AUTHENTICATE}),
    State.DONE: frozenset({API_VERSIONS, SASL_HANDSHAKE, SASL_AUTHENTICATE}),
    State.FAILED: frozenset[int](),
}
"""What is served. In DONE: once the authentication has expired; before, everything is."""


class SaslSession:
    """Who the peer of a connection is, and how that is found out."""

    def __init__(self, broker: Broker, settings: SaslSettings, connection: Connection) -> None:
        self.state = State.WAITING
        self.principal: Principal | None = None
        self.mechanism = ""
        self.takes_tokens = False
        """Whether what comes next is a bare token, not a request."""
        self._broker = broker
        self._settings = settings
        self._connection = connection
        self._exchange: Exchange | None = None
        self._expires_ms: int | None = None
        self._timer: Timer | None = None

    # --- time

    def begin(self) -> None:
        """The connection is there: it has so much time to say who it is."""
        limit_ms = self._broker.config.kmini_authentication_timeout_ms
        self._timer = self._broker.clock.call_later(limit_ms, self._too_late, liveness=True)

    def _too_late(self) -> None:
        if self.state is not State.DONE and not self._connection.is_closing:
            peer_log.warning("closed the connection of %s:%d: it did not authenticate in time", *self._connection.peer)
            self.state = State.FAILED
            self._connection.abort()

    def end(self) -> None:
        """The connection is gone, or needs no watching any more."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    # --- what is served

    def admits(self, api_key: int) -> bool:
        """Whether a request may be served now."""
        if self.state is State.DONE and (
            self._expires_ms is None or self._broker.clock.liveness_ms() < self._expires_ms
        ):
            return True
        return api_key in _ADMITTED[self.state]

    @property
    def why_not(self) -> str:
        """Why a request is not served."""
        return "the authentication has expired" if self.state is State.DONE else "it came before authentication"

    @property
    def has_failed(self) -> bool:
        return self.state is State.FAILED

    @property
    def is_exchanging(self) -> bool:
        return self.state is State.EXCHANGING

    @property
    def may_start(self) -> bool:
        """Whether a SaslHandshake makes sense now."""
        return self.state is State.WAITING or (self.state is State.DONE and self._lifetime_ms > 0)

    @property
    def mechanisms(self) -> tuple[str, ...]:
        return self._settings.mechanisms

    @property
    def _lifetime_ms(self) -> int:
        return self._settings.max_reauth_ms.get(self.mechanism, 0)

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
        if mechanism == PLAIN:
            return PlainExchange(self._settings.plain_users)
        kind = scram.MECHANISMS[mechanism]
        credentials = self._broker.controller.scram_credentials
        return ScramExchange(kind, lambda name: credentials.get((name, kind.wire_code)))

    def evaluate(self, token: bytes) -> bytes:
        """Take a token and return the answer to it; `state` tells whether it was the last one. Raises
        AuthenticationFailed; then `wait_after_failure` comes before the answer."""
        assert self._exchange is not None
        try:
            answer = self._exchange.evaluate(token)
            if self._exchange.username is not None:
                self._finish(Principal.user(self._exchange.username))
        except AuthenticationFailed:
            self.state = State.FAILED
            self._exchange = None
            raise
        return answer

    def _finish(self, principal: Principal) -> None:
        if self.principal not in (None, principal):
            raise AuthenticationFailed("Cannot change principals during re-authentication")
        self.principal = principal
        self.state = State.DONE
        self.takes_tokens = False
        self._exchange = None
        self.end()
        if self._lifetime_ms > 0:
            self._expires_ms = self._broker.clock.liveness_ms() + self._lifetime_ms
        self._connection.authenticated(principal, for_good=self._expires_ms is None)

    @property
    def session_lifetime_ms(self) -> int:
        """How long a client that has just authenticated may go on; 0 for ever, or where it has not."""
        return self._lifetime_ms if self.state is State.DONE else 0

    async def wait_after_failure(self, failure: AuthenticationFailed) -> None:
        """Log it once, and let who tries again and again wait. Raises CancelledError if the client leaves."""
        peer_log.warning(
            "authentication of %s:%d with %s failed: %s", *self._connection.peer, self.mechanism, failure.reason
        )
        self.end()
        delay_ms = self._broker.config.connection_failed_authentication_delay_ms
        if delay_ms <= 0:
            return
        due: asyncio.Future[bool] = asyncio.get_running_loop().create_future()
        timer = self._broker.clock.call_later(
            delay_ms, lambda: None if due.done() else due.set_result(True), liveness=True
        )
        if self._connection.is_closing:
            raise asyncio.CancelledError
        self._connection.waiting = due
        try:
            await due
        finally:
            self._connection.waiting = None
            timer.cancel()
