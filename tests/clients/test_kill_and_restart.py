"""What was acknowledged is there after `kill -9` and after a clean restart, on the same port."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from support.client_adapters import Client, ConfluentKafka, Java, Received, Sent, create_topic, make_records
from support.offset_requests import await_coordinator, commit, fetch
from support.server_process import ServerProcess
from support.until import until
from support.wire import Wire

pytestmark = pytest.mark.promise

RECORDS = 20_000
TOPIC = "orders"


class Paced:
    """Records for a producer that keeps the last ten back until it is released."""

    def __init__(self, records: list[Sent]) -> None:
        self.records = records
        self.half_taken = threading.Event()
        self.released = threading.Event()

    def __iter__(self) -> Iterator[Sent]:
        for index, record in enumerate(self.records):
            if index == len(self.records) // 2:
                self.half_taken.set()
            if index == len(self.records) - 10:
                self.released.wait(60)
            yield record


def produce_across_kill_9(server: ServerProcess, adapter: Client, records: list[Sent]) -> list[int | None]:
    """Kill the server while the producer is at work and start it again. Return every record's offset or None."""
    paced = Paced(records)
    with ThreadPoolExecutor(1) as thread:
        if isinstance(adapter, Java):
            adapter.hold = adapter.directory / "released"
            paced.half_taken.set()
        source: Any = records if isinstance(adapter, Java) else paced
        outcome = thread.submit(adapter.produce, server.bootstrap_servers, TOPIC, 0, source, "none")
        try:
            assert paced.half_taken.wait(60)
            wait_for_records(server)
            server.kill()
            server.start()
        finally:
            paced.released.set()
            if isinstance(adapter, Java):
                adapter.hold.touch()
        return outcome.result(90)


def wait_for_records(server: ServerProcess) -> None:
    """Return when the first record has arrived."""
    from kafka import KafkaConsumer, TopicPartition

    consumer = KafkaConsumer(bootstrap_servers=server.bootstrap_servers)
    partition = TopicPartition(TOPIC, 0)
    try:
        until(
            lambda: consumer.partitions_for_topic(TOPIC) and consumer.end_offsets([partition])[partition],
            "a first record",
        )
    finally:
        consumer.close()


@pytest.mark.parametrize("name", ["kafka-python", "aiokafka", "confluent-kafka", "java"])
def test_an_idempotent_producer_loses_and_repeats_nothing_across_kill_9(
    name: str, broker_process: ServerProcess, client: Callable[[str], Client]
) -> None:
    adapter = client(name)
    records = adapter.sayable(make_records(RECORDS, seed=name))
    offsets = produce_across_kill_9(broker_process, adapter, records)
    received = adapter.consume(broker_process.bootstrap_servers, TOPIC, 0, RECORDS)
    assert sorted(offset for offset in offsets if offset is not None) == [*range(RECORDS)]
    assert [r.offset for r in received] == [*range(RECORDS)]
    assert_each_acknowledged_record_is_there(records, offsets, received)


def test_what_a_plain_producer_had_acknowledged_is_there_after_kill_9(
    broker_process: ServerProcess, client: Callable[[str], Client]
) -> None:
    adapter = client("confluent-kafka")
    assert isinstance(adapter, ConfluentKafka)
    adapter.idempotent = False
    records = make_records(RECORDS, seed="acks=1")
    offsets = produce_across_kill_9(broker_process, adapter, records)
    log_end = 1 + max(offset for offset in offsets if offset is not None)  # records without an answer were sent again
    received = adapter.consume(broker_process.bootstrap_servers, TOPIC, 0, log_end)
    assert_each_acknowledged_record_is_there(records, offsets, received)


def assert_each_acknowledged_record_is_there(
    records: list[Sent], offsets: list[int | None], received: list[Received]
) -> None:
    by_offset = {r.offset: r for r in received}
    for sent, offset in zip(records, offsets, strict=True):
        if offset is not None:
            got = by_offset[offset]
            assert (sent.key, sent.value, sent.headers) == (got.key, got.value, got.headers)


@pytest.mark.parametrize("name", ["kafka-python", "aiokafka", "confluent-kafka", "java"])
def test_a_clean_restart_changes_no_record(
    name: str, broker_process: ServerProcess, client: Callable[[str], Client]
) -> None:
    server, adapter = broker_process, client(name)
    records = adapter.sayable(make_records(1_000, seed=name))
    adapter.produce(server.bootstrap_servers, TOPIC, 0, records, "lz4")
    before = adapter.consume(server.bootstrap_servers, TOPIC, 0, 1_000)
    server.stop()
    server.start()
    assert adapter.consume(server.bootstrap_servers, TOPIC, 0, 1_000) == before
    assert adapter.produce(server.bootstrap_servers, TOPIC, 0, records[:1], "none") == [1_000]


def test_every_acknowledged_commit_of_an_offset_is_there_after_kill_9(broker_process: ServerProcess) -> None:
    server, groups = broker_process, [f"group-{number}" for number in range(4)]
    create_topic(server.bootstrap_servers, TOPIC, partitions=1)
    acknowledged = dict.fromkeys(groups, -1)
    enough = threading.Barrier(len(groups) + 1, timeout=60)

    def commit_until_killed(group: str) -> None:
        with Wire(server.host, server.port) as wire:
            await_coordinator(wire, group)
            for offset in range(1_000_000):
                try:
                    answer = wire.ask(commit(group, TOPIC, (0, offset, "")), 8)
                except ConnectionError:
                    return
                if answer is None:
                    return
                assert answer.topics[0].partitions[0].error_code == 0
                acknowledged[group] = offset
                if offset == 100:
                    enough.wait()

    with ThreadPoolExecutor(len(groups)) as threads:
        committing = [threads.submit(commit_until_killed, group) for group in groups]
        enough.wait()
        server.kill()
        for each in committing:
            each.result(60)
    server.start()
    with Wire(server.host, server.port) as wire:
        for group, offset in acknowledged.items():
            (partition,) = wire.ask(fetch(group, [(TOPIC, [0])], 5), 5).topics[0].partitions
            assert partition.committed_offset in (offset, offset + 1), "the last one may lack its answer only"
