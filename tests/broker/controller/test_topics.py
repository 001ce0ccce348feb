"""Topics between database and disk: how they are made and deleted while the broker runs."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest

from kmini.broker.broker import BrokerServer
from kmini.broker.controller import topic_plans, topics
from kmini.protocol.errors import (
    TopicAlreadyExists,
    UnknownTopicOrPartition,
)

StartBroker = Callable[..., Awaitable[BrokerServer]]


@pytest.fixture
def log_directory(tmp_path: Path) -> Path:
    return tmp_path / "broker-1"


# --- making and removing


async def test_other_requests_are_served_while_many_partitions_are_made(start_broker: StartBroker) -> None:
    broker = await start_broker()
    planned = topic_plans.plan(broker, "t", partitions=100)
    creation = asyncio.ensure_future(topics.create_all(broker, [planned]))
    turns = 0
    while not creation.done():
        await asyncio.sleep(0)
        turns += 1
        assert turns < 10_000
    assert turns > 10
    assert len(broker.replica_manager.partitions) == 100


async def test_a_topic_deleted_while_it_is_made_is_gone_at_the_end(
    start_broker: StartBroker, log_directory: Path
) -> None:
    broker = await start_broker()
    creation = asyncio.ensure_future(topics.create_all(broker, [topic_plans.plan(broker, "t", partitions=50)]))
    for _ in range(3):
        await asyncio.sleep(0)
    topics.delete(broker, "t")
    await creation
    assert broker.replica_manager.partitions == {}
    assert broker.logs.logs == {}


async def test_of_two_plans_for_one_name_the_second_is_left_out(start_broker: StartBroker) -> None:
    broker = await start_broker()
    first, second = topic_plans.plan(broker, "t"), topic_plans.plan(broker, "t", partitions=2)
    assert await topics.create_all(broker, [first]) == []
    assert await topics.create_all(broker, [second]) == [second]
    assert broker.controller.topics == {"t": first}


async def test_a_name_is_not_free_before_its_folders_are_put_away(start_broker: StartBroker) -> None:
    broker = await start_broker()
    topics.create(broker, "t", partitions=50)
    deletion = asyncio.ensure_future(topics.delete_all(broker, [broker.controller.topics["t"]]))
    await asyncio.sleep(0)
    with pytest.raises(TopicAlreadyExists):
        topic_plans.plan(broker, "t")
    await deletion
    assert topics.create(broker, "t").name == "t"


async def test_a_topic_that_is_not_there_cannot_be_deleted(start_broker: StartBroker) -> None:
    broker = await start_broker()
    with pytest.raises(UnknownTopicOrPartition):
        topics.delete(broker, "t")
