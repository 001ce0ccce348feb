"""CreatePartitions: topics that grow, at once and for good, and those that cannot."""

from __future__ import annotations

import asyncio
import errno
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

from kmini.broker.broker import BrokerServer
from kmini.broker.controller import topic_plans, topics
from kmini.broker.controller.config_changes import set_topic_configs
from kmini.protocol.errors import (
    NONE,
    InvalidPartitions,
    InvalidReplicaAssignment,
    InvalidRequest,
    KafkaError,
    KafkaStorageError,
    PolicyViolation,
    UnknownTopicOrPartition,
)
from kmini.protocol.messages.create_partitions import CreatePartitionsRequest
from kmini.protocol.messages.metadata import MetadataRequest
from kmini.protocol.topics import TopicPartition

EXAMPLE = CreatePartitionsRequest(
    timeout_ms=1000,
    validate_only=True,
    topics=[CreatePartitionsRequest.Topic(name="orders", count=2, assignments=None)],
)

Ask = Callable[..., Awaitable[Any]]
StartBroker = Callable[..., Awaitable[BrokerServer]]


def wish(name: str, count: int, assignment: list[list[int]] | None = None) -> CreatePartitionsRequest.Topic:
    assigned = (
        None if assignment is None else [CreatePartitionsRequest.Assignment(broker_ids=ids) for ids in assignment]
    )
    return CreatePartitionsRequest.Topic(name=name, count=count, assignments=assigned)


def grow(*wishes: CreatePartitionsRequest.Topic, validate_only: bool = False) -> CreatePartitionsRequest:
    return CreatePartitionsRequest(topics=list(wishes), timeout_ms=5_000, validate_only=validate_only)


async def outcomes(
    ask: Ask, broker: BrokerServer, request: CreatePartitionsRequest, version: int = 3
) -> dict[str, int]:
    results = (await ask(broker, request, version)).results
    for result in results:
        assert bool(result.error_message) == (result.error_code != NONE), result
    return {result.name: result.error_code for result in results}


def partition_count(broker: BrokerServer, name: str) -> int:
    topic = broker.controller.topic(name)
    assert topic is not None
    return len(topic.partitions)


async def half_grown(ask: Ask, broker: BrokerServer) -> asyncio.Future[dict[str, int]]:
    """Let topic t grow to 40 partitions; return when that has begun."""
    growing = asyncio.ensure_future(outcomes(ask, broker, grow(wish("t", 40))))
    for _ in range(100):
        if partition_count(broker, "t") > 1:
            break
        await asyncio.sleep(0)
    assert len(broker.replica_manager.partitions) < 40, "it is still being made"
    return growing


@pytest.mark.parametrize("version", range(4))
async def test_new_partitions_are_led_when_the_answer_comes(broker: BrokerServer, ask: Ask, version: int) -> None:
    made = topics.create(broker, "t", partitions=2, configs={"retention.ms": "7"})
    assert await outcomes(ask, broker, grow(wish("t", 4)), version) == {"t": NONE}
    for number in range(4):
        log = broker.replica_manager.leader_of(TopicPartition("t", number)).log
        assert (log.topic_id, log.config.retention_ms) == (made.id, 7)
    (told,) = (await ask(broker, MetadataRequest(topics=[MetadataRequest.Topic(name="t")]), 9)).topics
    assert [(state.partition_index, state.leader_id, state.error_code) for state in told.partitions] == [
        (number, 1, NONE) for number in range(4)
    ]


async def test_present_partitions_stay_what_they_are(broker: BrokerServer, ask: Ask) -> None:
    topics.create(broker, "t")
    before = broker.replica_manager.leader_of(TopicPartition("t", 0))
    await outcomes(ask, broker, grow(wish("t", 2)))
    assert broker.replica_manager.leader_of(TopicPartition("t", 0)) is before


async def test_the_new_number_survives_a_restart(start_broker: StartBroker, ask: Ask) -> None:
    broker = await start_broker()
    topics.create(broker, "t")
    await outcomes(ask, broker, grow(wish("t", 3)))
    await broker.stop()
    again = await start_broker()
    assert partition_count(again, "t") == 3
    assert again.replica_manager.leader_of(TopicPartition("t", 2))


async def test_an_assignment_is_kept(broker: BrokerServer, ask: Ask) -> None:
    topics.create(broker, "t")
    assert await outcomes(ask, broker, grow(wish("t", 3, [[1], [1]]))) == {"t": NONE}
    assert [state.replicas for state in broker.controller.topics["t"].partitions] == [(1,)] * 3


async def test_validate_only_makes_none_and_finds_the_same_errors(
    broker: BrokerServer, ask: Ask, tmp_path: Path
) -> None:
    topics.create(broker, "t")
    request = grow(wish("t", 3), wish("nope", 3), validate_only=True)
    assert await outcomes(ask, broker, request) == {"t": NONE, "nope": UnknownTopicOrPartition.code}
    assert partition_count(broker, "t") == 1
    assert not (tmp_path / "broker-1" / "t-1").exists()


@pytest.mark.parametrize(
    ("count", "assignment", "error"),
    [
        (2, None, InvalidPartitions),
        (1, None, InvalidPartitions),
        (0, None, InvalidPartitions),
        (-1, None, InvalidPartitions),
        (2, [[1]], InvalidPartitions),
        (3, [], InvalidReplicaAssignment),
        (3, [[1], [1]], InvalidReplicaAssignment),
        (5, [[1], [1]], InvalidReplicaAssignment),
        (3, [[]], InvalidReplicaAssignment),
        (3, [[9]], InvalidReplicaAssignment),
        (3, [[1, 1]], InvalidReplicaAssignment),
        (2**31 - 1, None, PolicyViolation),
        (topic_plans.MAX_NEW_PARTITIONS + 3, None, PolicyViolation),
    ],
)
async def test_a_number_or_assignment_that_cannot_be(
    broker: BrokerServer, ask: Ask, count: int, assignment: list[list[int]] | None, error: type[KafkaError]
) -> None:
    topics.create(broker, "t", partitions=2)
    assert await outcomes(ask, broker, grow(wish("t", count, assignment))) == {"t": error.code}
    assert partition_count(broker, "t") == 2


@pytest.mark.parametrize("name", ["nope", "b!", "", "__consumer_offsets"])
async def test_only_topics_that_are_there_grow(broker: BrokerServer, ask: Ask, name: str) -> None:
    assert await outcomes(ask, broker, grow(wish(name, 2))) == {name: UnknownTopicOrPartition.code}


async def test_a_topic_that_is_named_twice_does_not_grow_and_the_others_do(broker: BrokerServer, ask: Ask) -> None:
    topics.create(broker, "a")
    topics.create(broker, "b")
    request = grow(wish("a", 2), wish("a", 3), wish("b", 2))
    assert await outcomes(ask, broker, request) == {"a": InvalidRequest.code, "b": NONE}
    assert (partition_count(broker, "a"), partition_count(broker, "b")) == (1, 2)


async def test_what_one_request_may_make_is_counted_over_its_topics(broker: BrokerServer, ask: Ask) -> None:
    topics.create(broker, "a")
    topics.create(broker, "b")
    half = topic_plans.MAX_NEW_PARTITIONS // 2 + 2
    request = grow(wish("a", half), wish("b", half), validate_only=True)
    assert await outcomes(ask, broker, request) == {"a": NONE, "b": PolicyViolation.code}


async def test_where_the_disk_refuses_there_are_no_more_partitions_than_before(
    broker: BrokerServer, ask: Ask, monkeypatch: pytest.MonkeyPatch
) -> None:
    topics.create(broker, "t")
    make_directory = broker.logs.filesystem.make_directory

    def refuse_the_third(path: str) -> None:
        if path.endswith("t-2"):
            raise OSError(errno.ENOSPC, "No space left on device")
        make_directory(path)

    with monkeypatch.context() as patch:
        patch.setattr(broker.logs.filesystem, "make_directory", refuse_the_third)
        assert await outcomes(ask, broker, grow(wish("t", 4))) == {"t": KafkaStorageError.code}
    assert partition_count(broker, "t") == 1
    assert set(broker.replica_manager.partitions) == {TopicPartition("t", 0)}
    assert await outcomes(ask, broker, grow(wish("t", 4))) == {"t": NONE}


async def test_settings_changed_meanwhile_are_those_of_all_partitions_at_the_end(
    broker: BrokerServer, ask: Ask
) -> None:
    topics.create(broker, "t")
    growing = await half_grown(ask, broker)
    set_topic_configs(broker.controller, broker.controller.topics["t"], {"retention.ms": "9"})
    assert await growing == {"t": NONE}
    assert {partition.log.config.retention_ms for partition in broker.replica_manager.partitions.values()} == {9}


async def test_a_topic_deleted_while_it_grows_is_gone_with_all_its_partitions(broker: BrokerServer, ask: Ask) -> None:
    before = topics.create(broker, "t")
    growing = await half_grown(ask, broker)
    await topics.delete_all(broker, [before])
    await growing
    assert not broker.replica_manager.partitions
    assert not broker.logs.logs
    assert not broker.controller.is_leaving("t")
