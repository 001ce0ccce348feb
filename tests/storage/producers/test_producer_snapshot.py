"""Producer snapshots: the bytes of Kafka, and the producers that come back from them."""

from __future__ import annotations

import contextlib
import logging
from struct import pack

import pytest

from kmini.protocol.records.crc import crc32c
from kmini.storage.filesystem.faults import CHANGES, Faults, PowerLoss
from kmini.storage.filesystem.memory_filesystem import MemoryFileSystem
from kmini.storage.indexes.transaction_index import AbortedTransaction
from kmini.storage.producers.producer_entry import CachedBatch, ProducerEntry
from kmini.storage.producers.producer_snapshot import (
    SnapshotCorrupt,
    decode_snapshot,
    encode_snapshot,
    list_snapshots,
    remove_stray_snapshots,
    write_snapshot,
)
from kmini.storage.producers.producer_state_manager import Origin, ProducerStateManager
from support.producers import Partition, batch

GOLDEN = bytes.fromhex(
    "0001ecb6412c00000001000000000000000700030000000b00000000000000150000000100000000000003edffffffff0000000000000014"
)
"""Written by Apache Kafka 4.3.1: producer 7, epoch 3, last sequence 11, last offset 21, delta 1, timestamp 1005, a
transaction open since 20."""
ENTRY = ProducerEntry(
    producer_id=7,
    epoch=3,
    last_timestamp=1005,
    transaction_first_offset=20,
    batches=(CachedBatch(last_sequence=11, last_offset=21, offset_delta=1, timestamp=1005),),
)


def test_a_snapshot_is_kafkas_byte_by_byte() -> None:
    assert encode_snapshot([ENTRY]) == GOLDEN


def test_kafkas_snapshot_is_read() -> None:
    assert decode_snapshot(GOLDEN) == [ENTRY]


def test_only_the_last_batch_of_a_producer_is_kept() -> None:
    older = CachedBatch(9, 19, 0, 1000)
    assert encode_snapshot([ENTRY._replace(batches=(older, *ENTRY.batches))]) == GOLDEN


def test_a_producer_without_batches_or_transaction_is_read_back_so() -> None:
    bare = ProducerEntry(producer_id=9, epoch=4, coordinator_epoch=2, last_timestamp=77)
    data = encode_snapshot([bare, ENTRY])
    assert data[10:56] == pack(">qhiqiqiq", 9, 4, -1, -1, 0, 77, 2, -1)
    assert decode_snapshot(data) == [bare, ENTRY]


def test_an_empty_snapshot_has_ten_bytes() -> None:
    assert len(encode_snapshot([])) == 10
    assert decode_snapshot(encode_snapshot([])) == []


def with_checksum(body: bytes, version: int = 1) -> bytes:
    return pack(">hI", version, crc32c(body)) + body


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        (b"", "too few"),
        (GOLDEN[:9], "too few"),
        (GOLDEN[:-1], "checksum"),
        (GOLDEN + b"\0", "checksum"),
        (GOLDEN[:-1] + b"\x15", "checksum"),
        (bytes(len(GOLDEN)), "version 0"),
        (with_checksum(GOLDEN[6:], version=2), "version 2"),
        (with_checksum(pack(">i", 2) + GOLDEN[10:]), "hold 2 entries"),
        (with_checksum(pack(">i", -1)), "hold -1 entries"),
    ],
)
def test_a_damaged_snapshot_is_refused(data: bytes, reason: str) -> None:
    with pytest.raises(SnapshotCorrupt, match=reason):
        decode_snapshot(data)


def test_every_single_damaged_byte_is_noticed() -> None:
    for position in range(len(GOLDEN)):
        damaged = bytearray(GOLDEN)
        damaged[position] ^= 0x40
        with pytest.raises(SnapshotCorrupt):
            decode_snapshot(bytes(damaged))


@pytest.fixture
def filesystem() -> MemoryFileSystem:
    filesystem = MemoryFileSystem()
    filesystem.make_directory("d")
    return filesystem


def test_writing_over_a_longer_file_leaves_nothing_of_it(filesystem: MemoryFileSystem) -> None:
    path = write_snapshot(filesystem, "d", 22, [ENTRY, ENTRY._replace(producer_id=8)])
    assert path.endswith("00000000000000000022.snapshot")
    write_snapshot(filesystem, "d", 22, [ENTRY])
    assert filesystem.read(path) == GOLDEN


def test_the_same_state_again_writes_nothing(filesystem: MemoryFileSystem) -> None:
    path = write_snapshot(filesystem, "d", 22, [ENTRY])
    filesystem.faults = Faults(operations=CHANGES)
    assert write_snapshot(filesystem, "d", 22, [ENTRY]) == path
    assert filesystem.faults.count == 0
    write_snapshot(filesystem, "d", 22, [ENTRY._replace(producer_id=8)])
    assert filesystem.faults.count > 0
    assert filesystem.read(path) != GOLDEN


def test_only_snapshots_are_listed(filesystem: MemoryFileSystem) -> None:
    for offset in (30, 5):
        write_snapshot(filesystem, "d", offset, [])
    for name in ("00000000000000000005.log", "00000000000000000007.snapshot.deleted", "leader-epoch-checkpoint"):
        filesystem.open(f"d/{name}", create=True)
    assert list_snapshots(filesystem, "d") == [5, 30]


@pytest.mark.parametrize(
    ("snapshots", "bases", "left"),
    [
        ([0, 10, 15, 20, 25, 30], [0, 10, 20], [0, 10, 20, 30]),
        ([0, 10, 15, 20], [0, 10, 20], [0, 10, 20]),
        ([5, 15], [0, 10, 20], []),
        ([25], [0, 10, 20], [25]),
        ([5, 15], [], [15]),
        ([], [0], []),
    ],
)
def test_snapshots_that_belong_to_no_segment_go_but_for_the_one_of_the_logs_end(
    filesystem: MemoryFileSystem, snapshots: list[int], bases: list[int], left: list[int]
) -> None:
    for offset in snapshots:
        write_snapshot(filesystem, "d", offset, [])
    assert remove_stray_snapshots(filesystem, "d", snapshots, bases) == left
    assert list_snapshots(filesystem, "d") == left


def loaded(filesystem: MemoryFileSystem, log_start: int, log_end: int, now_ms: int = 2000) -> ProducerStateManager:
    states = ProducerStateManager(filesystem, "d")
    states.load(log_start, log_end, now_ms)
    return states


def test_a_snapshot_brings_back_last_batches_and_open_transactions(
    filesystem: MemoryFileSystem, partition: Partition
) -> None:
    partition.append(0, producer_id=1)
    partition.append(1, producer_id=1)
    partition.append(0, producer_id=3, transactional=True)
    partition.append(0, producer_id=2, transactional=True)
    path = partition.states.take_snapshot()
    assert path is not None
    assert path.endswith("00000000000000000004.snapshot")
    states = loaded(filesystem, 0, 4)
    assert (states.end_offset, states.last_snapshot_offset) == (4, 4)
    assert states.find_duplicate(batch(0, 1, producer_id=1)) is not None
    assert states.find_duplicate(batch(0, 0, producer_id=1)) is None
    assert states.first_unstable_offset == 2
    update = states.prepare(Origin.REPLICATION)
    update.add_marker(batch(4, -1, producer_id=3, control=True), is_abort=True, coordinator_epoch=0)
    assert update.commit() == [AbortedTransaction(3, 2, 4, 3)]


def test_a_snapshot_is_written_only_when_the_last_one_is_older(partition: Partition) -> None:
    assert partition.states.take_snapshot() is None
    partition.append(0)
    assert partition.states.take_snapshot() is not None
    assert partition.states.take_snapshot() is None


def test_the_end_of_a_log_gets_a_snapshot_only_with_producers_or_after_an_older_one(
    filesystem: MemoryFileSystem, partition: Partition
) -> None:
    partition.states.end_offset = 3
    assert partition.states.take_snapshot(at_log_end=True) is None
    assert partition.states.take_snapshot() is not None  # a segment begins here
    partition.states.end_offset = 5
    assert partition.states.take_snapshot(at_log_end=True) is not None
    started = loaded(filesystem, 0, 5)
    started.end_offset = 8
    assert started.take_snapshot(at_log_end=True) is not None
    assert list_snapshots(filesystem, "d") == [3, 5, 8]


def test_the_end_of_a_log_with_a_producer_gets_a_snapshot(partition: Partition) -> None:
    partition.append(0)
    assert partition.states.take_snapshot(at_log_end=True) is not None


def test_loading_removes_snapshots_outside_the_log(filesystem: MemoryFileSystem, partition: Partition) -> None:
    for offset in (3, 5, 8, 12):
        write_snapshot(filesystem, "d", offset, [])
    assert loaded(filesystem, 5, 10).end_offset == 8
    assert list_snapshots(filesystem, "d") == [8]


def test_a_damaged_snapshot_makes_way_for_an_older_one(
    filesystem: MemoryFileSystem, partition: Partition, caplog: pytest.LogCaptureFixture
) -> None:
    partition.append(0)
    partition.states.take_snapshot()
    partition.append(1)
    path = partition.states.take_snapshot()
    assert path is not None
    file = filesystem.open(path)
    file.write_at(20, b"\xff")
    file.close()
    with caplog.at_level(logging.WARNING, "kmini.storage"):
        states = loaded(filesystem, 0, 2)
    entry = states.get(7)
    assert entry is not None
    assert (states.end_offset, entry.last_sequence) == (1, 0)
    assert list_snapshots(filesystem, "d") == [1]
    assert "checksum" in caplog.text


def test_without_a_good_snapshot_the_whole_log_is_to_be_replayed(filesystem: MemoryFileSystem) -> None:
    path = write_snapshot(filesystem, "d", 8, [])
    file = filesystem.open(path)
    file.truncate(3)
    file.close()
    states = loaded(filesystem, 5, 10)
    assert (states.end_offset, states.last_snapshot_offset, len(states)) == (5, 5, 0)


def test_a_snapshot_torn_by_a_power_loss_is_refused(filesystem: MemoryFileSystem, partition: Partition) -> None:
    for producer_id in range(20):
        partition.append(0, producer_id=producer_id)
    partition.states.take_snapshot()
    filesystem.open("d/00000000000000000020.snapshot").sync()
    filesystem.sync_directory("d")
    filesystem.sync_directory("")
    partition.append(0, producer_id=20)
    ends = set()
    for n in range(1, 10):
        filesystem.faults = Faults(tear_at=n)
        partition.states.last_snapshot_offset = 20
        with contextlib.suppress(PowerLoss):
            partition.states.take_snapshot()
        for seed in range(20):
            states = loaded(filesystem.crash(seed), 0, 21)
            assert len(states) == states.end_offset
            ends.add(states.end_offset)
        if not filesystem.faults.is_spent:
            break
    assert ends == {20, 21}


def test_producers_that_expired_meanwhile_are_not_loaded(filesystem: MemoryFileSystem, partition: Partition) -> None:
    partition.append(0, producer_id=1, timestamp=1000)
    partition.append(0, producer_id=2, timestamp=5000)
    partition.append(0, producer_id=3, timestamp=1000, transactional=True)
    partition.states.take_snapshot()
    states = loaded(filesystem, 0, 3, now_ms=86_400_000 + 1000)
    assert [entry.producer_id for entry in states.entries()] == [2, 3]


def test_clearing_removes_producers_and_snapshots(filesystem: MemoryFileSystem, partition: Partition) -> None:
    partition.append(0, transactional=True)
    partition.states.take_snapshot()
    partition.states.clear(50)
    assert (len(partition.states), partition.states.end_offset) == (0, 50)
    assert partition.states.first_unstable_offset is None
    assert list_snapshots(filesystem, "d") == []
