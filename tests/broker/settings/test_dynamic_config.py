"""Which broker settings can change while the broker runs (KIP-226)."""

from __future__ import annotations

import pytest

from kmini.broker.settings.broker_config import BROKER_KEYS, BrokerConfig
from kmini.broker.settings.dynamic_config import DynamicBrokerConfig, is_dynamic
from kmini.storage.config_key import CLUSTER_WIDE


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("log.cleaner.threads", True),
        ("log.retention.ms", True),
        ("log.retention.hours", False),
        ("node.id", False),
        ("broker.id", False),
        ("log.dirs", False),
        ("remote.log.manager.thread.pool.size", False),
        ("remote.log.manager.copier.thread.pool.size", True),
        ("ssl.engine.factory.class", True),
        ("listener.name.external.ssl.engine.factory.class", True),
        ("listener.name.external.plain.sasl.jaas.config", False),
        ("no.such.setting", True),
    ],
)
def test_a_setting_is_dynamic_or_read_only(name: str, expected: bool) -> None:
    assert is_dynamic(name) is expected


def test_the_table_of_settings_decides_about_its_own() -> None:
    assert {name for name in BROKER_KEYS if is_dynamic(name)} == {
        name for name, line in BROKER_KEYS.items() if line.dynamic == CLUSTER_WIDE
    }


def test_a_holder_of_the_settings_sees_their_replacement() -> None:
    config = DynamicBrokerConfig(BrokerConfig.parse({}))
    held = config
    config.current = BrokerConfig.parse({"message.max.bytes": "2000"})
    assert held.current.text_of("message.max.bytes") == "2000"
