"""The worked examples of storage/FORMAT.md are what the code writes."""

from __future__ import annotations

import os
import re
from pathlib import Path

import pytest

import kmini.storage
from kmini.broker.controller.database import ControllerDatabase
from kmini.broker.controller.topology import PartitionState, Topic
from kmini.protocol.records.batch import is_crc_valid, read_header
from kmini.protocol.records.old_formats.messages import build_messages
from kmini.protocol.records.record import Record
from kmini.protocol.topics import TopicPartition
from kmini.storage import log_dir_files, offset_checkpoint_file
from kmini.storage.filesystem import FileSystem
from kmini.storage.filesystem.memory_filesystem import MemoryFileSystem
from kmini.storage.indexes.index_file import IndexFile
from kmini.storage.indexes.offset_index import OffsetIndex
from kmini.storage.indexes.time_index import TimeIndex
from kmini.storage.indexes.transaction_index import AbortedTransaction, TransactionIndex
from kmini.storage.producers.producer_entry import CachedBatch, ProducerEntry
from kmini.storage.producers.producer_snapshot import encode_snapshot

PAGE = Path(os.path.dirname(os.path.realpath(kmini.storage.__file__))) / "FORMAT.md"
TOPIC_ID = bytes(range(16))


@pytest.fixture(scope="module")
def examples() -> list[str]:
    if not PAGE.exists():
        pytest.skip("the page belongs to the sources, and these are not installed from there")
    return [match[1] for match in re.finditer(r"^```\n(.*?)^```$", PAGE.read_text("utf-8"), re.DOTALL | re.MULTILINE)]


@pytest.fixture
def filesystem() -> MemoryFileSystem:
    return MemoryFileSystem()


def hexadecimal(examples: list[str]) -> list[bytes]:
    joined = ("".join(example.split()) for example in examples)
    return [bytes.fromhex(text) for text in joined if re.fullmatch(r"[0-9a-f]{16,}", text)]


def index_bytes(filesystem: FileSystem, index: IndexFile) -> bytes:
    index.flush()
    return filesystem.read(index.path)


def test_the_indexes(examples: list[str], filesystem: MemoryFileSystem) -> None:
    offsets = OffsetIndex(filesystem, "a", 1000)
    offsets.append(1005, 398)
    offsets.append(1009, 796)
    times = TimeIndex(filesystem, "b", 1000)
    for timestamp, offset in ((102, 1005), (104, 1009), (105, 1011)):
        times.maybe_append(timestamp, offset)
    aborted = TransactionIndex(filesystem, "c", 100)
    aborted.append(AbortedTransaction(producer_id=7, first_offset=90, last_offset=110, last_stable_offset=105))
    for index in (offsets, times, aborted):
        assert index_bytes(filesystem, index) in hexadecimal(examples)


def test_the_snapshot(examples: list[str]) -> None:
    entry = ProducerEntry(
        producer_id=7,
        epoch=3,
        last_timestamp=1005,
        transaction_first_offset=20,
        batches=(CachedBatch(last_sequence=11, last_offset=21, offset_delta=1, timestamp=1005),),
    )
    assert encode_snapshot([entry]) in hexadecimal(examples)


def test_the_batches(examples: list[str]) -> None:
    batches = {}
    for data in hexadecimal(examples):
        if len(data) > 61 and data[16] == 2 and is_crc_valid(data, 0, read_header(data)):
            batches[read_header(data).base_offset] = read_header(data)
    assert sorted(batches) == [0, 42]
    assert (batches[0].producer_id, batches[0].base_sequence, batches[0].record_count) == (7, 10, 2)
    assert batches[42].is_control


def test_the_messages_of_old_formats(examples: list[str]) -> None:
    (messages,) = [data for data in hexadecimal(examples) if data[8:12] == (16).to_bytes(4, "big")]
    record = Record(100, 1000, b"k", b"v")
    assert messages == build_messages([record], 0) + build_messages([record], 1)


def test_the_controllers_database(examples: list[str], filesystem: MemoryFileSystem) -> None:
    database, _ = ControllerDatabase.open(filesystem, "", new_cluster_id="MkU3OEVBNTcwNTJENDM2Qg")
    database.insert_topics([Topic("a", TOPIC_ID, (PartitionState((1,), (1,), 1),), {})])
    assert filesystem.read("kmini.db").decode() in examples


def test_the_texts(examples: list[str], filesystem: MemoryFileSystem) -> None:
    offset_checkpoint_file.write_offsets(filesystem, "offsets", {TopicPartition("mytopic", 0): 42})
    offset_checkpoint_file.write_epochs(filesystem, "epochs", [(0, 0), (3, 17)])
    log_dir_files.write_partition_metadata(filesystem, "", TOPIC_ID)
    log_dir_files.write_meta_properties(
        filesystem, "", log_dir_files.MetaProperties(1, "3Db5QLSqSZieL3rJBUUegA", TOPIC_ID)
    )
    log_dir_files.write_clean_shutdown(filesystem, "")
    texts = [example.rstrip("\n") for example in examples]
    for name in filesystem.list(""):
        assert filesystem.read(name).decode().rstrip("\n") in texts, name
