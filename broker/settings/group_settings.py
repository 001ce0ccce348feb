"""The broker's settings of the newer group protocols: consumer groups (KIP-848), share groups and streams groups.

Each kind of group has three times (session time-out, heartbeat interval, assignment interval). The broker's value holds
for groups without one of their own, and the broker's minimum and maximum bound what a group may be set to
(`BOUNDS`).
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from ...storage.config_key import (
    CLUSTER_WIDE,
    INT,
    MAX_INT,
    SET,
    STRING,
    Rule,
    Settings,
    at_least,
    between,
    key,
    one_of_any_case,
)

FAST_HEARTBEATS = "Kafka's is 5000; a rebalance takes several heartbeats, and every test would wait for them"

SERVED_PROTOCOLS = ("classic", "consumer", "streams")
KNOWN_PROTOCOLS = (*SERVED_PROTOCOLS, "share")
ASSIGNORS = ("uniform", "range")
KINDS = ("consumer", "share", "streams")
"""The kinds of groups with these settings, in the order in which Kafka checks them."""
HEARTBEAT, SESSION, ASSIGNMENT = "heartbeat.interval.ms", "session.timeout.ms", "assignment.interval.ms"
TIMES = (HEARTBEAT, SESSION, ASSIGNMENT)
"""The times that each kind has, in the order in which Kafka checks them."""


def _subset(of: tuple[str, ...], *needed: str) -> Rule:
    """A list of items of `of`, not empty, with those `needed`."""
    must = f"must contain {', '.join(needed)}" if needed else "must not be empty"
    others = [item for item in of if item not in needed]
    return Rule(
        f"{must}, and may contain {', '.join(others)}" if others else f"must be {', '.join(needed)}",
        lambda value: bool(value) and set(needed) <= set(value) <= set(of),
    )


# fmt: off
class BrokerGroupSettings(Settings):
    """The part of the table of broker settings that is about groups of the newer protocols."""

    group_coordinator_rebalance_protocols: tuple[str, ...] = key(SET, SERVED_PROTOCOLS,
        _subset(KNOWN_PROTOCOLS, "classic"),
        "The group protocols that are offered. The name share is accepted and has no effect, as in Kafka: share groups "
        "depend on the feature share.version only.",
        section="Consumer groups of KIP-848")
    group_consumer_session_timeout_ms: int = key(INT, 45_000, at_least(1),
        "How long a member of a consumer group may send no heartbeat before it is removed.")
    group_consumer_min_session_timeout_ms: int = key(INT, 45_000, at_least(1),
        "The shortest session time-out that a consumer group may be set to.")
    group_consumer_max_session_timeout_ms: int = key(INT, 60_000, at_least(1),
        "The longest session time-out that a consumer group may be set to.")
    group_consumer_heartbeat_interval_ms: int = key(INT, 300, at_least(1),
        "How often a member of a consumer group sends a heartbeat.",
        differs=FAST_HEARTBEATS)
    group_consumer_min_heartbeat_interval_ms: int = key(INT, 300, at_least(1),
        "The shortest heartbeat interval that a consumer group may be set to.",
        differs=FAST_HEARTBEATS)
    group_consumer_max_heartbeat_interval_ms: int = key(INT, 15_000, at_least(1),
        "The longest heartbeat interval that a consumer group may be set to.")
    group_consumer_max_size: int = key(INT, MAX_INT, at_least(1),
        "How many members a consumer group may have.")
    group_consumer_assignors: tuple[str, ...] = key(SET, ASSIGNORS, _subset(ASSIGNORS),
        "The assignors of the broker. The first assigns the partitions of a group whose members name none.",
        differs="Kafka takes names of Java classes too")
    group_consumer_assignment_interval_ms: int = key(INT, 1_000, at_least(0),
        "The time between two assignments of a consumer group: changes of subscriptions are gathered meanwhile.",
        dynamic=CLUSTER_WIDE)
    group_consumer_min_assignment_interval_ms: int = key(INT, 0, at_least(0),
        "The shortest assignment interval that a consumer group may be set to.")
    group_consumer_max_assignment_interval_ms: int = key(INT, 15_000, at_least(0),
        "The longest assignment interval that a consumer group may be set to.")
    group_consumer_migration_policy: str = key(STRING, "bidirectional",
        one_of_any_case("disabled", "downgrade", "upgrade", "bidirectional"),
        "Which way a group with members may move: from the classic protocol to that of KIP-848 (upgrade), back "
        "(downgrade), both or neither. A group without members always may.")
    group_consumer_regex_refresh_interval_ms: int = key(INT, 600_000, at_least(10_000),
        "How often the topics that match a group's regular expressions are looked up again.",
        internal=True)

    group_share_session_timeout_ms: int = key(INT, 45_000, at_least(1),
        "How long a member of a share group may send no heartbeat before it is removed.",
        section="Share groups")
    group_share_min_session_timeout_ms: int = key(INT, 45_000, at_least(1),
        "The shortest session time-out that a share group may be set to.")
    group_share_max_session_timeout_ms: int = key(INT, 60_000, at_least(1),
        "The longest session time-out that a share group may be set to.")
    group_share_heartbeat_interval_ms: int = key(INT, 300, at_least(1),
        "How often a member of a share group sends a heartbeat.",
        differs=FAST_HEARTBEATS)
    group_share_min_heartbeat_interval_ms: int = key(INT, 300, at_least(1),
        "The shortest heartbeat interval that a share group may be set to.",
        differs=FAST_HEARTBEATS)
    group_share_max_heartbeat_interval_ms: int = key(INT, 15_000, at_least(1),
        "The longest heartbeat interval that a share group may be set to.")
    group_share_assignment_interval_ms: int = key(INT, 1_000, at_least(0),
        "The time between two assignments of a share group.",
        dynamic=CLUSTER_WIDE)
    group_share_min_assignment_interval_ms: int = key(INT, 0, at_least(0),
        "The shortest assignment interval that a share group may be set to.")
    group_share_max_assignment_interval_ms: int = key(INT, 15_000, at_least(0),
        "The longest assignment interval that a share group may be set to.")
    group_share_max_size: int = key(INT, 200, between(1, 1_000),
        "How many members a share group may have.")
    group_share_assignors: tuple[str, ...] = key(SET, ("simple",), _subset(("simple",), "simple"),
        "The assignor of share groups.",
        differs="Kafka takes names of Java classes too")
    group_share_initialize_retry_interval_ms: int = key(INT, 30_000, at_least(1),
        "How long the state of a partition that a share group begins to read may take to be made until that is tried "
        "again; at least offsets.commit.timeout.ms.",
        internal=True)
    group_share_max_share_sessions: int = key(INT, 2_000, at_least(1),
        "How many share sessions a broker keeps.")
    group_share_record_lock_duration_ms: int = key(INT, 30_000, between(1_000, 3_600_000),
        "How long a record that a member has acquired is delivered to no other member.")
    group_share_min_record_lock_duration_ms: int = key(INT, 15_000, between(1_000, 30_000),
        "The shortest lock of a record that a share group may be set to.")
    group_share_max_record_lock_duration_ms: int = key(INT, 60_000, between(30_000, 3_600_000),
        "The longest lock of a record that a share group may be set to.")
    group_share_delivery_count_limit: int = key(INT, 5, between(2, 10),
        "How many times a record is delivered to a share group at most.")
    group_share_min_delivery_count_limit: int = key(INT, 2, between(2, 5),
        "The smallest number of deliveries that a share group may be set to.")
    group_share_max_delivery_count_limit: int = key(INT, 10, between(5, 25),
        "The largest number of deliveries that a share group may be set to.")
    group_share_partition_max_record_locks: int = key(INT, 2_000, between(100, 10_000),
        "How many records of a partition a share group may have in flight.")
    group_share_min_partition_max_record_locks: int = key(INT, 100, between(100, 2_000),
        "The smallest number of records in flight that a share group may be set to.")
    group_share_max_partition_max_record_locks: int = key(INT, 4_000, between(2_000, 10_000),
        "The largest number of records in flight that a share group may be set to.")

    group_streams_session_timeout_ms: int = key(INT, 45_000, at_least(1),
        "How long a member of a streams group may send no heartbeat before it is removed.",
        section="Streams groups")
    group_streams_min_session_timeout_ms: int = key(INT, 45_000, at_least(1),
        "The shortest session time-out that a streams group may be set to.")
    group_streams_max_session_timeout_ms: int = key(INT, 60_000, at_least(1),
        "The longest session time-out that a streams group may be set to.")
    group_streams_heartbeat_interval_ms: int = key(INT, 300, at_least(1),
        "How often a member of a streams group sends a heartbeat.",
        differs=FAST_HEARTBEATS)
    group_streams_min_heartbeat_interval_ms: int = key(INT, 300, at_least(1),
        "The shortest heartbeat interval that a streams group may be set to.",
        differs=FAST_HEARTBEATS)
    group_streams_max_heartbeat_interval_ms: int = key(INT, 15_000, at_least(1),
        "The longest heartbeat interval that a streams group may be set to.")
    group_streams_max_size: int = key(INT, MAX_INT, at_least(1),
        "How many members a streams group may have.")
    group_streams_assignment_interval_ms: int = key(INT, 1_000, at_least(0),
        "The time between two assignments of a streams group.",
        dynamic=CLUSTER_WIDE)
    group_streams_min_assignment_interval_ms: int = key(INT, 0, at_least(0),
        "The shortest assignment interval that a streams group may be set to.")
    group_streams_max_assignment_interval_ms: int = key(INT, 15_000, at_least(0),
        "The longest assignment interval that a streams group may be set to.")
    group_streams_num_standby_replicas: int = key(INT, 0, at_least(0),
        "How many standby replicas each task of a streams group has.")
    group_streams_max_standby_replicas: int = key(INT, 2, at_least(0),
        "The largest number of standby replicas that a streams group may be set to.")
    group_streams_initial_rebalance_delay_ms: int = key(INT, 3_000, at_least(0),
        "How long an empty streams group waits for more members after the first.")
    # fmt: on

    @property
    def migration_policy(self) -> str:
        """`group.consumer.migration.policy` in lower case: disabled, downgrade, upgrade or bidirectional."""
        return self.group_consumer_migration_policy.lower()

    def broken_group_rule(self) -> str | None:
        """The first rule between two of these settings that the values break, in Kafka's order of checks."""
        for smaller, larger, may_be_equal in ORDERED_PAIRS:
            low, high = self.value_of(self.KEYS[smaller]), self.value_of(self.KEYS[larger])
            if low > high or (low == high and not may_be_equal):
                return f"{smaller}={low}: must be {'at most' if may_be_equal else 'less than'} {larger}={high}"
        return None

    def clamped(self, name: str, value: Any) -> Any:
        """`value`, or the nearest bound if it is out of the bounds that the setting `name` has in other settings."""
        lowest, highest = BOUNDS.get(name, ("", ""))
        if lowest:
            value = max(value, self.value_of(self.KEYS[lowest]))
        if highest:
            value = min(value, self.value_of(self.KEYS[highest]))
        return value


def _bounds() -> Iterator[tuple[str, tuple[str, str]]]:
    for kind in KINDS:
        for name in TIMES:
            yield f"group.{kind}.{name}", (f"group.{kind}.min.{name}", f"group.{kind}.max.{name}")
    for name in ("record.lock.duration.ms", "delivery.count.limit", "partition.max.record.locks"):
        yield f"group.share.{name}", (f"group.share.min.{name}", f"group.share.max.{name}")
    yield "group.streams.num.standby.replicas", ("", "group.streams.max.standby.replicas")


BOUNDS = dict(_bounds())
"""By broker setting: the broker settings with its lowest and its highest value, for the broker and for each group. An
empty text where there is none."""


def _ordered_pairs() -> Iterator[tuple[str, str, bool]]:
    for name, (lowest, highest) in BOUNDS.items():
        if lowest:
            yield lowest, highest, True
            yield lowest, name, True
        yield name, highest, True
        if name.endswith(SESSION):
            yield name.replace(SESSION, HEARTBEAT), name, False


ORDERED_PAIRS = tuple(_ordered_pairs())
"""Of each pair the first setting must not be larger than the second; the third item says whether it may be equal."""
