"""Apache Kafka's own classes read every small file that storage writes, and respect its lock."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from kmini.protocol.topics import TopicPartition
from kmini.storage import log_dir_files, offset_checkpoint_file
from kmini.storage.filesystem import OsFileSystem
from kmini.storage.indexes.offset_index import OffsetIndex
from kmini.storage.indexes.time_index import TimeIndex
from kmini.storage.indexes.transaction_index import AbortedTransaction, TransactionIndex
from kmini.storage.producers.producer_entry import CachedBatch, ProducerEntry
from kmini.storage.producers.producer_snapshot import write_snapshot
from support import apache_kafka

TOPIC_ID = bytes(range(16))


def write_every_file(filesystem: OsFileSystem, folder: Path) -> None:
    directory = str(folder)
    offsets = OffsetIndex(filesystem, str(folder / "00000000000000001000.index"), 1000)
    offsets.append(1005, 398)
    offsets.append(1009, 796)
    times = TimeIndex(filesystem, str(folder / "00000000000000001000.timeindex"), 1000)
    for timestamp, offset in ((102, 1005), (104, 1009), (105, 1011)):
        times.maybe_append(timestamp, offset)
    aborts = TransactionIndex(filesystem, str(folder / "00000000000000001000.txnindex"), 1000)
    aborts.append(AbortedTransaction(7, 990, 1005, 1003))
    for index in (offsets, times, aborts):
        index.flush()
    batch = CachedBatch(last_sequence=11, last_offset=21, offset_delta=1, timestamp=1005)
    write_snapshot(filesystem, directory, 22, [ProducerEntry(7, 3, 4, 1005, 20, (batch,)), ProducerEntry(9, 1, -1, 77)])
    recovery_points = {TopicPartition("my.topic-x", 3): 42}
    offset_checkpoint_file.write_offsets(filesystem, str(folder / "recovery-point-offset-checkpoint"), recovery_points)
    offset_checkpoint_file.write_epochs(filesystem, str(folder / "leader-epoch-checkpoint"), [(0, 0), (3, 17)])
    log_dir_files.write_partition_metadata(filesystem, directory, TOPIC_ID)
    meta = log_dir_files.MetaProperties(1, "3Db5QLSqSZieL3rJBUUegA", TOPIC_ID)
    log_dir_files.write_meta_properties(filesystem, directory, meta)
    log_dir_files.write_clean_shutdown(filesystem, directory)


@pytest.mark.oracle
@pytest.mark.usefixtures("need_kafka")
def test_kafka_reads_every_small_file_and_respects_the_lock(tmp_path: Path) -> None:
    filesystem = OsFileSystem()
    write_every_file(filesystem, tmp_path)
    lock = filesystem.lock(str(tmp_path / ".lock"))
    source = Path(__file__).with_name("ReadStorageFiles.java")
    command = [*apache_kafka.java_command("-XX:TieredStopAtLevel=1"), str(source), str(tmp_path)]
    finished = subprocess.run(command, capture_output=True, text=True, check=False, timeout=120)
    lock.release()
    assert finished.returncode == 0, finished.stderr
    offsets, times, aborts, producers, recovery_points, epochs, topic_id, meta, clean, locked = (
        finished.stdout.splitlines()
    )
    assert offsets == "2 OffsetPosition[offset=1005, position=398] OffsetPosition[offset=1009, position=796]"
    assert times == "3 TimestampOffset[timestamp=102, offset=1005] TimestampOffset[timestamp=105, offset=1011]"
    assert aborts == "[AbortedTxn(version=0, producerId=7, firstOffset=990, lastOffset=1005, lastStableOffset=1003)]"
    assert "producerEpoch=3, currentTxnFirstOffset=OptionalLong[20], coordinatorEpoch=4" in producers
    assert "BatchMetadata(firstSeq=10, lastSeq=11, firstOffset=20, lastOffset=21, timestamp=1005)" in producers
    assert "producerEpoch=1, currentTxnFirstOffset=OptionalLong.empty, coordinatorEpoch=-1" in producers
    assert recovery_points == "{my.topic-x-3=42}"
    assert epochs == "[EpochEntry[epoch=0, startOffset=0], EpochEntry[epoch=3, startOffset=17]]"
    assert topic_id == "AAECAwQFBgcICQoLDA0ODw"
    assert "nodeId=1, directoryId=AAECAwQFBgcICQoLDA0ODw" in meta
    assert (clean, locked) == ("OptionalLong[-1]", "locked")
