"""Settings of one broker, besides the defaults of topics, do what they say or say why they do nothing."""

from __future__ import annotations

import re
import socket
from collections.abc import Awaitable, Callable
from itertools import chain
from pathlib import Path

import pytest

from kmini.broker.controller import topics
from kmini.broker.settings.broker_config import BROKER_KEYS, BrokerConfig
from kmini.broker.settings.group_config import GroupConfig
from kmini.broker.settings.group_settings import BOUNDS
from kmini.protocol.errors import (
    InvalidReplicationFactor,
    TopicDeletionDisabled,
)
from kmini.protocol.messages.delete_topics import DeleteTopicsRequest
from kmini.protocol.messages.fetch import FetchRequest
from kmini.protocol.messages.metadata import MetadataRequest
from kmini.storage.log_manager import LogManager
from support.broker.settings_at_work import AMONG_SEVERAL, BEYOND_ITS_TABLE, Ask, Bench, Start

ROOT = Path(__file__).resolve().parents[3]


BrokerClaim = Callable[[Start, Ask], Awaitable[None]]


BROKER_CLAIMS: dict[str, BrokerClaim] = {}
"""By broker key."""


def broker_claim(key: str) -> Callable[[BrokerClaim], BrokerClaim]:
    def bind(function: BrokerClaim) -> BrokerClaim:
        BROKER_CLAIMS[key] = function
        return function

    return bind


def test_names_and_defaults_of_brokers_are_kafkas() -> None:
    words = BEYOND_ITS_TABLE.split()
    assert {key: BROKER_KEYS[key].text(BROKER_KEYS[key].default) for key in words[::2]} == dict(
        zip(words[::2], words[1::2], strict=True)
    )


def test_every_setting_of_brokers_is_shown_at_work_or_says_why_it_is_not() -> None:
    keys = {*BEYOND_ITS_TABLE.split()[::2]} - {*AMONG_SEVERAL}
    idle = {key for key in keys if BROKER_KEYS[key].no_effect}
    assert BROKER_CLAIMS.keys() | idle == keys
    assert not BROKER_CLAIMS.keys() & idle


def test_no_setting_of_brokers_is_idle_without_saying_so() -> None:
    """Whatever has an effect is read somewhere outside of the table, unless there is but one value."""
    folders = [ROOT / "broker", ROOT / "testkit", ROOT / "cli"]
    files = [file for folder in folders for file in folder.rglob("*.py") if file != ROOT / "broker" / "config.py"]
    text = "\n".join(file.read_text(encoding="utf-8") for file in files)
    excepted = {"transaction.two.phase.commit.enable", "group.share.assignors"}
    excepted |= {"controller.listener.names", "listener.security.protocol.map", "log.dirs"}  # the table reads them
    excepted |= {name for name in BROKER_KEYS if name.startswith("ssl.")}  # `tls_settings` reads them by name
    excepted |= {*chain(BOUNDS, *BOUNDS.values())}  # so it does these
    excepted |= {
        name for line in GroupConfig.KEYS.values() for name in line.broker_keys
    }  # and the table of groups these
    idle = {
        line.name
        for line in BrokerConfig.KEYS.values()
        if not re.search(rf"\.{line.attribute}\b", text) and line.name not in excepted
    }
    assert idle <= {line.name for line in BrokerConfig.KEYS.values() if line.no_effect}


@pytest.mark.parametrize("key", sorted({*BEYOND_ITS_TABLE.split()[::2]} - {*AMONG_SEVERAL}))
async def test_it_is_in_force_when_the_broker_starts(start: Start, ask: Ask, key: str) -> None:
    if not BROKER_KEYS[key].no_effect:
        await BROKER_CLAIMS[key](start, ask)


@broker_claim("num.partitions")
async def topics_have_so_many_partitions(start: Start, ask: Ask) -> None:
    broker = await start(num_partitions=3)
    assert len(topics.create(broker, "t").partitions) == 3


@broker_claim("default.replication.factor")
async def topics_have_so_many_replicas(start: Start, ask: Ask) -> None:
    broker = await start(default_replication_factor=2)
    with pytest.raises(InvalidReplicationFactor):
        topics.create(broker, "t")


@broker_claim("auto.create.topics.enable")
async def asking_for_a_topic_makes_it(start: Start, ask: Ask) -> None:
    request = MetadataRequest(topics=[MetadataRequest.Topic(name="t")], allow_auto_topic_creation=True)
    for value in ("false", "true"):
        broker = await start(auto_create_topics_enable=value)
        await ask(broker, request, 9)
        assert (broker.controller.topic("t") is not None) == (value == "true")


@broker_claim("delete.topic.enable")
async def topics_can_be_deleted(start: Start, ask: Ask) -> None:
    broker = await start(delete_topic_enable="false")
    topics.create(broker, "t")
    (told,) = (await ask(broker, DeleteTopicsRequest(topic_names=["t"], timeout_ms=1_000), 5)).responses
    assert told.error_code == TopicDeletionDisabled.code


@broker_claim("fetch.max.bytes")
async def a_fetch_brings_so_much(start: Start, ask: Ask) -> None:
    Topic = FetchRequest.Topic
    broker = await start(fetch_max_bytes=1_024)
    topics.create(broker, "t", partitions=2)
    for number in range(2):
        bench = Bench(broker, number)
        bench.append(value=b"x" * 2_000)
    wanted = [Topic.Partition(partition=number, fetch_offset=0, partition_max_bytes=1 << 20) for number in range(2)]
    request = FetchRequest(max_wait_ms=0, min_bytes=0, max_bytes=1 << 20, topics=[Topic(topic="t", partitions=wanted)])
    (topic,) = (await ask(broker, request, 11)).responses
    assert sorted(bool(partition.records) for partition in topic.partitions) == [False, True]


@broker_claim("log.retention.check.interval.ms")
@broker_claim("log.initial.task.delay.ms")
async def retention_is_looked_at_so_often(start: Start, ask: Ask) -> None:
    broker = await start(log_initial_task_delay_ms=1_000, log_retention_check_interval_ms=60_000, log_retention_ms=0)
    topics.create(broker, "t")
    bench = Bench(broker)
    bench.append()
    await bench.clock.advance(1_100)
    assert bench.log.log_start_offset == 1
    bench.append()
    await bench.clock.advance(30_000)
    assert bench.log.log_start_offset == 1
    await bench.clock.advance(30_000)
    assert bench.log.log_start_offset == 2


@broker_claim("num.recovery.threads.per.data.dir")
async def so_many_threads_recover_logs(start: Start, ask: Ask) -> None:
    opened = []
    load = LogManager.load
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(LogManager, "load", lambda self, threads: (opened.append(threads), load(self, threads)))
        await start(num_recovery_threads_per_data_dir=5)
    assert opened == [5]


@pytest.mark.parametrize(("key", "option"), [("send", socket.SO_SNDBUF), ("receive", socket.SO_RCVBUF)])
async def test_connections_inherit_buffers_as_large_as_asked_for(start: Start, key: str, option: int) -> None:
    sizes = []
    for size in (20_000, 40_000):
        broker = await start(**{f"socket_{key}_buffer_bytes": size})
        (listening,) = broker.server._servers[0].sockets  # type: ignore[attr-defined]
        sizes.append(listening.getsockopt(socket.SOL_SOCKET, option))
    assert 20_000 <= sizes[0] < sizes[1]  # Linux tells the double
