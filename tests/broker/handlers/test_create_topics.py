"""CreateTopics: every rule with its code, in Kafka's order, and topics that are ready when the answer comes."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any

import pytest

from kmini.broker.broker import BrokerServer
from kmini.broker.controller import topics
from kmini.protocol.errors import (
    NONE,
    InvalidConfig,
    InvalidPartitions,
    InvalidReplicaAssignment,
    InvalidReplicationFactor,
    InvalidRequest,
    InvalidTopic,
    KafkaError,
    KafkaStorageError,
    PolicyViolation,
    TopicAlreadyExists,
)
from kmini.protocol.messages.create_topics import CreateTopicsRequest
from kmini.protocol.messages.describe_configs import DEFAULT_CONFIG, DYNAMIC_TOPIC_CONFIG
from kmini.protocol.topics import TopicPartition
from kmini.protocol.uuids import ZERO_UUID
from kmini.storage.log_config import LogConfig

EXAMPLE = CreateTopicsRequest(
    topics=[CreateTopicsRequest.Topic(name="orders", num_partitions=1, replication_factor=1)], timeout_ms=1000
)

Ask = Callable[..., Awaitable[Any]]
StartBroker = Callable[..., Awaitable[BrokerServer]]

DEFAULT = -1


def wish(
    name: str,
    partitions: int = 1,
    replication_factor: int = 1,
    *,
    assigned: Sequence[tuple[int, Sequence[int]]] = (),
    configs: Mapping[str, str | None] | None = None,
) -> CreateTopicsRequest.Topic:
    return CreateTopicsRequest.Topic(
        name=name,
        num_partitions=partitions,
        replication_factor=replication_factor,
        assignments=[
            CreateTopicsRequest.Topic.Assignment(partition_index=number, broker_ids=list(nodes))
            for number, nodes in assigned
        ],
        configs=[CreateTopicsRequest.Topic.Config(name=name, value=value) for name, value in (configs or {}).items()],
    )


def assigned(*assignment: tuple[int, Sequence[int]], counts: tuple[int, int] = (-1, -1)) -> CreateTopicsRequest.Topic:
    return wish("t", *counts, assigned=assignment)


async def codes(ask: Ask, broker: BrokerServer, *wishes: CreateTopicsRequest.Topic) -> dict[str, int]:
    answer = await ask(broker, CreateTopicsRequest(topics=list(wishes)))
    return {topic.name: topic.error_code for topic in answer.topics}


# --- what is made


@pytest.mark.parametrize("version", range(8))
async def test_a_created_topic_takes_records_when_the_answer_comes(
    broker: BrokerServer, ask: Ask, version: int
) -> None:
    (topic,) = (await ask(broker, CreateTopicsRequest(topics=[wish("orders", 3)]), version)).topics
    assert (topic.name, topic.error_code, topic.error_message) == ("orders", NONE, None)
    made = broker.controller.topic("orders")
    assert made is not None
    assert topic.topic_id == (made.id if version >= 7 else ZERO_UUID)
    for number in range(3):
        assert broker.replica_manager.leader_of(TopicPartition("orders", number)).log.topic_id == made.id


@pytest.mark.parametrize("version", range(8))
async def test_the_answer_tells_what_the_topic_became_from_version_5_on(
    broker: BrokerServer, ask: Ask, version: int
) -> None:
    request = CreateTopicsRequest(topics=[wish("orders", 2, configs={"retention.ms": "5"})])
    (topic,) = (await ask(broker, request, version)).topics
    if version < 5:
        assert (topic.num_partitions, topic.replication_factor, topic.configs) == (-1, -1, [])
        return
    assert (topic.num_partitions, topic.replication_factor) == (2, 1)
    told = {config.name: (config.value, config.config_source, config.read_only) for config in topic.configs}
    assert told["retention.ms"] == ("5", DYNAMIC_TOPIC_CONFIG, False)
    assert told["cleanup.policy"] == ("delete", DEFAULT_CONFIG, False)


async def test_the_answer_has_settings_that_kafka_does_not_have_only_where_they_are_set(
    broker: BrokerServer, ask: Ask
) -> None:
    flagged = wish("flagged", configs={"kmini.tombstone.flag.enable": "true"})
    plain, flagged = (await ask(broker, CreateTopicsRequest(topics=[wish("plain"), flagged]))).topics
    kafkas = {name for name in LogConfig.KEYS if not name.startswith("kmini.")}
    assert {config.name for config in plain.configs} == kafkas
    assert {config.name for config in flagged.configs} == kafkas | {"kmini.tombstone.flag.enable"}


async def test_minus_one_stands_for_the_brokers_defaults(start_broker: StartBroker, ask: Ask) -> None:
    broker = await start_broker(num_partitions=4)
    (topic,) = (await ask(broker, CreateTopicsRequest(topics=[wish("t", DEFAULT, DEFAULT)]))).topics
    assert (topic.num_partitions, topic.replication_factor) == (4, 1)


async def test_partitions_can_be_assigned_in_any_order(broker: BrokerServer, ask: Ask) -> None:
    assert await codes(ask, broker, assigned((1, [1]), (0, [1]))) == {"t": NONE}
    assert [state.replicas for state in broker.controller.topics["t"].partitions] == [(1,), (1,)]


async def test_topics_and_settings_are_there_after_a_restart(start_broker: StartBroker, ask: Ask) -> None:
    broker = await start_broker()
    await codes(ask, broker, wish("t", 2, configs={"segment.bytes": "100"}))
    made = broker.controller.topics["t"]
    await broker.stop()
    again = await start_broker()
    found = again.controller.topics["t"]
    assert (found.id, found.configs, len(found.partitions)) == (made.id, made.configs, 2)
    assert again.replica_manager.leader_of(TopicPartition("t", 1)).log.config.segment_bytes == 100


async def test_small_segments_are_allowed_as_before_kafka_4(broker: BrokerServer, ask: Ask) -> None:
    wishes = [wish("a", configs={"segment.bytes": "100"}), wish("b", configs={"internal.segment.bytes": "100"})]
    assert await codes(ask, broker, *wishes) == {"a": NONE, "b": NONE}


async def test_validate_only_answers_the_same_and_makes_nothing(broker: BrokerServer, ask: Ask) -> None:
    request = CreateTopicsRequest(topics=[wish("t", 2), wish("bad", 0)], validate_only=True)
    good, bad = (await ask(broker, request)).topics
    assert (good.error_code, good.num_partitions) == (NONE, 2)
    assert bad.error_code == InvalidPartitions.code
    assert broker.controller.topics == {}
    assert broker.logs.logs == {}


async def test_one_topic_that_fails_does_not_hinder_the_others(broker: BrokerServer, ask: Ask) -> None:
    outcome = await codes(ask, broker, wish("a"), wish("b", 0), wish("c"))
    assert outcome == {"a": NONE, "b": InvalidPartitions.code, "c": NONE}
    assert set(broker.controller.topics) == {"a", "c"}


async def test_an_empty_request_has_an_empty_answer(broker: BrokerServer, ask: Ask) -> None:
    assert await codes(ask, broker) == {}


# --- what is not


@pytest.mark.parametrize(
    ("topic", "error"),
    [
        (wish("a b"), InvalidTopic),
        (wish(""), InvalidTopic),
        (wish("."), InvalidTopic),
        (wish(".."), InvalidTopic),
        (wish("x" * 250), InvalidTopic),
        (wish("__cluster_metadata"), InvalidRequest),
        (wish("t", 0), InvalidPartitions),
        (wish("t", -2), InvalidPartitions),
        (wish("t", 1, 0), InvalidReplicationFactor),
        (wish("t", 1, -2), InvalidReplicationFactor),
        (wish("t", 1, 2), InvalidReplicationFactor),
        (wish("t", 0, 0), InvalidReplicationFactor),
        (wish("t", 2**31 - 1), PolicyViolation),
        (wish("t", 10_001), PolicyViolation),
        (assigned((0, [1]), counts=(1, -1)), InvalidRequest),
        (assigned((0, [1]), counts=(-1, 1)), InvalidRequest),
        (assigned((0, [1]), (2, [1])), InvalidReplicaAssignment),
        (assigned((1, [1])), InvalidReplicaAssignment),
        (assigned((0, [1]), (0, [1])), InvalidReplicaAssignment),
        (assigned((0, [])), InvalidReplicaAssignment),
        (assigned((0, [1, 1])), InvalidReplicaAssignment),
        (assigned((0, [9])), InvalidReplicaAssignment),
        (assigned((0, [1]), (1, [1, 2])), InvalidReplicaAssignment),
        (wish("t", configs={"foo": "1"}), InvalidConfig),
        (wish("t", configs={"retention.ms": "x"}), InvalidConfig),
        (wish("t", configs={"retention.ms": ""}), InvalidConfig),
        (wish("t", configs={"retention.ms": None}), InvalidConfig),
        (wish("t", configs={"retention.ms": "-5"}), InvalidConfig),
        (wish("t", configs={"min.compaction.lag.ms": "7", "max.compaction.lag.ms": "1"}), InvalidConfig),
        (wish("t", configs={"remote.storage.enable": "true"}), InvalidConfig),
        (wish("t", configs={"message.format.version": "3.0"}), InvalidConfig),
    ],
)
async def test_a_wish_that_breaks_a_rule_gets_kafkas_code_and_our_sentence(
    broker: BrokerServer, ask: Ask, topic: CreateTopicsRequest.Topic, error: type[KafkaError]
) -> None:
    (answer,) = (await ask(broker, CreateTopicsRequest(topics=[topic]))).topics
    assert (answer.error_code, answer.num_partitions, answer.replication_factor) == (error.code, -1, -1)
    assert answer.error_message
    assert broker.controller.topics == {}


@pytest.mark.parametrize(
    "configs",
    [
        {"cleanup.policy": ""},
        {"cleanup.policy": "compact,compact"},
        {"local.retention.ms": "5"},
        {"leader.replication.throttled.replicas": "*"},
        {"min.insync.replicas": "3"},
    ],
)
async def test_settings_that_kafka_accepts_are_accepted(
    broker: BrokerServer, ask: Ask, configs: dict[str, str]
) -> None:
    assert await codes(ask, broker, wish("t", configs=configs)) == {"t": NONE}


async def test_a_topic_that_exists_is_not_made_again_whatever_else_is_wrong(broker: BrokerServer, ask: Ask) -> None:
    topics.create(broker, "t")
    assert await codes(ask, broker, wish("t", 0, 0)) == {"t": TopicAlreadyExists.code}


async def test_dots_and_underscores_collide_with_existing_topics(broker: BrokerServer, ask: Ask) -> None:
    topics.create(broker, "a.b_c")
    outcome = await codes(ask, broker, wish("a_b_c"), wish("a.b.c"), wish("a-b-c"))
    assert outcome == {"a_b_c": InvalidTopic.code, "a.b.c": InvalidTopic.code, "a-b-c": NONE}


async def test_a_deleted_topic_collides_with_nothing(broker: BrokerServer, ask: Ask) -> None:
    topics.create(broker, "a.b")
    topics.delete(broker, "a.b")
    assert await codes(ask, broker, wish("a_b")) == {"a_b": NONE}


async def test_a_name_that_stands_twice_in_a_request_is_made_not_even_once(broker: BrokerServer, ask: Ask) -> None:
    assert await codes(ask, broker, wish("d"), wish("e"), wish("d", 2)) == {"d": InvalidRequest.code, "e": NONE}
    assert set(broker.controller.topics) == {"e"}


async def test_one_request_cannot_make_more_than_10_000_partitions_in_all(broker: BrokerServer, ask: Ask) -> None:
    request = CreateTopicsRequest(topics=[wish("a", 9_999), wish("b", 2), wish("c", 1)], validate_only=True)
    outcomes = [topic.error_code for topic in (await ask(broker, request)).topics]
    assert outcomes == [NONE, PolicyViolation.code, NONE]


async def test_a_disk_that_refuses_leaves_no_topic_behind(
    broker: BrokerServer, ask: Ask, monkeypatch: pytest.MonkeyPatch
) -> None:
    create = broker.logs.create

    def full_at_the_third(topic_partition: TopicPartition, *rest: object) -> object:
        if topic_partition.partition == 2:
            raise KafkaStorageError("no space left on device")
        return create(topic_partition, *rest)  # type: ignore[arg-type]

    monkeypatch.setattr(broker.logs, "create", full_at_the_third)
    assert await codes(ask, broker, wish("t", 5)) == {"t": KafkaStorageError.code}
    assert broker.controller.topics == {}
    assert broker.replica_manager.partitions == {}
    assert broker.logs.logs == {}
    monkeypatch.undo()
    assert await codes(ask, broker, wish("t", 5)) == {"t": NONE}
