"""The settings of groups: what a group may be set to, and what is in force for it."""

from __future__ import annotations

import logging

import pytest

from kmini.broker.settings.broker_config import BROKER_KEYS, BrokerConfig
from kmini.broker.settings.dynamic_config import DynamicBrokerConfig
from kmini.broker.settings.group_config import (
    GroupConfig,
    GroupConfigs,
    check_group_configs,
    defaults_of_groups,
    duration_ms,
)
from kmini.protocol.errors import InvalidConfig

BROKER = BrokerConfig()

CHANGED = BrokerConfig.parse(
    {
        "group.consumer.min.heartbeat.interval.ms": "1000",
        "group.consumer.heartbeat.interval.ms": "2000",
        "group.consumer.max.session.timeout.ms": "50000",
        "group.share.delivery.count.limit": "4",
        "group.streams.max.standby.replicas": "1",
    }
)


def test_the_defaults_are_those_of_the_broker() -> None:
    assert defaults_of_groups(BROKER) == GroupConfig()
    config = defaults_of_groups(CHANGED)
    assert (config.consumer_heartbeat_interval_ms, config.share_delivery_count_limit) == (2_000, 4)


def test_every_setting_has_the_type_and_default_of_the_brokers_one() -> None:
    for line in GroupConfig.KEYS.values():
        for name in line.broker_keys:
            broker_line = BROKER_KEYS[name]
            assert (line.type, line.default) == (broker_line.type, broker_line.default)
    assert [name for name, line in GroupConfig.KEYS.items() if not line.broker_keys] == [
        "share.auto.offset.reset",
        "share.isolation.level",
        "share.renew.acknowledge.enable",
    ]


def test_every_setting_of_groups_has_an_effect() -> None:
    assert [name for name, line in GroupConfig.KEYS.items() if line.no_effect] == []


@pytest.mark.parametrize(
    "configs",
    [
        {},
        {"consumer.session.timeout.ms": "60000", "consumer.heartbeat.interval.ms": "300"},
        {"consumer.heartbeat.interval.ms": " 15000 ", "consumer.assignment.interval.ms": "0"},
        {"share.auto.offset.reset": "by_duration:P1DT2H", "share.isolation.level": "read_committed"},
        {"share.renew.acknowledge.enable": "False", "share.record.lock.duration.ms": "15000"},
        {"streams.num.standby.replicas": "2", "streams.initial.rebalance.delay.ms": "0"},
    ],
)
def test_a_group_may_have_settings_within_the_brokers_bounds(configs: dict[str, str]) -> None:
    check_group_configs(configs, BROKER)


@pytest.mark.parametrize(
    ("configs", "message"),
    [
        ({"nope": "1"}, "nope: there is no such setting of groups"),
        ({"retention.ms": "1"}, "retention.ms: there is no such setting of groups"),
        (
            {"consumer.sesion.timeout.ms": "1"},
            "consumer.sesion.timeout.ms: there is no such setting of groups (did you mean consumer.session.timeout.ms",
        ),
        ({"consumer.session.timeout.ms": "soon"}, "consumer.session.timeout.ms=soon: must be a whole number"),
        ({"consumer.session.timeout.ms": ""}, "consumer.session.timeout.ms=: must be a whole number"),
        ({"consumer.session.timeout.ms": "0"}, "consumer.session.timeout.ms=0: must be at least 1"),
        (
            {"consumer.session.timeout.ms": "44999"},
            "consumer.session.timeout.ms=44999: must be at least group.consumer.min.session.timeout.ms=45000",
        ),
        (
            {"consumer.session.timeout.ms": "60001"},
            "consumer.session.timeout.ms=60001: must be at most group.consumer.max.session.timeout.ms=60000",
        ),
        (
            {"consumer.heartbeat.interval.ms": "299"},
            "consumer.heartbeat.interval.ms=299: must be at least group.consumer.min.heartbeat.interval.ms=300",
        ),
        (
            {"consumer.assignment.interval.ms": "15001"},
            "consumer.assignment.interval.ms=15001: must be at most group.consumer.max.assignment.interval.ms=15000",
        ),
        (
            {"streams.num.standby.replicas": "3"},
            "streams.num.standby.replicas=3: must be at most group.streams.max.standby.replicas=2",
        ),
        (
            {"share.delivery.count.limit": "11"},
            "share.delivery.count.limit=11: must be at most group.share.max.delivery.count.limit=10",
        ),
        ({"share.isolation.level": "READ_COMMITTED"}, "share.isolation.level=READ_COMMITTED: must be one of "),
        (
            {"share.auto.offset.reset": "none"},
            "share.auto.offset.reset=none: must be earliest, latest, or by_duration:",
        ),
        ({"share.auto.offset.reset": "by_duration:-PT1S"}, "share.auto.offset.reset=by_duration:-PT1S: must be "),
        ({"share.auto.offset.reset": "by_duration:"}, "share.auto.offset.reset=by_duration:: must be "),
        ({"share.renew.acknowledge.enable": "yes"}, "share.renew.acknowledge.enable=yes: must be true or false"),
    ],
)
def test_what_a_group_may_not_be_set_to_is_said_with_key_value_and_rule(configs: dict[str, str], message: str) -> None:
    with pytest.raises(InvalidConfig) as raised:
        check_group_configs(configs, BROKER)
    assert raised.value.message.startswith(message)


def test_a_session_is_longer_than_the_heartbeat_interval_also_where_one_of_them_is_the_brokers() -> None:
    broker = BrokerConfig.parse(
        {
            "group.consumer.min.session.timeout.ms": "1000",
            "group.consumer.heartbeat.interval.ms": "5000",
            "group.consumer.session.timeout.ms": "20000",
        }
    )
    check_group_configs({"consumer.session.timeout.ms": "5001"}, broker)
    for configs in (
        {"consumer.session.timeout.ms": "5000"},
        {"consumer.session.timeout.ms": "10000", "consumer.heartbeat.interval.ms": "10000"},
    ):
        with pytest.raises(InvalidConfig, match=r"consumer\.session\.timeout\.ms=\d+: must be greater than consumer"):
            check_group_configs(configs, broker)


@pytest.mark.parametrize(
    ("text", "milliseconds"),
    [
        ("PT1H", 3_600_000),
        ("pt1h", 3_600_000),
        ("P1D", 86_400_000),
        ("P1DT-1H", 82_800_000),
        ("PT1.5S", 1_500),
        ("PT1,5S", 1_500),
        ("PT1.S", 1_000),
        ("PT0S", 0),
        ("PT0.000000001S", 0),
        ("-PT-1S", 1_000),
        ("PT9223372036854775807S", 9_223_372_036_854_775_807_000),
    ],
)
def test_a_duration_is_read_as_java_reads_it(text: str, milliseconds: int) -> None:
    assert duration_ms(text) == milliseconds


@pytest.mark.parametrize(
    "text",
    [
        *("", "P", "PT", "P1DT", "PT1S1M", "PT.5S", "P1Y", "T1H", "1H", "PT1H ", "P1D\n", "PT1.0000000001S"),
        *("-PT1S", "P-1D", "PT-1S", "PT-0.5S", "PT9223372036854775808S", "PT" + "9" * 5_000 + "S", "PT١S"),
    ],
)
def test_what_is_no_duration_or_a_negative_one_is_refused(text: str) -> None:
    assert duration_ms(text) is None


# --- in force


def test_a_group_has_its_own_settings_and_else_the_brokers() -> None:
    stored = {"own": {"consumer.heartbeat.interval.ms": "700"}}
    configs = GroupConfigs(DynamicBrokerConfig(BROKER), stored)
    assert configs.of("own").consumer_heartbeat_interval_ms == 700
    assert configs.of("own").consumer_session_timeout_ms == 45_000
    assert configs.of("another") == defaults_of_groups(BROKER)


def test_an_object_is_kept_until_a_setting_of_the_group_or_the_broker_changes() -> None:
    broker = DynamicBrokerConfig(BROKER)
    stored = {"own": {"consumer.heartbeat.interval.ms": "700"}}
    configs = GroupConfigs(broker, stored)
    own, default = configs.of("own"), configs.of("another")
    assert configs.of("own") is own
    assert configs.of("a third") is default
    stored["own"] = {"consumer.heartbeat.interval.ms": "800"}
    assert configs.of("own").consumer_heartbeat_interval_ms == 800
    assert configs.of("another") is default
    broker.current = BROKER.with_dynamic({"group.consumer.assignment.interval.ms": "5"}, {})
    assert configs.of("own").consumer_assignment_interval_ms == configs.of("another").consumer_assignment_interval_ms
    assert configs.of("another").consumer_assignment_interval_ms == 5
    del stored["own"]
    assert configs.of("own") is configs.of("another")


@pytest.mark.parametrize(
    ("name", "text", "in_force"),
    [
        ("consumer.heartbeat.interval.ms", "300", 1_000),
        ("consumer.session.timeout.ms", "60000", 50_000),
        ("streams.num.standby.replicas", "2", 1),
        ("consumer.heartbeat.interval.ms", "1500", 1_500),
    ],
)
def test_a_value_out_of_bounds_that_were_set_since_takes_the_nearest_with_one_warning(
    caplog: pytest.LogCaptureFixture, name: str, text: str, in_force: int
) -> None:
    configs = GroupConfigs(DynamicBrokerConfig(CHANGED), {"g": {name: text}})
    with caplog.at_level(logging.WARNING, "kmini.config"):
        values = {configs.of("g").value_of(GroupConfig.KEYS[name]) for _ in range(3)}
    assert values == {in_force}
    assert len(caplog.messages) == (text != str(in_force))


def test_a_session_that_the_bounds_have_made_too_short_is_warned_of(caplog: pytest.LogCaptureFixture) -> None:
    broker = BrokerConfig.parse(
        {
            "group.consumer.min.session.timeout.ms": "400",
            "group.consumer.max.session.timeout.ms": "1000",
            "group.consumer.session.timeout.ms": "1000",
        }
    )
    configs = GroupConfigs(DynamicBrokerConfig(broker), {"g": {"consumer.heartbeat.interval.ms": "1000"}})
    with caplog.at_level(logging.WARNING, "kmini.config"):
        assert configs.of("g").consumer_heartbeat_interval_ms == 1_000
    assert caplog.messages == [
        "the group g has a session time-out of 1000 ms, not longer than its heartbeat interval of 1000 ms"
    ]


def test_a_setting_of_a_later_kmini_is_passed_over() -> None:
    configs = GroupConfigs(DynamicBrokerConfig(BROKER), {"g": {"from.the.future": "1"}})
    assert configs.of("g") == defaults_of_groups(BROKER)
