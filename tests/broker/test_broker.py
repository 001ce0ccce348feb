"""The life of one broker: what is there when its port is open, and what a stop, a kill and a failed start leave."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from kmini.broker.broker import BrokerServer
from kmini.broker.controller import topics
from kmini.broker.controller.controller import Controller, ControllerError
from kmini.broker.network.socket_server import PortTaken
from kmini.broker.settings.broker_config import BrokerConfig
from kmini.client import Client
from kmini.protocol.topics import TopicPartition
from kmini.storage.filenames import CLEAN_SHUTDOWN
from support.broker.clusters import broker_configs

T0 = TopicPartition("t", 0)


def config(**settings: object) -> BrokerConfig:
    return broker_configs(1, **settings)[0]


@pytest.mark.sockets
async def test_topics_that_clients_are_to_find_are_there_before_the_port_is_open(tmp_path: Path) -> None:
    listening_before: list[bool] = []

    def create(broker: BrokerServer) -> None:
        listening_before.append(bool(broker.server.listeners))
        topics.create(broker, "t")

    broker = await BrokerServer.start(config(), str(tmp_path), before_open=create)
    try:
        assert listening_before == [False]
        async with Client(broker.address) as client:
            assert [topic.name for topic in (await client.metadata()).topics] == ["t"]
    finally:
        await broker.stop()


@pytest.mark.parametrize("is_killed", [False, True])
async def test_only_a_stop_in_order_marks_the_log_directory_as_clean(tmp_path: Path, is_killed: bool) -> None:
    broker = await BrokerServer.start(config(), str(tmp_path))
    topics.create(broker, "t")
    mark = Path(broker.logs.directory) / CLEAN_SHUTDOWN
    assert not mark.exists()
    await (broker.kill() if is_killed else broker.stop())
    assert mark.exists() is not is_killed
    again = await BrokerServer.start(config(), str(tmp_path))
    try:
        assert not mark.exists()
        assert [*again.replica_manager.partitions] == [T0]
    finally:
        await again.stop()


async def test_a_stop_that_keeps_no_data_writes_nothing_more(tmp_path: Path) -> None:
    broker = await BrokerServer.start(config(), str(tmp_path))
    topics.create(broker, "t")
    before = contents(tmp_path)
    await broker.stop(keeps_data=False)
    assert contents(tmp_path) == before
    again = await BrokerServer.start(config(), str(tmp_path))
    try:
        assert [*again.replica_manager.partitions] == [T0]
    finally:
        await again.stop()
    assert contents(tmp_path) != before


def contents(directory: Path) -> dict[Path, bytes]:
    """Every file below a directory."""
    return {path: path.read_bytes() for path in directory.rglob("*") if path.is_file()}


async def test_a_new_directory_is_opened_at_once_and_one_with_logs_in_a_thread(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    threads: list[str] = []

    async def in_thread(function: Any, *arguments: object) -> Any:
        threads.append(getattr(function, "func", function).__name__)
        return function(*arguments)

    monkeypatch.setattr("kmini.broker.broker.in_thread", in_thread)
    monkeypatch.setattr("kmini.broker.startup.in_thread", in_thread)
    broker = await BrokerServer.start(config(), str(tmp_path))
    assert threads == []
    await broker.stop()
    assert threads == ["close"]
    again = await BrokerServer.start(config(), str(tmp_path))
    assert threads == ["close", "open_logs"]
    await again.stop()


async def test_a_start_that_cannot_listen_leaves_the_directory_to_the_next_one(tmp_path: Path) -> None:
    other = await asyncio.start_server(lambda *_: None, "127.0.0.1", 0)
    async with other:
        port = other.sockets[0].getsockname()[1]
        with pytest.raises(PortTaken, match=str(port)):
            await BrokerServer.start(config(listeners=f"PLAINTEXT://127.0.0.1:{port}"), str(tmp_path))
    broker = await BrokerServer.start(config(), str(tmp_path))
    await broker.stop()


async def test_two_brokers_do_not_share_a_directory(tmp_path: Path) -> None:
    broker = await BrokerServer.start(config(), str(tmp_path))
    try:
        with pytest.raises(ControllerError):
            await BrokerServer.start(config(), str(tmp_path))
        assert broker.server.listeners
    finally:
        await broker.stop()


async def test_a_broker_leaves_a_controller_that_others_share_open(tmp_path: Path) -> None:
    controller = Controller.open(str(tmp_path), node_ids=[1])
    try:
        controller.begin_leader_epochs(controller.node_ids)
        broker = await BrokerServer.start(config(), str(tmp_path), controller=controller)
        topics.create(broker, "t")
        controller.create_topics([controller.new_topic("later", [(1,)], {})])
        controller.fence(1)
        await broker.stop()
        assert [*controller.topics] == ["t", "later"]
    finally:
        controller.close()


@pytest.mark.sockets
async def test_an_end_leaves_no_task_behind(tmp_path: Path) -> None:
    before = asyncio.all_tasks()
    for end in (BrokerServer.stop, BrokerServer.kill):
        broker = await BrokerServer.start(config(), str(tmp_path))
        async with Client(broker.address) as client:
            await client.metadata()
        await end(broker)
        assert asyncio.all_tasks() == before
