"""TLS handshakes and logins, good and bad: kmini serves and refuses the same ones as Apache Kafka does with the same
settings."""

from __future__ import annotations

import base64
import json
import socket
import ssl
import time
import warnings
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from joserfc import jwk, jws

from kmini.protocol import messages as m
from kmini.protocol import scram
from kmini.protocol.errors import SaslAuthenticationFailed
from kmini.protocol.jaas import PLAIN_MODULE, SCRAM_MODULE
from kmini.testing import ConnectionClosed, Wire
from support.apache_kafka import free_port
from support.broker.scram_logins import prove
from support.certificates import Authority, Signed
from support.server_process import API_VERSIONS_V0, ServerProcess, kafka_command, kmini_command
from support.until import until

OAUTH_MODULE = "org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginModule"
OAUTH_HANDLER = "org.apache.kafka.common.security.oauthbearer.OAuthBearerValidatorCallbackHandler"
TLS, LOGIN, BOTH, SIGNED = "TLS", "LOGIN", "BOTH", "SIGNED"
KEY = jwk.ECKey.generate_key("P-256", {"kid": "one"})
OTHER = jwk.ECKey.generate_key("P-256", {"kid": "one"})
SHARED = jwk.OctKey.generate_key(256, {"kid": "shared"})


class Server(NamedTuple):
    name: str
    ports: dict[str, int]
    """By listener."""


class Certificates(NamedTuple):
    authority: Path
    keys: Path
    """Those of the issuer of tokens, as JWKS."""
    clients: dict[str, Path]


@pytest.fixture(scope="module")
def certificates(tmp_path_factory: pytest.TempPathFactory) -> Certificates:
    folder = tmp_path_factory.mktemp("certificates")
    authority = Authority()

    def written(name: str, signed: Signed) -> Path:
        path = folder / f"{name}.pem"
        path.write_text(signed.pem)
        return path

    written("server", authority.sign("broker"))
    clients = {
        "trusted": written("alice", authority.sign("alice")),
        "expired": written("expired", authority.sign("alice", is_expired=True)),
        "unknown": written("unknown", Authority("others").sign("alice")),
    }
    keys = folder / "keys.json"
    keys.write_text(json.dumps({"keys": [KEY.as_dict(private=False)]}))
    return Certificates(authority.write(folder), keys, clients)


@pytest.fixture(scope="module")
def both(
    need_kafka: None, certificates: Certificates, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[tuple[Server, Server]]:
    """kmini and Apache Kafka with the same listeners: TLS with certificates of clients, logins, logins over TLS, and
    logins with signed tokens."""
    started, servers = [], []
    allowed = "-Dorg.apache.kafka.sasl.oauthbearer.allowed"
    java = f"{allowed}.urls={certificates.keys.as_uri()} {allowed}.files={certificates.keys}"
    try:
        for name, command in (("kmini", kmini_command), ("kafka", kafka_command)):
            directory = tmp_path_factory.mktemp(name)
            port, controller = free_port(), free_port()
            ports = {"PLAINTEXT": port, TLS: free_port(), LOGIN: free_port(), BOTH: free_port(), SIGNED: free_port()}
            listeners = ",".join(f"{each}://127.0.0.1:{at}" for each, at in ports.items())
            settings = settings_of(certificates) | {"advertised.listeners": listeners, "listeners": listeners}
            if name == "kafka":
                settings["listeners"] += f",CONTROLLER://127.0.0.1:{controller}"
                settings["controller.quorum.voters"] = f"1@127.0.0.1:{controller}"
            launch = [part.replace("{port}", str(port)) for part in command(directory / "data", settings)]
            with pytest.MonkeyPatch.context() as patch:
                patch.setenv("JAVA_TOOL_OPTIONS", java)
                started.append(ServerProcess(launch, directory / "log", port=port))
            servers.append(Server(name, ports))
        yield servers[0], servers[1]
    finally:
        for process in started:
            process.stop()


def settings_of(certificates: Certificates) -> dict[str, str]:
    users = f'{PLAIN_MODULE} required user_alice="wonderland";'
    of_the_listeners = {
        f"listener.name.{listener.lower()}.{mechanism}.sasl.jaas.config": module
        for listener in (LOGIN, BOTH)
        for mechanism, module in (
            ("plain", users),
            ("scram-sha-256", f"{SCRAM_MODULE} required;"),
            ("oauthbearer", f'{OAUTH_MODULE} required unsecuredLoginStringClaim_sub="broker";'),
        )
    }
    signed = f"listener.name.{SIGNED.lower()}"
    return of_the_listeners | {
        f"{signed}.sasl.enabled.mechanisms": "OAUTHBEARER",
        f"{signed}.oauthbearer.sasl.jaas.config": f"{OAUTH_MODULE} required;",
        f"{signed}.oauthbearer.sasl.server.callback.handler.class": OAUTH_HANDLER,
        f"{signed}.oauthbearer.sasl.oauthbearer.jwks.endpoint.url": certificates.keys.as_uri(),
        f"{signed}.oauthbearer.sasl.oauthbearer.expected.issuer": "issuer",
        f"{signed}.oauthbearer.sasl.oauthbearer.expected.audience": "kafka,other",
        f"{signed}.oauthbearer.sasl.oauthbearer.clock.skew.seconds": "30",
        "listener.security.protocol.map": f"PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT,{TLS}:SSL,{LOGIN}:SASL_PLAINTEXT,"
        f"{BOTH}:SASL_SSL,{SIGNED}:SASL_PLAINTEXT",
        "ssl.keystore.type": "PEM",
        "ssl.keystore.location": str(certificates.authority.with_name("server.pem")),
        "ssl.truststore.type": "PEM",
        "ssl.truststore.location": str(certificates.authority),
        f"listener.name.{TLS.lower()}.ssl.client.auth": "required",
        "sasl.enabled.mechanisms": "PLAIN,SCRAM-SHA-256,OAUTHBEARER",
        "connection.failed.authentication.delay.ms": "0",
    }


def same(both: tuple[Server, Server], scene: Callable[[Server], object]) -> object:
    """What a scene gives at kmini, and at Apache Kafka too."""
    ours, theirs = map(scene, both)
    assert ours == theirs, f"ours: {ours}\ntheirs: {theirs}"
    return ours


# --- handshakes


def shaken(port: int, context: ssl.SSLContext | None, sent: bytes = API_VERSIONS_V0) -> str:
    """ "served", or "refused" where the connection ends without an answer."""
    try:
        with socket.create_connection(("127.0.0.1", port), 20) as plain:
            connection = plain if context is None else context.wrap_socket(plain, server_hostname="localhost")
            with connection:
                connection.sendall(sent)
                return "served" if connection.recv(8)[4:] == sent[8:12] else "refused"
    except TimeoutError:
        return "left unanswered"
    except OSError:
        return "refused"


@pytest.mark.parametrize("newest", [ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3])
@pytest.mark.parametrize(
    ("shown", "outcome"), [("trusted", "served"), ("expired", "refused"), ("unknown", "refused"), ("none", "refused")]
)
def test_certificates_of_clients(
    both: tuple[Server, Server], certificates: Certificates, shown: str, newest: ssl.TLSVersion, outcome: str
) -> None:
    context = ssl.create_default_context(cafile=certificates.authority)
    context.maximum_version = newest
    if shown != "none":
        context.load_cert_chain(certificates.clients[shown])
    assert same(both, lambda server: shaken(server.ports[TLS], context)) == outcome


def test_versions_suites_and_peers_that_speak_something_else(
    both: tuple[Server, Server], certificates: Certificates
) -> None:
    old = ssl.create_default_context(cafile=certificates.authority)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # old it is
        old.minimum_version, old.maximum_version = ssl.TLSVersion.TLSv1, ssl.TLSVersion.TLSv1_1
    old.set_ciphers("ALL:@SECLEVEL=0")
    weak = ssl.create_default_context(cafile=certificates.authority)
    weak.maximum_version = ssl.TLSVersion.TLSv1_2
    weak.set_ciphers("NULL-SHA256:@SECLEVEL=0")
    fine = ssl.create_default_context(cafile=certificates.authority)
    for listener, context, outcome in (
        (BOTH, fine, "served"),
        (BOTH, old, "refused"),
        (BOTH, weak, "refused"),
        (BOTH, None, "refused"),
        (TLS, None, "refused"),
        ("PLAINTEXT", fine, "refused"),
        (LOGIN, fine, "refused"),
        (LOGIN, None, "served"),
    ):
        assert same(both, lambda server: shaken(server.ports[listener], context)) == outcome, (listener, context)  # noqa: B023


# --- logins


Step = tuple[str, str | bytes]
"""A request of a login: its kind, and a mechanism or a token."""


def talk(server: Server, listener: str, *steps: Step) -> list[object]:
    """What a connection answers, step by step, up to its end."""
    told: list[object] = []
    with Wire(f"127.0.0.1:{server.ports[listener]}") as wire:
        for kind, content in steps:
            try:
                if kind == "handshake":
                    answer = wire.ask(m.SaslHandshakeRequest(mechanism=content), 1)
                    told.append((answer.error_code, sorted(answer.mechanisms)))
                elif kind == "token":
                    answer = wire.ask(m.SaslAuthenticateRequest(auth_bytes=content), 2)
                    has_more = bool(answer.auth_bytes)
                    told.append((answer.error_code, answer.error_message, has_more, answer.session_lifetime_ms > 0))
                elif kind == "raw":
                    wire.socket.sendall(len(content).to_bytes(4, "big") + bytes(content))  # type: ignore[arg-type]
                    told.append(len(wire.receive_frame()))
                elif kind == "versions":
                    told.append(
                        wire.ask(m.ApiVersionsRequest(client_software_name="a", client_software_version="1")).error_code
                    )
                else:
                    told.append(wire.ask(m.DescribeClusterRequest(), 1).error_code)
            except ConnectionClosed:
                told.append("closed")
                break
    return told


def jwt(header: dict[str, object], **claims: object) -> bytes:
    def part(content: dict[str, object]) -> str:
        return base64.urlsafe_b64encode(json.dumps(content).encode()).decode().rstrip("=")

    return f"n,,\x01auth=Bearer {part(header)}.{part(claims)}.\x01\x01".encode()


NOW_S = int(time.time())
NONE = {"alg": "none"}
CLAIMS = {"sub": "alice", "iat": NOW_S - 10, "exp": NOW_S + 3600}
BEARER = ("handshake", "OAUTHBEARER")
TOKENS = {
    "a valid one": jwt(NONE, **CLAIMS),
    "one that has expired": jwt(NONE, **{**CLAIMS, "exp": NOW_S - 3600}),
    "one without a user": jwt(NONE, **{key: value for key, value in CLAIMS.items() if key != "sub"}),
    "one without an end": jwt(NONE, **{key: value for key, value in CLAIMS.items() if key != "exp"}),
    "one whose user is a number": jwt(NONE, **{**CLAIMS, "sub": 1}),
    "one whose end is a text": jwt(NONE, **{**CLAIMS, "exp": "soon"}),
    "one of the future": jwt(NONE, **{**CLAIMS, "iat": NOW_S + 3600}),
    "one that says that it is signed": jwt({"alg": "HS256"}, **CLAIMS),
    "no token": b"n,,\x01auth=Bearer nonsense\x01\x01",
    "two parts": b"n,,\x01auth=Bearer a.b\x01\x01",
    "one whose scopes are a number": jwt(NONE, **CLAIMS, scope=1),
    "one whose scope comes twice": jwt(NONE, **CLAIMS, scope=["a", "a"]),
    "one that ends before it begins": jwt(NONE, **{**CLAIMS, "iat": NOW_S + 7200}),
    "one that is not valid yet": jwt(NONE, **CLAIMS, nbf=NOW_S + 3600),
    "no authorization": b"n,,\x01host=h\x01\x01",
    "no message": b"nonsense",
    "nothing": b"",
    "another user's authorization": jwt(NONE, **CLAIMS).replace(b"n,,", b"n,a=bob,", 1),
}
INVALID = "Authentication failed during authentication due to invalid credentials with SASL mechanism {}"
TALKS: dict[str, list[Step]] = {
    "PLAIN": [("versions", ""), ("handshake", "PLAIN"), ("token", b"\0alice\0wonderland"), ("cluster", "")],
    "a wrong password": [("handshake", "PLAIN"), ("token", b"\0alice\0wrong"), ("cluster", "")],
    "an unknown user": [("handshake", "PLAIN"), ("token", b"\0bob\0wonderland")],
    "to be another user": [("handshake", "PLAIN"), ("token", b"bob\0alice\0wonderland")],
    "to be oneself": [("handshake", "PLAIN"), ("token", b"alice\0alice\0wonderland")],
    "no password": [("handshake", "PLAIN"), ("token", b"\0alice\0")],
    "no user": [("handshake", "PLAIN"), ("token", b"\0\0wonderland")],
    "no token": [("handshake", "PLAIN"), ("token", b"")],
    "too many parts": [("handshake", "PLAIN"), ("token", b"\0alice\0wonderland\0more")],
    "too few parts": [("handshake", "PLAIN"), ("token", b"alice")],
    "an unknown mechanism": [("handshake", "GSSAPI"), ("handshake", "PLAIN")],
    "a mechanism in small letters": [("handshake", "plain")],
    "no mechanism": [("handshake", "")],
    "two handshakes": [("handshake", "PLAIN"), ("handshake", "PLAIN"), ("token", b"\0alice\0wonderland")],
    "another request first": [("cluster", "")],
    "another request amid a login": [("handshake", "PLAIN"), ("cluster", "")],
    "versions amid a login": [("handshake", "PLAIN"), ("versions", "")],
    "a token without a handshake": [("token", b"\0alice\0wonderland")],
    "a handshake after a login": [
        ("handshake", "PLAIN"), ("token", b"\0alice\0wonderland"), ("handshake", "PLAIN"), ("cluster", ""),
    ],
    "a token after a login": [
        ("handshake", "PLAIN"), ("token", b"\0alice\0wonderland"), ("token", b"\0alice\0wonderland"), ("cluster", ""),
    ],
    "nonsense by SCRAM": [("handshake", "SCRAM-SHA-256"), ("token", b"nonsense")],
    "channel binding by SCRAM": [("handshake", "SCRAM-SHA-256"), ("token", b"p=tls-unique,,n=alice,r=abc")],
    **{
        f"OAUTHBEARER: {name}": [BEARER, ("token", token), ("token", b"\x01"), ("cluster", "")]
        for name, token in TOKENS.items()
    },
}  # fmt: skip


@pytest.mark.parametrize("what", TALKS)
def test_logins(both: tuple[Server, Server], what: str) -> None:
    same(both, lambda server: talk(server, LOGIN, *TALKS[what]))


SIGNED_CLAIMS = {**CLAIMS, "iss": "issuer", "aud": ["kafka"], "scope": ["a", "b"]}


def signed(key: Any = KEY, algorithm: str = "ES256", header: Mapping[str, object] = {}, **changed: object) -> bytes:
    """A login with a token that has these claims; None takes one away."""
    claims = {name: value for name, value in (SIGNED_CLAIMS | changed).items() if value is not None}
    protected = {"alg": algorithm, "kid": key.kid, **header}
    compact = jws.serialize_compact(protected, json.dumps(claims), key, algorithms=[algorithm])
    return f"n,,\x01auth=Bearer {compact}\x01\x01".encode()


SIGNED_TOKENS = {
    "a valid one": signed(),
    "of another key": signed(OTHER),
    "of a key that is not known": signed(header={"kid": "two"}),
    "without the name of its key": signed(header={"kid": ""}),
    "signed with a shared secret": signed(SHARED, "HS256"),
    "with a key of its own": signed(OTHER, header={"jwk": OTHER.as_dict(private=False)}),
    "not signed": jwt(NONE, **SIGNED_CLAIMS),
    "of another issuer": signed(iss="another"),
    "without an issuer": signed(iss=None),
    "for others": signed(aud=["others"]),
    "for one of several": signed(aud="other"),
    "for nobody": signed(aud=None),
    "that has expired": signed(exp=NOW_S - 60),
    "that has expired within the skew": signed(exp=NOW_S + 5, iat=NOW_S - 60),
    "without an end": signed(exp=None),
    "without a beginning": signed(iat=None),
    "of the future": signed(iat=NOW_S + 3600),
    "not valid yet": signed(nbf=NOW_S + 3600),
    "without a user": signed(sub=None),
    "without a name in the user": signed(sub=" "),
    "without scopes": signed(scope=None),
    "with scopes as a text": signed(scope="a b"),
    "whose scope comes twice": signed(scope=["a", "a"]),
    "whose scope is empty": signed(scope=["a", ""]),
    "whose scopes are a number": signed(scope=1),
    "whose scope is a blank": signed(scope=" "),
    "that ends before it begins": signed(iat=NOW_S + 7200),
    "that ends before it is valid": signed(nbf=NOW_S + 7200),
    "whose user is a number": signed(sub=7),
}


@pytest.mark.parametrize("what", SIGNED_TOKENS)
def test_signed_tokens(both: tuple[Server, Server], what: str) -> None:
    steps: list[Step] = [BEARER, ("token", SIGNED_TOKENS[what]), ("token", b"\x01"), ("cluster", "")]
    same(both, lambda server: talk(server, SIGNED, *steps))


def test_apache_kafka_hangs_up_on_another_scheme_and_says_at_once_that_a_user_is_unknown(
    both: tuple[Server, Server],
) -> None:
    """kmini refuses the scheme like any other wrong message. It refuses the user after the proof, so that nobody learns
    which users exist."""
    basic = b"n,,\x01auth=Basic YTpi\x01\x01"
    ours, theirs = (talk(server, LOGIN, BEARER, ("token", basic))[1] for server in both)
    assert (ours, theirs) == ((58, INVALID.format("OAUTHBEARER"), False, False), "closed")
    unknown = (("handshake", "SCRAM-SHA-256"), ("token", b"n,,n=eve,r=abc"))
    ours, theirs = (talk(server, LOGIN, *unknown)[1] for server in both)
    assert (ours, theirs) == ((0, "", True, False), (58, INVALID.format("SCRAM-SHA-256"), False, False))


def test_a_proof_by_scram(both: tuple[Server, Server]) -> None:
    """With the right password, and with a wrong one; the iterations are those of the credentials."""
    mechanism = scram.MECHANISMS["SCRAM-SHA-256"]

    def scene(server: Server) -> list[object]:
        told: list[object] = []
        with Wire(f"127.0.0.1:{server.ports['PLAINTEXT']}") as wire:
            upsertion = m.AlterUserScramCredentialsRequest.Upsertion(
                name="dora", mechanism=mechanism.wire_code, iterations=4096, salt=b"salt",
                salted_password=scram.salted_password(mechanism, "secret", b"salt", 4096),
            )  # fmt: skip
            answer = wire.ask(m.AlterUserScramCredentialsRequest(deletions=[], upsertions=[upsertion]))
            told.append([result.error_code for result in answer.results])
        for password in ("secret", "wrong"):
            told.append(proven(server, mechanism, password))
        return told

    same(both, scene)


def proven(server: Server, mechanism: scram.Mechanism, password: str) -> list[object]:
    """What a proof is answered. Apache Kafka hears of new credentials a moment after it has answered."""
    return until(lambda: _proven(server, mechanism, password), "the credentials are there")


def _proven(server: Server, mechanism: scram.Mechanism, password: str) -> list[object]:
    answers: list[m.SaslAuthenticateResponse] = []
    with Wire(f"127.0.0.1:{server.ports[LOGIN]}") as wire:
        wire.ask(m.SaslHandshakeRequest(mechanism="SCRAM-SHA-256"), 1)

        def send(message: bytes) -> bytes:
            answers.append(wire.ask(m.SaslAuthenticateRequest(auth_bytes=message), 2))
            if answers[-1].error_code:
                raise SaslAuthenticationFailed
            return bytes(answers[-1].auth_bytes)

        with suppress(SaslAuthenticationFailed):
            prove(send, mechanism, "dora", password)
    if answers[0].error_code:
        return []
    begun, ended = answers
    _, salt, iterations = scram.parse_server_first(begun.auth_bytes)
    return [salt, iterations, ended.error_code, ended.error_message, bool(ended.auth_bytes)]
