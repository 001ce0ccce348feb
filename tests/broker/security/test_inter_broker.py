"""How brokers connect to each other."""

from __future__ import annotations

import pytest

from kmini.broker.settings.broker_config import BrokerConfig
from kmini.client import Sasl
from support.broker.sasl_clients import PLAIN_USERS, SETTINGS


def test_brokers_connect_to_each_other_through_the_named_listener() -> None:
    from kmini.broker.security.inter_broker import inter_broker_connection, inter_broker_listener

    two = {**SETTINGS, "listeners": "PLAINTEXT://127.0.0.1:0,SASL_PLAINTEXT://127.0.0.1:1"}
    config = BrokerConfig.parse(two)
    assert inter_broker_listener(config) == "PLAINTEXT"
    assert inter_broker_connection(config, "b").sasl is None
    with_users = PLAIN_USERS.replace("required", 'required username="admin" password="admin-secret"')
    two["listener.name.sasl_plaintext.plain.sasl.jaas.config"] = with_users
    for key, value in (
        ("inter.broker.listener.name", "SASL_PLAINTEXT"),
        ("security.inter.broker.protocol", "SASL_PLAINTEXT"),
    ):
        config = BrokerConfig.parse({**two, key: value})
        assert inter_broker_listener(config) == "SASL_PLAINTEXT"
        assert inter_broker_connection(config, "b").sasl == Sasl("PLAIN", "admin", "admin-secret")
        without = BrokerConfig.parse({**SETTINGS, key: value})
        with pytest.raises(ValueError, match="needs username"):
            inter_broker_connection(without, "b")
    assert inter_broker_listener(BrokerConfig.parse(SETTINGS)) == "SASL_PLAINTEXT", "the only one that there is"
