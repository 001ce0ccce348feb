"""Partitions of another log directory: copied, loaded, and left as they were."""

from __future__ import annotations

import pytest

from kmini.protocol.errors import KafkaStorageError
from kmini.protocol.records.batch import build_batch
from kmini.protocol.records.record import Record
from kmini.protocol.topics import TopicPartition
from kmini.storage.filesystem.faults import Faults
from kmini.storage.filesystem.memory_filesystem import MemoryFileSystem
from kmini.storage.log_config import LogConfig
from kmini.storage.log_manager import LogManager
from kmini.storage.partition_import import partitions_in, take_in
from kmini.storage.validation import ValidatedRecords

ORDERS, OTHER = TopicPartition("orders", 1), TopicPartition("other", 0)
SOURCE, TARGET = "/source/broker-1", "/data/broker-7"


def open_manager(filesystem: MemoryFileSystem, directory: str, node_id: int) -> LogManager:
    return LogManager.open(
        filesystem, directory, node_id=node_id, cluster_id="c", config_of=lambda _: LogConfig(), now_ms=lambda: 1_000
    )


@pytest.fixture(params=[True, False], ids=["a clean copy", "a copy of a running broker"])
def filesystem(request: pytest.FixtureRequest) -> MemoryFileSystem:
    filesystem = MemoryFileSystem()
    source = open_manager(filesystem, SOURCE, 1)
    for place in (ORDERS, OTHER):
        log = source.create(place, bytes(range(1, 17)), LogConfig())
        for number in range(3):
            batch = build_batch([Record(0, 1_000, b"k", b"v%d" % number)])
            log.append_as_leader(ValidatedRecords.of(batch), leader_epoch=4, now_ms=1_000)
        log.update_high_watermark(3)
    source.logs[ORDERS].raise_log_start_offset(2)
    source.write_log_start_offsets(source.log_start_offsets())
    source.close(clean=request.param)
    for name in ("__cluster_metadata-0", f"gone-0.{'0' * 32}-delete", "no partition"):
        filesystem.make_directory(f"{SOURCE}/{name}")
    return filesystem


def test_partitions_are_found_and_nothing_else(filesystem: MemoryFileSystem) -> None:
    assert partitions_in(filesystem, SOURCE) == {ORDERS: "orders-1", OTHER: "other-0"}


def test_logs_are_loaded_as_they_are_and_their_source_is_left_alone(filesystem: MemoryFileSystem) -> None:
    before = {name: filesystem.read(f"{SOURCE}/orders-1/{name}") for name in filesystem.list(f"{SOURCE}/orders-1")}
    manager = open_manager(filesystem, TARGET, 7)
    logs = take_in(manager, SOURCE, partitions_in(filesystem, SOURCE), lambda _: LogConfig())
    log = logs[ORDERS]
    assert (log.log_start_offset, log.high_watermark, log.log_end_offset) == (2, 3, 3)
    assert (log.topic_id, log.leader_epochs.latest_epoch) == (bytes(range(1, 17)), 4)
    batch = build_batch([Record(0, 1_000, b"k", b"more")])
    log.append_as_leader(ValidatedRecords.of(batch), leader_epoch=5, now_ms=1_000)
    after = {name: filesystem.read(f"{SOURCE}/orders-1/{name}") for name in filesystem.list(f"{SOURCE}/orders-1")}
    assert after == before


def test_a_disk_that_refuses_leaves_no_copy(filesystem: MemoryFileSystem) -> None:
    manager = open_manager(filesystem, TARGET, 7)
    partitions = partitions_in(filesystem, SOURCE)
    fails = 0
    for number in range(1, 400):
        filesystem.faults = Faults(fail_at=number, operations={"append", "create", "open", "make_directory"})
        try:
            logs = take_in(manager, SOURCE, partitions, lambda _: LogConfig())
        except (OSError, KafkaStorageError):
            fails += 1
            filesystem.faults = Faults()
            assert filesystem.list_directories(TARGET) == []
        else:
            assert set(logs) == {ORDERS, OTHER}
            break
    assert fails > 5
