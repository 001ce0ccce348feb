"""A replicated topic on three brokers, for tests of KIP-107: its deletions, fetches and replicas."""

from __future__ import annotations

import contextlib
import time
from pathlib import Path
from typing import Any

from kmini import Cluster
from kmini.broker.broker import BrokerServer
from kmini.broker.handlers.delete_records import DelayedDelete
from kmini.broker.replication.in_sync_replicas import Replica
from kmini.protocol.errors import NONE
from kmini.protocol.messages.delete_records import DeleteRecordsRequest, DeleteRecordsResponse
from kmini.protocol.messages.fetch import FetchRequest, FetchResponse
from kmini.protocol.messages.list_offsets import EARLIEST, ListOffsetsRequest
from kmini.protocol.messages.produce import ProduceRequest
from kmini.protocol.records.batch import build_batch
from kmini.protocol.records.batch_records import decode_all
from kmini.protocol.records.record import Record
from kmini.protocol.topics import TopicPartition
from kmini.storage.filesystem import OsFileSystem
from kmini.storage.offset_checkpoint_file import read_offsets
from kmini.testing import Wire
from support.until import until

ORDERS = TopicPartition("orders", 0)
LONG_MS = 600_000
"""Longer than any test runs, and than any test moves the clock."""


class Deletion:
    """A DeleteRecords request that was sent."""

    def __init__(self, replicas: Replicas, offsets: dict[TopicPartition, int], timeout_ms: int, broker: int) -> None:
        Topic = DeleteRecordsRequest.Topic
        topics = [
            Topic(name=name, partitions=[Topic.Partition(partition_index=partition, offset=offset)])
            for (name, partition), offset in offsets.items()
        ]
        self._replicas = replicas
        self._broker = broker
        self._wire = replicas.wire(broker)
        self._id = self._wire.send(DeleteRecordsRequest(topics=topics, timeout_ms=timeout_ms), 2)

    def outcomes(self) -> dict[TopicPartition, tuple[int, int]]:
        """Low watermark and error code of each partition, once they come."""
        response: Any = self._wire.receive(DeleteRecordsResponse, 2, self._id)
        return {
            TopicPartition(topic.name, partition.partition_index): (partition.low_watermark, partition.error_code)
            for topic in response.topics
            for partition in topic.partitions
        }

    def outcome(self) -> tuple[int, int]:
        """That of the only partition."""
        (outcome,) = self.outcomes().values()
        return outcome

    def await_waiting(self) -> None:
        """Return once it waits in the purgatory."""
        until(self.is_waiting)

    def is_waiting(self) -> bool:
        return self._replicas.waiting(self._broker, DelayedDelete) > 0


class Replicas:
    """A cluster with the topic `orders`: one partition on every broker, ten records, a segment for each."""

    def __init__(self, cluster: Cluster) -> None:
        self.cluster = cluster
        self._open = contextlib.ExitStack()
        cluster.create_topic("orders", replication_factor=3, config={"segment.bytes": 100})
        for number in range(10):
            assert self.produce(b"%d" % number) == number

    def close(self) -> None:
        self._open.close()

    # --- leader and followers

    @property
    def leader(self) -> int:
        return self.cluster.leader("orders")

    @property
    def followers(self) -> list[int]:
        return sorted({*self.cluster.brokers()} - {self.leader})

    def core(self, broker: int) -> BrokerServer:
        return self.cluster._operations.core.brokers[broker]

    def wire(self, broker: int) -> Wire:
        """A new connection to a broker, closed at the end."""
        return self._open.enter_context(Wire(self.cluster.address_of(broker)))

    def kill_and_restart(self, broker: int) -> None:
        self.cluster.kill(broker)
        self.cluster.restart(broker)
        self.await_replicas()

    def await_replicas(self) -> None:
        """Return when all are in sync and know that everything is committed."""
        until(lambda: self.cluster.isr("orders") == {1, 2, 3})
        until(lambda: all(one.high_watermark == one.log_end_offset for one in self.cluster.offsets("orders").values()))

    def leave_isr(self, broker: int) -> None:
        """Have a follower stand still, and lag for so long that it is not in sync any more."""
        self.cluster.hold(broker)
        end = self.produce(b"not there", acks=1) + 1
        others = [self.replica(other) for other in self.followers if other != broker]
        until(lambda: all(other.log_end_offset == end for other in others))  # else they lag, too, when time passes
        self.cluster.advance_clock("1m", liveness=True)
        assert broker not in self.cluster.isr("orders")

    # --- requests

    def produce(self, value: bytes, acks: int = -1) -> int:
        batch = bytes(build_batch([Record(0, time.time_ns() // 1_000_000, None, value)]))
        data = [ProduceRequest.Topic.Partition(index=0, records=batch)]
        request = ProduceRequest(
            acks=acks, timeout_ms=20_000, topic_data=[ProduceRequest.Topic(name="orders", partition_data=data)]
        )
        with Wire(self.cluster.address_of(self.leader)) as wire:
            (answer,) = wire.ask(request, 9).responses[0].partition_responses
        assert answer.error_code == NONE
        return int(answer.base_offset)

    def begin_deletion(self, offset: int, *, timeout_ms: int = LONG_MS, broker: int | None = None) -> Deletion:
        return Deletion(self, {ORDERS: offset}, timeout_ms, broker or self.leader)

    def delete(self, offset: int, *, timeout_ms: int = LONG_MS, broker: int | None = None) -> tuple[int, int]:
        return self.begin_deletion(offset, timeout_ms=timeout_ms, broker=broker).outcome()

    def begin_fetch(
        self, wire: Wire, offset: int, *, replica_id: int = -1, log_start_offset: int = -1, max_wait_ms: int = 0
    ) -> int:
        """As a consumer, or as this follower; returns the correlation id."""
        Topic = FetchRequest.Topic
        asked = Topic.Partition(
            partition=0, fetch_offset=offset, partition_max_bytes=1 << 20, log_start_offset=log_start_offset
        )
        request = FetchRequest(
            replica_id=replica_id,
            max_wait_ms=max_wait_ms,
            min_bytes=1,
            topics=[Topic(topic="orders", partitions=[asked])],
        )
        return wire.send(request, 12)

    def fetch(self, offset: int, *, replica_id: int = -1, log_start_offset: int = -1) -> Any:
        wire = self.wire(self.leader)
        sent = self.begin_fetch(wire, offset, replica_id=replica_id, log_start_offset=log_start_offset)
        return self.fetched(wire, sent)

    def read_all(self) -> list[int]:
        """The offsets that a consumer gets from the earliest one to the end, segment by segment."""
        offsets: list[int] = []
        position = self.earliest()
        while position < self.cluster.offsets("orders")[self.leader].high_watermark:
            offsets += [record.offset for record in decode_all(self.fetch(position).records)]
            position = offsets[-1] + 1
        return offsets

    @staticmethod
    def fetched(wire: Wire, sent: int) -> Any:
        response: Any = wire.receive(FetchResponse, 12, sent)
        return response.responses[0].partitions[0]

    def earliest(self, *, replica_id: int = -1) -> int:
        Topic = ListOffsetsRequest.Topic
        asked = Topic.Partition(partition_index=0, timestamp=EARLIEST)
        request = ListOffsetsRequest(replica_id=replica_id, topics=[Topic(name="orders", partitions=[asked])])
        return int(self.wire(self.leader).ask(request).topics[0].partitions[0].offset)

    # --- what there is

    def starts(self) -> dict[int, int]:
        """The log start offset of each replica."""
        return {broker: offsets.log_start_offset for broker, offsets in self.cluster.offsets("orders").items()}

    def reported(self, follower: int) -> int:
        """The log start offset that its leader knows it to have."""
        return self.replica(follower).log_start_offset

    def replica(self, follower: int) -> Replica:
        """A follower, as its leader sees it."""
        replica = self.core(self.leader).replica_manager.partitions[ORDERS].replicas.get(follower)
        assert replica is not None
        return replica

    def log_dir(self, broker: int) -> Path:
        assert self.cluster.data_dir is not None
        return Path(self.cluster.data_dir) / f"broker-{broker}"

    def segments(self, broker: int) -> list[int]:
        return sorted(int(path.stem) for path in (self.log_dir(broker) / "orders-0").glob("*.log"))

    def checkpoint(self, broker: int) -> int | None:
        path = str(self.log_dir(broker) / "log-begin-offset-checkpoint")
        return read_offsets(OsFileSystem(), path).get(ORDERS)

    def waiting(self, broker: int, *kinds: type) -> int:
        """How many operations of these kinds wait at a broker for something to change about the partition."""

        async def count() -> int:
            watchers = self.core(broker).purgatory._watchers.get(ORDERS, {})
            return sum(isinstance(operation, kinds) for operation in watchers)

        return self.cluster._thread.run(count())
