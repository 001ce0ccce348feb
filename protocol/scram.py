"""SCRAM, its messages and its arithmetic (RFC 5802, RFC 7677), for broker and client.

    client   n,,n=alice,r=<nonce>                          client first
    server   r=<nonce><more>,s=<salt>,i=4096               server first
    client   c=biws,r=<nonce><more>,p=<proof>              client final
    server   v=<signature>                                 server final

The messages do not reveal the password, and the server need not know it: it keeps a stored key, which checks a proof
but cannot make one, and a server key, with which it proves that it knows the user.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import hmac
import re
import secrets
from typing import NamedTuple

MAX_NONCE_LENGTH = 256
"""Characters of the nonce of one side at most. Clients send some 30."""


class ScramError(Exception):
    """A message that does not follow the RFC. The text holds no secret."""


class Mechanism(NamedTuple):
    """A SCRAM mechanism."""

    name: str
    wire_code: int
    """The number of the mechanism in the requests that manage credentials (KIP-554)."""
    hash_name: str
    min_iterations: int = 4096
    max_iterations: int = 16_384

    @property
    def size(self) -> int:
        """Bytes of a key."""
        return hashlib.new(self.hash_name).digest_size


SHA_256 = Mechanism("SCRAM-SHA-256", 1, "sha256")
SHA_512 = Mechanism("SCRAM-SHA-512", 2, "sha512")
MECHANISMS = {mechanism.name: mechanism for mechanism in (SHA_256, SHA_512)}
MECHANISMS_BY_CODE = {mechanism.wire_code: mechanism for mechanism in MECHANISMS.values()}


class ScramCredential(NamedTuple):
    """The credential of a user, as the server keeps it in place of the password."""

    salt: bytes
    iterations: int
    stored_key: bytes
    server_key: bytes

    def __repr__(self) -> str:
        return f"<a SCRAM credential of {self.iterations} iterations>"


def new_nonce() -> str:
    """A random nonce of characters that a message may hold."""
    return secrets.token_urlsafe(24)


def salted_password(mechanism: Mechanism, password: str, salt: bytes, iterations: int) -> bytes:
    """Hash the password: the slow step, milliseconds without the interpreter's lock, which belongs off the event loop.

    The password is not normalized by SASLprep, as in Kafka and its clients.
    """
    return hashlib.pbkdf2_hmac(mechanism.hash_name, password.encode(), salt, iterations)


def credential_of(mechanism: Mechanism, salted: bytes, salt: bytes, iterations: int) -> ScramCredential:
    """The credential of a salted password."""
    client_key = _hmac(mechanism, salted, b"Client Key")
    stored_key = hashlib.new(mechanism.hash_name, client_key).digest()
    return ScramCredential(salt, iterations, stored_key, _hmac(mechanism, salted, b"Server Key"))


def client_proof(mechanism: Mechanism, salted: bytes, auth_message: bytes) -> bytes:
    """The proof that the client knows the password."""
    client_key = _hmac(mechanism, salted, b"Client Key")
    stored_key = hashlib.new(mechanism.hash_name, client_key).digest()
    return _xor(client_key, _hmac(mechanism, stored_key, auth_message))


def proof_is_right(mechanism: Mechanism, credential: ScramCredential, proof: bytes, auth_message: bytes) -> bool:
    """Whether `proof` was made with the password. The time does not depend on the answer."""
    if len(proof) != mechanism.size:
        return False
    client_key = _xor(proof, _hmac(mechanism, credential.stored_key, auth_message))
    return hmac.compare_digest(hashlib.new(mechanism.hash_name, client_key).digest(), credential.stored_key)


def server_signature(mechanism: Mechanism, credential: ScramCredential, auth_message: bytes) -> bytes:
    """The proof that the server knows the user."""
    return _hmac(mechanism, credential.server_key, auth_message)


def server_key(mechanism: Mechanism, salted: bytes) -> bytes:
    """The key with which a client checks the server's signature."""
    return _hmac(mechanism, salted, b"Server Key")


def signature(mechanism: Mechanism, key: bytes, auth_message: bytes) -> bytes:
    return _hmac(mechanism, key, auth_message)


def _hmac(mechanism: Mechanism, key: bytes, message: bytes) -> bytes:
    return hmac.digest(key, message, mechanism.hash_name)


def _xor(one: bytes, other: bytes) -> bytes:
    return bytes(a ^ b for a, b in zip(one, other, strict=True))


# --- messages


class ClientFirst(NamedTuple):
    gs2_header: str
    authorization_id: str
    username: str
    nonce: str
    bare: str
    """The message without its header: the part that is signed."""
    extensions: str


class ServerFirst(NamedTuple):
    nonce: str
    salt: bytes
    iterations: int


class ClientFinal(NamedTuple):
    channel_binding: bytes
    nonce: str
    proof: bytes
    without_proof: str
    """The part that is signed."""


_PRINTABLE = r"[\x21-\x2b\x2d-\x7e]"  # no comma
_SASL_NAME = r"(?:[^\x00,=]|=2C|=3D)+"
_BASE64 = r"[A-Za-z0-9+/]+={0,2}"
_EXTENSIONS = r"((?:,[A-Za-z]+=[^\x00,]+)*)"
_CLIENT_FIRST = re.compile(
    rf"(n,(?:a=(?P<authzid>{_SASL_NAME}))?,)(?P<bare>n=(?P<user>{_SASL_NAME}),r=(?P<nonce>{_PRINTABLE}+){_EXTENSIONS})"
)
_SERVER_FIRST = re.compile(rf"r=({_PRINTABLE}+),s=({_BASE64}|),i=([1-9][0-9]{{0,9}}){_EXTENSIONS}")
_CLIENT_FINAL = re.compile(rf"(c=({_BASE64}),r=({_PRINTABLE}+){_EXTENSIONS}),p=({_BASE64})")
_SERVER_FINAL = re.compile(rf"(?:v=({_BASE64})|e=([^\x00,]+)){_EXTENSIONS}")


def client_first(username: str, nonce: str) -> ClientFirst:
    """The first message of a client without an authorization id: it acts for its own user."""
    bare = f"n={_escaped(username)},r={nonce}"
    return ClientFirst("n,,", "", username, nonce, bare, "")


def parse_client_first(data: bytes) -> ClientFirst:
    """Raises ScramError."""
    match = _match(_CLIENT_FIRST, data, "client's first")
    if len(match["nonce"]) > MAX_NONCE_LENGTH:
        raise ScramError("the client's nonce is too long")
    return ClientFirst(
        match[1], _unescaped(match["authzid"] or ""), _unescaped(match["user"]), match["nonce"], match["bare"], match[6]
    )


def server_first(nonce: str, salt: bytes, iterations: int) -> str:
    return f"r={nonce},s={_to_base64(salt)},i={iterations}"


def parse_server_first(data: bytes) -> ServerFirst:
    """Raises ScramError."""
    match = _match(_SERVER_FIRST, data, "server's first")
    return ServerFirst(match[1], _from_base64(match[2]), int(match[3]))


def client_final(gs2_header: str, nonce: str) -> str:
    """The client's last message, up to its proof."""
    return f"c={_to_base64(gs2_header.encode())},r={nonce}"


def with_proof(without_proof: str, proof: bytes) -> bytes:
    return f"{without_proof},p={_to_base64(proof)}".encode()


def parse_client_final(data: bytes) -> ClientFinal:
    """Raises ScramError."""
    match = _match(_CLIENT_FINAL, data, "client's final")
    return ClientFinal(_from_base64(match[2]), match[3], _from_base64(match[5]), match[1])


def server_final(signed: bytes) -> bytes:
    return f"v={_to_base64(signed)}".encode()


def parse_server_final(data: bytes) -> bytes:
    """The server's signature. Raises ScramError, also for an error in its place."""
    match = _match(_SERVER_FINAL, data, "server's final")
    if match[1] is None:
        raise ScramError("the server refused the proof")
    return _from_base64(match[1])


def auth_message(client_first_bare: str, server_first_message: str, client_final_without_proof: str) -> bytes:
    """The bytes that both sides sign."""
    return f"{client_first_bare},{server_first_message},{client_final_without_proof}".encode()


def _match(pattern: re.Pattern[str], data: bytes, what: str) -> re.Match[str]:
    try:
        match = pattern.fullmatch(data.decode("utf-8"))
    except UnicodeDecodeError:
        match = None
    if match is None:
        raise ScramError(f"the {what} message does not follow RFC 5802")
    return match


def _escaped(name: str) -> str:
    return name.replace("=", "=3D").replace(",", "=2C")


def _unescaped(name: str) -> str:
    return name.replace("=2C", ",").replace("=3D", "=")


def _to_base64(data: bytes) -> str:
    return base64.b64encode(data).decode("ascii")


def _from_base64(text: str) -> bytes:
    try:
        return base64.b64decode(text, validate=True)
    except binascii.Error:
        raise ScramError("a part of a message is not base64") from None
