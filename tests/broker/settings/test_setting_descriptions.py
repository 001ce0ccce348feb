"""Where a setting's value comes from, and which of its sources an answer shows (KIP-226)."""

from __future__ import annotations

from collections.abc import Iterable

from kmini.broker.settings.broker_config import BrokerConfig
from kmini.broker.settings.setting_descriptions import (
    Place,
    Setting,
    broker_settings,
    settings_for_all_brokers,
    topic_settings,
)
from kmini.protocol.messages.describe_configs import (
    DEFAULT_CONFIG,
    DYNAMIC_BROKER_CONFIG,
    DYNAMIC_DEFAULT_BROKER_CONFIG,
    DYNAMIC_TOPIC_CONFIG,
    STATIC_BROKER_CONFIG,
)

WEEK = Place("log.retention.hours", "168", DEFAULT_CONFIG)


def named(settings: Iterable[Setting], name: str) -> Setting:
    (found,) = [setting for setting in settings if setting.name == name]
    return found


def config(given: dict[str, str] | None = None, **changed: dict[str, str]) -> BrokerConfig:
    """A broker's settings: `given` at its start, `for_this` and `for_all` while it ran."""
    return BrokerConfig.parse(given or {}).with_dynamic(changed.get("for_all", {}), changed.get("for_this", {}))


def test_a_setting_that_is_nowhere_set_has_kafkas_default() -> None:
    setting = named(topic_settings({}, config()), "retention.ms")
    assert (setting.value, setting.source) == ("604800000", DEFAULT_CONFIG)
    assert [*setting.places] == [WEEK]


def test_the_topic_is_stronger_than_this_broker_and_that_than_all_brokers_and_than_the_start() -> None:
    broker = config({"log.retention.ms": "1"}, for_this={"log.retention.ms": "3"}, for_all={"log.retention.ms": "2"})
    setting = named(topic_settings({"retention.ms": "4"}, broker), "retention.ms")
    assert setting.value == "4"
    assert [*setting.places] == [
        Place("retention.ms", "4", DYNAMIC_TOPIC_CONFIG),
        Place("log.retention.ms", "3", DYNAMIC_BROKER_CONFIG),
        Place("log.retention.ms", "2", DYNAMIC_DEFAULT_BROKER_CONFIG),
        Place("log.retention.ms", "1", STATIC_BROKER_CONFIG),
        WEEK,
    ]


def test_a_finer_unit_is_stronger_within_one_source_only() -> None:
    broker = config({"log.retention.hours": "5", "log.retention.ms": "1"}, for_all={"log.retention.ms": "2"})
    places = named(broker_settings(broker), "log.retention.ms").places
    assert [(place.name, place.value) for place in places] == [
        ("log.retention.ms", "2"),
        ("log.retention.ms", "1"),
        ("log.retention.hours", "5"),
        ("log.retention.hours", "168"),
    ]


def test_synonyms_begin_with_the_settings_own_key() -> None:
    """Kafka shows nothing of log.retention.hours where log.retention.ms is set nowhere."""
    assert [*named(broker_settings(config({"log.retention.hours": "5"})), "log.retention.ms").synonyms()] == []
    hours = named(broker_settings(config({"log.retention.hours": "5"})), "log.retention.hours").synonyms()
    assert [*hours] == [Place("log.retention.hours", "5", STATIC_BROKER_CONFIG), WEEK]


def test_a_setting_of_kmini_is_listed_where_it_is_set_only() -> None:
    name = "kmini.tombstone.null.refuse"
    assert not named(topic_settings({}, config()), name).is_listed
    assert named(topic_settings({name: "true"}, config()), name).is_listed
    assert named(topic_settings({}, config()), "retention.ms").is_listed


def test_a_setting_without_a_line_in_the_table_is_kept_back_as_a_secret_may_be() -> None:
    broker = config(for_all={"ssl.keystore.password": "x", "num.io.threads": "9"})
    unknown = named(settings_for_all_brokers(broker), "ssl.keystore.password")
    assert unknown.is_sensitive
    assert unknown.value is None
    assert unknown.source == DYNAMIC_DEFAULT_BROKER_CONFIG


def test_a_stored_value_is_shown_as_the_table_writes_it() -> None:
    setting = named(topic_settings({"cleanup.policy": " delete , compact"}, config()), "cleanup.policy")
    assert setting.value == "delete,compact"


def test_settings_for_all_brokers_are_those_that_were_set_for_all() -> None:
    broker = config({"log.retention.ms": "1"}, for_this={"log.retention.ms": "3"}, for_all={"num.partitions": "2"})
    assert [(setting.name, setting.value) for setting in settings_for_all_brokers(broker)] == [("num.partitions", "2")]
