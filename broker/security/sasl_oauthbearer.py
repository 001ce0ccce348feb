"""OAUTHBEARER (RFC 7628, KIP-255): the client shows a token, and is the user that the token names.

A token that is refused is answered with an error as JSON, as RFC 7628 asks; the client acknowledges that with one byte,
and the authentication fails.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable

from .bearer_tokens import EXPIRED, Token, TokenRefused
from .sasl_exchange import AuthenticationFailed

_SASL_NAME = r"(?:[\x01-\x2b\x2d-\x3c\x3e-\x7f]|=2C|=3D)+"
_PAIRS = r"(?:[A-Za-z]+=[\x21-\x7e \t\r\n]+\x01)*"
_FIRST = re.compile(rf"n,(?:a=(?P<authzid>{_SASL_NAME}))?,\x01(?P<pairs>{_PAIRS})\x01")
_AUTH = re.compile(r"(?P<scheme>\w+) +(?P<token>[-_~+/.a-zA-Z0-9]+=*)")
_INVALID = "Authentication failed during authentication due to invalid credentials with SASL mechanism OAUTHBEARER"
"""What Apache Kafka answers to a first message that is none; the log says why."""


class OAuthBearerExchange:
    """Takes the client's token, and after a refusal its acknowledgement."""

    def __init__(self, validate: Callable[[str], Token]) -> None:
        """`validate` raises TokenRefused."""
        self._validate = validate
        self._refused: AuthenticationFailed | None = None
        self.username: str | None = None
        self.expires_s: float | None = None

    def expire(self) -> bool:
        """Take the token that comes for one that has expired. False if it has come already."""
        self._validate = _refuse_as_expired
        return self._refused is None

    def evaluate(self, token: bytes) -> bytes:
        if self._refused is not None:
            raise self._refused
        authorization_id, compact = parse_first(bytes(token))
        try:
            valid = self._validate(compact)
        except TokenRefused as refusal:
            scope = f', "scope":{json.dumps(refusal.scope)}' if refusal.scope else ""
            text = f'{{"status":"{refusal.status}"{scope}}}'  # with the blanks that Kafka's has
            self._refused = AuthenticationFailed(text, str(refusal))
            return text.encode()
        if authorization_id and authorization_id != valid.principal:
            raise AuthenticationFailed(
                f"Authentication failed: Client requested an authorization id ({authorization_id}) that is different "
                f"from the token's principal name ({valid.principal})"
            )
        self.username, self.expires_s = valid.principal, valid.expires_s
        return b""


def _refuse_as_expired(_: str) -> Token:
    raise TokenRefused(EXPIRED)


def parse_first(message: bytes) -> tuple[str, str]:
    """The authorization id, which may be empty, and the token of a client's first message. Raises
    AuthenticationFailed, which does not quote it."""
    try:
        found = _FIRST.fullmatch(message.decode("utf-8"))
    except UnicodeDecodeError:
        found = None
    if found is None:
        raise AuthenticationFailed(_INVALID, "the client's first message is none")
    pairs = dict(pair.split("=", 1) for pair in found["pairs"].split("\x01") if pair)
    if "auth" not in pairs:
        raise AuthenticationFailed(_INVALID, "the client's first message has no 'auth'")
    auth = _AUTH.fullmatch(pairs["auth"])
    if auth is None:
        raise AuthenticationFailed(_INVALID, "'auth' in the client's first message has no scheme and token")
    if auth["scheme"].lower() != "bearer":
        raise AuthenticationFailed(_INVALID, f"the client's first message has the scheme {auth['scheme']}")
    return (found["authzid"] or "").replace("=2C", ",").replace("=3D", "="), auth["token"]
