"""The followers of partitions: what a test does to a log, it does to those of all replicas."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import TYPE_CHECKING, TypeAlias

from kmini.broker.broker import BrokerServer
from kmini.broker.replication.fetcher_manager import FollowedPartition
from kmini.broker.replication.partition import Partition
from kmini.protocol.topics import TopicPartition
from kmini.testkit.waiting import NotInTime, until

if TYPE_CHECKING:
    from kmini.testkit.operations import Operations

Led: TypeAlias = tuple[BrokerServer, Partition]
"""A partition, and the broker that leads it."""


def followers_of(operations: Operations, led: Partition) -> list[tuple[BrokerServer, FollowedPartition]]:
    """The running brokers that follow a partition, each with its replica."""
    found = ((broker, broker.replica_manager.fetcher_manager.followed) for broker in operations.running)
    place = led.topic_partition
    return [(broker, followed[place]) for broker, followed in found if place in followed]


async def until_in_step(operations: Operations, partitions: Sequence[Led]) -> None:
    """Return once followers have the records, the high watermark and the log start offset of these leaders.

    It waits for the followers in sync that can fetch: none that is held, paused or cut off. Raises NotInTime.
    """
    awaited = [
        (led, follower)
        for leader, led in partitions
        if led.replicas and not leader.is_cut_off
        for broker, follower in followers_of(operations, led)
        if broker.node_id in led.state.isr and not broker.is_cut_off
        if not broker.replica_manager.fetcher_manager.is_held
    ]
    if not awaited:
        return
    ends = {led: led.log.log_end_offset for led, _ in awaited}

    def behind() -> list[TopicPartition]:
        return [
            led.topic_partition
            for led, follower in awaited
            if led.is_served and follower.is_served and not _is_in_step(led, follower, ends[led])
        ]

    def keys() -> Collection[TopicPartition]:
        return [led.topic_partition for led in ends]

    managers = [leader.replica_manager for leader, _ in partitions]
    for manager in managers:
        manager.tells_high_watermarks = True
    try:
        for leader, led in partitions:
            leader.purgatory.check(led.topic_partition)
        timeout_ms = partitions[0][0].config.current.request_timeout_ms
        if not await until(operations, lambda: not behind(), keys, timeout_ms):
            raise NotInTime(f"a follower of {behind()[0]} has not followed (after {timeout_ms} ms)")
    finally:
        for manager in managers:
            manager.tells_high_watermarks = False


def _is_in_step(led: Partition, follower: FollowedPartition, end: int) -> bool:
    own, leaders = follower.log, led.log
    return (
        own.log_end_offset >= end
        and own.high_watermark >= leaders.high_watermark
        and own.log_start_offset >= leaders.log_start_offset
    )
