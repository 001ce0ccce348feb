"""The settings of authentication and of the authorizer, and which of them are refused."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from kmini.broker.settings.broker_config import BrokerConfig, ConfigError
from support.broker.access_rules import STANDARD
from support.broker.sasl_clients import PLAIN_USERS, SETTINGS


def refusals() -> Iterator[tuple[dict[str, str], str]]:
    yield {"sasl.enabled.mechanisms": "GSSAPI"}, "GSSAPI is not offered"
    yield {"sasl.enabled.mechanisms": ""}, "at least one mechanism"
    yield {"listener.name.sasl_plaintext.plain.sasl.jaas.config": ""}, "needs the users"
    yield {"listener.name.sasl_plaintext.plain.sasl.jaas.config": "secret-word"}, "of the form"
    yield {"listener.name.sasl_plaintext.plain.sasl.jaas.config": 'A required user_x="secret-word";'}, "must name"
    yield {"listener.name.sasl_plaintext.connections.max.reauth.ms": "soon"}, "whole number"
    yield {"super.users": "alice"}, "no principal"
    yield {"authorizer.class.name": "com.example.Mine"}, "StandardAuthorizer"
    yield {"inter.broker.listener.name": "INTERNAL"}, "no listener of that name"
    yield {"listeners": "SSL://127.0.0.1:0"}, "needs a key store"


@pytest.mark.parametrize(("changed", "message"), [*refusals()], ids=lambda value: str(value)[:40])
def test_invalid_settings_are_refused_without_quoting_secrets(changed: dict[str, str], message: str) -> None:
    with pytest.raises(ConfigError, match=message) as refused:
        BrokerConfig.parse({**SETTINGS, **changed})
    assert "secret-word" not in str(refused.value)


def test_the_settings_of_a_listener_override_those_of_all() -> None:
    from kmini.broker.security.security_settings import sasl_settings

    config = BrokerConfig.parse(
        {
            **SETTINGS,
            "sasl.jaas.config": PLAIN_USERS.replace("wonderland", "everywhere"),
            "connections.max.reauth.ms": "1",
            "listener.name.sasl_plaintext.connections.max.reauth.ms": "2",
            "listener.name.sasl_plaintext.plain.connections.max.reauth.ms": "3",
            "authorizer.class.name": STANDARD,
        }
    )
    found = sasl_settings(config, "SASL_PLAINTEXT")
    assert found is not None
    assert found.plain_users["alice"] == "wonderland"
    assert found.max_reauth_ms == {"PLAIN": 3, "SCRAM-SHA-256": 2, "SCRAM-SHA-512": 2}
