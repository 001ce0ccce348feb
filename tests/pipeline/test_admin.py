"""The admin client of pipelines, archives and replays, against an embedded broker."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

pytest.importorskip("confluent_kafka")

from kmini import Broker, Cluster
from kmini.pipeline.admin import Admin, AdminError, DeletedRecords, describe_error
from kmini.pipeline.clients import Kafka

pytestmark = pytest.mark.sockets

MODULE = "org.apache.kafka.common.security.plain.PlainLoginModule required"


@pytest.fixture(scope="module")
def broker() -> Iterator[Broker]:
    with Broker() as running:
        yield running


@pytest.fixture
def admin(broker: Broker) -> Admin:
    return Admin(Kafka(broker.bootstrap_servers))


@pytest.fixture
def topic(broker: Broker, request: pytest.FixtureRequest) -> str:
    """A topic of the test's own, with two partitions and three records in the first."""
    name = request.node.name.replace("[", "-").rstrip("]")
    broker.create_topic(name, 2, {"retention.ms": 60_000})
    for value in (b"a", b"b", b"c"):
        broker.produce(name, value)
    return name


def test_topics_are_described_and_missing_ones_are_none(admin: Admin, topic: str) -> None:
    described = admin.describe([topic, "missing"])
    found = described[topic]
    assert found is not None
    assert (found.partitions, found.replication_factor, bool(found.topic_id)) == ((0, 1), 1, True)
    assert described["missing"] is None
    assert admin.describe([]) == {}


def test_a_topic_is_created_with_its_settings_and_only_once(admin: Admin, broker: Broker) -> None:
    admin.create("created", 3, {"cleanup.policy": "compact"})
    assert len(admin.describe(["created"])["created"].partitions) == 3  # type: ignore[union-attr]
    with pytest.raises(AdminError, match=r"^TOPIC_ALREADY_EXISTS: topic created: ") as refused:
        admin.create("created", 3)
    assert refused.value.name == "TOPIC_ALREADY_EXISTS"
    assert admin.topic_configs("created").own == {"cleanup.policy": "compact"}
    broker.delete_topic("created")


def test_settings_are_told_by_their_source_and_altered_together_or_not_at_all(admin: Admin, topic: str) -> None:
    configs = admin.topic_configs(topic)
    assert configs.own == {"retention.ms": "60000"}
    assert configs.in_force["retention.ms"] == "60000"
    assert configs.in_force["cleanup.policy"] == "delete"
    with pytest.raises(AdminError) as refused:
        admin.alter_topic_configs(topic, {"retention.ms": None, "cleanup.policy": "sometimes"})
    assert refused.value.name == "INVALID_CONFIG"
    assert admin.topic_configs(topic).own == {"retention.ms": "60000"}
    admin.alter_topic_configs(topic, {"retention.ms": None, "cleanup.policy": "compact"})
    assert admin.topic_configs(topic).own == {"cleanup.policy": "compact"}


def test_records_are_deleted_by_partition_and_each_has_its_outcome(admin: Admin, topic: str) -> None:
    assert admin.end_offsets(topic, 2) == {0: 3, 1: 0}
    outcomes = admin.delete_before({(topic, 0): 2, (topic, 1): 5})
    assert outcomes[topic, 0] == DeletedRecords(2)
    refused = outcomes[topic, 1]
    assert refused.low_watermark is None
    assert refused.error is not None
    assert refused.error.name == "OFFSET_OUT_OF_RANGE"


def test_a_group_without_commits_has_no_offsets(admin: Admin, topic: str) -> None:
    from confluent_kafka import Consumer, TopicPartition

    assert admin.committed("readers", topic, [0, 1]) == {}
    consumer = Consumer({"bootstrap.servers": admin.servers, "group.id": "readers", "log_level": 0})
    consumer.commit(offsets=[TopicPartition(topic, 0, 2)], asynchronous=False)
    consumer.close()
    assert admin.committed("readers", topic, [0, 1]) == {0: 2}


def test_a_wrong_password_ends_a_call_at_once() -> None:
    secured = {
        "listeners": "SASL_PLAINTEXT://127.0.0.1:0",
        "sasl.enabled.mechanisms": "PLAIN",
        "listener.name.sasl_plaintext.plain.sasl.jaas.config": f'{MODULE} user_alice="right";',
    }
    with Broker(config=secured) as broker:
        login = {
            "security.protocol": "SASL_PLAINTEXT",
            "sasl.mechanism": "PLAIN",
            "sasl.jaas.config": f'{MODULE} username="alice" password="wrong";',
        }
        with pytest.raises(AdminError) as refused:
            Admin(Kafka(broker.bootstrap_servers, login), timeout_s=600).cluster_id()
    assert refused.value.name == "AUTHENTICATION"


def test_without_a_broker_a_call_ends_in_time() -> None:
    with pytest.raises(AdminError, match=r"127\.0\.0\.1:1"):
        Admin(Kafka("127.0.0.1:1"), timeout_s=0.2).cluster_id()


def test_errors_have_kafkas_names_in_full() -> None:
    from confluent_kafka import KafkaError

    unknown = KafkaError(KafkaError.UNKNOWN_TOPIC_OR_PART)
    assert describe_error(unknown) == "UNKNOWN_TOPIC_OR_PARTITION: Unknown topic or partition"
    assert describe_error(KafkaError(KafkaError._TRANSPORT)).startswith("TRANSPORT: ")
    assert str(AdminError("NAME", "text", "topic t")) == "NAME: topic t: text"


def test_after_its_leader_died_a_partition_is_purged_and_asked_for_its_offsets_at_the_new_one() -> None:
    with Cluster(3) as cluster:
        admin = Admin(Kafka(cluster.bootstrap_servers), timeout_s=10)
        admin.create("orders", 1, replication_factor=3)
        for value in (b"a", b"b", b"c"):
            cluster.produce("orders", value)
        assert admin.delete_before({("orders", 0): 1}) == {("orders", 0): DeletedRecords(1)}
        cluster.kill(cluster.leader("orders"))
        assert admin.delete_before({("orders", 0): 2}) == {("orders", 0): DeletedRecords(2)}
        cluster.kill(cluster.leader("orders"))
        assert (admin.start_offsets("orders", 1), admin.end_offsets("orders", 1)) == ({0: 2}, {0: 3})


def test_offsets_that_no_leader_tells_are_an_error() -> None:
    with Cluster(2) as cluster:
        admin = Admin(Kafka(cluster.bootstrap_servers), timeout_s=5)
        admin.create("orders", 2, replication_factor=1)
        assert admin.end_offsets("orders", 2) == {0: 0, 1: 0}
        cluster.kill(cluster.leader("orders"))
        with pytest.raises(AdminError, match="orders"):
            admin.end_offsets("orders", 2)


def test_a_purge_does_not_make_a_deleted_topic_anew(admin: Admin, broker: Broker) -> None:
    (outcome,) = admin.delete_before({("deleted", 0): 1}).values()
    assert outcome.error is not None
    assert "deleted" not in broker.topics()


def test_after_a_coordinator_did_not_answer_a_group_is_asked_again() -> None:
    with Cluster(1) as cluster:
        admin = Admin(Kafka(cluster.bootstrap_servers), timeout_s=5)
        cluster.create_topic("orders")
        admin.commit_metadata("owners", {"orders": "me"})
        cluster.pause(1)
        with pytest.raises(AdminError, match="TIMED_OUT"):
            admin.offset_metadata("owners", ["orders"])
        cluster.reconnect(1)
        assert admin.offset_metadata("owners", ["orders"]) == {"orders": "me"}


def test_a_coordinator_that_is_not_ready_is_asked_again(admin: Admin, broker: Broker, topic: str) -> None:
    """As while a group's partition moves, or loads."""
    for api in ("OffsetCommit", "OffsetFetch"):
        for error in ("NOT_COORDINATOR", "COORDINATOR_LOAD_IN_PROGRESS"):
            broker.faults.on(api).times(1).error(error)
    admin.commit_metadata("owners", {topic: "me"})
    assert admin.offset_metadata("owners", [topic]) == {topic: "me"}
