"""The controller's database: what survives, what is refused, and that memory and file agree."""

from __future__ import annotations

import shutil
import sqlite3
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from kmini.broker.controller.controller import (
    PRODUCER_ID_BLOCK,
    BrokerRegistration,
    Controller,
    ControllerError,
    PartitionState,
    Topic,
)
from kmini.broker.controller.database import ControllerDatabase, read_database
from kmini.broker.controller.database_entries import Stored
from kmini.protocol.errors import InvalidPartitions, InvalidReplicationFactor, KafkaStorageError
from kmini.storage.filenames import DATABASE
from kmini.storage.filesystem import OsFileSystem
from kmini.storage.filesystem.faults import Faults
from kmini.storage.filesystem.memory_filesystem import MemoryFileSystem
from kmini.storage.log_dir_files import MetaProperties, write_meta_properties
from support import sqlite_databases


@pytest.fixture
def filesystem() -> MemoryFileSystem:
    return MemoryFileSystem()


def open_in_memory(filesystem: MemoryFileSystem, data_dir: str = "/data") -> Controller:
    controller = Controller.open(data_dir, node_ids=[1], filesystem=filesystem)
    controller.register(BrokerRegistration(1))
    return controller


@pytest.fixture
def controller(tmp_path: Path) -> Iterator[Controller]:
    controller = Controller.open(str(tmp_path), node_ids=[1])
    controller.register(BrokerRegistration(1))
    yield controller
    controller.close()


def make(controller: Controller, name: str, partitions: int = 1, configs: dict[str, str] | None = None) -> Topic:
    topic = controller.new_topic(name, controller.assign(partitions, 1), configs or {})
    controller.create_topics([topic])
    return topic


def as_after_a_kill(controller: Controller, data_dir: Path) -> Controller:
    """A controller on the files as a killed process leaves them: copied while they are in use."""
    killed = data_dir.parent / f"{data_dir.name}-killed"
    shutil.copytree(data_dir, killed)
    return Controller.open(str(killed), node_ids=[1])


# --- what survives


def test_everything_is_there_again_after_closing(controller: Controller, tmp_path: Path) -> None:
    made = make(controller, "orders", 3, {"retention.ms": "5", "cleanup.policy": "compact"})
    controller.close()
    again = Controller.open(str(tmp_path))
    assert again.topics == {"orders": made}
    assert again.topic_by_id(made.id) == made
    assert again.cluster_id == controller.cluster_id
    again.close()


def test_everything_is_there_again_after_a_kill(controller: Controller, tmp_path: Path) -> None:
    kept = make(controller, "kept", 2, {"retention.ms": "5"})
    gone = make(controller, "gone")
    controller.delete_topics([gone])
    last_id = controller.next_producer_id()
    again = as_after_a_kill(controller, tmp_path)
    assert again.topics == {"kept": kept}
    assert again.deleted_topic_ids() == {gone.id}
    assert again.next_producer_id() > last_id
    again.close()


def test_leaders_and_replicas_survive_as_they_are(tmp_path: Path) -> None:
    controller = Controller.open(str(tmp_path))
    states = (PartitionState((2, 3), (3,), 3, 7, 9), PartitionState((3, 2), (), -1, 1, 2))
    topic = Topic("t", b"i" * 16, states, {})
    controller.create_topics([topic])
    controller.close()
    again = Controller.open(str(tmp_path))
    assert again.topics == {"t": topic}
    again.close()


def test_an_unsynced_database_survives_a_kill_too(tmp_path: Path) -> None:
    controller = Controller.open(str(tmp_path / ""), node_ids=[1], filesystem=OsFileSystem(synced=False))
    controller.register(BrokerRegistration(1))
    made = make(controller, "t")
    again = as_after_a_kill(controller, tmp_path)
    assert again.topics == {"t": made}
    again.close()
    controller.close()


# --- topics


def test_topics_of_one_request_are_made_all_or_none(filesystem: MemoryFileSystem) -> None:
    controller = open_in_memory(filesystem)
    make(controller, "there")
    new = [controller.new_topic(name, [(1,)], {"retention.ms": "5"}) for name in ("new", "other")]
    filesystem.faults = Faults(fail_at=1)
    with pytest.raises(KafkaStorageError):
        controller.create_topics(new)
    assert set(controller.topics) == {"there"}
    controller.create_topics(new)
    assert set(controller.topics) == {"there", "new", "other"}


def test_a_deleted_topic_is_remembered_until_its_folders_are_gone(controller: Controller) -> None:
    topic = make(controller, "t")
    controller.delete_topics([topic])
    assert controller.topic("t") is None
    assert controller.topic_by_id(topic.id) is None
    assert controller.is_leaving("t")
    assert controller.deleted_topic_ids() == {topic.id}
    controller.gone_from(1, [topic.id])
    controller.release_names([topic.id])
    assert not controller.is_leaving("t")
    assert controller.deleted_topic_ids() == set()


def test_a_name_can_be_used_again_with_its_settings_forgotten(controller: Controller, tmp_path: Path) -> None:
    first = make(controller, "t", configs={"retention.ms": "5"})
    controller.delete_topics([first])
    second = make(controller, "t")
    assert second.id != first.id
    again = as_after_a_kill(controller, tmp_path)
    assert again.topics == {"t": second}
    again.close()


def test_changed_settings_and_new_partitions_are_there_again_after_a_kill(
    controller: Controller, tmp_path: Path
) -> None:
    topic = make(controller, "t", 2, {"retention.ms": "5", "segment.bytes": "6"})
    controller.set_topic_configs(topic, {"retention.ms": "7"})
    grown = controller.add_partitions(controller.topics["t"], [(1,), (1,)])
    controller.set_broker_configs("", {"log.retention.ms": "8", "gone": "1"})
    controller.set_broker_configs("", {"log.retention.ms": "9"})
    controller.set_broker_configs("1", {"log.roll.ms": "10"})
    again = as_after_a_kill(controller, tmp_path)
    assert again.topics == controller.topics == {"t": grown}
    assert (len(grown.partitions), grown.configs) == (4, {"retention.ms": "7"})
    assert again.broker_configs("") == {"log.retention.ms": "9"}
    assert again.broker_configs("1") == {"log.roll.ms": "10"}
    assert again.broker_configs("2") == {}
    again.close()


def test_partitions_that_could_not_be_made_are_taken_back(controller: Controller, tmp_path: Path) -> None:
    topic = make(controller, "t", 2)
    grown = controller.add_partitions(topic, [(1,)])
    controller.take_back_partitions(grown, 2)
    assert controller.topics == {"t": topic}
    again = as_after_a_kill(controller, tmp_path)
    assert again.topics == {"t": topic}
    again.close()


def test_names_collide_when_only_dots_and_underscores_differ(controller: Controller) -> None:
    topic = make(controller, "a.b_c")
    assert controller.colliding_topic("a_b.c") == "a.b_c"
    assert controller.colliding_topic("a.b_c") is None
    assert controller.colliding_topic("a-b-c") is None
    controller.delete_topics([topic])
    assert controller.colliding_topic("a_b.c") is None


def test_replicas_are_spread_over_the_live_brokers(controller: Controller) -> None:
    for node_id in (2, 3):
        controller.register(BrokerRegistration(node_id))
    assignment = controller.assign(6, 2)
    assert sorted(replicas[0] for replicas in assignment) == [1, 1, 2, 2, 3, 3]
    assert all(len(set(replicas)) == 2 for replicas in assignment)
    controller.unregister(2)
    assert {node for replicas in controller.assign(6, 2) for node in replicas} == {1, 3}


def test_the_first_replica_leads_and_all_are_in_sync(controller: Controller) -> None:
    topic = controller.new_topic("t", [(3, 1), (1, 3)], {})
    assert [(state.leader, state.isr) for state in topic.partitions] == [(3, (3, 1)), (1, (1, 3))]
    assert {(state.leader_epoch, state.partition_epoch) for state in topic.partitions} == {(0, 0)}
    assert topic.replication_factor == 2


def test_an_assignment_that_cannot_be_is_refused(controller: Controller) -> None:
    with pytest.raises(InvalidPartitions):
        controller.assign(0, 1)
    for replication_factor in (0, 2):
        with pytest.raises(InvalidReplicationFactor):
            controller.assign(1, replication_factor)


def test_a_thousand_topics_and_a_thousand_partitions_are_one_transaction_each(
    controller: Controller, tmp_path: Path
) -> None:
    assignment = controller.assign(1, 1)
    controller.create_topics([controller.new_topic(f"t{number}", assignment, {}) for number in range(1000)])
    make(controller, "wide", 1000)
    again = as_after_a_kill(controller, tmp_path)
    assert again.topics == controller.topics
    again.close()


# --- brokers


def test_the_live_brokers_are_told_in_order_and_the_first_takes_administrative_requests(tmp_path: Path) -> None:
    controller = Controller.open(str(tmp_path))
    assert (controller.brokers, controller.controller_id) == ([], -1)
    for node_id in (5, 2):
        controller.register(BrokerRegistration(node_id))
    assert [broker.node_id for broker in controller.brokers] == [2, 5]
    assert controller.controller_id == 2
    assert controller.is_live(5)
    controller.unregister(2)
    assert controller.controller_id == 5
    assert not controller.is_live(2)
    controller.close()


# --- producer ids


def test_producer_ids_are_never_given_out_twice(controller: Controller, tmp_path: Path) -> None:
    ids = [controller.next_producer_id() for _ in range(2 * PRODUCER_ID_BLOCK + 1)]
    again = as_after_a_kill(controller, tmp_path)
    ids += [again.next_producer_id() for _ in range(10)]
    assert len(set(ids)) == len(ids)
    assert ids[: 2 * PRODUCER_ID_BLOCK] == list(range(2 * PRODUCER_ID_BLOCK))
    again.close()


# --- the file


def test_a_new_database_gets_a_cluster_id_that_stays(tmp_path: Path) -> None:
    ids = []
    for _ in range(2):
        controller = Controller.open(str(tmp_path))
        ids.append(controller.cluster_id)
        controller.close()
    assert len(ids[0]) == 22
    assert ids[0] == ids[1]


def test_a_database_made_beside_logs_takes_their_cluster_id(tmp_path: Path) -> None:
    log_directory = tmp_path / "broker-3"
    log_directory.mkdir()
    write_meta_properties(OsFileSystem(), str(log_directory), MetaProperties(3, "MkU3OEVBNTcwNTJENDM2Qg"))
    controller = Controller.open(str(tmp_path))
    assert controller.cluster_id == "MkU3OEVBNTcwNTJENDM2Qg"
    controller.close()


def test_a_directory_in_use_is_refused_in_one_sentence(controller: Controller, tmp_path: Path) -> None:
    with pytest.raises(ControllerError, match="is in use: another broker or `kmini graduate` holds"):
        Controller.open(str(tmp_path))


def test_a_directory_that_a_start_refused_is_free_again(tmp_path: Path) -> None:
    (tmp_path / DATABASE).write_bytes(b"")
    for _ in range(2):
        with pytest.raises(ControllerError, match="it is empty"):
            Controller.open(str(tmp_path))


def test_nothing_of_a_database_in_memory_touches_the_disk(tmp_path: Path) -> None:
    filesystem = MemoryFileSystem()
    controller = open_in_memory(filesystem, str(tmp_path / "data"))
    made = make(controller, "t")
    controller.close()
    assert not list(tmp_path.iterdir())
    assert filesystem.list(str(tmp_path / "data")) == [".lock", DATABASE]
    assert open_in_memory(filesystem, str(tmp_path / "data")).topics == {"t": made}


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (b"", "it is empty"),
        (b"this is no database" * 1000, "it begins with b'this is no datab'"),
        (b"kmini.db 3\n", "line 2, at byte 11, is not what was written"),
        (b"kmini.db 2\n", "it says that it has format 2"),
        (b"\0" * 4096, "it begins with"),
    ],
)
def test_a_file_that_is_no_database_is_refused_by_name_and_stays(tmp_path: Path, content: bytes, said: str) -> None:
    (tmp_path / DATABASE).write_bytes(content)
    with pytest.raises(ControllerError) as refused:
        Controller.open(str(tmp_path))
    assert str(refused.value).startswith(f"{tmp_path / DATABASE} is damaged, or not kmini's: {said}")
    assert "Bring back a copy of it; or move it away, and" in str(refused.value)
    assert (tmp_path / DATABASE).read_bytes() == content


@pytest.mark.parametrize("is_closed", [True, False])
def test_a_database_is_refused_wherever_it_is_damaged(tmp_path: Path, is_closed: bool) -> None:
    """A byte that changed is always told, except in a last line that a crash may have cut off."""
    filesystem = OsFileSystem()
    controller = Controller.open(str(tmp_path), node_ids=[1], filesystem=filesystem)
    controller.register(BrokerRegistration(1))
    for name in "ab":
        make(controller, name)
    if is_closed:
        controller.close()
    data = (tmp_path / DATABASE).read_bytes()
    controller.close()
    for position in range(len(data)):
        damaged = bytes([*data[:position], data[position] ^ 1, *data[position + 1 :]])
        if position == len(data) - 1 and not is_closed:
            continue
        (tmp_path / DATABASE).write_bytes(damaged)
        with pytest.raises(ControllerError, match=r"kmini\.db (is damaged|was written by a later kmini)"):
            Controller.open(str(tmp_path))


def test_a_database_that_was_closed_in_order_is_refused_wherever_it_is_cut_off(tmp_path: Path) -> None:
    controller = Controller.open(str(tmp_path), node_ids=[1])
    controller.register(BrokerRegistration(1))
    make(controller, "a")
    controller.close()
    data = (tmp_path / DATABASE).read_bytes()
    for size in range(len(data)):
        (tmp_path / DATABASE).write_bytes(data[:size])
        with pytest.raises(ControllerError, match="is damaged"):
            Controller.open(str(tmp_path))


def test_a_change_that_a_crash_cut_off_is_dropped_and_told(
    filesystem: MemoryFileSystem, caplog: pytest.LogCaptureFixture
) -> None:
    controller = open_in_memory(filesystem)
    kept = make(controller, "kept")
    size = filesystem.size(f"/data/{DATABASE}")
    make(controller, "cut")
    whole = filesystem.read(f"/data/{DATABASE}")
    for rest in (whole[:-1], whole[: size + 1], whole[: size + 20] + bytes(40), whole[: size + 20] + bytes(40) + b"\n"):
        killed = filesystem.kill()
        file = killed.open(f"/data/{DATABASE}")
        file.truncate(0)
        file.append(rest)
        caplog.clear()
        again = open_in_memory(killed)
        assert again.topics == {"kept": kept}
        assert "dropped" in caplog.text
        later = make(again, "later")
        assert open_in_memory(killed.kill()).topics == {"kept": kept, "later": later}


def test_the_database_of_a_later_kmini_is_refused(tmp_path: Path) -> None:
    (tmp_path / DATABASE).write_bytes(b"kmini.db 99\n")
    with pytest.raises(ControllerError, match=r"kmini\.db was written by a later kmini \(format 99\): upgrade kmini"):
        Controller.open(str(tmp_path))


def test_a_disk_that_refuses_changes_nothing(filesystem: MemoryFileSystem) -> None:
    controller = open_in_memory(filesystem)
    kept = make(controller, "kept")
    for attempt in (
        lambda: make(controller, "new"),
        lambda: controller.delete_topics([kept]),
        lambda: controller.next_producer_id(),
    ):
        for n in (1, 2):  # the append, and its sync
            filesystem.faults = Faults(fail_at=n, operations={"append", "sync"})
            with pytest.raises(KafkaStorageError, match="cannot be written"):
                attempt()
    assert controller.topics == {"kept": kept}
    assert controller.next_producer_id() == 0
    assert open_in_memory(filesystem.kill()).topics == {"kept": kept}


def test_a_change_after_closing_is_refused(controller: Controller) -> None:
    controller.close()
    with pytest.raises(KafkaStorageError, match="the file is closed"):
        make(controller, "late")


# --- formats 1 and 2, which were databases of SQLite


@pytest.mark.parametrize("version", sqlite_databases.FORMATS)
@pytest.mark.parametrize("is_killed", [True, False])
def test_a_database_of_sqlite_is_taken_over(tmp_path: Path, version: int, is_killed: bool) -> None:
    path = tmp_path / DATABASE
    expected = sqlite_databases.write_sqlite_database(path, version, is_killed=is_killed)
    before = {entry.name: entry.read_bytes() for entry in tmp_path.iterdir()}
    assert as_sets(read_database(OsFileSystem(), str(path))) == as_sets(expected)
    assert {entry.name: entry.read_bytes() for entry in tmp_path.iterdir()} == before, "reading changes nothing"
    for _ in range(2):
        database, stored = ControllerDatabase.open(OsFileSystem(), str(tmp_path), new_cluster_id="")
        assert as_sets(stored) == as_sets(expected)
        database.close()
        assert path.read_bytes().startswith(b"kmini.db 3\n")
        assert sorted(entry.name for entry in tmp_path.iterdir()) == [".lock", DATABASE]


def as_sets(stored: Stored) -> Stored:
    return stored._replace(topics=sorted(stored.topics))


def test_a_database_of_sqlite_whose_broker_still_runs_is_left_alone(tmp_path: Path) -> None:
    sqlite_databases.write_sqlite_database(tmp_path / DATABASE, 2)
    (tmp_path / "broker-1").mkdir()
    lock = OsFileSystem().lock(str(tmp_path / "broker-1" / ".lock"))
    with pytest.raises(ControllerError, match="broker-1 is in use"):
        Controller.open(str(tmp_path), node_ids=[1])
    assert (tmp_path / DATABASE).read_bytes().startswith(b"SQLite format 3\0")
    lock.release()
    Controller.open(str(tmp_path), node_ids=[1]).close()


def foreign_tables(path: Path) -> None:
    database = sqlite3.connect(path)
    database.execute("CREATE TABLE bookmarks (url TEXT)")
    database.close()


def later_format(path: Path) -> None:
    sqlite_databases.write_sqlite_database(path, 2, is_killed=False)
    database = sqlite3.connect(path)
    database.execute("PRAGMA user_version = 99")
    database.close()


def cut_off(path: Path) -> None:
    sqlite_databases.write_sqlite_database(path, 2, is_killed=False)
    path.write_bytes(path.read_bytes()[:-5000])


def overwritten(path: Path) -> None:
    sqlite_databases.write_sqlite_database(path, 2, is_killed=False)
    data = path.read_bytes()
    path.write_bytes(data[:4096] + b"x" * (len(data) - 4096))


@pytest.mark.parametrize(
    ("make_file", "said"),
    [
        (foreign_tables, "it is a database of SQLite with the tables bookmarks, and not one of kmini's"),
        (lambda path: path.write_bytes(b"SQLite format 3\0"), "SQLite cannot read it"),
        (later_format, r"was written by a later kmini \(format 99\)"),
        (cut_off, "SQLite"),
        (overwritten, "SQLite"),
    ],
)
def test_a_database_of_sqlite_that_cannot_be_taken_over_is_named_and_stays(
    tmp_path: Path, make_file: Callable[[Path], None], said: str
) -> None:
    path = tmp_path / DATABASE
    make_file(path)
    before = path.read_bytes()
    with pytest.raises(ControllerError, match=said) as refused:
        Controller.open(str(tmp_path))
    assert str(refused.value).startswith(str(path))
    assert path.read_bytes() == before


# --- its size


def test_the_file_is_bounded_by_what_it_says_and_not_by_how_often_it_changed(filesystem: MemoryFileSystem) -> None:
    controller = open_in_memory(filesystem)
    topic = make(controller, "t")
    sizes = []
    for number in range(5000):
        controller.set_topic_configs(topic, {"retention.ms": str(number), "cleanup.policy": "x" * 200})
        sizes.append(filesystem.size(f"/data/{DATABASE}"))
    assert max(sizes) < 300 << 10
    assert open_in_memory(filesystem.kill()).topics["t"].configs["retention.ms"] == "4999"
