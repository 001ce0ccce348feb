"""A request that announces much more than it sends, and a fetch of a large answer."""

from __future__ import annotations

import struct
import time

from kmini.protocol.framing import frame_of
from kmini.protocol.messages import CreateTopicsRequest, FetchRequest, ProduceRequest
from kmini.protocol.messages.headers import RequestHeader
from kmini.protocol.records.batch import build_batch
from kmini.protocol.records.record import Record
from kmini.testing import Wire
from support.fuzz.watched_broker import WatchedBroker

MIB = 1 << 20
ANNOUNCED = struct.pack(">ihhih", 100 * MIB, ProduceRequest.api_key, 9, 1, -1)
"""The size and the header of a Produce request of 100 MiB; nothing follows."""


def have_four_mebibytes(broker: WatchedBroker) -> bytes:
    """Fill a topic; returns the fetch that reads four MiB of it."""
    batch = build_batch([Record(0, int(time.time() * 1000), None, bytes(900_000))])
    with Wire(broker.bootstrap_servers) as wire:
        topic = CreateTopicsRequest.Topic(
            name="large", num_partitions=1, replication_factor=1, assignments=[], configs=[]
        )
        wire.ask(CreateTopicsRequest(topics=[topic], timeout_ms=10_000))
        for _ in range(6):
            data = [ProduceRequest.Partition(index=0, records=batch)]
            topics = [ProduceRequest.Topic(name="large", partition_data=data)]
            wire.ask(ProduceRequest(acks=1, timeout_ms=10_000, topic_data=topics), 9)
    wanted = FetchRequest.Partition(partition=0, fetch_offset=0, partition_max_bytes=4 * MIB)
    fetch = FetchRequest(
        max_wait_ms=0,
        min_bytes=1,
        max_bytes=4 * MIB,
        topics=[FetchRequest.Topic(topic="large", partitions=[wanted])],
    )
    header = RequestHeader(fetch.api_key, 12, 1, None).encode(fetch.header_version(12))
    return b"".join(bytes(part) for part in frame_of(header, fetch.encode(12)))
