"""DeleteTopics: by name and by id, with every way to ask for it wrongly."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from kmini.broker.broker import BrokerServer
from kmini.broker.controller import topics
from kmini.protocol.errors import (
    NONE,
    InvalidRequest,
    KafkaError,
    NotLeaderOrFollower,
    TopicDeletionDisabled,
    UnknownTopicId,
    UnknownTopicOrPartition,
)
from kmini.protocol.messages.delete_topics import DeleteTopicsRequest
from kmini.protocol.topics import TopicPartition
from kmini.protocol.uuids import ZERO_UUID

EXAMPLE = DeleteTopicsRequest(
    topics=[DeleteTopicsRequest.Topic(name="orders")], topic_names=["orders"], timeout_ms=1000
)

Ask = Callable[..., Awaitable[Any]]
StartBroker = Callable[..., Awaitable[BrokerServer]]


def by_name(*names: str, version: int = 6) -> DeleteTopicsRequest:
    if version < 6:
        return DeleteTopicsRequest(topic_names=list(names))
    return DeleteTopicsRequest(topics=[DeleteTopicsRequest.Topic(name=name) for name in names])


def wish(name: str | None = None, topic_id: bytes = ZERO_UUID) -> DeleteTopicsRequest.Topic:
    return DeleteTopicsRequest.Topic(name=name, topic_id=topic_id)


async def answers(
    ask: Ask, broker: BrokerServer, *wishes: DeleteTopicsRequest.Topic
) -> list[tuple[str | None, bytes, int]]:
    answer = await ask(broker, DeleteTopicsRequest(topics=list(wishes)))
    return [(topic.name, topic.topic_id, topic.error_code) for topic in answer.responses]


@pytest.mark.parametrize("version", range(7))
async def test_when_the_answer_comes_the_topic_is_gone_and_its_name_free(
    broker: BrokerServer, ask: Ask, version: int
) -> None:
    made = topics.create(broker, "t", partitions=3)
    (answer,) = (await ask(broker, by_name("t", version=version), version)).responses
    assert (answer.name, answer.error_code, answer.error_message) == ("t", NONE, None)
    assert answer.topic_id == (made.id if version >= 6 else ZERO_UUID)
    assert broker.controller.topics == {}
    with pytest.raises(UnknownTopicOrPartition):
        broker.replica_manager.leader_of(TopicPartition("t", 0))
    assert topics.create(broker, "t", partitions=3).id != made.id


async def test_a_deleted_topic_stays_deleted_after_a_restart(start_broker: StartBroker, ask: Ask) -> None:
    broker = await start_broker()
    topics.create(broker, "t", partitions=2)
    await ask(broker, by_name("t"))
    await broker.stop()
    again = await start_broker()
    assert again.controller.topics == {}
    assert again.logs.logs == {}


async def test_a_topic_is_deleted_by_its_id(broker: BrokerServer, ask: Ask) -> None:
    made = topics.create(broker, "t")
    assert await answers(ask, broker, wish(topic_id=made.id)) == [("t", made.id, NONE)]


async def test_what_is_not_there_is_told_by_name_and_by_id(broker: BrokerServer, ask: Ask) -> None:
    assert await answers(ask, broker, wish("nope"), wish(topic_id=b"x" * 16)) == [
        ("nope", ZERO_UUID, UnknownTopicOrPartition.code),
        (None, b"x" * 16, UnknownTopicId.code),
    ]


async def test_wishes_that_mean_nothing_or_two_things_are_invalid(broker: BrokerServer, ask: Ask) -> None:
    made = topics.create(broker, "t")
    for wishes in (
        [wish()],
        [wish("t", made.id)],
        [wish("t"), wish("t")],
        [wish(topic_id=made.id), wish(topic_id=made.id)],
    ):
        (answer,) = (await ask(broker, DeleteTopicsRequest(topics=wishes))).responses
        assert answer.error_code == InvalidRequest.code
        assert answer.error_message
    assert set(broker.controller.topics) == {"t"}


async def test_a_topic_by_name_and_by_id_in_one_request_is_not_deleted_by_name(broker: BrokerServer, ask: Ask) -> None:
    made = topics.create(broker, "t")
    outcome = await answers(ask, broker, wish("t"), wish(topic_id=made.id))
    assert ("t", ZERO_UUID, InvalidRequest.code) in outcome


async def test_one_topic_that_fails_does_not_hinder_the_others(broker: BrokerServer, ask: Ask) -> None:
    topics.create(broker, "a")
    topics.create(broker, "b")
    answer = await ask(broker, by_name("a", "nope", "b"))
    assert [topic.error_code for topic in answer.responses] == [NONE, UnknownTopicOrPartition.code, NONE]


@pytest.mark.parametrize(
    ("version", "error"), [(1, InvalidRequest), (3, TopicDeletionDisabled), (6, TopicDeletionDisabled)]
)
async def test_deletion_can_be_disabled(
    start_broker: StartBroker, ask: Ask, version: int, error: type[KafkaError]
) -> None:
    broker = await start_broker(delete_topic_enable="false")
    topics.create(broker, "t")
    (answer,) = (await ask(broker, by_name("t", version=version), version)).responses
    assert answer.error_code == error.code
    assert set(broker.controller.topics) == {"t"}


async def test_while_folders_are_put_away_nothing_of_the_topic_is_served(
    broker: BrokerServer, ask: Ask, monkeypatch: pytest.MonkeyPatch
) -> None:
    topics.create(broker, "t", partitions=20)
    seen: list[type[KafkaError]] = []
    drop = broker.replica_manager.drop

    def look_and_drop(topic_partition: TopicPartition) -> None:
        for number in range(20):
            try:
                broker.replica_manager.leader_of(TopicPartition("t", number))
            except (UnknownTopicOrPartition, NotLeaderOrFollower) as error:
                seen.append(type(error))
        drop(topic_partition)

    monkeypatch.setattr(broker.replica_manager, "drop", look_and_drop)
    await ask(broker, by_name("t"))
    assert set(seen) == {UnknownTopicOrPartition}
