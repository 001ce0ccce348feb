"""The interface of all mechanisms: tokens go back and forth until the client is authenticated or refused."""

from __future__ import annotations

import hashlib
import hmac
import secrets
from typing import Protocol

_KEY = secrets.token_bytes(32)


class AuthenticationFailed(Exception):
    """The authentication failed. The text goes to the client, `reason` (if it says more) to the log.

    Neither holds a secret, nor tells whether a user of that name exists.
    """

    def __init__(self, message: str, reason: str = "") -> None:
        super().__init__(message)
        self.reason = reason or message


class Exchange(Protocol):
    """One authentication by one mechanism."""

    @property
    def username(self) -> str | None:
        """The authenticated user; None until the exchange succeeds."""

    expires_s: float | None
    """When what the client has shown ends, in seconds since the epoch; None if it does not."""

    def evaluate(self, token: bytes) -> bytes:
        """Take a token of the client and return the answer. Raises AuthenticationFailed."""


def is_same_secret(one: bytes, other: bytes) -> bool:
    """Whether two secrets are equal, in a time that depends neither on their lengths nor on where they differ
    (CVE-2021-38153)."""
    return hmac.compare_digest(hmac.digest(_KEY, one, hashlib.sha256), hmac.digest(_KEY, other, hashlib.sha256))
