"""The settings that a group may have of its own (KIP-848, KIP-932, KIP-1071): one table, Kafka's names and defaults.

A group without a setting has the broker's, which `broker_keys` names. What a group may be set to is bounded by the
broker (`BOUNDS` of `group_settings.py`). A value that is out of bounds which were set afterwards takes the nearest
bound where it is applied, and stays as it is where it is described.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Mapping

from ...protocol.errors import InvalidConfig
from ...storage.config_key import ANY, BOOLEAN, INT, STRING, Rule, Settings, at_least, closest, key, one_of, shorten
from .broker_config import BROKER_KEYS, BrokerConfig
from .dynamic_config import DynamicBrokerConfig
from .group_settings import BOUNDS, HEARTBEAT, KINDS, SESSION

log = logging.getLogger("kmini.config")

BY_DURATION = "by_duration:"

_DURATION = re.compile(
    r"(?P<sign>[-+]?)P(?!$)(?:(?P<days>[-+]?\d+)D)?"
    r"(?:T(?=[-+\d])(?:(?P<hours>[-+]?\d+)H)?(?:(?P<minutes>[-+]?\d+)M)?"
    r"(?:(?P<seconds>[-+]?\d+)(?:[.,](?P<fraction>\d{0,9}))?S)?)?",
    re.ASCII | re.IGNORECASE,
)
"""A duration of ISO 8601 as Java reads it: days are of 24 hours, and each number may have a sign."""

_MAX_SECONDS = 2**63
"""What a duration of Java's cannot reach."""


def duration_ms(text: str) -> int | None:
    """Return the milliseconds of a duration in ISO 8601 (`P1DT2H`), rounded down; None if `text` is none, or is
    negative."""
    parts = _DURATION.fullmatch(text)
    if parts is None or len(text) > 100:
        return None
    factors = {"days": 86_400, "hours": 3_600, "minutes": 60, "seconds": 1}
    nanoseconds = sum(int(parts[name] or 0) * factor for name, factor in factors.items()) * 10**9
    fraction = int((parts["fraction"] or "").ljust(9, "0"))
    nanoseconds += -fraction if (parts["seconds"] or "").startswith("-") else fraction
    if parts["sign"] == "-":
        nanoseconds = -nanoseconds
    return nanoseconds // 10**6 if 0 <= nanoseconds < _MAX_SECONDS * 10**9 else None


def _is_offset_reset(value: str) -> bool:
    is_duration = value.startswith(BY_DURATION) and duration_ms(value.removeprefix(BY_DURATION)) is not None
    return value in ("earliest", "latest") or is_duration


OFFSET_RESET = Rule("must be earliest, latest, or by_duration: and a duration such as PT1H", _is_offset_reset)


# fmt: off
class GroupConfig(Settings):
    """The settings in force for a group. `GroupConfigs` makes them."""

    consumer_session_timeout_ms: int = key(INT, 45_000, at_least(1),
        "How long a member of the consumer group may send no heartbeat before it is removed.",
        broker="group.consumer.session.timeout.ms")
    consumer_heartbeat_interval_ms: int = key(INT, 300, at_least(1),
        "How often a member of the consumer group sends a heartbeat.",
        broker="group.consumer.heartbeat.interval.ms")
    consumer_assignment_interval_ms: int = key(INT, 1_000, at_least(0),
        "The time between two assignments of the consumer group.",
        broker="group.consumer.assignment.interval.ms")
    share_session_timeout_ms: int = key(INT, 45_000, at_least(1),
        "How long a member of the share group may send no heartbeat before it is removed.",
        broker="group.share.session.timeout.ms")
    share_heartbeat_interval_ms: int = key(INT, 300, at_least(1),
        "How often a member of the share group sends a heartbeat.",
        broker="group.share.heartbeat.interval.ms")
    share_record_lock_duration_ms: int = key(INT, 30_000, at_least(1_000),
        "How long a record that a member has acquired is delivered to no other member.",
        broker="group.share.record.lock.duration.ms")
    share_delivery_count_limit: int = key(INT, 5, at_least(2),
        "How many times a record is delivered to the share group at most.",
        broker="group.share.delivery.count.limit")
    share_partition_max_record_locks: int = key(INT, 2_000, at_least(100),
        "How many records of a partition the share group may have in flight.",
        broker="group.share.partition.max.record.locks")
    share_auto_offset_reset: str = key(STRING, "latest", OFFSET_RESET,
        "Where the share group begins to read a partition: at its earliest or latest offset, or so long ago.")
    share_isolation_level: str = key(STRING, "read_uncommitted", one_of("read_committed", "read_uncommitted"),
        "Whether the share group reads records of transactions that are open or were aborted.")
    share_renew_acknowledge_enable: bool = key(BOOLEAN, True, ANY,
        "Whether a member of the share group may renew its lock of a record.")
    share_assignment_interval_ms: int = key(INT, 1_000, at_least(0),
        "The time between two assignments of the share group.",
        broker="group.share.assignment.interval.ms")
    streams_session_timeout_ms: int = key(INT, 45_000, at_least(1),
        "How long a member of the streams group may send no heartbeat before it is removed.",
        broker="group.streams.session.timeout.ms")
    streams_heartbeat_interval_ms: int = key(INT, 300, at_least(1),
        "How often a member of the streams group sends a heartbeat.",
        broker="group.streams.heartbeat.interval.ms")
    streams_num_standby_replicas: int = key(INT, 0, at_least(0),
        "How many standby replicas each task of the streams group has.",
        broker="group.streams.num.standby.replicas")
    streams_initial_rebalance_delay_ms: int = key(INT, 3_000, at_least(0),
        "How long the streams group waits for more members after the first.",
        broker="group.streams.initial.rebalance.delay.ms")
    streams_assignment_interval_ms: int = key(INT, 1_000, at_least(0),
        "The time between two assignments of the streams group.",
        broker="group.streams.assignment.interval.ms")
    # fmt: on


def defaults_of_groups(broker: BrokerConfig) -> GroupConfig:
    """The settings of a group that has none of its own."""
    lines = [line for line in GroupConfig.KEYS.values() if line.broker_keys]
    return GroupConfig(**{line.attribute: broker.value_of(BROKER_KEYS[line.broker_keys[0]]) for line in lines})


def check_group_configs(configs: Mapping[str, str], broker: BrokerConfig) -> None:
    """Raise InvalidConfig unless a group may have these settings: for an unknown name, a value that breaks its rule or
    is out of the bounds of `broker`, and a session that is not longer than the heartbeat interval."""
    values = {}
    for name, text in configs.items():
        line = GroupConfig.KEYS.get(name)
        if line is None:
            hint = closest(name, GroupConfig.KEYS)
            raise InvalidConfig(f"{shorten(name)}: there is no such setting of groups{hint}")
        try:
            values[line.attribute] = line.parse(text)
        except ValueError as error:
            raise InvalidConfig(str(error)) from None
    for name in configs:
        _check_bounds(name, values[GroupConfig.KEYS[name].attribute], broker)
    config = defaults_of_groups(broker).replace(**values)
    for kind in KINDS:
        heartbeat, session = _heartbeat_and_session(config, kind)
        if session <= heartbeat:
            raise InvalidConfig(
                f"{kind}.{SESSION}={session}: must be greater than {kind}.{HEARTBEAT}={heartbeat}"
            )


def _check_bounds(name: str, value: object, broker: BrokerConfig) -> None:
    bounded = next(iter(GroupConfig.KEYS[name].broker_keys), "")
    nearest = broker.clamped(bounded, value)
    if nearest != value:
        lowest, highest = BOUNDS[bounded]
        rule = f"at least {lowest}" if value < nearest else f"at most {highest}"
        raise InvalidConfig(f"{name}={value}: must be {rule}={nearest}")


def _heartbeat_and_session(config: GroupConfig, kind: str) -> tuple[int, int]:
    heartbeat, session = (config.value_of(config.KEYS[f"{kind}.{time}"]) for time in (HEARTBEAT, SESSION))
    return heartbeat, session


class GroupConfigs:
    """The settings in force for every group, as objects that are made once and kept until a setting changes."""

    def __init__(self, broker: DynamicBrokerConfig, stored: Mapping[str, Mapping[str, str]]) -> None:
        """`stored` has the settings of each group that has any (`Controller.group_configs`). A change of a group's
        settings replaces its mapping there."""
        self._broker = broker
        self._stored = stored
        self._made_for: BrokerConfig | None = None
        self._defaults = GroupConfig()
        self._made: dict[str, tuple[Mapping[str, str], GroupConfig]] = {}

    def of(self, group_id: str) -> GroupConfig:
        """The settings in force for a group: its own, or else those of the broker. Costs two look-ups while nothing
        changes."""
        broker = self._broker.current
        if broker is not self._made_for:
            self._made.clear()
            self._defaults, self._made_for = defaults_of_groups(broker), broker
        own = self._stored.get(group_id)
        if own is None:
            self._made.pop(group_id, None)
            return self._defaults
        made = self._made.get(group_id)
        if made is None or made[0] is not own:
            made = self._made[group_id] = (own, self._with(group_id, own, broker))
        return made[1]

    def _with(self, group_id: str, own: Mapping[str, str], broker: BrokerConfig) -> GroupConfig:
        values = {}
        for name, text in own.items():
            line = GroupConfig.KEYS.get(name)
            if line is None:  # written by a later kmini
                continue
            value = line.parse(text)
            clamped = broker.clamped(line.broker_keys[0], value) if line.broker_keys else value
            if clamped != value:
                log.warning(
                    "the group %s has %s=%s, which is out of the broker's bounds by now: %s is in force",
                    shorten(group_id), name, value, clamped,
                )
            values[line.attribute] = clamped
        config = self._defaults.replace(**values)
        for kind in KINDS:
            heartbeat, session = _heartbeat_and_session(config, kind)
            if session <= heartbeat:
                log.warning(
                    "the group %s has a session time-out of %s ms, not longer than its heartbeat interval of %s ms",
                    shorten(group_id), session, heartbeat,
                )
        return config
