"""Transactions with librdkafka: an empty one, and one of 100 records over 3 partitions with offsets.

Prints one line of JSON: for each peer the median in microseconds. The peers take turns in rounds; each transaction
begins when the one before was committed. An empty commit is AddPartitionsToTxn and EndTxn as single requests, because
librdkafka keeps a transaction without records to itself.
"""

from __future__ import annotations

import argparse
import json
import statistics
import time
from collections.abc import Callable
from typing import Any

from offsets import Client, framed
from peers import available, running

from kmini.protocol.messages import (
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnResponse,
    CreateTopicsRequest,
    EndTxnRequest,
    EndTxnResponse,
    FindCoordinatorRequest,
    InitProducerIdRequest,
    InitProducerIdResponse,
)
from kmini.protocol.messages.add_partitions_to_txn import TxnTopic

TOPIC = "orders"
CONCURRENT_TRANSACTIONS = 51
RECORDS, PARTITIONS = 100, 3


class Peer:
    """A server, a connection to it, and a transactional producer of librdkafka."""

    def __init__(self, server: Any) -> None:
        from confluent_kafka import Consumer, Producer, TopicPartition

        self._client = Client(server)
        topic = CreateTopicsRequest.Topic(name=TOPIC, num_partitions=PARTITIONS, replication_factor=1)
        self._client.ask(framed(CreateTopicsRequest(topics=[topic], timeout_ms=30_000), 4))
        for key_type in (0, 1):
            self._client.ask(framed(FindCoordinatorRequest(key="bench", key_type=key_type), 1))
        self._identity = self._init()
        servers = server.bootstrap_servers
        self._producer = Producer({"bootstrap.servers": servers, "transactional.id": "full", "linger.ms": 0})
        self._producer.init_transactions(30)
        self._group = Consumer({"bootstrap.servers": servers, "group.id": "bench"})
        self._position = [TopicPartition(TOPIC, number, 1) for number in range(PARTITIONS)]

    def _init(self) -> dict[str, Any]:
        while True:
            request = InitProducerIdRequest(transactional_id="bench", transaction_timeout_ms=60_000)
            answer = InitProducerIdResponse.decode(self._client.ask(framed(request, 1))[4:], 1)
            if not answer.error_code:
                return {"producer_id": answer.producer_id, "producer_epoch": answer.producer_epoch}
            time.sleep(0.05)

    def empty(self) -> None:
        """Begin a transaction that writes nothing, and commit it."""
        add = AddPartitionsToTxnRequest(
            v3_and_below_transactional_id="bench",
            v3_and_below_producer_id=self._identity["producer_id"],
            v3_and_below_producer_epoch=self._identity["producer_epoch"],
            v3_and_below_topics=[TxnTopic(name=TOPIC, partitions=[0])],
        )
        while True:
            answer = AddPartitionsToTxnResponse.decode(self._client.ask(framed(add, 2))[4:], 2)
            code = answer.results_by_topic_v3_and_below[0].results_by_partition[0].partition_error_code
            if code != CONCURRENT_TRANSACTIONS:  # the last one is still being ended
                break
        end = EndTxnRequest(transactional_id="bench", committed=True, **self._identity)
        answers = (code, EndTxnResponse.decode(self._client.ask(framed(end, 2))[4:], 2).error_code)
        assert answers == (0, 0), answers

    def full(self) -> None:
        """100 records over 3 partitions, and offsets."""
        self._producer.begin_transaction()
        for number in range(RECORDS):
            self._producer.produce(TOPIC, b"x" * 100, partition=number % PARTITIONS)
        self._producer.send_offsets_to_transaction(self._position, self._group.consumer_group_metadata(), 30)
        self._producer.commit_transaction(30)


def timed(action: Callable[[], None], count: int) -> list[float]:
    taken = []
    for _ in range(count):
        began = time.perf_counter()
        action()
        taken.append((time.perf_counter() - began) * 1e6)
    return taken


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--count", type=int, default=300, help="transactions of each kind a round")
    options = parser.parse_args()
    with running(available(["kmini", "kafka"])) as servers:
        peers = {name: Peer(server) for name, server in servers.items()}
        taken: dict[str, dict[str, list[float]]] = {name: {"empty": [], "full": []} for name in peers}
        for number in range(options.rounds + 1):
            for name, peer in peers.items():
                for kind, action in (("empty", peer.empty), ("full", peer.full)):
                    times = timed(action, options.count)
                    if number:  # the first round lets Java compile
                        taken[name][kind] += times
    print(
        json.dumps(
            {
                name: {kind: round(statistics.median(times)) for kind, times in kinds.items()}
                for name, kinds in taken.items()
            }
        )
    )


if __name__ == "__main__":
    main()
