"""Topics as archives and replays need them: errors name the topic, and refused settings are told one by one."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

pytest.importorskip("confluent_kafka")
pytest.importorskip("pyarrow")

from kmini import Broker
from kmini.pipeline.archives.archive_files import ArchiveError
from kmini.pipeline.archives.cluster_topics import Topics
from kmini.pipeline.clients import Kafka, SettingsError

pytestmark = pytest.mark.sockets


@pytest.fixture(scope="module")
def broker() -> Iterator[Broker]:
    with Broker() as running:
        yield running


@pytest.fixture
def topics(broker: Broker) -> Topics:
    return Topics(Kafka(broker.bootstrap_servers))


def test_a_missing_topic_is_none_or_an_error_with_the_cluster(broker: Broker, topics: Topics) -> None:
    assert topics.find("missing") is None
    with pytest.raises(ArchiveError, match=f"^missing: there is no such topic at {broker.bootstrap_servers}$"):
        topics.get("missing")


def test_a_created_topic_has_its_own_settings_and_all_that_are_in_force(broker: Broker, topics: Topics) -> None:
    topics.create("orders", 2, {"retention.ms": "5000"})
    found = topics.wait_for("orders")
    assert (found.name, found.partitions, found.replication_factor) == ("orders", 2, 1)
    assert found.configs == {"retention.ms": "5000"}
    assert found.known["cleanup.policy"] == "delete"
    broker.produce("orders", b"v", partition=1)
    assert topics.end_offsets("orders", 2) == {0: 0, 1: 1}
    with pytest.raises(ArchiveError, match=r"^orders: TOPIC_ALREADY_EXISTS: "):
        topics.create("orders", 2, {})


def test_only_refused_settings_are_left_out(topics: Topics) -> None:
    topics.create("settings", 1, {"retention.ms": "5000"})
    refused = topics.alter("settings", {"retention.ms": None, "cleanup.policy": "never", "segment.bytes": "1048576"})
    assert refused.keys() == {"cleanup.policy"}
    assert refused["cleanup.policy"].startswith("INVALID_CONFIG: ")
    assert topics.get("settings").configs == {"segment.bytes": "1048576"}
    assert topics.alter("settings", {}) == {}


def test_a_cluster_that_is_not_there_is_named() -> None:
    with pytest.raises(ArchiveError, match=r"^orders: .*127\.0\.0\.1:1"):
        Topics(Kafka("127.0.0.1:1"), timeout_ms=200).find("orders")


def test_settings_that_the_admin_client_cannot_take_are_named() -> None:
    with pytest.raises(SettingsError, match="truststore is JKS"):
        Topics(Kafka(settings={"ssl.truststore.location": "trust.jks"}))
