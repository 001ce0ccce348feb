"""SCRAM on the server: user name, proof, and the answers to both."""

from __future__ import annotations

import base64

import pytest

from kmini.broker.security.sasl_exchange import AuthenticationFailed
from kmini.broker.security.sasl_scram import ScramExchange
from kmini.protocol import scram
from support.for_each import for_each


@pytest.fixture(params=[scram.SHA_256, scram.SHA_512], ids=lambda mechanism: mechanism.name)
def mechanism(request: pytest.FixtureRequest) -> scram.Mechanism:
    found: scram.Mechanism = request.param
    return found


class Client:
    """A client that can be told to get it wrong."""

    def __init__(
        self, mechanism: scram.Mechanism, password: str = "wonderland", user: str = "alice", iterations: int = 4096
    ) -> None:
        self.mechanism, self.password, self.user = mechanism, password, user
        salt = b"salt-of-alice"
        salted = scram.salted_password(mechanism, "wonderland", salt, iterations)
        credential = scram.credential_of(mechanism, salted, salt, iterations)
        self.server = ScramExchange(mechanism, {"alice": credential}.get)
        self.nonce = scram.new_nonce()

    def begin(self, first: str | None = None) -> scram.ServerFirst:
        self.first = scram.client_first(self.user, self.nonce)
        said = self.first.gs2_header + self.first.bare if first is None else first
        self.server_first = self.server.evaluate(said.encode())
        return scram.parse_server_first(self.server_first)

    def end(self, *, nonce: str | None = None, header: str = "n,,") -> bytes:
        answered = scram.parse_server_first(self.server_first)
        self.salted = scram.salted_password(self.mechanism, self.password, answered.salt, answered.iterations)
        without_proof = scram.client_final(header, nonce or answered.nonce)
        self.signed = scram.auth_message(self.first.bare, self.server_first.decode(), without_proof)
        proof = scram.client_proof(self.mechanism, self.salted, self.signed)
        return self.server.evaluate(scram.with_proof(without_proof, proof))


@pytest.mark.parametrize("salted", [b"x", b"abc", b"y" * 500])
def test_a_salted_password_of_any_length_proves_itself(mechanism: scram.Mechanism, salted: bytes) -> None:
    client = Client(mechanism)
    client.server = ScramExchange(
        mechanism, {"alice": scram.credential_of(mechanism, salted, b"", mechanism.min_iterations)}.get
    )
    assert client.begin().salt == b""
    without_proof = scram.client_final("n,,", scram.parse_server_first(client.server_first).nonce)
    signed = scram.auth_message(client.first.bare, client.server_first.decode(), without_proof)
    answer = client.server.evaluate(scram.with_proof(without_proof, scram.client_proof(mechanism, salted, signed)))
    key = scram.server_key(mechanism, salted)
    assert scram.parse_server_final(answer) == scram.signature(mechanism, key, signed)


def test_the_example_of_rfc_7677(monkeypatch: pytest.MonkeyPatch) -> None:
    """A conversation from the paper, byte for byte."""
    salt = base64.b64decode("W22ZaJ0SNY7soEsUEjb6gQ==")
    salted = scram.salted_password(scram.SHA_256, "pencil", salt, 4096)
    credential = scram.credential_of(scram.SHA_256, salted, salt, 4096)
    server = ScramExchange(scram.SHA_256, {"user": credential}.get)
    monkeypatch.setattr(scram, "new_nonce", lambda: "%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0")
    first = server.evaluate(b"n,,n=user,r=rOprNGfwEbeRWgbNEkqO")
    assert first == b"r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0,s=W22ZaJ0SNY7soEsUEjb6gQ==,i=4096"
    final = server.evaluate(
        b"c=biws,r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0,p=dHzbZapWIk4jUhN+Ute9ytag9zjfMHgsqmmiz7AndVQ="
    )
    assert final == b"v=6rriTRBi23WpRR/wtup+mMhUZUn/dB5nLTJRsjl95G4="
    assert server.username == "user"


def test_a_client_with_the_password_is_authenticated_and_the_server_proves_that_it_knows_it(
    mechanism: scram.Mechanism,
) -> None:
    client = Client(mechanism)
    client.begin()
    final = client.end()
    key = scram.server_key(mechanism, client.salted)
    assert scram.parse_server_final(final) == scram.signature(mechanism, key, client.signed)
    assert client.server.username == "alice"


def test_a_wrong_password_is_refused(mechanism: scram.Mechanism) -> None:
    client = Client(mechanism, "wrong")
    client.begin()
    with pytest.raises(AuthenticationFailed, match="invalid credentials"):
        client.end()
    assert client.server.username is None


def test_an_unknown_user_is_refused_at_the_same_point_with_the_same_words(mechanism: scram.Mechanism) -> None:
    said = set()
    for client in (Client(mechanism, "wrong"), Client(mechanism, user="eve")):
        assert client.begin().iterations == 4096
        with pytest.raises(AuthenticationFailed) as refused:
            client.end()
        said.add((str(refused.value), refused.value.reason))
    assert len(said) == 1


def test_an_unknown_user_has_always_the_same_salt(mechanism: scram.Mechanism) -> None:
    salts = {Client(mechanism, user="eve").begin().salt for _ in range(3)}
    assert len(salts) == 1
    assert salts != {Client(mechanism, user="mallory").begin().salt}


def test_the_proof_must_be_for_the_nonce_of_this_exchange(mechanism: scram.Mechanism) -> None:
    """CVE-2024-56128: the nonce of the client's second message was not compared with the one that was sent."""
    client = Client(mechanism)
    server_nonce = client.begin().nonce
    for nonce in (client.nonce, server_nonce + "x", server_nonce[:-1], "somebody-elses"):
        with pytest.raises(AuthenticationFailed) as refused:
            client.end(nonce=nonce)
        assert "nonce" in refused.value.reason
    assert client.server.username is None


def test_nonces_are_not_repeated(mechanism: scram.Mechanism) -> None:
    client = Client(mechanism)
    first = client.begin().nonce
    client.server = Client(mechanism).server
    second = client.begin().nonce
    assert first != second
    assert first.startswith(client.nonce)
    assert len(first) >= len(client.nonce) + 24


def test_a_credential_with_too_few_iterations_is_refused(mechanism: scram.Mechanism) -> None:
    """Part of CVE-2024-56128's lesson: bounds hold where they are used, not only where they are set."""
    with pytest.raises(AuthenticationFailed) as refused:
        Client(mechanism, iterations=4095).begin()
    assert "iterations" in refused.value.reason


def test_the_channel_binding_must_be_the_announced_one(mechanism: scram.Mechanism) -> None:
    client = Client(mechanism)
    client.begin()
    with pytest.raises(AuthenticationFailed) as refused:
        client.end(header="y,,")
    assert "channel binding" in refused.value.reason


def test_a_client_cannot_act_for_another_user(mechanism: scram.Mechanism) -> None:
    with pytest.raises(AuthenticationFailed, match="authorization id"):
        Client(mechanism).begin("n,a=bob,n=alice,r=abc")


@for_each(
    "message",
    [
        "", "n,,", "n,,n=alice", "y,,n=alice,r=abc", "p=tls-unique,,n=alice,r=abc", "n,,n=,r=abc", "n,,n=alice,r=",
        "n,,m=x,n=alice,r=abc", "n,,n=al=ice,r=abc", "n,,n=alice,r=a bc", "n,,n=alice,r=abc,tokenauth=true",
        "n,,n=alice,r=" + "x" * 257, "n=alice,r=abc",
    ],
)  # fmt: skip
def test_a_malformed_first_message_is_refused(mechanism: scram.Mechanism, message: str) -> None:
    with pytest.raises(AuthenticationFailed):
        Client(mechanism).begin(message)


@pytest.mark.parametrize("message", [b"", b"c=biws", b"c=biws,r=x,p=!!", b"\xff", b"c=biws,r=x,p=QQ==", b"p=QQ=="])
def test_a_malformed_final_message_is_refused(mechanism: scram.Mechanism, message: bytes) -> None:
    client = Client(mechanism)
    client.begin()
    with pytest.raises(AuthenticationFailed):
        client.server.evaluate(message)
    assert client.server.username is None


@pytest.mark.parametrize("name", ["a,b", "a=b", "=2C", "ö", "=3D,=2C"])
def test_names_may_have_any_characters(name: str) -> None:
    first = scram.client_first(name, "abc")
    assert scram.parse_client_first((first.gs2_header + first.bare).encode()).username == name


def test_a_credential_does_not_show_what_it_holds() -> None:
    credential = scram.ScramCredential(b"salty", 4096, b"stored", b"server")
    assert "stored" not in repr(credential)
    assert "server" not in f"{credential}"
    assert "salty" not in str({"alice": credential})
