"""Settings of brokers and topics that surprise their clients, and why."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from typing import NamedTuple

from kmini.client.errors import error_of
from kmini.doctor.asking import Brokers
from kmini.doctor.findings import Finding
from kmini.protocol.messages.describe_configs import (
    BROKER,
    DYNAMIC_TOPIC_CONFIG,
    TOPIC,
    DescribeConfigsRequest,
    DescribeConfigsResponse,
)
from kmini.protocol.topics import CONSUMER_OFFSETS, TRANSACTION_STATE
from kmini.remote.server_identity import AS_VERSION
from kmini.testkit.report.facts import duration

MAX_REQUEST_BYTES = 1_048_576
"""max.request.size of Java's producer, and message.max.bytes of librdkafka about so: what clients send by default."""
SESSION_MS = 45_000
"""session.timeout.ms of Java's consumer and of librdkafka by default."""
SHORT_RETENTION_MS = 3_600_000
"""Retention below an hour: a consumer that is stopped over lunch loses records."""
AT_A_TIME = 500
"""Topics in a request."""

Settings = Mapping[str, str]


class Surprise(NamedTuple):
    """A setting that surprises with some values."""

    finding: str
    key: str
    """Its name in a broker."""
    is_surprising: Callable[[str, Settings], bool]
    why: str
    change: str
    topic_key: str | None = None
    """Its name in a topic, if topics have it."""


def _less_than(limit: int) -> Callable[[str, Settings], bool]:
    return lambda value, _: 0 <= int(value) < limit


def _more_than(limit: int) -> Callable[[str, Settings], bool]:
    return lambda value, _: int(value) > limit


def _is(*texts: str) -> Callable[[str, Settings], bool]:
    return lambda value, _: value in texts


def _above_replication(value: str, settings: Settings) -> bool:
    return int(value) > int(settings.get("default.replication.factor", value))


SURPRISES = (
    Surprise(
        "topics-are-auto-created",
        "auto.create.topics.enable",
        _is("true"),
        "a misspelt topic name makes a topic, and no error",
        "set it to false to have misspelt names refused with UNKNOWN_TOPIC_OR_PARTITION",
    ),
    Surprise(
        "first-rebalance-waits",
        "group.initial.rebalance.delay.ms",
        _more_than(0),
        "the first consumer of an empty group gets no partition for so long, in each test anew",
        "set it to 0 where tests run",
    ),
    Surprise(
        "small-messages",
        "message.max.bytes",
        _less_than(MAX_REQUEST_BYTES),
        f"a producer sends up to max.request.size={MAX_REQUEST_BYTES}, and is refused with MESSAGE_TOO_LARGE",
        "raise it (max.message.bytes of a topic), or lower max.request.size of the producers",
        "max.message.bytes",
    ),
    Surprise(
        "min-isr-above-replication",
        "min.insync.replicas",
        _above_replication,
        "more than default.replication.factor: new topics take records with acks=all only while all replicas are in "
        "sync, and before Apache Kafka 3.7 none (NOT_ENOUGH_REPLICAS)",
        "set min.insync.replicas to default.replication.factor or less",
    ),
    Surprise(
        "unclean-elections",
        "unclean.leader.election.enable",
        _is("true"),
        "a replica that is behind may become leader: records that were acknowledged disappear",
        "set it to false, unless being available is worth lost records",
        "unclean.leader.election.enable",
    ),
    Surprise(
        "append-time",
        "log.message.timestamp.type",
        _is("LogAppendTime"),
        "the broker replaces the timestamps of producers with the time at which it writes",
        "set it to CreateTime to keep those of the producers",
        "message.timestamp.type",
    ),
    Surprise(
        "recompression",
        "compression.type",
        lambda value, _: value not in ("producer", ""),
        "the broker compresses what producers have compressed already, and pays for it with each batch",
        "set it to producer",
    ),
    Surprise(
        "short-sessions",
        "group.max.session.timeout.ms",
        _less_than(SESSION_MS),
        f"consumers ask for session.timeout.ms={SESSION_MS} by default, and are refused with INVALID_SESSION_TIMEOUT",
        "raise it, or lower session.timeout.ms of the consumers",
    ),
    Surprise(
        "short-sessions",
        "group.min.session.timeout.ms",
        _more_than(SESSION_MS),
        f"consumers ask for session.timeout.ms={SESSION_MS} by default, and are refused with INVALID_SESSION_TIMEOUT",
        "lower it, or raise session.timeout.ms of the consumers",
    ),
    Surprise(
        "short-retention",
        "log.retention.ms",
        _less_than(SHORT_RETENTION_MS),
        "records are deleted so soon that a consumer which stops for a while misses them",
        "raise it; that of a topic: kmini topic alter NAME -c retention.ms=604800000 -b HOST:PORT",
        "retention.ms",
    ),
)

REPLICATED = (
    (CONSUMER_OFFSETS, "offsets.topic.replication.factor", "no-offsets-topic", "no consumer group gets a coordinator"),
    (
        TRANSACTION_STATE,
        "transaction.state.log.replication.factor",
        "no-transactions-topic",
        "no transactional producer gets a coordinator",
    ),
)
"""Internal topics that are created with their first use, the setting of their replicas, and what fails without them."""

BROKER_KEYS = (
    *dict.fromkeys(one.key for one in SURPRISES),
    "default.replication.factor",
    *(key for _, key, _, _ in REPLICATED),
    AS_VERSION,
)
TOPIC_KEYS = (*(one.topic_key for one in SURPRISES if one.topic_key), "min.insync.replicas")


async def settings_of_broker(brokers: Brokers, node_id: int) -> Settings:
    """The settings in `BROKER_KEYS` that a broker tells."""
    resource = DescribeConfigsRequest.Resource(
        resource_type=BROKER, resource_name=str(node_id), configuration_keys=[*BROKER_KEYS]
    )
    request = DescribeConfigsRequest(resources=[resource])
    response: DescribeConfigsResponse | None = await brokers.ask(node_id, request, "settings")
    found: dict[str, str] = {}
    for one in response.results if response is not None else ():
        error = error_of(one.error_code, one.error_message)
        if error is not None:
            brokers.refused(error, "settings", f"broker {node_id}")
        found |= {config.name: config.value or "" for config in one.configs}
    return found


class TopicSettings(NamedTuple):
    """The settings of a topic in `TOPIC_KEYS`."""

    values: Settings
    own: frozenset[str]
    """The keys that are set for this topic."""


async def settings_of_topics(brokers: Brokers, node_id: int, names: Sequence[str]) -> dict[str, TopicSettings]:
    """The settings in `TOPIC_KEYS` of topics, as one broker tells them."""
    found: dict[str, TopicSettings] = {}
    for begin in range(0, len(names), AT_A_TIME):
        resources = [
            DescribeConfigsRequest.Resource(resource_type=TOPIC, resource_name=name, configuration_keys=[*TOPIC_KEYS])
            for name in names[begin : begin + AT_A_TIME]
        ]
        request = DescribeConfigsRequest(resources=resources)
        response: DescribeConfigsResponse | None = await brokers.ask(node_id, request, "settings of topics")
        for one in response.results if response is not None else ():
            error = error_of(one.error_code, one.error_message)
            if error is not None:
                brokers.refused(error, "settings", f"topic {one.resource_name!r}")
                continue
            values = {config.name: config.value for config in one.configs if config.value is not None}
            own = {config.name for config in one.configs if config.config_source == DYNAMIC_TOPIC_CONFIG}
            found[one.resource_name] = TopicSettings(values, frozenset(own))
    return found


def surprising_settings(by_broker: Mapping[int, Settings]) -> Iterator[Finding]:
    """Settings of brokers that surprise; brokers with the same value are told together."""
    for surprise in SURPRISES:
        brokers: defaultdict[str, list[int]] = defaultdict(list)
        for node_id, settings in by_broker.items():
            value = settings.get(surprise.key)
            if value is not None and _surprises(surprise, value, settings):
                brokers[value].append(node_id)
        for value, node_ids in brokers.items():
            where = "all brokers" if len(node_ids) == len(by_broker) > 1 else _listed("broker", node_ids)
            text = f"{surprise.key}={shown(surprise.key, value)} of {where}: {surprise.why}"
            yield Finding(surprise.finding, text, surprise.change)


def surprising_topics(topics: Mapping[str, TopicSettings]) -> Iterator[Finding]:
    """Settings of topics that surprise; topics with the same value are told together."""
    for surprise in SURPRISES:
        key = surprise.topic_key
        if key is None:
            continue
        names: defaultdict[str, list[str]] = defaultdict(list)
        for name, settings in topics.items():
            if key in settings.own and _surprises(surprise, settings.values.get(key, ""), {}):
                names[settings.values[key]].append(name)
        for value, found in names.items():
            text = f"{key}={shown(key, value)} of {_listed('topic', found)}: {surprise.why}"
            yield Finding(surprise.finding, text, surprise.change)


def impossible_topics(by_broker: Mapping[int, Settings], topics: Collection[str], live: int) -> Iterator[Finding]:
    """Internal topics that do not exist and cannot be created, because they want more replicas than there are live
    brokers. kmini takes as many as there are."""
    kafkas = [settings for settings in by_broker.values() if AS_VERSION not in settings]
    for topic, key, finding, effect in REPLICATED:
        wanted = max((int(settings[key]) for settings in kafkas if settings.get(key, "").isdigit()), default=0)
        if topic not in topics and wanted > live:
            text = (
                f"{topic} does not exist and cannot be created: {key}={wanted}, and {live} "
                f"broker{' is' if live == 1 else 's are'} live. Until then {effect} (COORDINATOR_NOT_AVAILABLE)"
            )
            yield Finding(finding, text, f"set {key}={live} on each broker (KAFKA_{key.replace('.', '_').upper()})")


def shown(key: str, value: str) -> str:
    """A value; that of a duration in words, too."""
    return f"{value} ({duration(int(value))})" if key.endswith(".ms") and int(value) >= 1_000 else value


def _surprises(surprise: Surprise, value: str, settings: Settings) -> bool:
    try:
        return surprise.is_surprising(value, settings)
    except ValueError:  # no number: a Kafka of another make
        return False


def _listed(noun: str, found: Sequence[object]) -> str:
    """Things in a sentence, the first ones by name: "topics 'a', 'b' and 3 more"."""
    names = [repr(one) if isinstance(one, str) else str(one) for one in found[:3]]
    more = f" and {len(found) - 3} more" if len(found) > 3 else ""
    return f"{noun}{'' if len(found) == 1 else 's'} {', '.join(names)}{more}"
