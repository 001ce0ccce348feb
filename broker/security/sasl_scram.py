"""The server's side of SCRAM: credentials are looked up by name, the messages are in `protocol/scram.py`.

A client that names an unknown user is asked for a proof like any other, and fails with it: the answers do not reveal
which users exist.
"""

from __future__ import annotations

import hashlib
import hmac
import secrets
from collections.abc import Callable

from ...protocol import scram
from .sasl_exchange import AuthenticationFailed

_UNKNOWN_USER_KEY = secrets.token_bytes(32)
"""Key from which the salt of an unknown user is derived, so that repeated requests see the same salt."""

Credentials = Callable[[str], "scram.ScramCredential | None"]

TokenCredentials = Callable[[str], "tuple[str, scram.ScramCredential] | None"]
"""The owner's name and the credential of a delegation token, by its id; None for an unknown or expired one."""


class ScramExchange:
    """Takes the client's two messages: the user name, and the proof.

    With the extension `tokenauth=true` the name is the id of a delegation token (KIP-48), and the user its owner.
    """

    def __init__(
        self, mechanism: scram.Mechanism, credentials: Credentials, token_credentials: TokenCredentials | None = None
    ) -> None:
        """`token_credentials` is None where delegation tokens are not turned on."""
        self._mechanism = mechanism
        self._credentials = credentials
        self._token_credentials = token_credentials
        self._user = ""
        self._first: scram.ClientFirst | None = None
        self._server_first = ""
        self._nonce = ""
        self._credential: scram.ScramCredential
        self._is_known = False
        self.username: str | None = None
        self.expires_s: float | None = None

    def evaluate(self, token: bytes) -> bytes:
        try:
            if self._first is None:
                return self._begin(scram.parse_client_first(bytes(token)))
            return self._end(self._first, scram.parse_client_final(bytes(token)))
        except scram.ScramError as error:
            raise self._failure(str(error)) from None

    def _begin(self, first: scram.ClientFirst) -> bytes:
        if first.authorization_id and first.authorization_id != first.username:
            raise AuthenticationFailed(
                "Authentication failed: Client requested an authorization id that is different from username"
            )
        self._user = first.username
        is_token = self._shows_token(first.extensions)
        credential = self._token_credential(first) if is_token else self._credentials(first.username)
        self._is_known = credential is not None
        self._credential = credential or self._credential_of_unknown(first.username)
        if self._credential.iterations < self._mechanism.min_iterations:
            raise self._failure(f"the stored credential has fewer than {self._mechanism.min_iterations} iterations")
        self._first = first
        self._nonce = first.nonce + scram.new_nonce()
        self._server_first = scram.server_first(self._nonce, self._credential.salt, self._credential.iterations)
        return self._server_first.encode()

    def _end(self, first: scram.ClientFirst, final: scram.ClientFinal) -> bytes:
        if not hmac.compare_digest(final.nonce.encode(), self._nonce.encode()):  # CVE-2024-56128
            raise self._failure("the nonce is not the one of this exchange")
        if final.channel_binding != first.gs2_header.encode():
            raise self._failure("the channel binding is not the one that was announced")
        signed = scram.auth_message(first.bare, self._server_first, final.without_proof)
        is_right = scram.proof_is_right(self._mechanism, self._credential, final.proof, signed)
        if not (is_right and self._is_known):
            raise self._failure("wrong name or password")
        self.username = self._user
        return scram.server_final(scram.server_signature(self._mechanism, self._credential, signed))

    def _shows_token(self, extensions: str) -> bool:
        """Whether the client's extensions say that it shows a delegation token.

        Apache Kafka ignores others, but signs two of them in an order of its own: such a login fails by chance there.
        """
        name, _, value = extensions.removeprefix(",").partition("=")
        if name not in ("", "tokenauth") or "," in value:
            raise self._failure("extensions other than tokenauth are not offered")
        return value.lower() == "true"

    def _token_credential(self, first: scram.ClientFirst) -> scram.ScramCredential | None:
        if self._token_credentials is None:
            raise self._failure("delegation tokens are not turned on")
        found = self._token_credentials(first.username)
        if found is None:
            return None
        self._user, credential = found
        return credential

    def _credential_of_unknown(self, username: str) -> scram.ScramCredential:
        size = self._mechanism.size
        salt = hmac.digest(_UNKNOWN_USER_KEY, f"{self._mechanism.name}:{username}".encode(), hashlib.sha256)
        return scram.ScramCredential(salt, self._mechanism.min_iterations, secrets.token_bytes(size), bytes(size))

    def _failure(self, reason: str) -> AuthenticationFailed:
        return AuthenticationFailed(
            "Authentication failed during authentication due to invalid credentials with SASL mechanism "
            + self._mechanism.name,
            reason,
        )
