"""Brokers on a clock that can be moved, to show settings of topics and brokers at work."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from kmini.broker.broker import BrokerServer
from kmini.broker.clock import MovableClock
from kmini.broker.controller.config_changes import Alteration, Change, alter
from kmini.broker.local_cluster import LocalCluster
from kmini.broker.replication.partition import Partition
from kmini.protocol.errors import (
    KafkaError,
)
from kmini.protocol.messages.describe_configs import BROKER, TOPIC
from kmini.protocol.messages.incremental_alter_configs import SET
from kmini.protocol.records.batch import build_batch
from kmini.protocol.records.record import Record
from kmini.protocol.topics import TopicPartition
from kmini.storage.log import PartitionLog
from kmini.storage.log_config import LogConfig
from kmini.storage.validation import validate

BEYOND_ITS_TABLE = """
    auto.create.topics.enable true       default.replication.factor 1          delete.topic.enable true
    fetch.max.bytes 57671680             log.initial.task.delay.ms 30000       log.retention.check.interval.ms 300000
    num.partitions 1                     num.recovery.threads.per.data.dir 2   replica.fetch.backoff.ms 1000
    replica.fetch.max.bytes 1048576      replica.fetch.min.bytes 1             replica.fetch.response.max.bytes 10485760
    replica.fetch.wait.max.ms 500        replica.lag.time.max.ms 30000         request.timeout.ms 30000
    auto.leader.rebalance.enable true    broker.session.timeout.ms 9000
    leader.imbalance.check.interval.seconds 300
    fetch.purgatory.purge.interval.requests 1000
    producer.purgatory.purge.interval.requests 1000
    delete.records.purgatory.purge.interval.requests 1
"""


AMONG_SEVERAL = [
    "auto.leader.rebalance.enable",
    "broker.session.timeout.ms",
    "leader.imbalance.check.interval.seconds",
    "replica.fetch.backoff.ms",
    "replica.fetch.max.bytes",
    "replica.fetch.min.bytes",
    "replica.fetch.wait.max.ms",
    "replica.lag.time.max.ms",
    "replica.fetch.response.max.bytes",
    "request.timeout.ms",
]
"""Settings about brokers among each other. replica.selector.class is in broker/replication/test_follower_reads.py."""


Start = Callable[..., Awaitable[BrokerServer]]


Ask = Callable[..., Awaitable[Any]]


StartCluster = Callable[..., Awaitable["Three"]]


class Bench:
    """A broker with one topic, on a clock that can be moved, and a way to change a setting of the topic's."""

    def __init__(self, broker: BrokerServer, number: int = 0, *, is_default: bool = False) -> None:
        assert isinstance(broker.clock, MovableClock)
        self.broker = broker
        self.clock = broker.clock
        self.is_default = is_default
        self.partition: Partition = broker.replica_manager.leader_of(TopicPartition("t", number))
        self.log: PartitionLog = self.partition.log

    async def set(self, key: str, value: object) -> None:
        if self.is_default:
            alteration = Alteration(BROKER, "", [Change(LogConfig.KEYS[key].broker_keys[0], SET, str(value))])
        else:
            alteration = Alteration(TOPIC, "t", [Change(key, SET, str(value))])
        controller = self.broker.controller
        assert await alter(self.broker, controller, [alteration], replaces=False, validate_only=False) == [None]

    def append(
        self, *, key: bytes | None = b"key", value: bytes | None = b"value", timestamp: int | None = None
    ) -> bytes:
        """Append a record as a producer would, and return the batch as it was stored."""
        now_ms = self.clock.now_ms()
        batch = build_batch([Record(0, now_ms if timestamp is None else timestamp, key, value)])
        validated = validate(memoryview(batch), self.log.config, now_ms)
        self.partition.append(validated, now_ms)
        return bytes(validated.records)

    def refusal(self, **record: object) -> type[KafkaError]:
        with pytest.raises(KafkaError) as raised:
            self.append(**record)  # type: ignore[arg-type]
        return type(raised.value)

    @property
    def segments(self) -> int:
        return len(self.log.segments)


T0 = TopicPartition("t", 0)


class Three:
    """Three brokers on a clock that is moved, and the topic "t" with a replica on each."""

    def __init__(self, cluster: LocalCluster) -> None:
        assert isinstance(cluster.clock, MovableClock)
        self.cluster = cluster
        self.clock = cluster.clock

    @property
    def leader(self) -> int:
        return self.cluster.state(T0).leader

    @property
    def followers(self) -> list[BrokerServer]:
        return [broker for node_id, broker in self.cluster.brokers.items() if node_id != self.leader]

    async def append(self, value: bytes = b"value", number: int = 0) -> None:
        """Append at the leader, as acks=1 does."""
        leader = self.cluster.brokers[self.cluster.state(TopicPartition("t", number)).leader]
        Bench(leader, number).append(value=value)

    def end(self, broker: BrokerServer) -> int:
        return broker.logs.logs[T0].log_end_offset

    def fetcher(self, broker: BrokerServer) -> Any:
        """How a follower follows the leader."""
        return broker.replica_manager.fetcher_manager._fetchers[self.leader]
