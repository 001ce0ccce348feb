"""Authentication of a connection: PLAIN and SCRAM, and servers that do not know the password themselves."""

from __future__ import annotations

import base64
import json
from collections.abc import Callable
from typing import Any

import pytest

from kmini.client import ConnectionSettings, Sasl
from kmini.client.sasl import MAX_ITERATIONS
from kmini.protocol import scram
from kmini.protocol.errors import SaslAuthenticationFailed, UnsupportedSaslMechanism
from kmini.protocol.messages.sasl_authenticate import SaslAuthenticateRequest, SaslAuthenticateResponse
from kmini.protocol.messages.sasl_handshake import SaslHandshakeRequest, SaslHandshakeResponse

MECHANISM = scram.MECHANISMS["SCRAM-SHA-256"]
SALT = b"salt" * 4


class ScramServer:
    """The server's half of an exchange for one user. Its fields may be made wrong."""

    def __init__(self, password: str = "secret", *, iterations: int = 4096, nonce: str = "server") -> None:
        self.salted = scram.salted_password(MECHANISM, password, SALT, 4096)
        self.iterations = iterations
        self.nonce = nonce
        self.signs_with = self.salted
        self._first: scram.ClientFirst | None = None
        self._server_first = ""

    def __call__(self, request: SaslAuthenticateRequest) -> SaslAuthenticateResponse:
        data = bytes(request.auth_bytes)
        if self._first is None:
            self._first = scram.parse_client_first(data)
            nonce = self._first.nonce + self.nonce if self.nonce else "other"
            self._server_first = scram.server_first(nonce, SALT, self.iterations)
            return SaslAuthenticateResponse(auth_bytes=self._server_first.encode())
        final = scram.parse_client_final(data)
        signed = scram.auth_message(self._first.bare, self._server_first, final.without_proof)
        credential = scram.credential_of(MECHANISM, self.salted, SALT, 4096)
        if not scram.proof_is_right(MECHANISM, credential, final.proof, signed):
            return SaslAuthenticateResponse(error_code=SaslAuthenticationFailed.code, error_message="wrong password")
        signature = scram.signature(MECHANISM, scram.server_key(MECHANISM, self.signs_with), signed)
        return SaslAuthenticateResponse(auth_bytes=scram.server_final(signature))


@pytest.fixture
def sign_on(broker: Any, connect: Any) -> Callable[..., Any]:
    """Connect with a mechanism and the password "secret" to a broker that answers like this."""

    async def run(mechanism: str, answer: Callable[[Any], Any], *, offers: tuple[str, ...] = ()) -> Any:
        offered = offers or (mechanism,)
        code = 0 if mechanism in offered else UnsupportedSaslMechanism.code
        broker.answers[SaslHandshakeRequest] = lambda _: SaslHandshakeResponse(
            error_code=code, mechanisms=list(offered)
        )
        broker.answers[SaslAuthenticateRequest] = answer
        return await connect(broker.address, ConnectionSettings(sasl=Sasl(mechanism, "alice", "secret")))

    return run


async def test_plain_sends_name_and_password(broker, sign_on) -> None:
    assert (await sign_on("PLAIN", lambda _: SaslAuthenticateResponse())).is_open
    (request,) = broker.asked(SaslAuthenticateRequest)
    assert bytes(request.auth_bytes) == b"\0alice\0secret"


async def test_a_scram_exchange_proves_the_password_without_sending_it(broker, sign_on) -> None:
    assert (await sign_on("SCRAM-SHA-256", ScramServer())).is_open
    sent = b"".join(bytes(request.auth_bytes) for request in broker.asked(SaslAuthenticateRequest))
    assert b"alice" in sent
    assert b"secret" not in sent


@pytest.mark.parametrize("mechanism", ["PLAIN", "SCRAM-SHA-256"])
async def test_a_wrong_password_ends_the_connection(sign_on, mechanism: str) -> None:
    def refuse(_: Any) -> SaslAuthenticateResponse:
        return SaslAuthenticateResponse(error_code=SaslAuthenticationFailed.code, error_message="wrong password")

    server = refuse if mechanism == "PLAIN" else ScramServer("another")
    with pytest.raises(SaslAuthenticationFailed, match="wrong password"):
        await sign_on(mechanism, server)


async def test_a_server_that_does_not_know_the_password_is_refused(sign_on) -> None:
    server = ScramServer()
    server.signs_with = scram.salted_password(MECHANISM, "another", SALT, 4096)
    with pytest.raises(SaslAuthenticationFailed, match="does not know the password itself"):
        await sign_on("SCRAM-SHA-256", server)


async def test_a_server_that_does_not_add_to_the_nonce_is_refused(sign_on) -> None:
    with pytest.raises(SaslAuthenticationFailed, match="nonce"):
        await sign_on("SCRAM-SHA-256", ScramServer(nonce=""))


@pytest.mark.parametrize("iterations", [1, MAX_ITERATIONS + 1])
async def test_iterations_that_are_too_few_or_too_many_are_refused(sign_on, iterations: int) -> None:
    with pytest.raises(SaslAuthenticationFailed, match=f"{iterations} iterations"):
        await sign_on("SCRAM-SHA-256", ScramServer(iterations=iterations))


async def test_an_answer_that_is_no_scram_message_is_refused(sign_on) -> None:
    with pytest.raises(SaslAuthenticationFailed):
        await sign_on("SCRAM-SHA-256", lambda _: SaslAuthenticateResponse(auth_bytes=b"nonsense"))


async def test_a_token_without_a_signature_names_the_user(broker, sign_on) -> None:
    """KIP-255: for brokers that take those."""
    assert (await sign_on("OAUTHBEARER", lambda _: SaslAuthenticateResponse())).is_open
    (request,) = broker.asked(SaslAuthenticateRequest)
    header, token, *rest = bytes(request.auth_bytes).decode().split("\x01")
    assert (header, rest) == ("n,,", ["", ""])
    claims = token.removeprefix("auth=Bearer ").split(".")[1]
    assert json.loads(base64.urlsafe_b64decode(claims + "=" * (-len(claims) % 4)))["sub"] == "alice"


async def test_why_a_token_was_refused_is_said(broker, sign_on) -> None:
    """RFC 7628: the server says why, and fails the login when the client has answered."""

    def refuse(request: SaslAuthenticateRequest) -> SaslAuthenticateResponse:
        if request.auth_bytes == b"\x01":
            return SaslAuthenticateResponse(error_code=SaslAuthenticationFailed.code, error_message="invalid_token")
        return SaslAuthenticateResponse(auth_bytes=b'{"status":"invalid_token"}')

    with pytest.raises(SaslAuthenticationFailed, match="invalid_token"):
        await sign_on("OAUTHBEARER", refuse)
    assert len(broker.asked(SaslAuthenticateRequest)) == 2


async def test_a_token_is_read_from_a_file_and_a_missing_one_is_named(broker, connect, tmp_path) -> None:
    broker.answers[SaslHandshakeRequest] = lambda _: SaslHandshakeResponse(mechanisms=["OAUTHBEARER"])
    broker.answers[SaslAuthenticateRequest] = lambda _: SaslAuthenticateResponse()
    file = tmp_path / "token"
    settings = ConnectionSettings(sasl=Sasl("OAUTHBEARER", "", "", file.as_uri()))
    with pytest.raises(SaslAuthenticationFailed, match=r"file:.*token gave no token"):
        await connect(broker.address, settings)
    file.write_text("a.b.c\n")
    assert (await connect(broker.address, settings)).is_open
    assert [bytes(each.auth_bytes) for each in broker.asked(SaslAuthenticateRequest)] == [
        b"n,,\x01auth=Bearer a.b.c\x01\x01"
    ]


async def test_a_mechanism_that_the_broker_does_not_offer_is_named(sign_on) -> None:
    with pytest.raises(UnsupportedSaslMechanism, match="offers PLAIN, not SCRAM-SHA-256"):
        await sign_on("SCRAM-SHA-256", ScramServer(), offers=("PLAIN",))


async def test_a_mechanism_that_the_client_does_not_know_is_named(sign_on) -> None:
    with pytest.raises(UnsupportedSaslMechanism, match="GSSAPI"):
        await sign_on("GSSAPI", lambda _: None)


def test_a_password_is_hidden_where_it_is_shown() -> None:
    assert "secret" not in repr(Sasl("PLAIN", "alice", "secret"))
