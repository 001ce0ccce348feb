"""Transactions beside Apache Kafka; prints one line of JSON for each part that is asked for.

- `latency`: an empty commit, and a transaction of 100 records over 3 partitions with offsets; medians in microseconds.
  An empty commit is AddPartitionsToTxn and EndTxn as single requests, because librdkafka keeps a transaction without
  records to itself.
- `versions`: a transaction of one record by the second version of transactions (KIP-890: Produce, EndTxn) and by the
  first (AddPartitionsToTxn, Produce, EndTxn), in turns, as single requests; medians in microseconds, and the median of
  the rounds' ratios.
- `many`: 10,000 of these from one producer; seconds.
- `scan`: 1,000,000 records with a tenth aborted, read at read_committed and at read_uncommitted: the best seconds of
  each and their ratio, and the ratio of each pair; by librdkafka's consumer, and by plain Fetch requests of 1 MiB,
  whose answers are hardly looked at (the server's part of it).

The peers take turns in rounds, of which the first is not counted; each transaction begins when the one before was
committed.
"""

from __future__ import annotations

import argparse
import json
import statistics
import struct
import time
from collections.abc import Callable
from typing import Any

from peers import available, running
from raw_client import Client, framed
from transaction_versions import OneRecord

from kmini.protocol.messages import (
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnResponse,
    CreateTopicsRequest,
    EndTxnRequest,
    EndTxnResponse,
    FetchRequest,
    FetchResponse,
    FindCoordinatorRequest,
    InitProducerIdRequest,
    InitProducerIdResponse,
)
from kmini.protocol.messages.add_partitions_to_txn import TxnTopic
from kmini.protocol.records.batch import end_offset_of

TOPIC, SCANNED = "orders", "scanned"
CONCURRENT_TRANSACTIONS = 51
RECORDS, PARTITIONS = 100, 3
TIMEOUT_S = 30
TURNS = 20
"""How often the peers change places in `many`."""
READ_UNCOMMITTED, READ_COMMITTED = range(2)
LEVELS = {READ_UNCOMMITTED: "read_uncommitted", READ_COMMITTED: "read_committed"}
FETCH_VERSION = 11
"""The last one without topic ids whose answers have a header of the old kind."""


class Peer:
    """A server, a connection to it, and a transactional producer of librdkafka."""

    def __init__(self, server: Any) -> None:
        from confluent_kafka import Consumer, Producer, TopicPartition

        self.client = Client(server)
        """A connection for single requests."""
        for name, partitions in ((TOPIC, PARTITIONS), (SCANNED, 1)):
            topic = CreateTopicsRequest.Topic(name=name, num_partitions=partitions, replication_factor=1)
            self.client.ask(framed(CreateTopicsRequest(topics=[topic], timeout_ms=30_000), 4))
        for key_type in (0, 1):
            self.client.ask(framed(FindCoordinatorRequest(key="bench", key_type=key_type), 1))
        self._identity = self._init()
        self._servers = server.bootstrap_servers
        self._producer = Producer({"bootstrap.servers": self._servers, "transactional.id": "full", "linger.ms": 0})
        self._producer.init_transactions(TIMEOUT_S)
        self._group = Consumer({"bootstrap.servers": self._servers, "group.id": "bench"})
        self._position = [TopicPartition(TOPIC, number, 1) for number in range(PARTITIONS)]

    def _init(self) -> dict[str, Any]:
        while True:
            request = InitProducerIdRequest(transactional_id="bench", transaction_timeout_ms=60_000)
            answer = InitProducerIdResponse.decode(self.client.ask(framed(request, 1))[4:], 1)
            if not answer.error_code:
                return {"producer_id": answer.producer_id, "producer_epoch": answer.producer_epoch}
            time.sleep(0.05)

    def empty(self) -> None:
        """Begin a transaction without records, and commit it."""
        add = AddPartitionsToTxnRequest(
            v3_and_below_transactional_id="bench",
            v3_and_below_producer_id=self._identity["producer_id"],
            v3_and_below_producer_epoch=self._identity["producer_epoch"],
            v3_and_below_topics=[TxnTopic(name=TOPIC, partitions=[0])],
        )
        while True:
            answer = AddPartitionsToTxnResponse.decode(self.client.ask(framed(add, 2))[4:], 2)
            code = answer.results_by_topic_v3_and_below[0].results_by_partition[0].partition_error_code
            if code != CONCURRENT_TRANSACTIONS:  # the last one is still being ended
                break
        end = EndTxnRequest(transactional_id="bench", committed=True, **self._identity)
        answers = (code, EndTxnResponse.decode(self.client.ask(framed(end, 2))[4:], 2).error_code)
        assert answers == (0, 0), answers

    def full(self) -> None:
        """100 records over 3 partitions, and offsets."""
        self._producer.begin_transaction()
        for number in range(RECORDS):
            self._producer.produce(TOPIC, b"x" * 100, partition=number % PARTITIONS)
        self._producer.send_offsets_to_transaction(self._position, self._group.consumer_group_metadata(), TIMEOUT_S)
        self._producer.commit_transaction(TIMEOUT_S)

    def fill(self, records: int) -> None:
        """Write the log to be scanned: transactions of 100 records, every tenth of them aborted."""
        for number in range(records // RECORDS):
            self._producer.begin_transaction()
            for _ in range(RECORDS):
                self._producer.produce(SCANNED, b"x" * 100, partition=0)
            if number % 10 == 5:
                self._producer.flush(TIMEOUT_S)
                self._producer.abort_transaction(TIMEOUT_S)
            else:
                self._producer.commit_transaction(TIMEOUT_S)

    def consume(self, level: int) -> int:
        """Read it all with librdkafka; return the number of records."""
        from confluent_kafka import Consumer, TopicPartition

        consumer = Consumer(
            {
                "bootstrap.servers": self._servers,
                "group.id": "scan",
                "isolation.level": LEVELS[level],
                "enable.partition.eof": True,
                "queued.min.messages": 1_000_000,
                "fetch.queue.backoff.ms": 2,
                "fetch.wait.max.ms": 10,
            }
        )
        consumer.assign([TopicPartition(SCANNED, 0, 0)])
        count = 0
        while True:
            for message in consumer.consume(10_000, 1):
                if message.error() is not None:  # the end of the partition
                    consumer.close()
                    return count
                count += 1

    def fetch(self, level: int) -> int:
        """Read it all with single requests; return where it ended."""
        offset = 0
        while True:
            wanted = FetchRequest.Partition(partition=0, fetch_offset=offset, partition_max_bytes=1 << 20)
            topics = [FetchRequest.Topic(topic=SCANNED, partitions=[wanted])]
            request = FetchRequest(max_wait_ms=0, min_bytes=1, isolation_level=level, topics=topics)
            answer = FetchResponse.decode(self.client.ask(framed(request, FETCH_VERSION))[4:], FETCH_VERSION)
            (partition,) = answer.responses[0].partitions
            assert partition.error_code == 0, partition.error_code
            if not partition.records:
                return offset
            offset = behind(partition.records)


def behind(records: Any) -> int:
    """The offset behind the last whole batch."""
    position, last = 0, 0
    while len(records) - position >= 12:
        (length,) = struct.unpack_from(">i", records, position + 8)
        if position + 12 + length > len(records):
            break
        position, last = position + 12 + length, position
    return end_offset_of(records[last:position])


def timed(action: Callable[[], object], count: int = 1) -> list[float]:
    """Seconds that each of so many calls takes."""
    taken = []
    for _ in range(count):
        began = time.perf_counter()
        action()
        taken.append(time.perf_counter() - began)
    return taken


def latency(peers: dict[str, Peer], options: argparse.Namespace) -> dict[str, Any]:
    taken: dict[str, dict[str, list[float]]] = {name: {"empty": [], "full": []} for name in peers}
    for number in range(options.rounds + 1):
        for name, peer in peers.items():
            for kind, action in (("empty", peer.empty), ("full", peer.full)):
                times = timed(action, options.count)
                if number:  # the first round lets Java compile
                    taken[name][kind] += times
    return {
        name: {kind: round(statistics.median(times) * 1e6) for kind, times in kinds.items()}
        for name, kinds in taken.items()
    }


def versions(peers: dict[str, Peer], options: argparse.Namespace) -> dict[str, Any]:
    found = {}
    for name, peer in peers.items():
        producers = {
            version: OneRecord(peer.client, f"version {version}", TOPIC, raises_epoch=version == 2)
            for version in (1, 2)
        }
        rounds = [
            {version: timed(producer.commit_one, options.count) for version, producer in producers.items()}
            for _ in range(options.rounds + 1)
        ][1:]
        medians = {
            f"version_{version}": round(statistics.median([took for one in rounds for took in one[version]]) * 1e6)
            for version in producers
        }
        ratios = [statistics.median(one[2]) / statistics.median(one[1]) for one in rounds]
        found[name] = {**medians, "ratio": round(statistics.median(ratios), 3)}
    return found


def many(peers: dict[str, Peer], options: argparse.Namespace) -> dict[str, Any]:
    taken = dict.fromkeys(peers, 0.0)
    for turn in range(TURNS + 1):
        for name, peer in peers.items():
            seconds = sum(timed(peer.full, options.transactions // TURNS))
            taken[name] += seconds if turn else 0
    return {name: round(seconds, 1) for name, seconds in taken.items()}


def scan(peers: dict[str, Peer], options: argparse.Namespace) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for peer in peers.values():
        peer.fill(options.records)
    for name, peer in peers.items():
        found[name] = {}
        for how, action, expected in (
            ("consumer", peer.consume, (options.records, options.records * 9 // 10)),
            ("requests", peer.fetch, (options.records + options.records // RECORDS,) * 2),
        ):
            pairs = [[in_time(action, level, expected[level]) for level in LEVELS] for _ in range(options.rounds + 1)]
            best = [min(times) for times in zip(*pairs[1:], strict=True)]
            found[name][how] = {level: round(seconds, 3) for level, seconds in zip(LEVELS.values(), best, strict=True)}
            found[name][how]["ratio"] = round(best[READ_COMMITTED] / best[READ_UNCOMMITTED], 3)
            found[name][how]["ratios"] = sorted(round(after / before, 3) for before, after in pairs[1:])
    return found


def in_time(action: Callable[[int], int], level: int, expected: int) -> float:
    """Seconds to read at an isolation level; asserts the expected number of records."""
    began = time.perf_counter()
    got = action(level)
    taken = time.perf_counter() - began
    assert got == expected, (got, expected)
    return taken


PARTS: dict[str, Callable[[dict[str, Peer], argparse.Namespace], dict[str, Any]]] = {
    "latency": latency,
    "versions": versions,
    "many": many,
    "scan": scan,
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("parts", nargs="*", metavar="part", help=f"of {', '.join(PARTS)}; all of them without")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--count", type=int, default=300, help="transactions of each kind a round, for latency")
    parser.add_argument("--transactions", type=int, default=10_000, help="for many")
    parser.add_argument("--records", type=int, default=1_000_000, help="for scan")
    options = parser.parse_args()
    if unknown := {*options.parts} - {*PARTS}:
        parser.error(f"there is no part {', '.join(sorted(unknown))}")
    with running(available(["kmini", "kafka"])) as servers:
        peers = {name: Peer(server) for name, server in servers.items()}
        for part in options.parts or PARTS:
            print(json.dumps({part: PARTS[part](peers, options)}), flush=True)


if __name__ == "__main__":
    main()
