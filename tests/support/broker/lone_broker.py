"""One broker that shares its partitions with a second one that never fetches: what its leader does is seen alone."""

from __future__ import annotations

from kmini.broker.broker import BrokerServer
from kmini.broker.clock import MovableClock
from kmini.broker.controller.topology import BrokerRegistration
from kmini.broker.replication.partition import Partition
from kmini.broker.settings.broker_config import BrokerConfig
from kmini.protocol.records.batch import build_batch
from kmini.protocol.records.record import Record
from kmini.protocol.topics import TopicPartition
from kmini.storage.validation import ValidatedRecords

T0 = TopicPartition("t", 0)
OTHER = 2
"""The node id of the broker that is live and never fetches."""


async def start_alone(directory: str, **settings: object) -> BrokerServer:
    """Broker 1 on a clock that can be moved; settings are written with underscores for dots."""
    properties = {name.replace("_", "."): str(value) for name, value in settings.items()}
    config = BrokerConfig.parse({"listeners": "PLAINTEXT://127.0.0.1:0", **properties})
    broker = await BrokerServer.start(config, directory, clock=MovableClock())
    broker.controller.register(BrokerRegistration(OTHER))
    return broker


def shared_partition(broker: BrokerServer, **configs: str) -> Partition:
    """Partition 0 of the topic t, led by broker 1, with both brokers in sync."""
    settings = {name.replace("_", "."): value for name, value in configs.items()}
    topic = broker.controller.new_topic("t", [(1, OTHER)], settings)
    broker.controller.create_topics([topic])
    broker.replica_manager.partition_changed(topic, 0)
    return broker.replica_manager.partitions[T0]


def append(broker: BrokerServer, partition: Partition, count: int = 1) -> None:
    """Append records, each in a batch of its own."""
    for _ in range(count):
        now_ms = broker.clock.now_ms()
        partition.append(ValidatedRecords.of(build_batch([Record(0, now_ms, None, b"value")])), now_ms)
