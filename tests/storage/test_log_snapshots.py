"""Logs in another directory: linked, and left alone by everything that happens to them later."""

from __future__ import annotations

import errno
import os
from collections.abc import Callable
from pathlib import Path

import pytest

from kmini.protocol.records.batch import build_batch
from kmini.protocol.records.record import Record
from kmini.protocol.topics import TopicPartition
from kmini.storage import wiping
from kmini.storage.cleaner.clean import Pass
from kmini.storage.cleaner.cleanable_log import Limits
from kmini.storage.cleaner.dirtiness import assess, capture
from kmini.storage.filesystem import FileSystem, OsFileSystem
from kmini.storage.filesystem.memory_filesystem import MemoryFileSystem
from kmini.storage.log import PartitionLog
from kmini.storage.log_config import LogConfig
from kmini.storage.log_manager import LogManager
from kmini.storage.log_snapshots import fill, is_log_sealed, is_sealed, save
from kmini.storage.validation import ValidatedRecords

ORDERS = TopicPartition("orders", 0)
CONFIG = LogConfig(index_interval_bytes=100, cleanup_policy=("compact", "delete"))

KINDS: dict[str, Callable[[], FileSystem]] = {
    "os": OsFileSystem,
    "os without positioned reads and writes": lambda: OsFileSystem(positioned_io=False),
    "memory that refuses open files": lambda: MemoryFileSystem(refuses_open_files=True),
}


@pytest.fixture(params=KINDS)
def filesystem(request: pytest.FixtureRequest) -> FileSystem:
    return KINDS[request.param]()


class Place:
    """A log directory and a snapshot beside it."""

    def __init__(self, filesystem: FileSystem, path: Path) -> None:
        self.filesystem = filesystem
        self.directory, self.saved = f"{path}/broker-1", f"{path}/saved/broker-1"
        self.manager = self.open()

    def open(self) -> LogManager:
        def config_of(topic: str) -> LogConfig:
            return CONFIG

        return LogManager.open(
            self.filesystem, self.directory, node_id=1, cluster_id="c", config_of=config_of, now_ms=lambda: 1_000
        )

    @property
    def log(self) -> PartitionLog:
        return self.manager.logs[ORDERS]

    def append(self, count: int) -> None:
        """One batch for each record, with one of five keys."""
        for _ in range(count):
            offset = self.log.log_end_offset
            batch = build_batch([Record(0, 1_000, b"key-%d" % (offset % 5), b"value-%d" % offset)])
            self.log.append_as_leader(ValidatedRecords.of(batch), leader_epoch=0, now_ms=1_000)
        self.log.update_high_watermark(self.log.log_end_offset)

    def roll(self) -> None:
        self.log.roll(1_000)
        for work in self.manager.take_background_work():
            work.run()
            work.finish()

    def bytes_of_the_snapshot(self) -> dict[str, bytes]:
        found = {}
        for name in self.filesystem.list(self.saved):
            path = f"{self.saved}/{name}"
            if self.filesystem.is_directory(path):
                found |= {
                    f"{name}/{file}": self.filesystem.read(f"{path}/{file}") for file in self.filesystem.list(path)
                }
            else:
                found[name] = self.filesystem.read(path)
        return found

    def values(self) -> bytes:
        log = self.log
        return b"".join(segment.log.read_at(0, segment.size) for segment in log.segments)


@pytest.fixture
def place(filesystem: FileSystem, tmp_path: Path) -> Place:
    filesystem.make_directory(str(tmp_path))
    place = Place(filesystem, tmp_path)
    place.manager.create(ORDERS, bytes(range(16)), CONFIG)
    for _ in range(3):
        place.append(20)
        place.roll()
    save(place.manager, place.saved)
    return place


def truncate(place: Place) -> None:
    place.log.truncate_to(30)
    place.append(15)


def truncate_to_nothing(place: Place) -> None:
    place.log.truncate_fully_and_start_at(100)
    place.append(3)


def clean(place: Place) -> None:
    place.append(5)
    place.roll()
    before = place.log.size_bytes
    passing = Pass(capture(place.log, assess(place.log, None, 1_000)), 1_000, Limits(), Unwatched())
    for group in passing.run():
        place.log.segments.replace(group.sources, group.segment, 1_000)
    place.manager.environment.deletions.delete_due(1 << 50)
    assert place.log.size_bytes < before / 2


class Unwatched:
    """Lets a pass do what it likes."""

    def on_bytes(self, count: int) -> None:
        """Never stops it."""


def delete_records(place: Place) -> None:
    place.log.raise_log_start_offset(45)
    place.log.delete_segments_below_log_start()
    place.manager.environment.deletions.delete_due(1 << 50)


def recover(place: Place) -> None:
    """A crash leaves a torn batch in a log whose files are those of the snapshot: all of it is read, and its indexes
    are built anew."""
    manager, gone = wiping.empty(place.manager, lambda topic: CONFIG)
    place.filesystem.remove_tree(gone)
    fill(manager, place.saved)
    place.manager = manager
    manager.load(1)
    assert place.log.log_end_offset == 60
    manager.close(clean=False)
    file = place.filesystem.open(f"{place.directory}/orders-0/{60:020}.log")
    file.append(b"torn off")
    file.close()
    place.filesystem.remove(f"{place.directory}/recovery-point-offset-checkpoint")
    place.manager = place.open()
    assert place.log.log_end_offset == 60


@pytest.mark.parametrize("change", [truncate, truncate_to_nothing, clean, delete_records, recover])
def test_what_happens_to_the_log_later_leaves_the_bytes_of_the_snapshot(
    place: Place, change: Callable[[Place], None]
) -> None:
    before = place.bytes_of_the_snapshot()
    assert sum(name.endswith(".log") for name in before) == 4
    change(place)
    assert place.bytes_of_the_snapshot() == before


def test_a_filled_directory_loads_what_was_saved_without_recovery(place: Place) -> None:
    values, before = place.values(), place.bytes_of_the_snapshot()
    place.append(7)
    manager, gone = wiping.empty(place.manager, lambda topic: CONFIG)
    place.filesystem.remove_tree(gone)
    assert manager.logs == {}
    fill(manager, place.saved)
    manager.load(1)
    place.manager = manager
    assert (place.log.log_end_offset, place.log.high_watermark, place.log.recovery_point) == (60, 60, 60)
    assert place.log.topic_id == bytes(range(16))
    assert place.values() == values
    assert is_log_sealed(place.log)
    place.append(2)
    assert not is_sealed(manager)
    assert place.bytes_of_the_snapshot() == before


def test_where_links_fail_the_files_are_copied(
    filesystem: FileSystem, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(old: str, new: str) -> None:
        raise OSError(errno.EXDEV, os.strerror(errno.EXDEV), old)

    monkeypatch.setattr(filesystem, "link", refuse)
    filesystem.make_directory(str(tmp_path))
    place = Place(filesystem, tmp_path)
    place.manager.create(ORDERS, bytes(range(16)), CONFIG)
    place.append(20)
    place.roll()
    save(place.manager, place.saved)
    before = place.bytes_of_the_snapshot()
    assert before["orders-0/00000000000000000000.log"] == place.values()
    truncate_to_nothing(place)
    assert place.bytes_of_the_snapshot() == before


def test_segments_are_linked_and_small_files_are_not(tmp_path: Path) -> None:
    place = Place(OsFileSystem(), tmp_path)
    place.manager.create(ORDERS, bytes(range(16)), CONFIG)
    place.append(20)
    place.roll()
    save(place.manager, place.saved)
    links = {path.name: path.stat().st_nlink for path in Path(place.saved, "orders-0").iterdir()}
    assert {name for name, count in links.items() if count == 2} == {
        f"{0:020}.log",
        f"{0:020}.index",
        f"{0:020}.timeindex",
    }
    assert links[f"{20:020}.log"] == links["partition.metadata"] == 1
