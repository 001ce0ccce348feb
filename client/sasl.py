"""SASL authentication (PLAIN and SCRAM): the last step of a connection's set-up, before the first other request."""

from __future__ import annotations

import asyncio
import hmac
from collections.abc import Mapping
from typing import Any, NamedTuple, Protocol

from ..protocol import scram
from ..protocol.errors import SaslAuthenticationFailed, UnsupportedSaslMechanism
from ..protocol.messages.sasl_authenticate import SaslAuthenticateRequest, SaslAuthenticateResponse
from ..protocol.messages.sasl_handshake import SaslHandshakeRequest, SaslHandshakeResponse
from ..protocol.schema import Request
from .errors import check

PLAIN = "PLAIN"
MECHANISMS = (PLAIN, *scram.MECHANISMS)

MAX_ITERATIONS = 1_000_000
"""Iterations that a server may ask for, at most: they take some tenths of a second."""


class Sasl(NamedTuple):
    """A mechanism, a name and a password."""

    mechanism: str
    username: str
    password: str

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
    else:
        await _scram(connection, sasl, scram.MECHANISMS[sasl.mechanism])


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
