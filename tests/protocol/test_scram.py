"""SCRAM: the exchange of RFC 7677, and messages that do not follow the RFC."""

from __future__ import annotations

import base64

import pytest

from kmini.protocol import scram
from kmini.protocol.scram import SHA_256, ScramError

# RFC 7677, section 3: user "user", password "pencil".
CLIENT_FIRST = "n,,n=user,r=rOprNGfwEbeRWgbNEkqO"
SERVER_FIRST = "r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0,s=W22ZaJ0SNY7soEsUEjb6gQ==,i=4096"
CLIENT_FINAL_WITHOUT_PROOF = "c=biws,r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0"
PROOF = base64.b64decode("dHzbZapWIk4jUhN+Ute9ytag9zjfMHgsqmmiz7AndVQ=")
SIGNATURE = base64.b64decode("6rriTRBi23WpRR/wtup+mMhUZUn/dB5nLTJRsjl95G4=")


@pytest.fixture(scope="module")
def salted() -> bytes:
    return scram.salted_password(SHA_256, "pencil", base64.b64decode("W22ZaJ0SNY7soEsUEjb6gQ=="), 4096)


@pytest.fixture(scope="module")
def signed() -> bytes:
    return scram.auth_message(CLIENT_FIRST.removeprefix("n,,"), SERVER_FIRST, CLIENT_FINAL_WITHOUT_PROOF)


def test_the_messages_are_those_of_the_rfc() -> None:
    first = scram.client_first("user", "rOprNGfwEbeRWgbNEkqO")
    assert first.gs2_header + first.bare == CLIENT_FIRST
    answer = scram.parse_server_first(SERVER_FIRST.encode())
    assert scram.server_first(answer.nonce, answer.salt, answer.iterations) == SERVER_FIRST
    assert scram.client_final(first.gs2_header, answer.nonce) == CLIENT_FINAL_WITHOUT_PROOF
    assert scram.parse_client_first(CLIENT_FIRST.encode()) == first
    final = scram.parse_client_final(scram.with_proof(CLIENT_FINAL_WITHOUT_PROOF, PROOF))
    assert (final.proof, final.without_proof, final.nonce) == (PROOF, CLIENT_FINAL_WITHOUT_PROOF, answer.nonce)
    assert scram.parse_server_final(scram.server_final(SIGNATURE)) == SIGNATURE


def test_proof_and_signature_are_those_of_the_rfc(salted: bytes, signed: bytes) -> None:
    credential = scram.credential_of(SHA_256, salted, b"salt", 4096)
    assert scram.client_proof(SHA_256, salted, signed) == PROOF
    assert scram.proof_is_right(SHA_256, credential, PROOF, signed)
    assert scram.server_signature(SHA_256, credential, signed) == SIGNATURE
    assert scram.signature(SHA_256, scram.server_key(SHA_256, salted), signed) == SIGNATURE


@pytest.mark.parametrize("proof", [b"", PROOF[:-1], PROOF + b"\0", bytes([PROOF[0] ^ 1]) + PROOF[1:]])
def test_another_proof_is_wrong(salted: bytes, signed: bytes, proof: bytes) -> None:
    credential = scram.credential_of(SHA_256, salted, b"salt", 4096)
    assert not scram.proof_is_right(SHA_256, credential, proof, signed)


def test_the_proof_of_another_exchange_is_wrong(salted: bytes, signed: bytes) -> None:
    credential = scram.credential_of(SHA_256, salted, b"salt", 4096)
    assert not scram.proof_is_right(SHA_256, credential, PROOF, signed + b"x")


@pytest.mark.parametrize("name", ["a,b", "a=b", "=2C", ",=,="])
def test_a_user_name_may_have_the_characters_that_separate_fields(name: str) -> None:
    first = scram.client_first(name, "nonce")
    assert scram.parse_client_first((first.gs2_header + first.bare).encode()).username == name


@pytest.mark.parametrize(
    ("parse", "message"),
    [
        (scram.parse_client_first, b""),
        (scram.parse_client_first, b"y,,n=user,r=nonce"),
        (scram.parse_client_first, b"n,,n=,r=nonce"),
        (scram.parse_client_first, b"n,,n=a=b,r=nonce"),
        (scram.parse_client_first, b"n,,n=user,r=" + b"n" * 257),
        (scram.parse_client_first, b"n,,n=\xff,r=nonce"),
        (scram.parse_server_first, b"r=nonce,s=W22Z,i=0"),
        (scram.parse_server_first, b"r=nonce,s=*,i=4096"),
        (scram.parse_client_final, b"c=biws,r=nonce"),
        (scram.parse_client_final, b"c=biws,r=nonce,p=A"),
        (scram.parse_server_final, b"e=other-error"),
        (scram.parse_server_final, b"v="),
    ],
)
def test_a_message_that_does_not_follow_the_rfc_is_refused(parse: object, message: bytes) -> None:
    with pytest.raises(ScramError):
        parse(message)  # type: ignore[operator]


def test_a_nonce_is_printable_and_another_one_each_time() -> None:
    nonces = {scram.new_nonce() for _ in range(100)}
    assert len(nonces) == 100
    assert all(scram.parse_client_first(f"n,,n=u,r={nonce}".encode()).nonce == nonce for nonce in nonces)


def test_a_credential_shows_no_secret() -> None:
    credential = scram.ScramCredential(b"salt", 4096, b"stored", b"server")
    assert repr(credential) == "<a SCRAM credential of 4096 iterations>"
