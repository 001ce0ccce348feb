"""Tokens of OAUTHBEARER: what is taken, and for what reason another one is refused."""

from __future__ import annotations

import base64
import json
import time
from pathlib import Path
from typing import Any

import pytest
from joserfc import jwk, jws

from kmini.broker.security.bearer_tokens import Claims, SignedTokens, TokenRefused, UnsecuredTokens
from kmini.broker.security.sasl_exchange import AuthenticationFailed
from kmini.broker.security.sasl_oauthbearer import OAuthBearerExchange, parse_first
from kmini.broker.security.security_settings import sasl_settings
from kmini.broker.settings.broker_config import BrokerConfig, ConfigError
from support.for_each import for_each

KEY = jwk.ECKey.generate_key("P-256", {"kid": "one"})
OTHER = jwk.ECKey.generate_key("P-256", {"kid": "two"})
SHARED = jwk.OctKey.generate_key(256, {"kid": "shared"})
SETTINGS = {"listeners": "SASL_PLAINTEXT://127.0.0.1:0", "sasl.enabled.mechanisms": "OAUTHBEARER"}
HANDLERS = "org.apache.kafka.common.security.oauthbearer"


def claims(**changed: Any) -> dict[str, Any]:
    """Claims of a valid token, with some changed; None takes one away."""
    now_s = time.time()
    found = {
        "sub": "alice",
        "iat": now_s - 10,
        "exp": now_s + 3_600,  # tables of cases are made long before their tests run
        "iss": "issuer",
        "aud": ["kafka"],
        "scope": ["a", "b"],
    }
    return {name: value for name, value in (found | changed).items() if value is not None}


def part(value: object) -> str:
    return base64.urlsafe_b64encode(json.dumps(value).encode()).rstrip(b"=").decode()


def unsecured(said: object, header: object = {"alg": "none"}, signature: str = "") -> str:
    return f"{part(header)}.{part(said)}.{signature}"


def signed(said: object, key: Any = KEY, algorithm: str = "ES256", **header: Any) -> str:
    protected = {"alg": algorithm, "kid": key.kid, **header}
    return jws.serialize_compact(protected, json.dumps(said), key, algorithms=[algorithm])


@pytest.fixture
def keys(tmp_path: Path) -> str:
    """The URL of a file with the issuer's key, and one that is no secret of an issuer alone."""
    path = tmp_path / "keys.json"
    shared = SHARED.as_dict(private=True)
    path.write_text(json.dumps({"keys": [KEY.as_dict(private=False), shared]}))
    return path.as_uri()


@for_each(
    "said, why",
    [
        (claims(exp=None), "no expiration time"),
        (claims(exp=time.time() - 1), "it has expired"),
        (claims(exp="soon"), "the claim exp is no number"),
        (claims(exp=True), "the claim exp is no number"),
        (claims(iat=time.time() + 1_800), "lies in the future"),
        (claims(iat=time.time() - 5, exp=time.time() - 6), "it has expired"),
        (claims(sub=None), "the claim sub is no text"),
        (claims(sub=" "), "the claim sub is no text"),
        (claims(sub=7), "the claim sub is no text"),
        (claims(iss="mallory"), "another issuer"),
        (claims(iss=None), "another issuer"),
        (claims(aud="elsewhere"), "another audience"),
        (claims(aud=None), "another audience"),
        (claims(aud=[7]), "the claim aud is neither text nor a list"),
        (claims(scope="a"), "it lacks the scope b"),
        (claims(scope=None), "it lacks the scope a"),
    ],
)
def test_claims_that_do_not_hold_are_refused_with_a_reason(said: dict[str, Any], why: str) -> None:
    expected = Claims(required_scope=["a", "b"], audiences=["kafka", "other"], issuer="issuer")
    assert UnsecuredTokens(expected).validate(unsecured(claims())).principal == "alice"
    with pytest.raises(TokenRefused, match=why) as refused:
        UnsecuredTokens(expected).validate(unsecured(said))
    assert refused.value.status == ("insufficient_scope" if "scope b" in why or "scope a" in why else "invalid_token")


def test_clocks_may_differ_by_the_skew() -> None:
    late = unsecured(claims(iat=time.time() - 60, exp=time.time() - 20))
    early = unsecured(claims(iat=time.time() + 20))
    for token in (late, early):
        with pytest.raises(TokenRefused):
            UnsecuredTokens(Claims()).validate(token)
        assert UnsecuredTokens(Claims(skew_s=30)).validate(token).principal == "alice"


@for_each(
    "token, why",
    [
        ("", "no JSON Web Signature"),
        ("a.b", "no JSON Web Signature"),
        ("a.b.c.d", "no JSON Web Signature"),
        ("x" * 70_000 + "..", "no JSON Web Signature"),
        ("!!.e30.", "no JSON object"),
        (unsecured(claims(), header=[]), "no JSON object"),
        (unsecured([]), "no JSON object"),
        (unsecured(claims(), header={"alg": "HS256"}), "takes unsecured tokens"),
        (unsecured(claims(), header={}), "takes unsecured tokens"),
        (unsecured(claims(), signature="c2lnbmVk"), "has no signature"),
        (f"{part({'alg': 'none'})}.{base64.urlsafe_b64encode(b'[' * 30_000).decode()}.", "no JSON object"),
    ],
)
def test_what_is_no_unsecured_token_is_refused(token: str, why: str) -> None:
    with pytest.raises(TokenRefused, match=why):
        UnsecuredTokens(Claims()).validate(token)


def test_a_token_is_taken_that_a_key_of_the_issuer_has_signed(keys: str) -> None:
    tokens = SignedTokens(Claims(of_signed=True), keys, 3600)
    assert tokens.validate(signed(claims())).principal == "alice"
    header, _, signature = signed(claims()).split(".")
    for token, why in (
        (unsecured(claims()), "none of the issuer's"),
        (unsecured(claims(), header={"alg": "none", "kid": "one"}), "its signature does not hold"),
        (signed(claims(), OTHER), "none of the issuer's"),
        (signed(claims(), SHARED, "HS256"), "none of the issuer's"),
        (f"{header}.{part(claims(sub='root'))}.{signature}", "its signature does not hold"),
        (f"{header}.{part(claims())}.", "its signature does not hold"),
        (signed([]), "no JSON object"),
        (signed(claims(iat=None)), "no time of issue"),
        (signed(claims(nbf=time.time() + 3_000)), "not valid yet"),
        (signed(claims(iat=time.time() + 7_000)), "expires before it was issued"),
        (signed(claims(scope=["a", "a"])), "the same one twice"),
        (signed(claims(), jku="http://127.0.0.1:1/keys", kid="three"), "none of the issuer's"),
        ("x" * 70_000, "too long"),
    ):
        with pytest.raises(TokenRefused, match=why):
            tokens.validate(token)


@for_each(
    "message, expected",
    [
        (b"n,,\x01auth=Bearer abc.def.\x01\x01", ("", "abc.def.")),
        (b"n,a=alice,\x01auth=bearer abc\x01trace=1 2\x01\x01", ("alice", "abc")),
        (b"n,a=a=2Cb=3D,\x01auth=Bearer abc==\x01\x01", ("a,b=", "abc==")),
        (b"n,,\x01\x01", "has no 'auth'"),
        (b"n,,\x01auth=Basic abc\x01\x01", "the scheme Basic"),
        (b"n,,\x01auth=Bearer\x01\x01", "no scheme and token"),
        (b"n,,\x01auth=Bearer a b\x01\x01", "no scheme and token"),
        (b"y,,\x01auth=Bearer abc\x01\x01", "message is none"),
        (b"\xff", "message is none"),
        (b"", "message is none"),
    ],
)
def test_the_first_message_is_that_of_rfc_7628(message: bytes, expected: tuple[str, str] | str) -> None:
    if isinstance(expected, tuple):
        assert parse_first(message) == expected
        return
    with pytest.raises(AuthenticationFailed, match="invalid credentials with SASL mechanism OAUTHBEARER") as failed:
        parse_first(message)
    assert expected in failed.value.reason


def test_a_refusal_is_json_and_fails_once_the_client_has_acknowledged_it() -> None:
    exchange = OAuthBearerExchange(UnsecuredTokens(Claims(required_scope=["write"])).validate)
    token = unsecured(claims())
    answer = exchange.evaluate(f"n,,\x01auth=Bearer {token}\x01\x01".encode())
    assert json.loads(answer) == {"status": "insufficient_scope", "scope": "[write]"}
    assert exchange.username is None
    with pytest.raises(AuthenticationFailed) as failed:
        exchange.evaluate(b"\x01")
    assert (str(failed.value), failed.value.reason) == (answer.decode(), "it lacks the scope write")


def test_another_authorization_id_than_the_tokens_user_is_refused() -> None:
    exchange = OAuthBearerExchange(UnsecuredTokens(Claims()).validate)
    with pytest.raises(AuthenticationFailed, match=r"authorization id \(bob\) that is different"):
        exchange.evaluate(f"n,a=bob,\x01auth=Bearer {unsecured(claims())}\x01\x01".encode())


PREFIX = "listener.name.sasl_plaintext.oauthbearer."
URL = "sasl.oauthbearer.jwks.endpoint.url"


@for_each(
    "settings, why",
    [
        ({URL: "ftp://issuer/keys"}, "is neither a file:// nor an http"),
        ({URL: "file:///no/such"}, "No such file"),
        ({f"{PREFIX}{URL}": "file:///no/such"}, f"{PREFIX}{URL}: "),
        ({f"{PREFIX}sasl.server.callback.handler.class": "com.example.Mine"}, "must be one of org.apache.kafka"),
        (
            {f"{PREFIX}sasl.server.callback.handler.class": f"{HANDLERS}.OAuthBearerValidatorCallbackHandler"},
            "needs the keys of the issuer",
        ),
        ({f"{PREFIX}sasl.jaas.config": "x required unsecuredValidatorAllowableClockSkewMs=soon;"}, "whole number"),
        ({URL: Path(__file__).as_uri()}, "a JSON Web Key Set was expected"),
    ],
)
def test_settings_that_cannot_work_are_refused(settings: dict[str, str], why: str) -> None:
    with pytest.raises(ConfigError, match=why):
        BrokerConfig.parse({**SETTINGS, **settings})


def test_claims_are_named_by_the_options_of_the_login_module() -> None:
    options = 'unsecuredValidatorPrincipalClaimName="user" unsecuredValidatorRequiredScope="write"'
    module = f"{HANDLERS}.OAuthBearerLoginModule required {options};"
    found = sasl_settings(BrokerConfig.parse({**SETTINGS, f"{PREFIX}sasl.jaas.config": module}), "SASL_PLAINTEXT")
    assert found is not None
    assert found.tokens is not None
    assert found.tokens.validate(unsecured(claims(user="carol", scope="write"))).principal == "carol"
