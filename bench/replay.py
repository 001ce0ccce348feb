"""How long a failover holds other requests: a new coordinator reads a million committed offsets.

Two brokers in this process; another process asks the one that stays for ApiVersions and Heartbeat, one after the other,
and measures each answer. The coordinator of all groups is killed, the other one loads them. Prints one line of JSON:
the longest answer in ms before the failover, during it, and after it; how long loading took; and the most processor
time that one callback of the loop took during it, which a busy machine does not change. `--at-once` loads in one go, as
one long slice, to show the difference.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import multiprocessing
import multiprocessing.connection
import socket
import struct
import tempfile
import time

from raw_client import framed

from kmini.broker.controller import topics
from kmini.broker.coordinators import loader as loading
from kmini.broker.groups.committed_offsets import CommittedOffset
from kmini.broker.groups.group_records import encode_offset, offset_key, offset_key_prefix
from kmini.broker.local_cluster import LocalCluster
from kmini.broker.settings.broker_config import BrokerConfig
from kmini.protocol.messages import ApiVersionsRequest, HeartbeatRequest
from kmini.protocol.records.batch import build_batch
from kmini.protocol.records.record import Record
from kmini.protocol.topics import CONSUMER_OFFSETS, TopicPartition
from kmini.storage.producers.producer_state_manager import Origin
from kmini.storage.validation import ValidatedRecords

PARTITION = TopicPartition(CONSUMER_OFFSETS, 0)
OFFSETS_A_GROUP = 1_000


def ask(port: int, phases: multiprocessing.connection.Connection) -> None:
    """Ask without pause, until the phase "end" is sent; send the answer times in seconds of each phase back."""
    heartbeat = HeartbeatRequest(group_id="group-1", generation_id=1, member_id="m")
    frames = [framed(ApiVersionsRequest(), 0), framed(heartbeat, 3)]
    taken: dict[str, list[float]] = {}
    phase = "before"
    with socket.create_connection(("127.0.0.1", port)) as connection, connection.makefile("rb") as answers:
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        while phase != "end":
            for frame in frames:
                start = time.perf_counter()
                connection.sendall(frame)
                (size,) = struct.unpack(">i", answers.read(4))
                answers.read(size)
                taken.setdefault(phase, []).append(time.perf_counter() - start)
            if phases.poll():
                phase = phases.recv()
    phases.send(taken)


async def fill(cluster: LocalCluster, records: int, batch_size: int) -> None:
    """Append committed offsets, and wait for the follower."""
    broker = cluster.brokers[cluster.state(PARTITION).leader]
    partition = broker.replica_manager.partitions[PARTITION]
    now_ms = broker.clock.now_ms()
    for first in range(0, records, batch_size):
        batch = []
        for number in range(first, min(first + batch_size, records)):
            prefix = offset_key_prefix(f"group-{number // OFFSETS_A_GROUP}", "orders")
            value = encode_offset(CommittedOffset(number, 0, "", now_ms, None, bytes(range(16))))
            batch.append(Record(0, now_ms, offset_key(prefix, number % OFFSETS_A_GROUP), value))
        partition.append(ValidatedRecords.of(build_batch(batch)), now_ms, Origin.COORDINATOR)
        if first // batch_size % 64 == 0:
            await asyncio.sleep(0)
    while partition.log.high_watermark < partition.log.log_end_offset:  # noqa: ASYNC110
        await asyncio.sleep(0.05)


class LongestCallback:
    """Notes the processor time of the callbacks of the loop, in seconds, while it `counts`."""

    def __init__(self) -> None:
        self.counts = False
        self.longest_s = 0.0
        run = asyncio.Handle._run

        def timed(handle: asyncio.Handle) -> None:
            start = time.thread_time()
            run(handle)
            if self.counts:
                self.longest_s = max(self.longest_s, time.thread_time() - start)

        asyncio.Handle._run = timed  # type: ignore[method-assign]


def longest_ms(taken: dict[str, list[float]], phase: str) -> float:
    return round(max(taken[phase]) * 1000, 1)


async def measure(records: int, batch_size: int) -> dict[str, object]:
    settings = {
        "listeners": "PLAINTEXT://127.0.0.1:0",
        "offsets.topic.num.partitions": "1",
        "offsets.topic.replication.factor": "2",
        "auto.leader.rebalance.enable": "false",
    }
    configs = [BrokerConfig.parse({**settings, "node.id": str(one)}) for one in (1, 2)]
    with tempfile.TemporaryDirectory() as directory:
        cluster = LocalCluster(configs, directory, is_temporary=True)
        await cluster.start()
        topics.create_missing(cluster.brokers[1], CONSUMER_OFFSETS)
        await fill(cluster, records, batch_size)
        leader = cluster.state(PARTITION).leader
        (heir,) = {1, 2} - {leader}
        broker = cluster.brokers[heir]
        ours, theirs = multiprocessing.Pipe()
        asking = multiprocessing.get_context("spawn").Process(
            target=ask, args=(broker.server.listeners[0].port, theirs)
        )
        callbacks = LongestCallback()
        asking.start()
        await asyncio.sleep(3)
        ours.send("during")
        await asyncio.sleep(0.2)
        start = time.perf_counter()
        callbacks.counts = True
        await cluster.kill(leader)
        killed_s = time.perf_counter() - start
        await broker.coordination.loading.idle()
        loaded_s = time.perf_counter() - start
        ours.send("after")
        await asyncio.sleep(5)
        callbacks.counts = False
        ours.send("end")
        while not ours.poll():  # noqa: ASYNC110
            await asyncio.sleep(0.05)
        taken = ours.recv()
        asking.join()
        groups = broker.coordination.groups.groups
        assert sum(len(group.offsets) for group in groups.values()) == records
        await cluster.stop()
    during = sorted(taken["during"])
    return {
        "records": records,
        "records_a_batch": batch_size,
        "kill_s": round(killed_s, 2),
        "loaded_s": round(loaded_s, 2),
        "longest_before_ms": longest_ms(taken, "before"),
        "longest_during_ms": longest_ms(taken, "during"),
        "p50_during_ms": round(during[len(during) // 2] * 1000, 1),
        "p99_during_ms": round(during[len(during) * 99 // 100] * 1000, 1),
        "longest_callback_cpu_ms": round(callbacks.longest_s * 1000, 1),
        "longest_after_ms": longest_ms(taken, "after"),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--records", type=int, default=1_000_000)
    parser.add_argument("--batch", type=int, default=100, help="records that were committed together")
    parser.add_argument("--at-once", action="store_true", help="load in one slice")
    arguments = parser.parse_args()
    if arguments.at_once:
        loading.SLICE_S = 3_600.0
    print(json.dumps(asyncio.run(measure(arguments.records, arguments.batch))))


if __name__ == "__main__":
    main()
