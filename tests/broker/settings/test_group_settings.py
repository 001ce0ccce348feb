"""The broker's settings of the newer group protocols: their bounds, and the rules between them."""

from __future__ import annotations

import pytest

from kmini.broker.settings.broker_config import BROKER_KEYS, BrokerConfig, ConfigError
from kmini.broker.settings.dynamic_config import is_dynamic
from kmini.broker.settings.group_settings import BOUNDS, KINDS, ORDERED_PAIRS
from kmini.broker.settings.setting_descriptions import broker_settings
from support.for_each import for_each


def parsed(**values: object) -> BrokerConfig:
    return BrokerConfig.parse({name.replace("_", "."): str(value) for name, value in values.items()})


def test_the_heartbeats_of_every_kind_are_300_ms_and_may_not_be_set_below() -> None:
    config = BrokerConfig()
    for kind in KINDS:
        for setting in ("", "min."):
            line = BROKER_KEYS[f"group.{kind}.{setting}heartbeat.interval.ms"]
            assert config.value_of(line) == 300
            assert line.differs


def test_the_other_defaults_are_kafkas() -> None:
    config = BrokerConfig()
    for kind in KINDS:
        assert [config.text_of(f"group.{kind}.{name}") for name in (
            "session.timeout.ms", "min.session.timeout.ms", "max.session.timeout.ms", "max.heartbeat.interval.ms",
            "assignment.interval.ms", "min.assignment.interval.ms", "max.assignment.interval.ms",
        )] == ["45000", "45000", "60000", "15000", "1000", "0", "15000"]  # fmt: skip
    assert config.group_coordinator_rebalance_protocols == ("classic", "consumer", "streams")
    assert config.group_consumer_assignors == ("uniform", "range")
    assert config.group_consumer_max_size == 2**31 - 1
    assert config.group_consumer_regex_refresh_interval_ms == 600_000


@for_each(("smaller", "larger", "may_be_equal"), ORDERED_PAIRS)
def test_two_settings_in_the_wrong_order_break_a_rule(smaller: str, larger: str, may_be_equal: bool) -> None:
    config = BrokerConfig()
    assert config.broken_group_rule() is None
    too_large = config.text_of(larger) or ""
    wrong = config.replace(**{BROKER_KEYS[smaller].attribute: int(too_large) + may_be_equal})
    assert wrong.broken_group_rule() is not None


def test_every_kind_has_its_rules_between_settings() -> None:
    """For each bounded setting two or three, and heartbeats are shorter than sessions."""
    assert len(ORDERED_PAIRS) == len({pair[:2] for pair in ORDERED_PAIRS}) == 3 * (len(BOUNDS) - 1) + 1 + len(KINDS)


@pytest.mark.parametrize(
    ("values", "message"),
    [
        (
            {"group_consumer_heartbeat_interval_ms": 299},
            "group.consumer.min.heartbeat.interval.ms=300: must be at most group.consumer.heartbeat.interval.ms=299",
        ),
        (
            {"group_consumer_session_timeout_ms": 60_001},
            "group.consumer.session.timeout.ms=60001: must be at most group.consumer.max.session.timeout.ms=60000",
        ),
        (
            {"group_consumer_heartbeat_interval_ms": 45_000, "group_consumer_max_heartbeat_interval_ms": 45_000},
            "group.consumer.heartbeat.interval.ms=45000: must be less than group.consumer.session.timeout.ms=45000",
        ),
        (
            {"group_consumer_assignment_interval_ms": 15_001},
            "group.consumer.assignment.interval.ms=15001: must be at most "
            "group.consumer.max.assignment.interval.ms=15000",
        ),
        (
            {"group_streams_num_standby_replicas": 3},
            "group.streams.num.standby.replicas=3: must be at most group.streams.max.standby.replicas=2",
        ),
        ({"group_consumer_regex_refresh_interval_ms": 9_999}, "group.consumer.regex.refresh.interval.ms=9999: "),
        ({"group_consumer_max_size": 0}, "group.consumer.max.size=0: must be at least 1"),
        ({"group_consumer_assignors": ""}, "group.consumer.assignors=: must not be empty"),
        ({"group_consumer_assignors": "range,"}, "group.consumer.assignors=range,: must not have empty items"),
        ({"group_consumer_assignors": "org.example.Mine"}, "group.consumer.assignors=org.example.Mine: "),
        ({"group_consumer_migration_policy": "sideways"}, "group.consumer.migration.policy=sideways: must be one of"),
        (
            {"group_coordinator_rebalance_protocols": "consumer"},
            "group.coordinator.rebalance.protocols=consumer: must contain classic, and may contain consumer, "
            "streams, share",
        ),
        ({"group_coordinator_rebalance_protocols": "classic,cosumer"}, "group.coordinator.rebalance.protocols="),
    ],
)
def test_a_value_that_breaks_its_rule_stops_the_start(values: dict[str, object], message: str) -> None:
    with pytest.raises(ConfigError) as raised:
        parsed(**values)
    assert str(raised.value).startswith(message)


@pytest.mark.parametrize("policy", ["upgrade", "UPGRADE", "Upgrade"])
def test_the_migration_policy_is_read_in_any_case_and_shown_as_it_was_given(policy: str) -> None:
    config = parsed(group_consumer_migration_policy=policy)
    assert config.migration_policy == "upgrade"
    assert config.text_of("group.consumer.migration.policy") == policy


def test_protocols_that_are_not_served_may_be_named() -> None:
    config = parsed(group_coordinator_rebalance_protocols="classic,streams,share")
    assert config.group_coordinator_rebalance_protocols == ("classic", "streams", "share")


def test_an_assignor_that_is_named_again_counts_once() -> None:
    assert parsed(group_consumer_assignors="range,uniform,range").group_consumer_assignors == ("range", "uniform")


def test_only_assignment_intervals_change_while_the_broker_runs() -> None:
    names = [name for name in BROKER_KEYS if name.startswith(("group.consumer.", "group.share.", "group.streams."))]
    assert len(names) > 40
    assert [name for name in names if is_dynamic(name)] == [f"group.{kind}.assignment.interval.ms" for kind in KINDS]


@pytest.mark.parametrize(("text", "message"), [("15001", "must be at most"), ("-1", "must be at least 0")])
def test_a_change_beyond_the_bounds_is_refused_while_the_broker_runs(text: str, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        BrokerConfig().with_dynamic({"group.consumer.assignment.interval.ms": text}, {})


def test_an_internal_setting_is_listed_only_where_it_is_set() -> None:
    name = "group.consumer.regex.refresh.interval.ms"

    def listed(config: BrokerConfig) -> list[bool]:
        return [setting.is_listed for setting in broker_settings(config) if setting.name == name]

    assert listed(BrokerConfig()) == [False]
    assert listed(parsed(group_consumer_regex_refresh_interval_ms=600_000)) == [True]


def test_every_bound_is_a_setting() -> None:
    names = {name for bounded, bounds in BOUNDS.items() for name in (bounded, *bounds) if name}
    assert names <= BROKER_KEYS.keys()
    assert len(BOUNDS) == 3 * len(KINDS) + 4
