"""A client's side of SCRAM, over any way to send its two messages."""

from __future__ import annotations

from collections.abc import Callable

from kmini.protocol import scram

TOKEN = ",tokenauth=true"
"""The extension by which a client logs in with a delegation token."""


def prove(
    send: Callable[[bytes], bytes],
    mechanism: scram.Mechanism,
    name: str,
    password: str,
    extensions: str = "",
    header: str = "n,,",
) -> None:
    """Log in. `send` takes a message and returns the answer, or raises; a wrong signature of the server fails."""
    bare = scram.client_first(name, scram.new_nonce()).bare + extensions
    server_first = bytes(send((header + bare).encode())).decode()
    answered = scram.parse_server_first(server_first.encode())
    salted = scram.salted_password(mechanism, password, answered.salt, answered.iterations)
    without_proof = scram.client_final(header, answered.nonce)
    signed = scram.auth_message(bare, server_first, without_proof)
    final = send(scram.with_proof(without_proof, scram.client_proof(mechanism, salted, signed)))
    key = scram.server_key(mechanism, salted)
    assert scram.parse_server_final(bytes(final)) == scram.signature(mechanism, key, signed)
