"""SASL authentication (PLAIN, SCRAM, OAUTHBEARER): the last step of a connection's set-up, before the first other
request."""

from __future__ import annotations

import asyncio
import base64
import hmac
import json
import time
from collections.abc import Mapping
from typing import Any, NamedTuple, Protocol

from ..protocol import scram
from ..protocol.errors import SaslAuthenticationFailed, UnsupportedSaslMechanism
from ..protocol.jaas import OAUTHBEARER, PLAIN, token_source
from ..protocol.messages.sasl_authenticate import SaslAuthenticateRequest, SaslAuthenticateResponse
from ..protocol.messages.sasl_handshake import SaslHandshakeRequest, SaslHandshakeResponse
from ..protocol.schema import Request
from .errors import check

MECHANISMS = (PLAIN, *scram.MECHANISMS, OAUTHBEARER)

MAX_ITERATIONS = 1_000_000
"""Iterations that a server may ask for, at most: they take some tenths of a second."""
TOKEN_TIMEOUT_S = 30
"""Seconds that an issuer has to answer."""
UNSECURED_FOR_S = 3_600
"""Seconds until an unsecured token expires."""


class Sasl(NamedTuple):
    """A mechanism, a name and a password.

    With OAUTHBEARER, they are the client's id and secret, for which `token_endpoint` issues a token at each login
    (KIP-768). Without an endpoint the token is an unsecured one of that name (KIP-255), for brokers that accept those.
    """

    mechanism: str
    username: str
    password: str
    token_endpoint: str = ""
    """The URL of the issuer's token endpoint, or, as `file:`, of a file that holds a token."""
    scope: str = ""
    """What the token is to allow, in the issuer's words."""

    def __repr__(self) -> str:
        return f"Sasl({self.mechanism!r}, {self.username!r}, [hidden])"


class AuthenticatedConnection(Protocol):
    """A connection to a broker, as far as authentication uses one. See `connection.Connection`."""

    @property
    def called(self) -> str: ...

    @property
    def versions(self) -> Mapping[int, tuple[int, int]]: ...

    def version_for(self, request: type[Request]) -> int: ...

    async def send(self, request: Request, *, version: int | None = None) -> Any: ...


async def authenticate(connection: AuthenticatedConnection, sasl: Sasl) -> None:
    """Authenticate a new connection. Raises SaslAuthenticationFailed, UnsupportedSaslMechanism."""
    if sasl.mechanism not in MECHANISMS:
        raise UnsupportedSaslMechanism(f"{sasl.mechanism} is not offered here, only {', '.join(MECHANISMS)}")
    handshake: SaslHandshakeResponse = await connection.send(
        SaslHandshakeRequest(mechanism=sasl.mechanism), version=SaslHandshakeRequest.max_version
    )
    offered = ", ".join(handshake.mechanisms) or "none"
    check(handshake.error_code, f"{connection.called} offers {offered}, not {sasl.mechanism}")
    if sasl.mechanism == PLAIN:
        await _send(connection, f"\0{sasl.username}\0{sasl.password}".encode())
    elif sasl.mechanism == OAUTHBEARER:
        await _bearer(connection, sasl)
    else:
        await _scram(connection, sasl, scram.MECHANISMS[sasl.mechanism])


async def _bearer(connection: AuthenticatedConnection, sasl: Sasl) -> None:
    try:
        token = await asyncio.get_running_loop().run_in_executor(None, bearer_token, sasl)
    except (OSError, ValueError) as error:  # what it says may quote the answer, but no request
        raise SaslAuthenticationFailed(f"{sasl.token_endpoint} gave no token: {error}") from error
    if refusal := await _send(connection, f"n,,\x01auth=Bearer {token}\x01\x01".encode()):
        await _send(connection, b"\x01")  # RFC 7628: the server fails the login once the client has seen why
        raise SaslAuthenticationFailed(f"{connection.called} refused the token: {refusal.decode(errors='replace')}")


def bearer_sasl(settings: Mapping[str, str], options: Mapping[str, str]) -> Sasl:
    """The credentials of OAUTHBEARER by the names of Java's clients: KIP-1139's settings, or the older options of JAAS.
    Raises ValueError, which quotes no secret."""
    endpoint, name, secret, scope = token_source(settings, options)
    if not endpoint:
        if not options.get("unsecuredLoginStringClaim_sub"):
            raise ValueError(
                "OAUTHBEARER needs sasl.oauthbearer.token.endpoint.url, or for a token without a signature "
                'unsecuredLoginStringClaim_sub="…" in sasl.jaas.config'
            )
        return Sasl(OAUTHBEARER, options["unsecuredLoginStringClaim_sub"], "")
    if not endpoint.startswith(("http://", "https://", "file:")):
        raise ValueError(f"sasl.oauthbearer.token.endpoint.url={endpoint}: a URL was expected")
    if not endpoint.startswith("file:") and not (name and secret):
        prefix = "sasl.oauthbearer.client.credentials.client"
        raise ValueError(f"{prefix}.id and {prefix}.secret are needed for the token endpoint")
    return Sasl(OAUTHBEARER, name, secret, endpoint, scope)


def bearer_token(sasl: Sasl) -> str:
    """A token for OAUTHBEARER. Blocks while the issuer answers. Raises OSError, ValueError."""
    if not sasl.token_endpoint:
        now_s = int(time.time())
        claims = {"sub": sasl.username, "iat": now_s, "exp": now_s + UNSECURED_FOR_S}
        return ".".join([*(_base64url(json.dumps(part)) for part in ({"alg": "none"}, claims)), ""])
    import urllib.parse
    import urllib.request

    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    if sasl.token_endpoint.startswith("file:"):
        with opener.open(sasl.token_endpoint) as file:
            return str(file.read(), "ascii").strip()
    form = {"grant_type": "client_credentials", "client_id": sasl.username, "client_secret": sasl.password}
    if sasl.scope:
        form["scope"] = sasl.scope
    body = urllib.parse.urlencode(form).encode("ascii")
    with opener.open(sasl.token_endpoint, body, timeout=TOKEN_TIMEOUT_S) as answer:
        told = json.load(answer)
    token = told.get("access_token") if isinstance(told, dict) else None
    if not isinstance(token, str) or not token:
        raise ValueError("the answer has no access_token")
    return token


def _base64url(text: str) -> str:
    return base64.urlsafe_b64encode(text.encode()).decode().rstrip("=")


async def _scram(connection: AuthenticatedConnection, sasl: Sasl, mechanism: scram.Mechanism) -> None:
    first = scram.client_first(sasl.username, scram.new_nonce())
    answer = await _send(connection, (first.gs2_header + first.bare).encode())
    try:
        server_first = scram.parse_server_first(answer)
    except scram.ScramError as error:
        raise SaslAuthenticationFailed(f"{connection.called}: {error}") from error
    nonce, salt, iterations = server_first
    if not nonce.startswith(first.nonce) or len(nonce) == len(first.nonce):
        raise SaslAuthenticationFailed(f"{connection.called} did not add to our nonce")
    if not mechanism.min_iterations <= iterations <= MAX_ITERATIONS:
        raise SaslAuthenticationFailed(f"{connection.called} asks for {iterations} iterations")
    loop = asyncio.get_running_loop()
    salted = await loop.run_in_executor(None, scram.salted_password, mechanism, sasl.password, salt, iterations)
    without_proof = scram.client_final(first.gs2_header, nonce)
    signed = scram.auth_message(first.bare, answer.decode(), without_proof)
    answer = await _send(connection, scram.with_proof(without_proof, scram.client_proof(mechanism, salted, signed)))
    try:
        signature = scram.parse_server_final(answer)
    except scram.ScramError as error:
        raise SaslAuthenticationFailed(f"{connection.called}: {error}") from error
    expected = scram.signature(mechanism, scram.server_key(mechanism, salted), signed)
    if not hmac.compare_digest(signature, expected):
        raise SaslAuthenticationFailed(f"{connection.called} does not know the password itself")


async def _send(connection: AuthenticatedConnection, token: bytes) -> bytes:
    version = SaslAuthenticateRequest.max_version
    if SaslAuthenticateRequest.api_key in connection.versions:
        version = connection.version_for(SaslAuthenticateRequest)
    response: SaslAuthenticateResponse = await connection.send(
        SaslAuthenticateRequest(auth_bytes=token), version=version
    )
    check(response.error_code, response.error_message)
    return bytes(response.auth_bytes)
