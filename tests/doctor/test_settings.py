"""Settings that surprise are named, with the reason."""

from __future__ import annotations

import pytest

from kmini import Broker
from kmini.doctor.settings import impossible_topics, shown

from .conftest import Examine


@pytest.mark.parametrize(
    ("finding", "key", "value", "why"),
    [
        ("small-messages", "message.max.bytes", "1000", "MESSAGE_TOO_LARGE"),
        ("min-isr-above-replication", "min.insync.replicas", "3", "more than default.replication.factor"),
        ("unclean-elections", "unclean.leader.election.enable", "true", "records that were acknowledged disappear"),
        ("append-time", "log.message.timestamp.type", "LogAppendTime", "replaces the timestamps of producers"),
        ("recompression", "compression.type", "gzip", "compressed already"),
        ("short-sessions", "group.max.session.timeout.ms", "30000", "INVALID_SESSION_TIMEOUT"),
        ("short-sessions", "group.min.session.timeout.ms", "60000", "INVALID_SESSION_TIMEOUT"),
        ("short-retention", "log.retention.ms", "60000", "misses them"),
        ("first-rebalance-waits", "group.initial.rebalance.delay.ms", "3000", "gets no partition for so long"),
    ],
)
def test_a_surprising_setting_of_a_broker_is_named(
    diagnose: Examine, finding: str, key: str, value: str, why: str
) -> None:
    with Broker(config={key: value}) as broker:
        found = diagnose(broker.bootstrap_servers)[finding]
    assert found.text.startswith(f"{key}={shown(key, value)} of broker 1: ")
    assert why in found.text
    assert found.change


def test_auto_creation_of_topics_is_told_and_no_warning(diagnose: Examine) -> None:
    with Broker() as broker:
        found = diagnose(broker.bootstrap_servers)["topics-are-auto-created"]
    assert found.level == "ok"
    assert "a misspelt topic name makes a topic" in found.text


@pytest.mark.parametrize(
    ("finding", "key", "value"),
    [
        ("short-retention", "retention.ms", "60000"),
        ("small-messages", "max.message.bytes", "1000"),
        ("append-time", "message.timestamp.type", "LogAppendTime"),
        ("unclean-elections", "unclean.leader.election.enable", "true"),
    ],
)
def test_a_surprising_setting_of_topics_is_named_once_for_all(
    diagnose: Examine, finding: str, key: str, value: str
) -> None:
    with Broker() as broker:
        for name in ("a", "b", "c", "d", "e"):
            broker.create_topic(name, config={key: value})
        found = diagnose(broker.bootstrap_servers)[finding]
    assert found.text.startswith(f"{key}={shown(key, value)} of topics 'a', 'b', 'c' and 2 more: ")


def test_an_internal_topic_that_too_few_brokers_cannot_have_is_named() -> None:
    settings = {"offsets.topic.replication.factor": "3", "transaction.state.log.replication.factor": "3"}
    found = {one.name: one for one in impossible_topics({1: settings}, ["orders"], 1)}
    assert found["no-offsets-topic"].text.startswith(
        "__consumer_offsets does not exist and cannot be created: offsets.topic.replication.factor=3, and 1 broker is"
    )
    assert "KAFKA_OFFSETS_TOPIC_REPLICATION_FACTOR" in found["no-offsets-topic"].change
    assert "no transactional producer gets a coordinator" in found["no-transactions-topic"].text


def test_an_internal_topic_that_exists_or_has_enough_brokers_is_fine() -> None:
    settings = {"offsets.topic.replication.factor": "3"}
    assert [*impossible_topics({1: settings}, ["__consumer_offsets"], 1)] == []
    assert [*impossible_topics({1: settings}, [], 3)] == []
