"""A broker whose disk is in memory starts after every crash, and has the topics, settings and logs that it told of."""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from typing import Any

from kmini.broker.broker import BrokerServer
from kmini.broker.controller import topics
from kmini.broker.settings.broker_config import BrokerConfig
from kmini.protocol.errors import KafkaError
from kmini.protocol.topics import TopicPartition
from kmini.storage.filesystem.faults import Faults, PowerLoss
from kmini.storage.filesystem.memory_filesystem import MemoryFileSystem

Step = Callable[[BrokerServer], Any]
Told = dict[str, tuple[int, dict[str, str]]]
"""Number of partitions and settings of each topic, by name."""


def set_retention(broker: BrokerServer) -> None:
    broker.controller.set_topic_configs(broker.controller.topics["b"], {"retention.ms": "7"})


STEPS: list[tuple[Step, Told]] = [
    (lambda broker: topics.create(broker, "a", partitions=2), {"a": (2, {})}),
    (
        lambda broker: topics.create(broker, "b", configs={"retention.ms": "6"}),
        {"a": (2, {}), "b": (1, {"retention.ms": "6"})},
    ),
    (set_retention, {"a": (2, {}), "b": (1, {"retention.ms": "7"})}),
    (lambda broker: topics.delete(broker, "a"), {"b": (1, {"retention.ms": "7"})}),
]
"""What is asked, and what there is once it was answered."""


async def start(filesystem: MemoryFileSystem) -> BrokerServer:
    broker = await BrokerServer.start(
        BrokerConfig.parse({"listeners": "PLAINTEXT://127.0.0.1:0"}), "/data", filesystem=filesystem
    )
    return broker


def told_by(broker: BrokerServer) -> Told:
    return {
        name: (len(topic.partitions), dict(topic.configs))
        for name, topic in broker.controller.topics.items()
        if not name.startswith("__")
    }


async def crash_at(n: int, outage: Any) -> bool:
    """Ask for every step with the n-th operation going wrong, and start again; whether there was an n-th one."""
    filesystem = MemoryFileSystem()
    broker = await start(filesystem)
    faults = filesystem.faults = outage.arm(n)
    told: list[Told] = [{}]
    with contextlib.suppress(PowerLoss, KafkaError):
        for step, then in STEPS:
            told = [told[-1], then]
            step(broker)
            told = [then]
    left = outage.after(filesystem, n)
    filesystem.faults = Faults()
    await broker.kill()

    again = await start(left)
    try:
        found = told_by(again)
        assert found in told, f"after operation {n} ({faults.last}): {found} is none of {told}"
        for name, (partitions, _) in found.items():
            for number in range(partitions):
                assert TopicPartition(name, number) in again.replica_manager.partitions, f"{name}-{number} is not led"
        topics.create(again, "afterwards")
    finally:
        await again.stop()
    return faults.is_spent


async def test_a_broker_has_after_every_crash_the_topics_that_it_answered_for(outage: Any) -> None:
    n = 1
    while await crash_at(n, outage):
        n += 1
        assert n < 500
    assert n > len(STEPS)


async def test_a_deleted_topic_never_comes_back_with_its_folders() -> None:
    """The names of folders are not on the disk by themselves: a loss of power may bring them back."""
    for seed in range(30):
        filesystem = MemoryFileSystem()
        broker = await start(filesystem)
        topics.create(broker, "gone", partitions=2)
        filesystem.sync_directory(broker.logs.directory)  # as a flush of any log does
        topics.delete(broker, "gone")
        left = filesystem.crash(seed)
        await broker.kill()
        again = await start(left)
        try:
            assert told_by(again) == {}, f"seed {seed}"
            topics.create(again, "gone")
            assert len(again.replica_manager.partitions) == 1
        finally:
            await again.stop()


async def test_a_topic_that_could_not_be_made_never_comes_back_as_a_smaller_one() -> None:
    for n in range(1, 30):
        filesystem = MemoryFileSystem()
        broker = await start(filesystem)
        filesystem.faults = Faults(fail_at=n, fail_for_good=True, operations={"create", "remove_tree"})
        with contextlib.suppress(KafkaError):
            topics.create(broker, "half", partitions=3)
            filesystem.faults = Faults()
        is_made = "half" in told_by(broker)
        left = filesystem.kill()
        filesystem.faults = Faults()
        await broker.kill()
        again = await start(left)
        try:
            assert told_by(again) == ({"half": (3, {})} if is_made else {}), f"after call {n}"
        finally:
            await again.stop()
        if is_made:
            return
    raise AssertionError("the topic is never made")
