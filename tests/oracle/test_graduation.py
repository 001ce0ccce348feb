"""Apache Kafka takes over a broker's data directory: how users outgrow us."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from client_adapters import CODECS, ConfluentKafka, Received, create_topic, make_records
from kafka_requests import delete_records, list_offsets, wait_for_leaders
from server_process import ServerProcess, StartServer, kafka_command
from wire import Wire

TOPIC = "orders"
RECORDS = 500
FIRST_KEPT = 123


@pytest.fixture
def adopted(
    start_server: StartServer,
    log_directory: Callable[[ServerProcess], Path],
    need_kafka: None,
    leaky_clients: None,
    tmp_path: Path,
) -> Iterator[tuple[dict[int, list[Received]], ServerProcess]]:
    """What a broker held in each partition when it was stopped, and Apache Kafka on a copy of its log directory."""
    ours = start_server()
    create_topic(ours.bootstrap_servers, TOPIC, partitions=len(CODECS))
    client = ConfluentKafka()
    for partition, codec in enumerate(CODECS):
        client.produce(ours.bootstrap_servers, TOPIC, partition, make_records(RECORDS, seed=codec), codec)
    with Wire(ours.host, ours.port) as wire:
        assert wire.ask(delete_records(TOPIC, (1, FIRST_KEPT)), 2).topics[0].partitions[0].error_code == 0
    held = read_everything(ours)
    source = log_directory(ours)
    ours.stop()

    data_dir = tmp_path / "adopted"
    foreign = shutil.ignore_patterns("meta.properties", "bootstrap.checkpoint", "__cluster_metadata-0", "*.lock")
    shutil.copytree(source, data_dir / "log", ignore=foreign)
    theirs = ServerProcess(kafka_command(data_dir, {}, "--adopt"), tmp_path / "adopted.log")
    yield held, theirs
    theirs.kill()


def read_everything(server: ServerProcess) -> dict[int, list[Received]]:
    client = ConfluentKafka()
    return {
        partition: client.consume(
            server.bootstrap_servers, TOPIC, partition, RECORDS - FIRST_KEPT if partition == 1 else RECORDS
        )
        for partition in range(len(CODECS))
    }


def test_apache_kafka_goes_on_where_the_broker_stopped(
    adopted: tuple[dict[int, list[Received]], ServerProcess],
) -> None:
    held, kafka = adopted
    with Wire(kafka.host, kafka.port) as wire:
        wait_for_leaders(wire, TOPIC, len(CODECS))
        ends = offsets(wire, -1)
        assert offsets(wire, -2) == [FIRST_KEPT if partition == 1 else 0 for partition in range(len(CODECS))]
    assert ends == [RECORDS] * len(CODECS)
    assert read_everything(kafka) == held
    assert ConfluentKafka().produce(kafka.bootstrap_servers, TOPIC, 0, make_records(1, seed=1), "none") == [RECORDS]


def offsets(wire: Wire, timestamp: int) -> list[int]:
    partitions = range(len(CODECS))
    answer = wire.ask(list_offsets(TOPIC, *[timestamp] * len(CODECS), partitions=partitions), 5)
    found = {partition.partition_index: partition for partition in answer.topics[0].partitions}
    assert {partition.error_code for partition in found.values()} == {0}
    return [found[partition].offset for partition in partitions]
