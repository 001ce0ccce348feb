"""What all mechanisms have in common: tokens go back and forth until somebody is known, or refused."""

from __future__ import annotations

import hashlib
import hmac
import secrets
from typing import Protocol

_KEY = secrets.token_bytes(32)


class AuthenticationFailed(Exception):
    """The client is not who it says. The text goes to the client; `reason` to the log, if it says more. Neither holds
    anything secret, nor whether there is a user of that name."""

    def __init__(self, message: str, reason: str = "") -> None:
        super().__init__(message)
        self.reason = reason or message


class Exchange(Protocol):
    """One authentication by one mechanism."""

    @property
    def username(self) -> str | None:
        """Who it is, once that is certain."""

    def evaluate(self, token: bytes) -> bytes:
        """Take what the client says, and return what to say to it. Raises AuthenticationFailed."""


def is_same_secret(one: bytes, other: bytes) -> bool:
    """Whether two secrets are equal. How long it takes tells nothing about where they differ, nor of their lengths
    (CVE-2021-38153)."""
    return hmac.compare_digest(hmac.digest(_KEY, one, hashlib.sha256), hmac.digest(_KEY, other, hashlib.sha256))
