"""Which directories a broker takes for its data directory, and what it says of the others."""

from __future__ import annotations

import errno
import logging

import pytest

from kmini.storage.data_directory import NotADataDirectory, prepare_data_directory
from kmini.storage.filesystem.faults import Faults, PowerLoss
from kmini.storage.filesystem.memory_filesystem import MemoryFileSystem
from kmini.storage.log_dir_files import MetaProperties, write_meta_properties

PATH = "/srv/data"


@pytest.fixture
def filesystem() -> MemoryFileSystem:
    filesystem = MemoryFileSystem()
    filesystem.make_directory(PATH)
    return filesystem


def write(filesystem: MemoryFileSystem, *names: str) -> None:
    for name in names:
        filesystem.open(f"{PATH}/{name}", create=True).close()


def refusal(filesystem: MemoryFileSystem, path: str = PATH, node_ids: tuple[int, ...] = (1,)) -> str:
    before = filesystem.list(path)
    with pytest.raises(NotADataDirectory) as caught:
        prepare_data_directory(filesystem, path, node_ids)
    assert filesystem.list(path) == before
    return str(caught.value)


def test_an_empty_directory_is_taken(filesystem: MemoryFileSystem) -> None:
    prepare_data_directory(filesystem, PATH, (1,))


def test_a_missing_directory_is_made_and_survives_a_loss_of_power() -> None:
    filesystem = MemoryFileSystem()
    prepare_data_directory(filesystem, PATH, (1,))
    for seed in range(10):
        assert filesystem.crash(seed).is_directory(PATH)


@pytest.mark.parametrize(
    "name",
    [
        *(".gitignore", ".DS_Store", ".lock", "lost+found", "System Volume Information", "Thumbs.db"),
        *("kmini.db-wal", "kmini.db-journal", "kmini.db-shm", "kmini.db.tmp", "kmini.db.damaged"),
    ],
)
def test_a_directory_of_harmless_names_counts_as_empty(filesystem: MemoryFileSystem, name: str) -> None:
    write(filesystem, name)
    prepare_data_directory(filesystem, PATH, (1,))


def test_files_of_another_program_are_named(filesystem: MemoryFileSystem) -> None:
    write(filesystem, "PG_VERSION", ".hidden")
    said = refusal(filesystem)
    assert said == (
        "/srv/data is neither empty nor a data directory of kmini: it holds PG_VERSION, and no kmini.db. "
        "Name an empty directory, or one that does not exist yet"
    )


def test_many_files_are_counted(filesystem: MemoryFileSystem) -> None:
    write(filesystem, *"edcba")
    assert "it holds a, b, c and 2 more," in refusal(filesystem)


@pytest.mark.parametrize(
    ("node_id", "advice"),
    [
        (1, "copy /srv/data to broker-1 in a new directory, name the new directory. To begin"),
        (7, "copy /srv/data to broker-7 in a new directory, name the new directory and set node.id to 7. To begin"),
    ],
)
def test_a_log_directory_of_apache_kafka_is_named_with_the_way_to_serve_it(
    filesystem: MemoryFileSystem, node_id: int, advice: str
) -> None:
    write_meta_properties(filesystem, PATH, MetaProperties(node_id, "MkU3OEVBNTcwNTJENDM2Qg"))
    said = refusal(filesystem)
    assert f"/srv/data is a log directory of Apache Kafka's node {node_id}, for it holds meta.properties" in said
    assert advice in said


def test_kafkas_logs_of_a_topic_called_broker_are_not_taken_for_ours(filesystem: MemoryFileSystem) -> None:
    write_meta_properties(filesystem, PATH, MetaProperties(1, "MkU3OEVBNTcwNTJENDM2Qg"))
    filesystem.make_directory(f"{PATH}/broker-1")
    assert "log directory of Apache Kafka" in refusal(filesystem)


def test_damaged_meta_properties_are_kafkas_all_the_same(filesystem: MemoryFileSystem) -> None:
    write(filesystem, "meta.properties")
    assert "/srv/data is a log directory of Apache Kafka" in refusal(filesystem)


def test_a_log_directory_of_kafka_one_level_below_is_found(filesystem: MemoryFileSystem) -> None:
    filesystem.make_directory(f"{PATH}/kraft-logs")
    write_meta_properties(filesystem, f"{PATH}/kraft-logs", MetaProperties(1, "MkU3OEVBNTcwNTJENDM2Qg"))
    said = refusal(filesystem)
    assert "/srv/data/kraft-logs is a log directory of Apache Kafka" in said
    assert "copy /srv/data/kraft-logs to broker-1" in said


def test_the_log_directory_of_a_broker_of_ours_leads_to_the_data_directory(filesystem: MemoryFileSystem) -> None:
    write(filesystem, "kmini.db")
    filesystem.make_directory(f"{PATH}/broker-1")
    write_meta_properties(filesystem, f"{PATH}/broker-1", MetaProperties(1, "MkU3OEVBNTcwNTJENDM2Qg"))
    said = refusal(filesystem, f"{PATH}/broker-1")
    assert said == (
        "/srv/data/broker-1 is the log directory of one broker of kmini. Name the data directory above it, /srv/data"
    )


def test_other_files_beside_a_database_of_ours_do_not_matter(
    filesystem: MemoryFileSystem, caplog: pytest.LogCaptureFixture
) -> None:
    write(filesystem, "kmini.db", "notes.txt", "meta.properties")
    with caplog.at_level(logging.WARNING):
        prepare_data_directory(filesystem, PATH, (1,))
    assert "meta.properties is left alone" in caplog.text


def test_log_directories_without_a_database_are_taken(filesystem: MemoryFileSystem) -> None:
    filesystem.make_directory(f"{PATH}/broker-1")
    write(filesystem, "notes.txt")
    prepare_data_directory(filesystem, PATH, (1,))


@pytest.mark.parametrize("has_database", [True, False])
def test_log_directories_of_other_brokers_only_are_refused(filesystem: MemoryFileSystem, has_database: bool) -> None:
    write(filesystem, *["kmini.db"] * has_database)
    for name in ("broker-3", "broker-4"):
        filesystem.make_directory(f"{PATH}/{name}")
    assert refusal(filesystem) == (
        "/srv/data holds broker-3, broker-4, and no broker-1. To serve its records, set node.id to 3. "
        "To begin without records, name an empty directory"
    )
    prepare_data_directory(filesystem, PATH, (1, 3))


def test_a_file_in_the_place_of_a_directory_is_named(filesystem: MemoryFileSystem) -> None:
    write(filesystem, "broker-1")
    for path in (f"{PATH}/broker-1", PATH):
        with pytest.raises(NotADirectoryError, match="it is a file, and a directory was expected") as caught:
            prepare_data_directory(filesystem, path, (1,))
        assert caught.value.filename == f"{PATH}/broker-1"


def test_a_disk_that_refuses_is_an_error_of_the_disk() -> None:
    for n in range(1, 20):
        filesystem = MemoryFileSystem(faults := Faults(fail_at=n, error=errno.EACCES))
        try:
            prepare_data_directory(filesystem, PATH, (1,))
        except PermissionError:
            continue
        break
    assert not faults.is_spent
    assert n > 3


def test_a_start_after_a_loss_of_power_in_the_first_one_takes_the_directory() -> None:
    for n in range(1, 20):
        filesystem = MemoryFileSystem(faults := Faults(power_loss_at=n))
        try:
            prepare_data_directory(filesystem, PATH, (1,))
        except PowerLoss:
            prepare_data_directory(filesystem.crash(n), PATH, (1,))
        if not faults.is_spent:
            break
    assert n > 3
