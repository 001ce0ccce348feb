from __future__ import annotations

import pytest

from kmini.storage.filesystem import write_atomically
from kmini.storage.filesystem.memory_filesystem import MemoryFileSystem
from kmini.storage.log_dir_files import (
    CorruptMetadata,
    MetaProperties,
    read_meta_properties,
    read_partition_metadata,
    take_clean_shutdown,
    write_clean_shutdown,
    write_meta_properties,
    write_partition_metadata,
)

TOPIC_ID = bytes(range(16))
FORMATTED = "AAECAwQFBgcICQoLDA0ODw"


@pytest.fixture
def filesystem() -> MemoryFileSystem:
    filesystem = MemoryFileSystem()
    filesystem.make_directory("d")
    return filesystem


def test_partition_metadata_is_kafkas_text(filesystem: MemoryFileSystem) -> None:
    write_partition_metadata(filesystem, "d", TOPIC_ID)
    assert filesystem.read("d/partition.metadata") == f"version: 0\ntopic_id: {FORMATTED}".encode()
    assert read_partition_metadata(filesystem, "d") == TOPIC_ID


def test_a_log_without_partition_metadata_has_no_topic_id(filesystem: MemoryFileSystem) -> None:
    assert read_partition_metadata(filesystem, "d") is None


def test_no_topic_has_the_zero_id(filesystem: MemoryFileSystem) -> None:
    with pytest.raises(ValueError, match="zero"):
        write_partition_metadata(filesystem, "d", bytes(16))


@pytest.mark.parametrize(
    "text",
    [
        b"",
        b"version: 1\ntopic_id: " + FORMATTED.encode(),
        b"version: 0\n",
        b"version: 0\ntopic_id: short",
        b"version: 0\ntopic_id: AAAAAAAAAAAAAAAAAAAAAA",
        b"version: 0\nno separator",
        b"\xff\xff",
    ],
)
def test_damaged_partition_metadata_is_refused(filesystem: MemoryFileSystem, text: bytes) -> None:
    write_atomically(filesystem, "d/partition.metadata", text)
    with pytest.raises(CorruptMetadata, match=r"partition\.metadata"):
        read_partition_metadata(filesystem, "d")


def test_meta_properties_are_read_back(filesystem: MemoryFileSystem) -> None:
    meta = MetaProperties(3, "my-cluster", TOPIC_ID)
    write_meta_properties(filesystem, "d", meta)
    assert read_meta_properties(filesystem, "d") == meta
    assert filesystem.read("d/meta.properties").decode().splitlines() == [
        "version=1",
        "node.id=3",
        "cluster.id=my-cluster",
        f"directory.id={FORMATTED}",
    ]


def test_meta_properties_of_other_brokers_are_read(filesystem: MemoryFileSystem) -> None:
    assert read_meta_properties(filesystem, "d") is None
    text = f"#\n#Thu Aug 06 07:54:19 UTC 2026\ncluster.id=abc\ndirectory.id={FORMATTED}\nnode.id=1\nversion=1\n"
    write_atomically(filesystem, "d/meta.properties", text.encode())
    assert read_meta_properties(filesystem, "d") == MetaProperties(1, "abc", TOPIC_ID)
    write_atomically(filesystem, "d/meta.properties", b"version=0\nbroker.id=7\n")
    assert read_meta_properties(filesystem, "d") == MetaProperties(7, "")


@pytest.mark.parametrize(
    "text", ["", "version=2\nnode.id=1", "version=1\nnode.id=x\ncluster.id=a", "version=1\nnode.id=1", "version"]
)
def test_damaged_meta_properties_are_refused(filesystem: MemoryFileSystem, text: str) -> None:
    write_atomically(filesystem, "d/meta.properties", text.encode())
    with pytest.raises(CorruptMetadata, match=r"meta\.properties"):
        read_meta_properties(filesystem, "d")


def test_the_clean_shutdown_marker_is_good_for_one_start(filesystem: MemoryFileSystem) -> None:
    assert not take_clean_shutdown(filesystem, "d")
    write_clean_shutdown(filesystem, "d")
    assert filesystem.read("d/.kafka_cleanshutdown") == b'{"version":0,"brokerEpoch":-1}'
    assert take_clean_shutdown(filesystem, "d")
    assert not take_clean_shutdown(filesystem, "d")
    assert not any(take_clean_shutdown(filesystem.crash(seed), "d") for seed in range(10))


def test_an_empty_marker_of_an_older_broker_counts(filesystem: MemoryFileSystem) -> None:
    filesystem.open("d/.kafka_cleanshutdown", create=True)
    assert take_clean_shutdown(filesystem, "d")
