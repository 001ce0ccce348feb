"""LogManager: one log directory, from lock to clean-shutdown marker."""

from __future__ import annotations

import logging
import os
from collections.abc import Callable
from typing import Any

import pytest

from kmini.protocol.errors import KafkaStorageError
from kmini.protocol.records.batch import build_batch
from kmini.protocol.records.record import Record
from kmini.protocol.topics import TopicPartition
from kmini.protocol.uuids import ZERO_UUID, format_uuid
from kmini.storage import log_manager
from kmini.storage.filesystem import LockHeld, OsFileSystem
from kmini.storage.filesystem.faults import Faults
from kmini.storage.filesystem.memory_filesystem import MemoryFileSystem
from kmini.storage.log import PartitionLog
from kmini.storage.log_config import LogConfig
from kmini.storage.log_manager import LogManager, WrongLogDirectory
from kmini.storage.validation import ValidatedRecords

DIRECTORY = "/data/broker-1"
ID = bytes(range(1, 17))
A0, A1, B0 = TopicPartition("a", 0), TopicPartition("a", 1), TopicPartition("b-c", 0)


class Host:
    """Opens one log directory again and again."""

    def __init__(self) -> None:
        self.filesystem = MemoryFileSystem()
        self.now_ms = 1_000
        self.configs: dict[str, LogConfig] = {}

    def open(self, **arguments: Any) -> LogManager:
        settings = {"node_id": 1, "cluster_id": "cluster", **arguments}
        return LogManager.open(
            self.filesystem,
            DIRECTORY,
            config_of=lambda topic: self.configs.get(topic, LogConfig()),
            now_ms=lambda: self.now_ms,
            **settings,
        )

    def reopen(self, **arguments: Any) -> LogManager:
        """After a kill."""
        self.filesystem = self.filesystem.kill()
        return self.open(**arguments)

    def names(self, path: str = "") -> list[str]:
        return list(self.filesystem.list(os.path.join(DIRECTORY, path).rstrip("/")))

    def read(self, name: str) -> bytes:
        return self.filesystem.read(f"{DIRECTORY}/{name}")

    def write(self, name: str, content: bytes) -> None:
        file = self.filesystem.open(f"{DIRECTORY}/{name}", create=True)
        file.truncate(0)
        file.append(content)
        file.close()


@pytest.fixture
def host() -> Host:
    return Host()


def append(log: PartitionLog, value: bytes = b"v", timestamp: int = 1_000) -> None:
    batch = build_batch([Record(0, timestamp, None, value)])
    log.append_as_leader(ValidatedRecords.of(batch), leader_epoch=0, now_ms=1_000)
    log.update_high_watermark(log.log_end_offset)


class TestOpening:
    def test_a_new_directory_is_made_and_signed(self, host: Host) -> None:
        manager = host.open()
        assert manager.logs == {}
        assert b"node.id=1\ncluster.id=cluster\ndirectory.id=" in host.read("meta.properties")

    def test_a_directory_in_use_is_refused(self, host: Host) -> None:
        host.open()
        with pytest.raises(LockHeld):
            host.open()

    def test_closing_lets_others_have_it(self, host: Host) -> None:
        host.open().close()
        host.open().close(clean=False)
        host.open()

    @pytest.mark.parametrize("other", [{"node_id": 2}, {"cluster_id": "another"}])
    def test_another_brokers_directory_is_refused_and_not_kept(self, host: Host, other: dict[str, Any]) -> None:
        host.open().close()
        with pytest.raises(WrongLogDirectory):
            host.open(**other)
        host.open()

    def test_damaged_meta_properties_are_written_anew(self, host: Host) -> None:
        host.open().close()
        host.write("meta.properties", b"\xff\xff")
        assert host.open().meta.node_id == 1

    def test_meta_properties_of_a_later_version_are_refused_and_stay(self, host: Host) -> None:
        host.open().close()
        host.write("meta.properties", later := b"version=2\nnode.id=1\ncluster.id=cluster\n")
        with pytest.raises(WrongLogDirectory, match=r"version 2 is a later one than 1: .* upgrade kmini"):
            host.open()
        assert host.read("meta.properties") == later

    def test_directories_that_are_no_logs_are_left_alone(self, host: Host, caplog: pytest.LogCaptureFixture) -> None:
        host.open().close()
        for name in ("lost+found", "a-0.0123456789abcdef0123456789abcdef-stray", "__cluster_metadata-0"):
            host.filesystem.make_directory(f"{DIRECTORY}/{name}")
        with caplog.at_level(logging.WARNING):
            assert host.open().logs == {}
        assert "lost+found" in caplog.text
        assert "__cluster_metadata" not in caplog.text
        assert "lost+found" in host.names()

    def test_logs_of_several_topics_are_loaded_each_with_its_settings(self, host: Host) -> None:
        host.configs["b-c"] = LogConfig(segment_bytes=12_345)
        manager = host.open()
        for name in (A0, A1, B0):
            append(manager.create(name, ID, host.configs.get(name.topic, LogConfig())))
        for again in (host.reopen(), host.reopen(recovery_threads=1)):
            assert set(again.logs) == {A0, A1, B0}
            assert again.logs[B0].config.segment_bytes == 12_345
            assert all(log.log_end_offset == 1 for log in again.logs.values())


class TestCreating:
    def test_partition_metadata_has_the_topic_id(self, host: Host) -> None:
        log = host.open().create(A0, ID, LogConfig())
        assert log.topic_id == ID
        assert host.read("a-0/partition.metadata") == f"version: 0\ntopic_id: {format_uuid(ID)}".encode()
        assert host.names("a-0") == ["00000000000000000000.log", "partition.metadata"]

    def test_creating_twice_is_a_mistake(self, host: Host) -> None:
        manager = host.open()
        manager.create(A0, ID, LogConfig())
        with pytest.raises(ValueError):
            manager.create(A0, ID, LogConfig())

    def test_nothing_is_synced(self, host: Host) -> None:
        manager = host.open()
        host.filesystem.faults = Faults(operations={"sync", "sync_directory"})
        manager.create(A0, ID, LogConfig())
        assert host.filesystem.faults.count == 0

    @pytest.mark.parametrize("number", range(1, 8))
    def test_a_failing_disk_leaves_nothing_that_is_taken_for_a_log(self, host: Host, number: int) -> None:
        manager = host.open()
        host.filesystem.faults = Faults(fail_at=number)
        try:
            manager.create(A0, ID, LogConfig())
        except KafkaStorageError:
            assert manager.get(A0) is None
        host.filesystem.faults = Faults()
        assert manager.get(A0) or manager.create(A0, ID, LogConfig())
        append(manager.logs[A0])
        assert host.reopen().logs[A0].log_end_offset == 1

    def test_a_half_made_one_is_for_the_broker_to_decide(self, host: Host) -> None:
        host.open().create(A0, ID, LogConfig())
        host.filesystem.remove(f"{DIRECTORY}/a-0/partition.metadata")
        manager = host.reopen()
        assert manager.logs[A0].topic_id == ZERO_UUID
        manager.assign_topic_id(A0, ID)
        assert host.reopen().logs[A0].topic_id == ID

    def test_a_half_made_one_is_removed_at_once_on_request(self, host: Host) -> None:
        manager = host.open()
        manager.create(A0, ID, LogConfig())
        manager.remove(A0)
        assert manager.get(A0) is None
        assert "a-0" not in host.names()

    def test_a_flushed_log_has_its_id_on_the_disk(self, host: Host) -> None:
        log = host.open().create(A0, ID, LogConfig())
        append(log)
        log.flush()
        for seed in range(20):
            again = Host()
            again.filesystem = host.filesystem.crash(seed)
            assert again.open().logs[A0].topic_id == ID


class TestDeleting:
    def test_the_directory_is_marked_and_goes_after_the_brokers_delay(self, host: Host) -> None:
        manager = host.open()
        append(manager.create(A0, ID, LogConfig(file_delete_delay_ms=1)))
        host.configs["a"] = LogConfig(file_delete_delay_ms=500)
        manager.delete(A0)
        assert manager.get(A0) is None
        [marked] = [name for name in host.names() if name.endswith("-delete")]
        assert marked.startswith("a-0.")
        assert manager.next_deletion_ms == 1_500
        assert manager.delete_due_files(1_499) == 0
        assert manager.delete_due_files(1_500) == 1
        assert marked not in host.names()
        assert manager.next_deletion_ms is None

    def test_the_topic_can_be_made_again_at_once(self, host: Host) -> None:
        manager = host.open()
        append(manager.create(A0, ID, LogConfig()))
        manager.delete(A0)
        assert manager.create(A0, ID[::-1], LogConfig()).log_end_offset == 0
        manager.delete(A0)
        assert manager.delete_due_files(10**9) == 2

    def test_what_was_marked_before_a_kill_goes_afterwards(self, host: Host) -> None:
        manager = host.open()
        manager.create(A0, ID, LogConfig())
        manager.delete(A0)
        again = host.reopen()
        assert again.logs == {}
        again.delete_due_files(host.now_ms)
        assert not [name for name in host.names() if name.startswith("a-0")]

    def test_a_failing_disk_keeps_the_log(self, host: Host) -> None:
        manager = host.open()
        append(manager.create(A0, ID, LogConfig()))
        host.filesystem.faults = Faults(fail_at=1, operations={"rename"})
        with pytest.raises(KafkaStorageError):
            manager.delete(A0)
        append(manager.logs[A0])
        assert manager.logs[A0].log_end_offset == 2

    def test_segment_files_of_a_deleted_topic_are_not_looked_for(
        self, host: Host, caplog: pytest.LogCaptureFixture
    ) -> None:
        manager = host.open()
        log = manager.create(A0, ID, LogConfig())
        append(log)
        log.raise_log_start_offset(1)
        log.delete_segments_below_log_start()
        manager.delete(A0)
        with caplog.at_level(logging.WARNING):
            manager.delete_due_files(10**9)
        assert caplog.text == ""


class TestCheckpoints:
    def test_every_log_that_does_not_start_at_0_is_in_the_log_start_checkpoint(self, host: Host) -> None:
        manager = host.open()
        log, other = manager.create(A0, ID, LogConfig()), manager.create(A1, ID, LogConfig())
        append(log)
        append(other)
        log.raise_log_start_offset(1)
        log.delete_segments_below_log_start()
        assert manager.log_start_offsets() == {A0: 1}
        manager.write_log_start_offsets(manager.log_start_offsets())
        assert host.read("log-start-offset-checkpoint") == host.read("log-begin-offset-checkpoint") == b"0\n1\na 0 1\n"
        assert host.reopen().logs[A0].log_start_offset == 1

    def test_a_topic_made_again_does_not_inherit_the_log_start_offset(self, host: Host) -> None:
        manager = host.open()
        log = manager.create(A0, ID, LogConfig())
        for _ in range(3):
            append(log)
        log.raise_log_start_offset(3)
        manager.write_log_start_offsets(manager.log_start_offsets())
        manager.delete(A0)
        append(manager.create(A0, ID[::-1], LogConfig()))
        again = host.reopen().logs[A0]
        assert (again.log_start_offset, again.log_end_offset) == (0, 1)

    def test_a_topic_made_again_does_not_inherit_it_from_a_write_under_way(self, host: Host) -> None:
        manager = host.open()
        log = manager.create(A0, ID, LogConfig())
        append(log)
        log.raise_log_start_offset(1)
        snapshot = manager.log_start_offsets()
        manager.delete(A0)
        append(manager.create(A0, ID[::-1], LogConfig()))
        manager.write_log_start_offsets(snapshot)
        assert host.read("log-start-offset-checkpoint") == b"0\n0\n"

    def test_recovery_points_and_high_watermarks(self, host: Host) -> None:
        manager = host.open()
        log = manager.create(A0, ID, LogConfig())
        append(log)
        log.flush()
        append(log)
        assert manager.recovery_points() == {A0: 1}
        assert manager.high_watermarks() == {A0: 2}

    def test_the_high_watermark_comes_from_its_checkpoint_but_not_beyond_the_log(self, host: Host) -> None:
        manager = host.open()
        for name in (A0, A1, B0):
            log = manager.create(name, ID, LogConfig())
            for _ in range(3):
                append(log)
        host.write("replication-offset-checkpoint", b"0\n2\na 0 2\na 1 9\n")
        again = host.reopen()
        assert again.high_watermarks() == {A0: 2, A1: 3, B0: 0}

    @pytest.mark.parametrize(
        "name", ["recovery-point-offset-checkpoint", "replication-offset-checkpoint", "log-start-offset-checkpoint"]
    )
    @pytest.mark.parametrize("content", [b"\xff", b"0\n", b"1\n0\n", b"0\n1\na 0 x\n", b"0\n5\na 0 1\n"])
    def test_a_damaged_checkpoint_does_not_stop_the_start(self, host: Host, name: str, content: bytes) -> None:
        manager = host.open()
        append(manager.create(A0, ID, LogConfig()))
        host.write(name, content)
        assert host.reopen().logs[A0].log_end_offset == 1

    @pytest.mark.parametrize(
        ("recovery_point", "cleaned_to", "end"),
        [("a 0 0", "", 0), ("a 0 1", "", 2), ("a 0 0", "a 0 1", 2), ("b-c 0 0", "", 2)],
        ids=["a loss", "below the recovery point", "below the cleaner's checkpoint", "no recovery point"],
    )
    def test_a_gap_between_segments_is_a_loss_where_no_pass_was(
        self, host: Host, recovery_point: str, cleaned_to: str, end: int
    ) -> None:
        log = host.open().create(A0, ID, LogConfig())
        append(log)
        log.roll(host.now_ms)
        append(log)
        host.write("a-0/00000000000000000000.log", b"")
        host.write("recovery-point-offset-checkpoint", f"0\n1\n{recovery_point}\n".encode())
        host.write("cleaner-offset-checkpoint", f"0\n{1 if cleaned_to else 0}\n{cleaned_to}\n".encode())
        assert host.reopen().logs[A0].log_end_offset == end

    def test_beside_a_damaged_log_start_checkpoint_the_other_name_counts(self, host: Host) -> None:
        manager = host.open()
        log = manager.create(A0, ID, LogConfig())
        append(log)
        log.raise_log_start_offset(1)
        manager.write_log_start_offsets(manager.log_start_offsets())
        host.write("log-start-offset-checkpoint", b"rubbish")
        assert host.reopen().logs[A0].log_start_offset == 1


class TestClosing:
    def test_a_clean_shutdown_is_marked_and_the_mark_is_taken(self, host: Host) -> None:
        manager = host.open()
        append(manager.create(A0, ID, LogConfig()))
        manager.close()
        assert ".kafka_cleanshutdown" in host.names()
        assert host.read("recovery-point-offset-checkpoint") == b"0\n1\na 0 1\n"
        again = host.reopen()
        assert again.logs[A0].recovery_point == 1
        assert ".kafka_cleanshutdown" not in host.names()

    def test_an_unclean_one_is_not(self, host: Host) -> None:
        manager = host.open()
        append(manager.create(A0, ID, LogConfig()))
        manager.close(clean=False)
        assert ".kafka_cleanshutdown" not in host.names()
        assert host.open().logs[A0].log_end_offset == 1

    def test_a_log_that_cannot_be_closed_makes_the_shutdown_unclean(self, host: Host) -> None:
        manager = host.open()
        append(manager.create(A0, ID, LogConfig()))
        append(manager.create(A1, ID, LogConfig()))
        host.filesystem.faults = Faults(fail_at=1, operations={"sync"})
        manager.close()
        assert ".kafka_cleanshutdown" not in host.names()
        assert set(host.reopen().logs) == {A0, A1}

    def test_background_work_is_handed_out_once(self, host: Host) -> None:
        manager = host.open()
        log = manager.create(A0, ID, LogConfig())
        append(log)
        log.roll(host.now_ms)
        [work] = manager.take_background_work()
        assert manager.take_background_work() == []
        work.run()
        work.finish()
        assert log.recovery_point == 1


class TestOfflineLogs:
    @pytest.fixture(params=["read here", "read in a thread"])
    def half_broken(self, host: Host, request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> LogManager:
        in_thread = request.param == "read in a thread"
        if in_thread:
            monkeypatch.setattr(log_manager, "_BYTES_FOR_A_THREAD", 1)
        manager = host.open()
        for name in (A0, A1):
            append(manager.create(name, ID, LogConfig()))
            manager.logs[name].raise_log_start_offset(1)
        manager.write_log_start_offsets(manager.log_start_offsets())
        operations = {"read_at"} if in_thread else {"size", "open", "read_at"}
        host.filesystem = host.filesystem.kill(Faults(fail_at=1, operations=operations))
        return host.open(recovery_threads=2 if in_thread else 1)

    def test_a_log_that_cannot_be_read_stays_offline_and_the_others_serve(self, half_broken: LogManager) -> None:
        assert set(half_broken.offline) | set(half_broken.logs) == {A0, A1}
        assert len(half_broken.offline) == 1

    def test_it_is_not_made_again_over_what_is_there(self, half_broken: LogManager) -> None:
        [name] = half_broken.offline
        with pytest.raises(KafkaStorageError):
            half_broken.create(name, ID, LogConfig())

    def test_its_log_start_offset_stays_in_the_checkpoint(self, half_broken: LogManager) -> None:
        assert half_broken.log_start_offsets() == {A0: 1, A1: 1}

    def test_the_shutdown_is_not_clean_and_the_next_start_finds_it(self, host: Host, half_broken: LogManager) -> None:
        half_broken.close()
        assert ".kafka_cleanshutdown" not in host.names()
        assert set(host.reopen().logs) == {A0, A1}


class TestRetention:
    def test_it_is_applied_to_every_log(self, host: Host) -> None:
        manager = host.open()
        for name in (A0, A1, B0):
            log = manager.create(name, ID, LogConfig(retention_ms=100))
            append(log, timestamp=50 if name is not B0 else 10**6)
        assert manager.apply_retention(1_000) == [A0, A1]
        assert manager.logs[A0].log_start_offset == 1

    def test_one_that_fails_does_not_stop_the_others(self, host: Host) -> None:
        manager = host.open()
        for name in (A0, A1):
            append(manager.create(name, ID, LogConfig(retention_ms=0)), timestamp=1)
        host.filesystem.faults = Faults(fail_at=1, operations={"create"})
        assert manager.apply_retention(10**6) == [A1]


def test_on_a_real_disk_records_survive_a_restart_and_a_kill(tmp_path: Any, make_bench: Callable[..., Any]) -> None:
    filesystem = OsFileSystem()

    def start() -> LogManager:
        return LogManager.open(
            filesystem,
            str(tmp_path / "broker-1"),
            node_id=1,
            cluster_id="c",
            config_of=lambda topic: LogConfig(segment_bytes=500),
            now_ms=lambda: 1_000,
        )

    manager = start()
    log = manager.create(A0, ID, LogConfig(segment_bytes=500))
    for round_number, clean in enumerate((True, False, True)):
        for number in range(20):
            append(log, f"{round_number}.{number}".encode())
        for work in manager.take_background_work():
            work.run()
            work.finish()
        manager.close(clean=clean)
        manager = start()
        log = manager.logs[A0]
        assert log.log_end_offset == 20 * (round_number + 1)
    log.raise_log_start_offset(60)
    log.delete_segments_below_log_start()
    assert manager.delete_due_files(10**9) > 10
    assert [name for name in os.listdir(tmp_path / "broker-1" / "a-0") if name.endswith(".log")] == [f"{60:020}.log"]
    manager.close()
    filesystem.close()
