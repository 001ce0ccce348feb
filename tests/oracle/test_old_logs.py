"""A log that a very old Kafka wrote: Apache Kafka 4.3.1 and we read the same from it."""

from __future__ import annotations

import random
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from kmini.protocol.records.batch import build_batch
from kmini.protocol.records.batch_records import decode_all
from kmini.protocol.records.compression import Codec
from kmini.protocol.records.old_formats.messages import build_messages, build_wrapper
from kmini.protocol.records.record import Record
from support.client_adapters import create_topic
from support.kafka_requests import fetch, list_offsets, wait_for_leaders
from support.server_process import ServerProcess, StartServer, kafka_command
from support.until import until
from support.wire import Wire

TOPIC = "old"
RECORDS = 600
NOW_MS = 1_700_000_000_000
CODECS = (Codec.NONE, Codec.GZIP, Codec.SNAPPY, Codec.LZ4)
LOG = "00000000000000000000.log"


def messages(partition: int) -> bytes:
    """Of partition 0 magic 0, of 1 magic 1, of 2 all with batches behind them; timestamps go up and down."""
    dice = random.Random(partition)
    data, first = b"", 0
    while first < RECORDS:
        count = min(dice.choice((1, 2, 5, 20)), RECORDS - first)
        records = [
            Record(first + n, NOW_MS + 10 * (first + n) + dice.randrange(-500, 500), b"k%d" % n, b"value %d" % n)
            for n in range(count)
        ]
        magic = (0, 1, dice.choice((0, 1, 2)) if first < 400 else 2)[partition]
        codec = dice.choice(CODECS)
        append_time = dice.choice((None, None, None, NOW_MS + 10 * first))
        if magic == 2:
            data += build_batch(records, base_offset=first, codec=codec, log_append_time_ms=append_time, leader_epoch=0)
        elif codec == Codec.NONE:
            data += build_messages(records, magic, log_append_time_ms=append_time)
        else:
            data += build_wrapper([records], magic, codec, log_append_time_ms=append_time)
        first += count
    return data


@pytest.fixture
def on_old_logs(
    start_server: StartServer, log_directory: Callable[[ServerProcess], Path], need_kafka: None, tmp_path: Path
) -> Iterator[tuple[ServerProcess, ServerProcess]]:
    """Our broker, and Apache Kafka, each on its own copy of the logs, which bring no index."""
    ours = start_server()
    create_topic(ours.bootstrap_servers, TOPIC, partitions=3)
    ours.stop()
    directory = log_directory(ours)
    (directory / ".kafka_cleanshutdown").unlink()
    for partition in range(3):
        folder = directory / f"{TOPIC}-{partition}"
        for file in [*folder.glob("0*.*"), *folder.glob("leader-epoch-checkpoint")]:
            file.unlink()
        (folder / LOG).write_bytes(messages(partition))
    foreign = shutil.ignore_patterns("meta.properties", "*.lock")
    shutil.copytree(directory, tmp_path / "adopted" / "log", ignore=foreign)
    ours.start()
    theirs = ServerProcess(kafka_command(tmp_path / "adopted", {}, "--adopt"), tmp_path / "adopted.log")
    yield ours, theirs
    theirs.kill()


def read(wire: Wire, offset: int, partition: int, version: int, partition_max_bytes: int) -> tuple[int, int, bytes]:
    request = fetch(TOPIC, offset, partition=partition, partition_max_bytes=partition_max_bytes)
    answer = wire.ask(request, version).responses[0].partitions[0]
    return answer.error_code, answer.high_watermark, bytes(answer.records or b"")


def found(wire: Wire, timestamp: int, partition: int) -> Any:
    answer = wire.ask(list_offsets(TOPIC, timestamp, partitions=[partition]), 7).topics[0].partitions[0]
    return answer.error_code, answer.timestamp, answer.offset


def test_apache_kafka_and_we_read_the_same(on_old_logs: tuple[ServerProcess, ServerProcess]) -> None:
    with (
        Wire(on_old_logs[0].host, on_old_logs[0].port) as ours,
        Wire(on_old_logs[1].host, on_old_logs[1].port) as theirs,
    ):
        for wire in (ours, theirs):
            wait_for_leaders(wire, TOPIC, 3)
        for partition in range(3):
            # A leader of Kafka that has just begun refuses offsets beyond a high watermark that it does not have yet.
            until(lambda partition=partition: read(theirs, RECORDS, partition, 12, 1 << 20)[:2] == (0, RECORDS))
            assert read(ours, 0, partition, 12, 1 << 20) == (0, RECORDS, messages(partition))
            for version in (4, 12):
                for offset in (0, 1, 17, 100, 299, 399, 555, RECORDS - 1, RECORDS, RECORDS + 1):
                    for limit in (1 << 20, 300, 1):
                        asked = (offset, partition, version, limit)
                        assert read(ours, *asked) == read(theirs, *asked), asked
            for timestamp in (-1, -2, -3, 0, *range(NOW_MS - 600, NOW_MS + 10 * RECORDS + 600, 97)):
                assert found(ours, timestamp, partition) == found(theirs, timestamp, partition), (timestamp, partition)
        records = decode_all(read(theirs, 0, 2, 12, 1 << 20)[2])
        assert [record.offset for record in records] == [*range(RECORDS)]
