"""Settings of Apache Kafka without effect: which they are, why, and which of them may change."""

from __future__ import annotations

import logging

import pytest

from kmini.broker.settings.broker_config import BROKER_KEYS, BrokerConfig
from kmini.broker.settings.ignored_keys import DYNAMIC, FAMILIES, can_be_changed, is_ignored, why_ignored


def test_settings_of_kafkas_without_meaning_here_are_named_once_in_the_log(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.INFO, "kmini.config"):
        BrokerConfig.parse({"num.network.threads": "3", "ssl.provider": "/x", "num.partitions": "2"})
    assert [record.message for record in caplog.records] == [
        "settings of Apache Kafka that have no effect here: num.network.threads, ssl.provider"
    ]


@pytest.mark.parametrize("name", ["zookeeper.connect", "ssl.provider", "group.share.max.groups"])
def test_a_setting_of_kafka_without_effect_has_a_reason(name: str) -> None:
    assert name not in BROKER_KEYS
    assert any(why_ignored(name) == family.reason for family in FAMILIES)


@pytest.mark.parametrize("name", ["num.network.thread", "log.retenton.ms", "kmini.zookeeper", ""])
def test_a_misspelt_key_is_no_setting_of_kafka(name: str) -> None:
    assert why_ignored(name) is None
    assert not is_ignored(name)


def test_every_setting_that_may_change_is_one_without_effect() -> None:
    assert [name for name in DYNAMIC if not is_ignored(name)] == []


@pytest.mark.parametrize(
    "name", sorted(name for name in BROKER_KEYS if name.startswith(("ssl.keystore.", "ssl.truststore.", "ssl.key.")))
)
def test_a_key_store_changes_only_by_its_name_with_a_listener(name: str) -> None:
    assert not can_be_changed(name)
    assert can_be_changed(f"listener.name.external.{name}")
