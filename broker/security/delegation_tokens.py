"""Delegation tokens (KIP-48, KIP-373): their rules, and how clients log in with them.

A token is an id and the HMAC of that id under `delegation.token.secret.key`. The HMAC is the password: it is computed
whenever it is needed and never stored. Without the secret key every request about tokens is refused; all the same they
are told to clients, because clients that infer a release of Apache Kafka from the requests that it serves would take a
broker without them for Kafka 1.0.
"""

from __future__ import annotations

import hashlib
import hmac
import secrets
from base64 import b64encode
from collections.abc import Collection, Mapping, Sequence
from functools import lru_cache
from typing import TYPE_CHECKING, NamedTuple, Protocol

from ...protocol.errors import (
    DelegationTokenAuthDisabled,
    DelegationTokenExpired,
    DelegationTokenNotFound,
    DelegationTokenOwnerMismatch,
    DelegationTokenRequestNotAllowed,
)
from ...protocol.uuids import format_uuid, random_uuid
from .resources import ANONYMOUS, Principal

if TYPE_CHECKING:
    from ...protocol.scram import Mechanism, ScramCredential
    from ..clock import Clock
    from .sasl import SaslSession

MAX_TIME_MS = 2**63 - 1
"""The last time, in milliseconds since the epoch, that a token may expire at: an int64."""

NO_TIME = -1
"""The time in an answer of the broker itself; with an error, that in an answer of the controller is 0."""

_SALT_BYTES = 32


class DelegationToken(NamedTuple):
    """A token as the controller keeps it, without a secret. Times are log times, in milliseconds since the epoch."""

    token_id: str
    owner: Principal
    """The principal that a client with this token is."""
    requester: Principal
    """The principal that asked for the token: the owner, or another one with the permission CREATE_TOKENS."""
    renewers: tuple[Principal, ...]
    """The principals that may renew and expire the token besides its owner."""
    issued_ms: int
    max_ms: int
    """The time that no renewal goes beyond."""
    expires_ms: int

    def is_expired(self, now_ms: int) -> bool:
        return min(self.max_ms, self.expires_ms) < now_ms

    def may_be_renewed_by(self, principal: Principal) -> bool:
        return principal == self.owner or principal in self.renewers

    def concerns(self, principal: Principal) -> bool:
        """Whether the principal may describe the token without a permission."""
        return principal == self.requester or self.may_be_renewed_by(principal)


class TokenSettings(Protocol):
    """The settings of a broker that the rules of tokens read."""

    delegation_token_secret_key: str | None
    delegation_token_max_lifetime_ms: int
    delegation_token_expiry_time_ms: int


class TokenStore(Protocol):
    """The controller, as far as it stores tokens, by id."""

    delegation_tokens: dict[str, DelegationToken]

    def put_delegation_token(self, token: DelegationToken) -> None: ...

    def remove_delegation_tokens(self, token_ids: Collection[str]) -> None: ...


class AskingConnection(Protocol):
    """The connection of a request about tokens."""

    principal: Principal
    sasl: SaslSession | None


def may_ask(connection: AskingConnection) -> bool:
    """Whether the client may send requests about tokens: not without authentication, and not if a token
    authenticated it."""
    if connection.sasl is None:
        return connection.principal != ANONYMOUS
    return not connection.sasl.is_by_token


def check_may_ask(connection: AskingConnection) -> None:
    """Raise DelegationTokenRequestNotAllowed unless `may_ask`."""
    if not may_ask(connection):
        raise DelegationTokenRequestNotAllowed


def secret_key(settings: TokenSettings) -> str:
    """The key that makes HMACs of token ids. Raises DelegationTokenAuthDisabled if there is none."""
    if not settings.delegation_token_secret_key:
        raise DelegationTokenAuthDisabled
    return settings.delegation_token_secret_key


def hmac_of(token_id: str, secret: str) -> bytes:
    """The HMAC-SHA512 of a token id. Its base64 is the password of the token."""
    return hmac.digest(secret.encode(), token_id.encode(), hashlib.sha512)


# --- requests


def create(
    store: TokenStore,
    settings: TokenSettings,
    now_ms: int,
    *,
    owner: Principal,
    requester: Principal,
    renewers: Sequence[Principal],
    lifetime_ms: int,
) -> DelegationToken:
    """Make a token. It lives at most `lifetime_ms`, if that is positive, and `delegation.token.max.lifetime.ms`.
    Raises KafkaStorageError."""
    max_ms = _later(now_ms, _at_most(settings.delegation_token_max_lifetime_ms, lifetime_ms))
    expires_ms = min(max_ms, _later(now_ms, settings.delegation_token_expiry_time_ms))
    token_id = format_uuid(random_uuid())
    token = DelegationToken(token_id, owner, requester, tuple(renewers), now_ms, max_ms, expires_ms)
    store.put_delegation_token(token)
    return token


def renew(
    store: TokenStore, settings: TokenSettings, now_ms: int, *, shown: bytes, principal: Principal, period_ms: int
) -> int:
    """Let the token with the HMAC `shown` live on for `period_ms`, if that is positive, and at most for
    `delegation.token.expiry.time.ms`. Returns when it expires. Raises DelegationTokenAuthDisabled,
    DelegationTokenNotFound, DelegationTokenExpired, DelegationTokenOwnerMismatch, and KafkaStorageError."""
    token = _token_of(store, settings, shown)
    if token.is_expired(now_ms):
        raise DelegationTokenExpired
    if not token.may_be_renewed_by(principal):
        raise DelegationTokenOwnerMismatch
    period_ms = _at_most(settings.delegation_token_expiry_time_ms, period_ms)
    return _put(store, token, _later(now_ms, period_ms))


def expire(
    store: TokenStore, settings: TokenSettings, now_ms: int, *, shown: bytes, principal: Principal, period_ms: int
) -> int:
    """Let the token with the HMAC `shown` expire after `period_ms`, or remove it at once if that is negative. Returns
    when it expires. Raises DelegationTokenAuthDisabled, DelegationTokenNotFound, DelegationTokenOwnerMismatch,
    DelegationTokenExpired, and KafkaStorageError."""
    token = _token_of(store, settings, shown)
    if not token.may_be_renewed_by(principal):
        raise DelegationTokenOwnerMismatch
    if period_ms < 0:
        store.remove_delegation_tokens([token.token_id])
        return now_ms
    if token.is_expired(now_ms):
        raise DelegationTokenExpired
    return _put(store, token, _later(now_ms, period_ms))


def expired(tokens: Mapping[str, DelegationToken], now_ms: int) -> list[str]:
    """The ids of the tokens that have expired."""
    return [token.token_id for token in tokens.values() if token.is_expired(now_ms)]


def next_expiry_ms(tokens: Mapping[str, DelegationToken]) -> int | None:
    """The first time at which one of the tokens has expired; None without tokens."""
    return min((min(token.max_ms, token.expires_ms) + 1 for token in tokens.values()), default=None)


def _token_of(store: TokenStore, settings: TokenSettings, shown: bytes) -> DelegationToken:
    secret = secret_key(settings)
    for token in store.delegation_tokens.values():
        if hmac.compare_digest(hmac_of(token.token_id, secret), shown):
            return token
    raise DelegationTokenNotFound


def _put(store: TokenStore, token: DelegationToken, expires_ms: int) -> int:
    changed = token._replace(expires_ms=min(token.max_ms, expires_ms))
    store.put_delegation_token(changed)
    return changed.expires_ms


def _at_most(setting_ms: int, asked_ms: int) -> int:
    return min(setting_ms, asked_ms) if asked_ms > 0 else setting_ms


def _later(now_ms: int, period_ms: int) -> int:
    return min(now_ms + period_ms, MAX_TIME_MS)


# --- logins


class TokenLogins:
    """Finds the tokens that clients log in with by SCRAM."""

    def __init__(self, tokens: Mapping[str, DelegationToken], secret: str, clock: Clock) -> None:
        self._tokens = tokens
        self._secret = secret
        self._clock = clock

    def find(self, token_id: str, mechanism: Mechanism) -> tuple[DelegationToken, ScramCredential] | None:
        """The token of this id, and its credential; None if there is none, or it has expired."""
        token = self._tokens.get(token_id)
        if token is None or token.is_expired(self._clock.now_ms()):
            return None
        return token, _credential(hmac_of(token_id, self._secret), mechanism)


@lru_cache(maxsize=256)
def _credential(token_hmac: bytes, mechanism: Mechanism) -> ScramCredential:
    """The credential of a token, with as few iterations as the mechanism allows, as in Kafka. It takes two milliseconds
    of the loop at the first login of a token, and nothing at the next ones."""
    from ...protocol.scram import credential_of, salted_password

    salt = secrets.token_bytes(_SALT_BYTES)
    iterations = mechanism.min_iterations
    salted = salted_password(mechanism, b64encode(token_hmac).decode(), salt, iterations)
    return credential_of(mechanism, salted, salt, iterations)
