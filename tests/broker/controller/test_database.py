"""The file of the controller's database: what it holds, and what damage is refused."""

from __future__ import annotations

from pathlib import Path

import pytest

from kmini.broker.controller.controller import (
    BrokerRegistration,
    Controller,
    ControllerError,
)
from kmini.protocol.errors import KafkaStorageError
from kmini.storage.filenames import DATABASE
from kmini.storage.filesystem import OsFileSystem
from kmini.storage.filesystem.faults import Faults
from kmini.storage.filesystem.memory_filesystem import MemoryFileSystem
from kmini.storage.log_dir_files import MetaProperties, write_meta_properties
from support.broker.controllers import make, open_in_memory

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
