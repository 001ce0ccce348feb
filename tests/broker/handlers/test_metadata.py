"""Metadata: topics by name and id, creation by asking, and the address to come back to."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from kmini.broker.broker import BrokerServer
from kmini.broker.controller import topics
from kmini.protocol.errors import (
    NONE,
    InvalidRequest,
    InvalidTopic,
    LeaderNotAvailable,
    UnknownTopicId,
    UnknownTopicOrPartition,
)
from kmini.protocol.messages.metadata import NOT_ASKED_FOR, MetadataRequest
from kmini.protocol.topics import TopicPartition
from kmini.protocol.uuids import ZERO_UUID

EXAMPLE = MetadataRequest(topics=[MetadataRequest.Topic(name="orders")], allow_auto_topic_creation=False)

Ask = Callable[..., Awaitable[Any]]
StartBroker = Callable[..., Awaitable[BrokerServer]]

VERSIONS = range(14)


def by_name(*names: str | None, create: bool = True, **fields: Any) -> MetadataRequest:
    wanted = [MetadataRequest.Topic(name=name) for name in names]
    return MetadataRequest(topics=wanted, allow_auto_topic_creation=create, **fields)


def by_id(*ids: bytes, create: bool = True) -> MetadataRequest:
    wanted = [MetadataRequest.Topic(name=None, topic_id=topic_id) for topic_id in ids]
    return MetadataRequest(topics=wanted, allow_auto_topic_creation=create)


def outcomes(answer: Any) -> dict[str | None, int]:
    return {topic.name: topic.error_code for topic in answer.topics}


@pytest.mark.parametrize("version", VERSIONS)
async def test_the_broker_is_told_at_the_address_the_client_arrived_at(
    broker: BrokerServer, ask: Ask, version: int
) -> None:
    answer = await ask(broker, by_name(), version)
    assert [(b.node_id, b.host, b.port) for b in answer.brokers] == [(1, "client-side.example", 19092)]
    assert answer.controller_id == (1 if version >= 1 else -1)
    assert answer.cluster_id == (broker.controller.cluster_id if version >= 2 else None)


async def test_the_rack_is_told_from_version_1_on(start_broker: StartBroker, ask: Ask) -> None:
    broker = await start_broker(broker_rack="attic")
    for version in VERSIONS:
        (told,) = (await ask(broker, by_name(), version)).brokers
        assert told.rack == ("attic" if version >= 1 else None)


@pytest.mark.parametrize("version", VERSIONS)
async def test_a_topic_is_described_with_every_partition(broker: BrokerServer, ask: Ask, version: int) -> None:
    made = topics.create(broker, "orders", partitions=3)
    (topic,) = (await ask(broker, by_name("orders"), version)).topics
    assert (topic.name, topic.error_code, topic.is_internal) == ("orders", NONE, False)
    assert topic.topic_id == (made.id if version >= 10 else ZERO_UUID)
    assert [(p.partition_index, p.error_code, p.leader_id) for p in topic.partitions] == [
        (0, NONE, 1),
        (1, NONE, 1),
        (2, NONE, 1),
    ]
    assert all((p.replica_nodes, p.isr_nodes, p.offline_replicas) == ([1], [1], []) for p in topic.partitions)
    assert {p.leader_epoch for p in topic.partitions} == {0 if version >= 7 else -1}


async def test_no_list_of_topics_means_all_and_an_empty_one_none(broker: BrokerServer, ask: Ask) -> None:
    topics.create(broker, "a")
    topics.create(broker, "b")
    for version in VERSIONS[1:]:
        assert set(outcomes(await ask(broker, MetadataRequest(topics=None), version))) == {"a", "b"}
        assert outcomes(await ask(broker, by_name(), version)) == {}


async def test_version_0_has_no_null_and_an_empty_list_means_all(broker: BrokerServer, ask: Ask) -> None:
    topics.create(broker, "a")
    assert set(outcomes(await ask(broker, by_name(), 0))) == {"a"}


@pytest.mark.parametrize("version", VERSIONS)
async def test_a_topic_created_by_asking_is_ready_in_the_same_answer(
    broker: BrokerServer, ask: Ask, version: int
) -> None:
    (topic,) = (await ask(broker, by_name("new"), version)).topics
    assert topic.error_code == NONE
    assert [(p.error_code, p.leader_id) for p in topic.partitions] == [(NONE, 1)]
    assert broker.replica_manager.leader_of(TopicPartition("new", 0)).log.log_end_offset == 0


async def test_a_topic_created_by_asking_has_num_partitions_partitions(start_broker: StartBroker, ask: Ask) -> None:
    broker = await start_broker(num_partitions=5)
    (topic,) = (await ask(broker, by_name("new"))).topics
    assert len(topic.partitions) == 5


async def test_a_client_may_forbid_creation(broker: BrokerServer, ask: Ask) -> None:
    for version in VERSIONS[4:]:
        assert outcomes(await ask(broker, by_name("no", create=False), version)) == {"no": UnknownTopicOrPartition.code}
    assert broker.controller.topic("no") is None


async def test_the_broker_may_forbid_creation(start_broker: StartBroker, ask: Ask) -> None:
    broker = await start_broker(auto_create_topics_enable="false")
    assert outcomes(await ask(broker, by_name("no"))) == {"no": UnknownTopicOrPartition.code}


@pytest.mark.parametrize("create", [True, False])
async def test_a_name_that_no_topic_can_have_is_an_invalid_topic(broker: BrokerServer, ask: Ask, create: bool) -> None:
    answer = await ask(broker, by_name("b!d", "", "..", create=create))
    assert outcomes(answer) == dict.fromkeys(["b!d", "", ".."], InvalidTopic.code)


async def test_what_cannot_be_created_stays_unknown_and_the_rest_is_made(start_broker: StartBroker, ask: Ask) -> None:
    broker = await start_broker()
    topics.create(broker, "a.b")
    assert outcomes(await ask(broker, by_name("a_b", "c"))) == {"a_b": UnknownTopicOrPartition.code, "c": NONE}


async def test_a_topic_that_the_defaults_make_impossible_stays_unknown(start_broker: StartBroker, ask: Ask) -> None:
    broker = await start_broker(default_replication_factor=3)
    assert outcomes(await ask(broker, by_name("a"))) == {"a": UnknownTopicOrPartition.code}


async def test_one_request_cannot_make_partitions_without_end(start_broker: StartBroker, ask: Ask) -> None:
    broker = await start_broker(num_partitions=10_001)
    assert outcomes(await ask(broker, by_name("a"))) == {"a": UnknownTopicOrPartition.code}


async def test_a_name_asked_for_twice_is_answered_once(broker: BrokerServer, ask: Ask) -> None:
    assert len((await ask(broker, by_name("a", "a"))).topics) == 1


@pytest.mark.parametrize("version", [12, 13])
async def test_topics_are_found_by_id_and_unknown_ids_are_named(broker: BrokerServer, ask: Ask, version: int) -> None:
    made = topics.create(broker, "a")
    answer = await ask(broker, by_id(made.id, b"x" * 16), version)
    assert [(topic.name, topic.topic_id, topic.error_code) for topic in answer.topics] == [
        ("a", made.id, NONE),
        (None, b"x" * 16, UnknownTopicId.code),
    ]


async def test_names_beside_ids_are_not_looked_at(broker: BrokerServer, ask: Ask) -> None:
    made = topics.create(broker, "a")
    wanted = [MetadataRequest.Topic(name="other"), MetadataRequest.Topic(name=None, topic_id=made.id)]
    request = MetadataRequest(topics=wanted)
    assert outcomes(await ask(broker, request)) == {"a": NONE}
    assert broker.controller.topic("other") is None


@pytest.mark.parametrize("version", [10, 11])
async def test_ids_and_null_names_are_invalid_before_version_12(broker: BrokerServer, ask: Ask, version: int) -> None:
    assert outcomes(await ask(broker, by_name(None), version)) == {"": InvalidRequest.code}
    assert outcomes(await ask(broker, by_id(b"x" * 16), version)) == {"": InvalidRequest.code}


async def test_neither_name_nor_id_is_invalid(broker: BrokerServer, ask: Ask) -> None:
    assert outcomes(await ask(broker, by_name(None))) == {"": InvalidRequest.code}


async def test_authorized_operations_are_told_when_asked_for(broker: BrokerServer, ask: Ask) -> None:
    topics.create(broker, "a")
    quiet = await ask(broker, by_name("a"), 9)
    assert quiet.cluster_authorized_operations == quiet.topics[0].topic_authorized_operations == NOT_ASKED_FOR
    request = by_name("a", include_cluster_authorized_operations=True, include_topic_authorized_operations=True)
    told = await ask(broker, request, 9)
    assert (told.cluster_authorized_operations, told.topics[0].topic_authorized_operations) == (8096, 3576)


async def test_internal_topics_are_called_so(broker: BrokerServer, ask: Ask) -> None:
    topics.create(broker, "__consumer_offsets")
    (topic,) = (await ask(broker, by_name("__consumer_offsets"))).topics
    assert topic.is_internal


async def test_an_internal_topic_that_is_asked_for_is_made_as_the_broker_makes_it(
    broker: BrokerServer, ask: Ask
) -> None:
    (topic,) = (await ask(broker, by_name("__consumer_offsets"))).topics
    assert (topic.error_code, topic.is_internal, len(topic.partitions)) == (NONE, True, 8)
    assert broker.controller.topics["__consumer_offsets"].configs["cleanup.policy"] == "compact"
    (topic,) = (await ask(broker, by_name("__transaction_state"))).topics
    assert (topic.error_code, topic.is_internal, len(topic.partitions)) == (NONE, True, 8)


async def test_leader_not_available_is_for_a_partition_without_leader(broker: BrokerServer, ask: Ask) -> None:
    made = topics.create(broker, "a")
    leaderless = made._replace(partitions=(made.partitions[0]._replace(leader=-1, replicas=(1, 9)),))
    broker.controller.topics["a"] = leaderless
    (topic,) = (await ask(broker, by_name("a"))).topics
    (partition,) = topic.partitions
    assert (partition.error_code, partition.leader_id) == (LeaderNotAvailable.code, -1)
    assert partition.offline_replicas == [9]
