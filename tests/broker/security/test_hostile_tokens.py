"""Hostile tokens: random ones, and valid ones with a few bytes changed."""

from __future__ import annotations

import random

import pytest

from kmini.broker.security.sasl_exchange import AuthenticationFailed, Exchange
from kmini.broker.security.sasl_plain import PlainExchange
from kmini.broker.security.sasl_scram import ScramExchange
from kmini.protocol import scram

ROUNDS = 2_000


SALTED = scram.salted_password(scram.SHA_256, "wonderland", b"salt", 4096)


def exchanges() -> list[Exchange]:
    credential = scram.credential_of(scram.SHA_256, SALTED, b"salt", 4096)
    return [PlainExchange({"alice": "wonderland"}), ScramExchange(scram.SHA_256, {"alice": credential}.get)]


@pytest.mark.parametrize("seed", range(4))
def test_random_tokens_are_refused_and_nothing_else(seed: int) -> None:
    draw = random.Random(seed)
    alphabet = b'n,=ra\0pc\xff:abAB01+/;s"\\'
    for _ in range(ROUNDS):
        for exchange in exchanges()[seed % 2 :]:
            token = bytes(draw.choice(alphabet) for _ in range(draw.randrange(40)))
            try:
                exchange.evaluate(token)
            except AuthenticationFailed:
                pass
            assert exchange.username is None


@pytest.mark.parametrize("seed", range(4))
def test_a_conversation_with_changed_bytes_authenticates_no_client(seed: int) -> None:
    draw = random.Random(seed)
    for _ in range(100):
        _, server = exchanges()
        first = scram.client_first("alice", scram.new_nonce())
        answer = server.evaluate((first.gs2_header + first.bare).encode())
        nonce, salt, iterations = scram.parse_server_first(answer)
        salted = scram.salted_password(scram.SHA_256, "wonderland", salt, 1)
        without_proof = scram.client_final("n,,", nonce)
        signed = scram.auth_message(first.bare, answer.decode(), without_proof)
        final = bytearray(scram.with_proof(without_proof, scram.client_proof(scram.SHA_256, salted, signed)))
        assert iterations == 4096
        for _ in range(draw.randrange(3)):
            final[draw.randrange(len(final))] = draw.randrange(256)
        with pytest.raises(AuthenticationFailed):
            server.evaluate(bytes(final))
        assert server.username is None


def test_the_largest_tokens_are_refused() -> None:
    """In a share of a second: where patterns went back and forth it would be minutes, and this test would hang."""
    size = 500_000
    for text in ("n,,n=" + "a" * size, "n,,n=a,r=b" + ",x=y" * (size // 4) + ",", "=2C" * (size // 3), "," * size):
        with pytest.raises(AuthenticationFailed):
            exchanges()[1].evaluate(text.encode())
    with pytest.raises(AuthenticationFailed):
        exchanges()[0].evaluate(b"\0" * size)
