"""Kafka's tools for settings and partitions, unchanged, against the server under test."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest

from support.java_peer import Finished, RunTool
from support.server_process import ServerProcess
from support.until import until

TopicNames = Callable[[str], str]
Configs = Callable[..., Finished]


@pytest.fixture
def topic(tool: RunTool, topic_names: TopicNames) -> str:
    """A topic with two partitions."""
    name = topic_names("settings")
    assert tool("TopicCommand", "--create", "--topic", name, "--partitions", 2).exit == 0
    return name


@pytest.fixture
def configs(tool: RunTool) -> Configs:
    """Run ConfigCommand, which has to succeed."""

    def run(*arguments: object) -> Finished:
        finished = tool("kafka.admin.ConfigCommand", *arguments)
        assert finished.exit == 0, finished.stderr
        return finished

    return run


@pytest.fixture
def broker_settings(configs: Configs) -> Iterator[None]:
    """What these tests set for brokers is gone afterwards: the server is shared."""
    yield
    for entity in (("--entity-name", 1), ("--entity-default",)):
        configs("--entity-type", "brokers", *entity, "--alter", "--delete-config", "log.cleaner.threads")


def test_topic_command_adds_partitions(tool: RunTool, topic: str) -> None:
    assert tool("TopicCommand", "--alter", "--topic", topic, "--partitions", 5).exit == 0
    assert "PartitionCount: 5\t" in tool("TopicCommand", "--describe", "--topic", topic).lines[0]
    finished = tool("TopicCommand", "--alter", "--topic", topic, "--partitions", 3)
    assert finished.exit == 1
    assert "InvalidPartitionsException" in finished.stderr


def test_config_command_sets_describes_and_deletes_a_topics_setting(configs: Configs, topic: str) -> None:
    of_topic = ("--entity-type", "topics", "--entity-name", topic)
    assert configs(*of_topic, "--alter", "--add-config", "retention.ms=5000,cleanup.policy=[delete,compact]").lines == [
        f"Completed updating config for topic {topic}."
    ]
    lines = configs(*of_topic, "--describe").lines
    assert lines[0] == f"Dynamic configs for topic {topic} are:"
    assert any("retention.ms=5000 sensitive=false synonyms={DYNAMIC_TOPIC_CONFIG:retention.ms=5000" in x for x in lines)
    assert any("cleanup.policy=delete,compact " in line for line in lines)
    configs(*of_topic, "--alter", "--delete-config", "retention.ms,cleanup.policy")
    assert configs(*of_topic, "--describe").lines == [f"Dynamic configs for topic {topic} are:"]


def test_config_command_describes_all_settings_of_a_topic(configs: Configs, topic: str) -> None:
    lines = configs("--entity-type", "topics", "--entity-name", topic, "--describe", "--all").lines
    assert lines[0] == f"All configs for topic {topic} are:"
    assert any("segment.bytes=1073741824 " in line and "DEFAULT_CONFIG:log.segment.bytes" in line for line in lines)
    assert len([line for line in lines if not line.startswith("  kmini.")]) == 34


def test_config_command_tells_what_is_wrong_with_a_setting(tool: RunTool, topic: str) -> None:
    of_topic = ("--entity-type", "topics", "--entity-name", topic)
    finished = tool("kafka.admin.ConfigCommand", *of_topic, "--alter", "--add-config", "retention.ms=soon")
    assert finished.exit == 1
    assert "InvalidConfigurationException" in finished.stderr + finished.stdout
    assert "soon" in finished.stderr + finished.stdout


def test_config_command_sets_describes_and_deletes_a_groups_setting(
    kafka_tool: RunTool, broker_process: ServerProcess
) -> None:
    # Of its own server: the tool also describes all groups here, and refuses one named "", as other tests leave it.
    server = ("--bootstrap-server", broker_process.bootstrap_servers)

    def configs(*arguments: object) -> Finished:
        finished = kafka_tool("kafka.admin.ConfigCommand", *server, *arguments)
        assert finished.exit == 0, finished.stderr
        return finished

    group = "billing"
    of_group = ("--entity-type", "groups", "--entity-name", group)
    none = [f"The group '{group}' doesn't exist and doesn't have dynamic config."]
    assert configs(*of_group, "--describe").lines == none
    changes = "consumer.session.timeout.ms=50000,consumer.heartbeat.interval.ms=6000"
    assert configs(*of_group, "--alter", "--add-config", changes).lines == [
        f"Completed updating config for group {group}."
    ]
    told = (
        "consumer.session.timeout.ms=50000 sensitive=false synonyms={DYNAMIC_GROUP_CONFIG:consumer.session.timeout.ms="
        "50000, DEFAULT_CONFIG:group.consumer.session.timeout.ms=45000}"
    )

    def is_told() -> bool:
        return told in [line.strip() for line in configs(*of_group, "--describe").lines]

    until(is_told)
    assert len(configs(*of_group, "--describe").lines) == 3
    assert len(configs(*of_group, "--describe", "--all").lines) == 18
    assert f"Dynamic configs for group {group} are:" in configs("--entity-type", "groups", "--describe").lines
    too_long = (*of_group, "--alter", "--add-config", "consumer.session.timeout.ms=600001")
    refused = kafka_tool("kafka.admin.ConfigCommand", *server, *too_long)
    assert refused.exit == 1
    assert "InvalidConfigurationException" in refused.stderr + refused.stdout
    assert "group.consumer.max.session.timeout.ms" in refused.stderr + refused.stdout
    configs(*of_group, "--alter", "--delete-config", "consumer.session.timeout.ms,consumer.heartbeat.interval.ms")
    until(lambda: configs(*of_group, "--describe").lines == none)


@pytest.mark.usefixtures("broker_settings")
def test_config_command_changes_brokers_one_and_all(configs: Configs) -> None:
    one = ("--entity-type", "brokers", "--entity-name", 1)
    every = ("--entity-type", "brokers", "--entity-default")
    assert configs(*every, "--alter", "--add-config", "log.cleaner.threads=2").lines == [
        "Completed updating default config for brokers in the cluster."
    ]
    assert configs(*one, "--alter", "--add-config", "log.cleaner.threads=2").lines == [
        "Completed updating config for broker 1."
    ]
    told = "".join(configs(*one, "--describe").lines)
    assert "log.cleaner.threads=2 sensitive=false synonyms={DYNAMIC_BROKER_CONFIG:log.cleaner.threads=2," in told
    assert "log.cleaner.threads=2 " in "".join(configs(*every, "--describe").lines)
    assert any("num.partitions=1 " in line for line in configs(*one, "--describe", "--all").lines)


def test_config_command_tells_which_settings_stay_as_they_are(tool: RunTool) -> None:
    one = ("--entity-type", "brokers", "--entity-name", 1)
    finished = tool("kafka.admin.ConfigCommand", *one, "--alter", "--add-config", "num.partitions=2")
    assert finished.exit == 1
    assert "num.partitions" in finished.stderr + finished.stdout


def test_config_command_shows_and_sets_levels_of_loggers(configs: Configs) -> None:
    loggers = ("--entity-type", "broker-loggers", "--entity-name", 1)
    lines = configs(*loggers, "--describe").lines
    assert lines[0] == "Dynamic configs for broker-logger 1 are:"
    (before,) = [line.strip().split()[0].partition("=")[2] for line in lines if line.strip().startswith("root=")]
    configs(*loggers, "--alter", "--add-config", "root=ERROR")
    assert any(line.strip().startswith("root=ERROR ") for line in configs(*loggers, "--describe").lines)
    configs(*loggers, "--alter", "--add-config", f"root={before}")
