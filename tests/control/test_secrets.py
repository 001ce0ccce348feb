"""No answer has a secret: none of the settings, of what clients have sent, or of the credentials of a login."""

from __future__ import annotations

import re
from base64 import b64encode
from collections.abc import Iterator

import pytest

from kmini.control.openapi import openapi_document
from kmini.control.routes import PREFIX
from kmini.protocol import messages as m
from kmini.testing import Wire
from kmini.testkit.embedded import BrokerOperations
from support.broker.sasl_clients import ALICE, SETTINGS, authenticate, handshake, is_served
from support.control_api import PATH_NAMES, ControlApi

TOKEN = "token-of-the-server"

TOKEN_KEY = "key-of-delegation-tokens"

SECRETS = ("wonderland", "admin-secret", "inter-broker-secret", "wrong-guess", "scram-secret", TOKEN, TOKEN_KEY)
"""Of users in the settings, of the broker's own account, of a failed and of a stored authentication, and the key of
delegation tokens."""


@pytest.fixture(scope="module")
def secured(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ControlApi]:
    module = "org.apache.kafka.common.security.scram.ScramLoginModule"
    account = f'{module} required username="broker" password="inter-broker-secret";'
    config = {
        **SETTINGS,
        "listener.name.sasl_plaintext.scram-sha-256.sasl.jaas.config": account,
        "delegation.token.secret.key": TOKEN_KEY,
    }
    api = ControlApi(str(tmp_path_factory.mktemp("secured")), config=config).start(TOKEN)
    yield api
    api.end()


def authenticated(api: ControlApi) -> list[str]:
    """Leave what clients send in the journal: one that may, one that may not, a user that is stored, and a delegation
    token. Return the secrets of the token."""
    with Wire(api.any_broker.address) as wire:
        handshake(wire)
        assert authenticate(wire).error_code == 0
        assert is_served(wire)
        upsertion = m.AlterUserScramCredentialsRequest.Upsertion(
            name="bob", mechanism=1, iterations=4096, salt=b"salt-of-bob", salted_password=b"scram-secret" * 2
        )
        wire.ask(m.AlterUserScramCredentialsRequest(deletions=[], upsertions=[upsertion]))
        token = wire.ask(m.CreateDelegationTokenRequest(renewers=[], max_lifetime_ms=-1))
        assert token.error_code == 0
        assert wire.ask(m.RenewDelegationTokenRequest(hmac=token.hmac, renew_period_ms=-1)).error_code == 0
        assert len(wire.ask(m.DescribeDelegationTokenRequest(owners=None)).tokens) >= 1
    with Wire(api.any_broker.address) as wire:
        handshake(wire)
        assert authenticate(wire, ALICE.replace(b"wonderland", b"wrong-guess")).error_code != 0
    return [b64encode(token.hmac).decode(), token.hmac.hex(), repr(bytes(token.hmac))[2:-1]]


def test_no_answer_of_any_get_route_has_a_secret(secured: ControlApi) -> None:
    secrets = [*SECRETS, *authenticated(secured)]
    secured.done("POST", "/faults", {"rules": [{"name": "lost", "when": {"api": ["Produce"]}, "do": [{"drop": True}]}]})
    secured.done("PATCH", "/groups/billing/offsets", {"offsets": {"orders-0": 0}})
    paths = [
        path
        for path, verbs in openapi_document(BrokerOperations)["paths"].items()
        if "get" in verbs and not path.endswith("/events")
    ]
    paths += [f"{PREFIX}/openapi.json", "/metrics", "/health", "/health/ready", "/nothing"]
    asked = {re.sub(r"{(\w+)}", lambda found: PATH_NAMES[found[1]], path) for path in paths}
    bodies = {}
    for path in sorted(asked):
        answer = secured.send("GET", path, None, {"Authorization": f"Bearer {TOKEN}"})
        bodies[path] = answer.body.decode() + str(answer.headers)
    for named in ("SaslAuthenticate", "CreateDelegationToken", "RenewDelegationToken"):
        assert named in bodies[f"{PREFIX}/requests"]
    for named in ("sasl.jaas.config", "delegation.token.secret.key"):
        assert named in bodies[f"{PREFIX}/brokers/1/configs"]
    found = [(path, secret) for path, body in bodies.items() for secret in secrets if secret in body]
    assert found == []


def test_settings_that_are_secret_are_told_without_their_value(secured: ControlApi) -> None:
    sensitive = [one for one in secured.done("GET", "/brokers/1/configs") if one["is_sensitive"]]
    assert sensitive
    assert {one["value"] for one in sensitive} == {None}


def test_a_secret_that_a_request_brings_is_not_told_back(secured: ControlApi) -> None:
    changes = {"listener.name.sasl_plaintext.plain.sasl.jaas.config": 'x required user_eve="wonderland"'}
    assert b"wonderland" not in secured.ask("PATCH", "/brokers/1/configs", {"changes": changes}).body


@pytest.mark.parametrize("key", ["listener.name.sasl_plaintext.plain.sasl.jaas.config", "made.up.password"])
@pytest.mark.parametrize("value", [["wonderland"], {"password": "wonderland"}], ids=["array", "object"])
def test_a_secret_of_a_wrong_kind_is_refused_without_the_value(secured: ControlApi, key: str, value: object) -> None:
    answer = secured.ask("PATCH", "/brokers/1/configs", {"changes": {key: value}})
    assert answer.status == 422
    assert b"wonderland" not in answer.body
    (error,) = answer.document["errors"]
    assert error["pointer"] == f"/changes/{key}"
    assert error["message"].startswith("changes: the value must be true or false or a")
    assert "a text" in error["message"]


def test_a_setting_that_is_no_secret_is_refused_with_the_value(secured: ControlApi) -> None:
    answer = secured.ask("PATCH", "/brokers/1/configs", {"changes": {"log.retention.ms": ["soon"]}})
    assert answer.status == 422
    assert "changes=['soon']: must be" in answer.document["detail"]
