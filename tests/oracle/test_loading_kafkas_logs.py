"""`broker.load` of a log directory that Apache Kafka has written: a client reads on kmini what it read there."""

from __future__ import annotations

import asyncio
import shutil
from pathlib import Path
from typing import NamedTuple

import pytest
from confluent_kafka import Producer

from kmini import Broker, Cluster
from kmini.client import Client, ConfigResource, ConsumedRecord, NewTopic
from kmini.protocol.messages.fetch import READ_COMMITTED, READ_UNCOMMITTED
from kmini.protocol.topics import TopicPartition
from support.server_process import ServerProcess, kafka_command
from support.until import until

CODECS = ("none", "gzip", "snappy", "lz4", "zstd")

PLACES = [TopicPartition(topic, partition) for topic in ("orders", "users") for partition in range(2)]


class Seen(NamedTuple):
    """What clients see of a broker."""

    beginnings: dict[TopicPartition, int]
    ends: dict[TopicPartition, int]
    stable: dict[TopicPartition, int]
    committed: list[ConsumedRecord]
    uncommitted: list[ConsumedRecord]
    of_group: dict[TopicPartition, int]
    transactions: dict[str, tuple[str, int, int, list[TopicPartition]]]
    """By id: the state, the producer id, when it began, and the partitions."""


async def seen_at(bootstrap_servers: str) -> Seen:
    async with Client(bootstrap_servers) as client:
        beginnings, ends = await client.beginning(PLACES), await client.end(PLACES)
        stable = await client.end(PLACES, isolation_level=READ_COMMITTED)

        async def read(until: dict[TopicPartition, int], isolation_level: int) -> list[ConsumedRecord]:
            positions = {place: offset for place, offset in beginnings.items() if offset < until[place]}
            limits = {place: until[place] for place in positions}
            return sorted(
                [one async for one in client.consume(positions, until=limits, isolation_level=isolation_level)],
                key=lambda one: (one.topic, one.partition, one.offset),
            )

        described = [
            await client.describe_transaction(one.transactional_id) for one in await client.list_transactions()
        ]
        return Seen(
            beginnings,
            ends,
            stable,
            await read(stable, READ_COMMITTED),
            await read(ends, READ_UNCOMMITTED),
            {place: found.offset for place, found in (await client.committed_offsets("billing")).items()},
            {
                one.transactional_id: (one.state, one.producer_id, one.start_ms, sorted(one.partitions))
                for one in described
            },
        )


async def fill(bootstrap_servers: str) -> None:
    """Write with every codec, in transactions of every end, with tombstones, and delete records."""
    async with Client(bootstrap_servers) as client:
        topics = {"orders": NewTopic(2), "users": NewTopic(2, configs={"cleanup.policy": "compact"})}
        assert set((await client.create_topics(topics)).values()) == {None}
        servers = {"bootstrap.servers": bootstrap_servers}
        for codec in CODECS:
            producer = Producer({**servers, "compression.type": codec, "enable.idempotence": codec != "none"})
            for number in range(50):
                value = b"%s %d " % (codec.encode(), number) * 20
                headers = [("codec", codec.encode()), ("empty", None)]
                producer.produce("orders", value, key=b"k%d" % number, partition=number % 2, headers=headers)
                producer.produce("users", None if number % 7 == 0 else value, key=b"k%d" % (number % 9), partition=0)
            assert producer.flush(60) == 0
        producers = {}
        for name in ("committed", "aborted", "open"):
            one = producers[name] = Producer({**servers, "transactional.id": name, "compression.type": "lz4"})
            one.init_transactions(60)
            one.begin_transaction()
            for number in range(10):
                one.produce("orders", b"%s %d" % (name.encode(), number), partition=number % 2)
            assert one.flush(60) == 0
        producers["committed"].commit_transaction(60)
        producers["aborted"].abort_transaction(60)
        deleted = await client.delete_records_before({("orders", 1): 20})
        assert deleted["orders", 1].error is None
        assert await client.commit_offsets("billing", {("orders", 0): 7, ("users", 0): 9}) == dict.fromkeys(
            [("orders", 0), ("users", 0)]
        )


@pytest.fixture(scope="module")
def directories(need_kafka: None, tmp_path_factory: pytest.TempPathFactory) -> tuple[Seen, dict[str, Path]]:
    """What clients saw of an Apache Kafka, and copies of its log directory: while it ran, and after it had stopped."""
    directory = tmp_path_factory.mktemp("loaded")
    often = {"log.flush.start.offset.checkpoint.interval.ms": "200"}  # what DeleteRecords did is in no other file
    process = ServerProcess(kafka_command(directory / "data", often), directory / "server.log")
    logs = directory / "data" / "log"
    try:
        asyncio.run(fill(process.bootstrap_servers))
        seen = asyncio.run(seen_at(process.bootstrap_servers))
        starts = logs / "log-start-offset-checkpoint"
        until(lambda: starts.exists() and "orders 1 20" in starts.read_text(), "the checkpoint")
        copy(logs, directory / "running")
    finally:
        process.stop()
    copy(logs, directory / "stopped")
    return seen, {"running": directory / "running", "stopped": directory / "stopped"}


def copy(source: Path, target: Path) -> None:
    """Copy a log directory without the room that Kafka has set aside for indexes of a running broker."""
    shutil.copytree(source, target, ignore=shutil.ignore_patterns("*.lock"))


@pytest.mark.parametrize("copied", ["running", "stopped"])
@pytest.mark.parametrize("kind", [Broker, Cluster])
async def test_a_client_reads_what_it_read_on_apache_kafka(
    directories: tuple[Seen, dict[str, Path]], copied: str, kind: type[Broker | Cluster]
) -> None:
    expected, copies = directories
    files = {path: path.read_bytes() for path in copies[copied].rglob("*") if path.is_file()}
    async with kind() as broker:
        loaded = await broker.load(copies[copied])
        assert {*loaded} == {"orders", "users", "__consumer_offsets", "__transaction_state"}
        found = await seen_at(broker.bootstrap_servers)
        assert found == expected
        assert len({record.value.split()[0] for record in found.committed if record.value}) == len(CODECS) + 1
        (open_one,) = await broker.transactions.open()
        assert open_one.transactional_id == "open"
        await broker.transactions.abort("open")
        assert {one.state for one in await broker.topic("orders").records(isolation="uncommitted")} == {
            "committed",
            "aborted",
        }
    assert {path: path.read_bytes() for path in copies[copied].rglob("*") if path.is_file()} == files


async def test_what_was_loaded_is_written_on(directories: tuple[Seen, dict[str, Path]]) -> None:
    expected, copies = directories
    async with Broker() as broker:
        await broker.load(copies["stopped"])
        producer = Producer({"bootstrap.servers": broker.bootstrap_servers, "transactional.id": "committed"})
        producer.init_transactions(60)
        producer.begin_transaction()
        producer.produce("orders", b"on kmini", partition=0)
        producer.commit_transaction(60)
        assert (await broker.offsets("orders")).log_end_offset == expected.ends["orders", 0] + 2  # with its marker
        async with Client(broker.bootstrap_servers) as client:  # settings are not in the folders of partitions
            await client.alter_configs({ConfigResource.topic("users"): {"cleanup.policy": "compact"}})
        await broker.topic("users").compact()
        last = {one.key: one.value for one in expected.committed if one.topic == "users"}
        kept = {record.key: record.value for record in await broker.records("users")}
        assert {key: value for key, value in kept.items() if value} == {key: v for key, v in last.items() if v}
