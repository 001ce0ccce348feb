from __future__ import annotations

from struct import pack

import pytest

from kmini.protocol.records.crc import crc32c
from kmini.storage.filesystem.memory_filesystem import MemoryFileSystem
from kmini.storage.producers.producer_snapshot import (
    CachedBatch,
    ProducerEntry,
    SnapshotCorrupt,
    decode_snapshot,
    encode_snapshot,
    list_snapshots,
    remove_stray_snapshots,
    write_snapshot,
)

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
    remove_stray_snapshots(filesystem, "d", bases)
    assert list_snapshots(filesystem, "d") == left
