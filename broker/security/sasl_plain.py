"""PLAIN (RFC 4616): name and password in clear text. The listener's JAAS configuration lists the users."""

from __future__ import annotations

import secrets
from collections.abc import Mapping

from .sasl_exchange import AuthenticationFailed, is_same_secret

_NO_PASSWORD = secrets.token_bytes(32)
"""Compared with the password of an unknown user, so that refusing one takes as long as refusing a known user."""


class PlainExchange:
    """Takes the client's only message: authorization id, name and password, separated by zero bytes."""

    def __init__(self, users: Mapping[str, str]) -> None:
        self._users = users
        self.username: str | None = None
        self.expires_s: float | None = None

    def evaluate(self, token: bytes) -> bytes:
        try:
            parts = bytes(token).decode("utf-8").split("\0")
        except UnicodeDecodeError:
            raise AuthenticationFailed("Invalid SASL/PLAIN response: it is not UTF-8") from None
        if len(parts) != 3:
            raise AuthenticationFailed(f"Invalid SASL/PLAIN response: expected 3 tokens, got {len(parts)}")
        authorization_id, username, password = parts
        if not username:
            raise AuthenticationFailed("Authentication failed: username not specified")
        if not password:
            raise AuthenticationFailed("Authentication failed: password not specified")
        expected = self._users.get(username)
        is_right = is_same_secret(password.encode(), _NO_PASSWORD if expected is None else expected.encode())
        if expected is None or not is_right:
            raise AuthenticationFailed("Authentication failed: Invalid username or password")
        if authorization_id and authorization_id != username:  # CVE-2017-12610
            raise AuthenticationFailed(
                "Authentication failed: Client requested an authorization id that is different from username"
            )
        self.username = username
        return b""
