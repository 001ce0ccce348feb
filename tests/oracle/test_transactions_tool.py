"""Kafka's TransactionsCommand, unchanged: it sees transactions, finds one that hangs, and ends it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from kafka.record import MemoryRecords

from support.batches import Item, batch
from support.client_adapters import create_topic
from support.java_peer import Finished, RunTool
from support.kafka_requests import fetch, produce
from support.offset_requests import await_transaction_coordinator
from support.server_process import ServerProcess, StartServer
from support.transaction_requests import TRANSACTIONAL, init
from support.transactional_clients import Confluent
from support.until import until
from support.wire import Wire


def rows(finished: Finished) -> list[list[str]]:
    """The table that a command has printed, without its head."""
    assert finished.exit == 0, finished.stderr
    return [line.split() for line in finished.stdout.splitlines()[1:] if line.strip()]


def fresh_producer(wire: Wire) -> Any:
    """A producer id and epoch, as soon as there are any to be had."""

    def fresh() -> Any:
        answer = wire.ask(init(None), 4)
        return answer if answer.error_code == 0 else None

    return until(fresh, "a producer id")


def test_a_transaction_is_listed_and_described(
    tool: RunTool, server: ServerProcess, topic_names: Callable[[str], str]
) -> None:
    topic = topic_names("seen")
    create_topic(server.bootstrap_servers, topic)
    producer = Confluent(server.bootstrap_servers, f"{topic}-t")
    producer.begin()
    producer.produce(topic, b"a")
    (mine,) = [row for row in rows(tool("TransactionsCommand", "list")) if row[0] == f"{topic}-t"]
    coordinator, producer_id, state = mine[1:4]
    assert (coordinator, state) == ("1", "Ongoing")
    (described,) = rows(tool("TransactionsCommand", "describe", "--transactional-id", f"{topic}-t"))
    assert described[0:6] == ["1", f"{topic}-t", producer_id, "0", "Ongoing", "60000"]
    assert described[-1] == f"{topic}-0"
    (entry,) = rows(tool("TransactionsCommand", "describe-producers", "--topic", topic, "--partition", 0))
    assert (entry[0], entry[-1]) == (producer_id, "0")
    producer.commit()
    (ended,) = rows(tool("TransactionsCommand", "describe", "--transactional-id", f"{topic}-t"))
    assert "CompleteCommit" in ended
    producer.close()


def test_one_that_hangs_is_found_and_ended(kafka_tool: RunTool, start_server: StartServer) -> None:
    server = start_server(transaction_partition_verification_enable="false")

    def tool(*arguments: object) -> Finished:
        return kafka_tool("TransactionsCommand", "--bootstrap-server", server.bootstrap_servers, *arguments)

    create_topic(server.bootstrap_servers, "orders")
    wire = Wire(server.host, server.port)
    try:
        await_transaction_coordinator(wire, "t")
        hanging = fresh_producer(wire)
        written = batch(
            [Item()],
            attributes=TRANSACTIONAL,
            producer_id=hanging.producer_id,
            producer_epoch=hanging.producer_epoch,
            base_sequence=0,
        )
        answer = wire.ask(produce("orders", written, transactional_id="t"), 9)
        assert answer.responses[0].partition_responses[0].error_code == 0
        (found,) = rows(tool("find-hanging", "--broker-id", 1))
        assert found[:3] == ["orders", "0", str(hanging.producer_id)]
        finished = tool("abort", "--topic", "orders", "--partition", 0, "--start-offset", 0)
        assert finished.exit == 0, finished.stderr
        assert rows(tool("find-hanging", "--broker-id", 1)) == []
        (partition,) = wire.ask(fetch("orders", 0, isolation_level=1), 11).responses[0].partitions
        assert (partition.last_stable_offset, partition.high_watermark) == (2, 2)
        assert [one.first_offset for one in partition.aborted_transactions] == [0]
    finally:
        wire.socket.close()


def test_the_java_producer_commits_one_transaction_after_the_other(
    kafka_tool: RunTool, server: ServerProcess, topic_names: Callable[[str], str]
) -> None:
    topic = topic_names("java")
    create_topic(server.bootstrap_servers, topic, partitions=3)
    finished = kafka_tool(
        "ProducerPerformance",
        *("--topic", topic, "--num-records", 5000, "--record-size", 100, "--throughput", 20_000),
        *("--transactional-id", f"{topic}-t", "--transaction-duration-ms", 20),
        *("--bootstrap-server", server.bootstrap_servers),
    )
    assert finished.exit == 0, finished.stderr
    assert "5000 records sent" in finished.stdout
    wire = Wire(server.host, server.port)
    try:
        records = markers = 0
        for partition in range(3):
            request = fetch(topic, 0, partition=partition, isolation_level=1, partition_max_bytes=10_000_000)
            (answer,) = wire.ask(request, 11).responses[0].partitions
            assert answer.last_stable_offset == answer.high_watermark
            stored = MemoryRecords(bytes(answer.records))
            while stored.has_next():
                batches = stored.next_batch()
                records += 0 if batches.is_control_batch else len(list(batches))
                markers += batches.is_control_batch
        assert records == 5000
        assert markers >= 5
    finally:
        wire.socket.close()
