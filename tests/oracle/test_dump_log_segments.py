"""Kafka's DumpLogSegments reads every file of a partition the server wrote, and finds them consistent."""

from __future__ import annotations

import json
import re
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import pytest

from support.client_adapters import CODECS, create_topic
from support.java_peer import RunTool
from support.server_process import ServerProcess, StartServer

Dump = Callable[..., list[str]]
BATCHES = 60
RECORDS_A_BATCH = 20
TOPIC = "orders"


class Folder(NamedTuple):
    """A partition's folder, filled with every codec over several segments."""

    server: ServerProcess
    path: Path

    def files(self, suffix: str) -> list[Path]:
        return sorted(self.path.glob(f"*{suffix}"))


@pytest.fixture
def folder(start_server: StartServer, against_kafka: bool, log_directory: Callable[[ServerProcess], Path]) -> Folder:
    server = start_server()
    small_segments = "internal.segment.bytes" if against_kafka else "segment.bytes"
    configs = {small_segments: "8000", "index.interval.bytes": "1000", "file.delete.delay.ms": "0"}
    create_topic(server.bootstrap_servers, TOPIC, configs=configs)
    fill(server)
    return Folder(server, log_directory(server) / f"{TOPIC}-0")


def fill(server: ServerProcess) -> None:
    """Append batches, each codec in turn, from one idempotent producer a codec."""
    from confluent_kafka import Producer

    now = time.time_ns() // 1_000_000 - 600_000
    settings = {"bootstrap.servers": server.bootstrap_servers, "enable.idempotence": True, "log_level": 0}
    producers = {codec: Producer({**settings, "compression.type": codec, "linger.ms": 1000}) for codec in CODECS}
    for batch in range(BATCHES):
        producer = producers[CODECS[batch % len(CODECS)]]
        for number in range(RECORDS_A_BATCH):
            value = b"%d %d " % (batch, number) * 12
            producer.produce(TOPIC, value, b"key", 0, timestamp=now + batch * 1000 + number, headers={"n": b"1"})
        assert producer.flush(20) == 0


def check_every_file(folder: Folder, dump: Dump) -> None:
    logs = folder.files(".log")
    assert len(logs) > 2, "the topic was to roll"
    assert [offset for log in logs for offset in record_offsets(dump(log, "--deep-iteration"))] == [
        *range(BATCHES * RECORDS_A_BATCH)
    ]
    codecs = Counter(codec for log in logs for codec in re.findall(r"compresscodec: (\S+)", "\n".join(dump(log))))
    assert codecs == dict.fromkeys(CODECS, BATCHES // len(CODECS))
    for log in logs:
        check_index(folder, dump, log.with_suffix(".index"))
        check_time_index(dump, log.with_suffix(".timeindex"))


def record_offsets(lines: list[str]) -> list[int]:
    return [int(line.split()[2]) for line in lines if line.startswith("| offset:")]


def check_index(folder: Folder, dump: Dump, index: Path) -> None:
    """Each entry names the last offset of a batch and the position where that batch starts."""
    dump(index, "--verify-index-only")
    assert f"{index} passed sanity check." in dump(index, "--index-sanity-check")
    batches = {
        (int(last), int(position))
        for last, position in re.findall(
            r"lastOffset: (\d+) .*? position: (\d+)", "\n".join(dump(index.with_suffix(".log")))
        )
    }
    entries = [tuple(map(int, re.findall(r"\d+", line))) for line in dump(index) if line.startswith("offset:")]
    assert {*entries} <= batches
    assert entries == sorted(set(entries))
    if index != folder.files(".index")[-1]:
        assert entries, "a full segment has several index intervals"


def check_time_index(dump: Dump, index: Path) -> None:
    dump(index, "--verify-index-only")
    assert f"{index} passed sanity check." in dump(index, "--index-sanity-check")
    entries = [tuple(map(int, re.findall(r"\d+", line))) for line in dump(index) if line.startswith("timestamp:")]
    assert entries == sorted(set(entries))
    assert entries, "closing a segment adds its largest timestamp"


def check_snapshots(folder: Folder, dump: Dump) -> None:
    """The newest snapshot knows every producer's last batch."""
    *_, newest = folder.files(".snapshot")
    assert int(newest.stem) == BATCHES * RECORDS_A_BATCH
    producers = [line for line in dump(newest) if line.startswith("producerId:")]
    assert len(producers) == len(CODECS)
    last_offsets = {int(offset) for line in producers for offset in re.findall(r"lastOffset: (\d+)", line)}
    assert last_offsets == {(BATCHES - back) * RECORDS_A_BATCH - 1 for back in range(len(CODECS))}
    sequence = BATCHES // len(CODECS) * RECORDS_A_BATCH - 1
    assert all(f"lastSequence: {sequence} " in line for line in producers)


def test_every_file_is_sound_after_a_clean_shutdown(folder: Folder, dump: Dump) -> None:
    folder.server.stop()
    check_every_file(folder, dump)
    check_snapshots(folder, dump)


def test_every_file_is_sound_after_kill_9_and_recovery(folder: Folder, dump: Dump) -> None:
    folder.server.kill()
    folder.server.start()
    folder.server.stop()
    check_every_file(folder, dump)
    check_snapshots(folder, dump)


def test_sealed_files_are_sound_while_the_server_runs(folder: Folder, dump: Dump) -> None:
    for log in folder.files(".log"):
        assert record_offsets(dump(log, "--deep-iteration"))
    for log in folder.files(".log")[:-1]:
        check_index(folder, dump, log.with_suffix(".index"))
        check_time_index(dump, log.with_suffix(".timeindex"))


def test_what_is_left_after_delete_records_is_sound(
    folder: Folder, dump: Dump, kafka_tool: RunTool, against_kafka: bool, tmp_path: Path
) -> None:
    first_kept = BATCHES // 2 * RECORDS_A_BATCH + 3
    request = tmp_path / "delete.json"
    entry = {"topic": TOPIC, "partition": 0, "offset": first_kept}
    request.write_text(json.dumps({"version": 1, "partitions": [entry]}), encoding="utf-8")
    servers = folder.server.bootstrap_servers
    kafka_tool("DeleteRecordsCommand", "--bootstrap-server", servers, "--offset-json-file", request)
    folder.server.stop()
    logs = folder.files(".log")
    if not against_kafka:  # Kafka leaves the removal to its retention task
        assert int(logs[0].stem) <= first_kept < int(logs[1].stem)
    offsets = [offset for log in logs for offset in record_offsets(dump(log, "--deep-iteration"))]
    assert offsets == [*range(int(logs[0].stem), BATCHES * RECORDS_A_BATCH)]
    checkpoint = (folder.path.parent / "log-start-offset-checkpoint").read_text(encoding="utf-8").splitlines()
    assert f"{TOPIC} 0 {first_kept}" in checkpoint
    for log in logs:
        check_index(folder, dump, log.with_suffix(".index"))
