"""Apache Kafka takes over a broker's data directory, which is how users outgrow us, and the other way round."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest

from support.apache_kafka import give_logs_to_kmini
from support.client_adapters import CODECS, ConfluentKafka, Received, create_topic, make_records
from support.kafka_requests import delete_records, list_offsets, metadata, wait_for_leaders
from support.offset_requests import await_coordinator, commit, delete, fetch
from support.oracle.graduated import graduate
from support.server_process import ServerProcess, kafka_command, kmini_command
from support.transcript import comparable
from support.wire import Wire

TOPIC = "orders"
RECORDS = 500
FIRST_KEPT = 123
GROUPS = [f"simple-{number}" for number in range(12)]
MEMBERS = "members"


class Held(NamedTuple):
    """What a broker had."""

    records: dict[int, list[Received]]
    offsets: dict[str, object]


@pytest.fixture
def graduated(
    need_kafka: None,
    leaky_clients: None,
    tmp_path: Path,
) -> Iterator[tuple[Held, ServerProcess]]:
    """What a broker held in each partition when it was stopped, and Apache Kafka on its data, with a quorum that does
    not change."""
    ours = ServerProcess(kmini_command(tmp_path / "ours", {}), tmp_path / "ours.log")
    create_topic(ours.bootstrap_servers, TOPIC, partitions=len(CODECS))
    client = ConfluentKafka()
    for partition, codec in enumerate(CODECS):
        client.produce(ours.bootstrap_servers, TOPIC, partition, make_records(RECORDS, seed=codec), codec)
    with Wire(ours.host, ours.port) as wire:
        assert wire.ask(delete_records(TOPIC, (1, FIRST_KEPT)), 2).topics[0].partitions[0].error_code == 0
    commit_offsets(ours)
    held = Held(read_everything(ours), committed(ours))
    ours.stop()

    data_dir = tmp_path / "graduated"
    data_dir.mkdir()
    graduate(tmp_path / "ours", data_dir / "log")
    theirs = ServerProcess(kafka_command(data_dir, {}), tmp_path / "graduated.log")
    yield held, theirs
    theirs.kill()


def commit_offsets(server: ServerProcess) -> None:
    """Leave a trace of every kind in the topic of offsets: a group's, a simple consumer's, tombstones."""
    consume_as_a_group(server)
    with Wire(server.host, server.port) as wire:
        await_coordinator(wire, *GROUPS)
        (topic,) = wire.ask(metadata(TOPIC), 12).topics
        for number, group in enumerate(GROUPS):
            for offset in (number, number + 10):
                named, version = (topic.topic_id, 10) if number % 3 == 2 else (TOPIC, 8)
                kept = [(partition, offset + partition, f"ä{offset}") for partition in range(3)]
                request = commit(group, named, *kept, leader_epoch=number)
                assert all_are_fine(wire.ask(request, version))
            assert all_are_fine(wire.ask(delete(group, (TOPIC, [2])), 0))
        with_time = commit(GROUPS[0], TOPIC, (3, 7, "with a time"), retention_ms=3_600_000)
        assert all_are_fine(wire.ask(with_time, 4))


def all_are_fine(answer: object) -> bool:
    return not [p for topic in answer.topics for p in topic.partitions if p.error_code]  # type: ignore[attr-defined]


def consume_as_a_group(server: ServerProcess) -> None:
    from kafka import KafkaConsumer

    consumer = KafkaConsumer(
        TOPIC, group_id=MEMBERS, bootstrap_servers=server.bootstrap_servers, auto_offset_reset="earliest"
    )
    try:
        for _ in range(100):
            if consumer.poll(timeout_ms=1000, max_records=RECORDS):
                break
        consumer.commit()
    finally:
        consumer.close()


def committed(server: ServerProcess) -> dict[str, object]:
    """What is committed in every group, as the server says it."""
    answers = {}
    with Wire(server.host, server.port) as wire:
        await_coordinator(wire, *GROUPS, MEMBERS)
        for group in (*GROUPS, MEMBERS):
            answer = wire.ask(fetch(group, None, 7), 7)
            assert answer.error_code == 0
            assert answer.topics, group
            answers[group] = comparable(answer.to_dict(json=False))
    return answers


def read_everything(server: ServerProcess) -> dict[int, list[Received]]:
    client = ConfluentKafka()
    return {
        partition: client.consume(
            server.bootstrap_servers, TOPIC, partition, RECORDS - FIRST_KEPT if partition == 1 else RECORDS
        )
        for partition in range(len(CODECS))
    }


def test_apache_kafka_goes_on_where_the_broker_stopped(
    graduated: tuple[Held, ServerProcess],
) -> None:
    held, kafka = graduated
    with Wire(kafka.host, kafka.port) as wire:
        wait_for_leaders(wire, TOPIC, len(CODECS))
        ends = offsets(wire, -1)
        assert offsets(wire, -2) == [FIRST_KEPT if partition == 1 else 0 for partition in range(len(CODECS))]
    assert ends == [RECORDS] * len(CODECS)
    assert read_everything(kafka) == held.records
    assert committed(kafka) == held.offsets
    assert ConfluentKafka().produce(kafka.bootstrap_servers, TOPIC, 0, make_records(1, seed=1), "none") == [RECORDS]


def offsets(wire: Wire, timestamp: int) -> list[int]:
    partitions = range(len(CODECS))
    answer = wire.ask(list_offsets(TOPIC, *[timestamp] * len(CODECS), partitions=partitions), 5)
    found = {partition.partition_index: partition for partition in answer.topics[0].partitions}
    assert {partition.error_code for partition in found.values()} == {0}
    return [found[partition].offset for partition in partitions]


def test_the_broker_goes_on_where_apache_kafka_stopped(need_kafka: None, leaky_clients: None, tmp_path: Path) -> None:
    theirs = ServerProcess(kafka_command(tmp_path / "theirs", {}), tmp_path / "theirs.log")
    try:
        create_topic(theirs.bootstrap_servers, TOPIC, partitions=len(CODECS))
        client = ConfluentKafka()
        for partition, codec in enumerate(CODECS):
            client.produce(theirs.bootstrap_servers, TOPIC, partition, make_records(RECORDS, seed=codec), codec)
        with Wire(theirs.host, theirs.port) as wire:
            assert wire.ask(delete_records(TOPIC, (1, FIRST_KEPT)), 2).topics[0].partitions[0].error_code == 0
        commit_offsets(theirs)
        held = Held(read_everything(theirs), committed(theirs))
    finally:
        theirs.stop()

    data_dir = tmp_path / "data"
    give_logs_to_kmini(tmp_path / "theirs" / "log", data_dir)
    ours = ServerProcess(kmini_command(data_dir, {}), tmp_path / "ours.log")
    try:
        assert read_everything(ours) == held.records
        assert committed(ours) == held.offsets
    finally:
        ours.stop()
