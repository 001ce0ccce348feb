"""A file of metadata records: header, records, footer, and offsets without gaps."""

from __future__ import annotations

from pathlib import Path

from kmini.graduation.snapshot_file import write_snapshot
from kmini.protocol.metadata_records import FeatureLevelRecord, KRaftVersion, TopicRecord, decode_framed
from kmini.protocol.records.batch import BatchHeader, is_crc_valid, iter_batches
from kmini.protocol.records.batch_records import decode_records
from kmini.protocol.records.control import ControlType, control_type
from kmini.protocol.records.record import Record
from kmini.storage.filesystem import OsFileSystem

NOW_MS = 1_795_315_475_350

WRITTEN_BY_KAFKA = (
    "0000000000000000000000470000000002"
    "88b95969"
    "002000000000000001a201242396000001a201242396ffffffffffffffffffffffffffff00000001"
    "2a00000008000000031600000000000000000000000000"
)
"""The first batch of a bootstrap.checkpoint that `kafka-storage format` has made at this time."""


def batches_of(path: Path) -> list[tuple[BatchHeader, list[Record]]]:
    data = path.read_bytes()
    found = []
    for position, header in iter_batches(data):
        assert is_crc_valid(data, position, header)
        found.append((header, decode_records(data, position, header)))
    assert sum(header.size for header, _ in found) == len(data)
    return found


def test_the_header_is_what_kafka_writes(tmp_path: Path) -> None:
    path = tmp_path / "bootstrap.checkpoint"
    assert write_snapshot(OsFileSystem(), str(path), (), now_ms=NOW_MS) == 0
    assert path.read_bytes().hex().startswith(WRITTEN_BY_KAFKA)


def test_records_stand_between_header_and_footer_with_consecutive_offsets(tmp_path: Path) -> None:
    path = tmp_path / "bootstrap.checkpoint"
    records = [FeatureLevelRecord(name="metadata.version", feature_level=30)]
    records += [TopicRecord(name=f"topic-{number}" * 10, topic_id=bytes(16)) for number in range(5_000)]  # type: ignore[list-item]
    control = [(ControlType.KRAFT_VERSION, KRaftVersion(kraft_version=1))]
    assert write_snapshot(OsFileSystem(), str(path), iter(records), now_ms=NOW_MS, control_records=control) == 5_001
    first, *middle, last = batches_of(path)
    assert [control_type(record.key) for record in first[1]] == [ControlType.SNAPSHOT_HEADER, ControlType.KRAFT_VERSION]
    assert [control_type(record.key) for record in last[1]] == [ControlType.SNAPSHOT_FOOTER]
    assert first[0].is_control
    assert last[0].is_control
    assert len(middle) > 1
    assert all(header.size < 128 * 1024 and not header.is_control for header, _ in middle)
    assert [decode_framed(record.value or b"") for _, its in middle for record in its] == records
    offsets = [record.offset for _, its in (first, *middle, last) for record in its]
    assert offsets == list(range(5_004))
    assert {header.partition_leader_epoch for header, _ in (first, *middle, last)} == {0}
