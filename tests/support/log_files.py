"""Logs made by hand for tests of the log source, which reads them in this process without a session of Spark."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from kmini.pipeline.log_source import KminiLogSource, LogReader, SegmentTask
from kmini.protocol.records.batch import MAGIC, MAGIC_AT, build_batch, read_header
from kmini.protocol.records.control import EndTransactionMarker, build_end_transaction_marker
from kmini.protocol.records.old_formats.messages import read_message_header
from kmini.protocol.records.record import Record
from kmini.protocol.topics import TopicPartition
from kmini.storage import filenames
from kmini.storage.filenames import segment_path
from kmini.storage.filesystem import OsFileSystem
from kmini.storage.indexes.offset_index import OffsetIndex
from kmini.storage.offset_checkpoint_file import write_offsets

DISK = OsFileSystem()


ORDERS = TopicPartition("orders", 0)


Row = dict[str, Any]


class Log:
    """The log of one partition, in a log directory."""

    def __init__(self, log_dir: Path, at: TopicPartition = ORDERS) -> None:
        self.log_dir = log_dir
        self.folder = log_dir / f"{at.topic}-{at.partition}"
        self.folder.mkdir(parents=True)

    def segment(self, base_offset: int, *batches: bytes | bytearray, suffix: str = "") -> Path:
        path = Path(segment_path(str(self.folder), base_offset, filenames.LOG, suffix))
        path.write_bytes(b"".join(batches))
        return path

    def index(
        self, base_offset: int, batches: Sequence[bytes | bytearray], stored: Sequence[bytes | bytearray] = ()
    ) -> Path:
        """Write the offset index of a segment of these batches, with an entry for each batch but the first. `stored`
        has the bytes that the file has for each batch, if they differ."""
        path = Path(segment_path(str(self.folder), base_offset, filenames.OFFSET_INDEX))
        index = OffsetIndex(DISK, str(path), base_offset)
        index.reset()
        position = 0
        for one, part in zip(batches, stored or batches, strict=True):
            if position:
                header = (read_header if one[MAGIC_AT] == MAGIC else read_message_header)(one)
                index.append(header.last_offset, position)
            position += len(part)
        index.flush()
        return path

    def checkpoint(self, name: str, offset: int, at: TopicPartition = ORDERS) -> None:
        write_offsets(DISK, str(self.log_dir / name), {at: offset})

    def high_watermark(self, offset: int) -> None:
        self.checkpoint(filenames.HIGH_WATERMARK_CHECKPOINT, offset)


def batch(base_offset: int, count: int = 5, **about: Any) -> bytearray:
    records = [Record(base_offset + n, 1000 + n, b"k%d" % n, b"v" * 50) for n in range(count)]
    return build_batch(records, base_offset=base_offset, **about)


def data(base_offset: int, producer_id: int, count: int = 5) -> bytearray:
    """A batch of a transaction."""
    return batch(base_offset, count, producer_id=producer_id, producer_epoch=0, base_sequence=0, transactional=True)


def marker(offset: int, producer_id: int, *, aborts: bool) -> bytearray:
    end = EndTransactionMarker(aborts, 0)
    return build_end_transaction_marker(end, producer_id=producer_id, producer_epoch=0, timestamp=1, base_offset=offset)


def reader(path: Path, **options: str) -> LogReader:
    source = KminiLogSource({"path": str(path), **options})
    return source.reader(source.schema())


def read(reader: LogReader, tasks: Sequence[SegmentTask] | None = None) -> list[Row]:
    found: list[Row] = []
    for task in reader.partitions() if tasks is None else tasks:
        for rows in reader.read(task):
            found += rows.to_pylist()
    return found


def offsets(rows: list[Row]) -> list[int]:
    return [row["offset"] for row in rows if row["offset"] is not None]


def errors(rows: list[Row]) -> list[str]:
    return [row["error"] for row in rows if row["error"] is not None]
