"""`kmini config`, and what `kmini topic alter` does with settings."""

from __future__ import annotations

import json

import pytest


def settings(output: str) -> dict[str, list[str]]:
    """Value and source by key."""
    return {key: rest for key, *rest in (line.split("\t") for line in output.splitlines()[1:])}


def test_settings_of_a_topic_are_set_told_and_taken_back(ask, broker) -> None:
    broker.create_topic("orders")
    assert settings(ask("config", "describe", "topic", "orders").stdout) == {}
    ask("config", "alter", "topic", "orders", "-c", "retention.ms=60000", "-c", "cleanup.policy=compact,delete")
    assert settings(ask("config", "describe", "topic", "orders").stdout) == {
        "cleanup.policy": ["compact,delete", "dynamic-topic"],
        "retention.ms": ["60000", "dynamic-topic"],
    }
    ask("config", "alter", "topic", "orders", "-c", "retention.ms=70000", "--delete-config", "cleanup.policy")
    entries = json.loads(ask("config", "describe", "topic", "orders", "--format", "json").stdout)
    assert entries == [{"name": "retention.ms", "value": "70000", "source": "dynamic-topic"}]
    everything = settings(ask("config", "describe", "topic", "orders", "--all").stdout)
    assert everything["cleanup.policy"] == ["delete", "default"]
    assert everything["kmini.tombstone.flag.enable"] == ["false", "default"]


def test_settings_of_brokers_are_those_of_one_or_the_default_of_all(ask) -> None:
    ask("config", "alter", "broker", "-c", "log.retention.ms=60000")
    ask("config", "alter", "broker", 1, "-c", "log.segment.bytes=1048576")
    told = settings(ask("config", "describe", "broker", 1).stdout)
    assert told["log.retention.ms"] == ["60000", "dynamic-default-broker"]
    assert told["log.segment.bytes"] == ["1048576", "dynamic-broker"]
    ask("config", "alter", "broker", 1, "-d", "log.segment.bytes")
    assert "log.segment.bytes" not in settings(ask("config", "describe", "broker", 1).stdout)


def test_settings_of_a_group_are_set_told_and_taken_back(ask, refuse) -> None:
    ask("config", "alter", "group", "billing", "-c", "consumer.heartbeat.interval.ms=1000")
    assert settings(ask("config", "describe", "group", "billing").stdout) == {
        "consumer.heartbeat.interval.ms": ["1000", "dynamic-group"]
    }
    everything = settings(ask("config", "describe", "group", "billing", "--all").stdout)
    assert everything["consumer.session.timeout.ms"] == ["45000", "default"]
    said = refuse("config", "alter", "group", "billing", "-c", "consumer.heartbeat.interval.ms=299", code=1)
    assert said.startswith("kmini: group billing: INVALID_CONFIG: ")
    assert "group.consumer.min.heartbeat.interval.ms=300" in said
    ask("config", "alter", "group", "billing", "-d", "consumer.heartbeat.interval.ms")
    assert settings(ask("config", "describe", "group", "billing").stdout) == {}


def test_a_dry_run_changes_nothing(ask, refuse, broker) -> None:
    broker.create_topic("orders")
    ask("config", "alter", "topic", "orders", "-c", "retention.ms=60000", "--dry-run")
    ask("topic", "alter", "orders", "-p", 2, "-c", "retention.ms=60000", "--dry-run")
    assert settings(ask("config", "describe", "topic", "orders").stdout) == {}
    assert len(ask("topic", "describe", "orders").stdout.splitlines()) == 2
    assert "INVALID_CONFIG" in refuse("config", "alter", "topic", "orders", "-c", "retention.ms=x", "--dry-run", code=1)


def test_what_cannot_be_is_told_with_key_and_reason(refuse, broker) -> None:
    broker.create_topic("orders")
    sentence = refuse("config", "alter", "topic", "orders", "-c", "retention=1", code=1)
    assert sentence.startswith("kmini: topic orders: INVALID_CONFIG: ")
    assert "retention" in sentence
    assert "there is no topic nowhere" in refuse("config", "describe", "topic", "nowhere", code=1)
    assert "UNKNOWN_TOPIC_OR_PARTITION" in refuse("config", "alter", "topic", "nowhere", "-c", "retention.ms=1", code=1)
    assert "there is no broker 7" in refuse("config", "describe", "broker", 7, code=1)


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["alter", "topic", "orders"], "nothing to change: --config or --delete-config was expected"),
        (["alter", "topic", "-c", "a=b"], "the name of a topic was expected"),
        (["alter", "topic", "orders", "-c", "a"], "-c a: KEY=VALUE was expected"),
        (["alter", "topic", "orders", "-c", "a=b", "-d", "a"], "a is named twice"),
        (["alter", "broker", "one", "-c", "a=b"], "broker one: the number of a broker was expected"),
        (["alter", "group", "-c", "a=b"], "the name of a group was expected"),
        (["describe", "share", "g"], "'share' is not one of"),
    ],
)
def test_wrong_usage_is_one_sentence(run, arguments, said) -> None:
    result = run("config", *arguments, "-b", "127.0.0.1:1")
    assert result.exit_code == 2
    assert said in result.stderr
    assert len(result.stderr.splitlines()) == 1
