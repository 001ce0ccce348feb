"""Directories that cannot be graduated are refused with a sentence that names the remedy, and no files are left
behind."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from kmini import Broker
from kmini.graduation import partition_files
from kmini.graduation.graduate import Report, graduate
from kmini.graduation.source import Refused
from kmini.records import tombstone

pytestmark = pytest.mark.sockets

NOW_MS = 1_767_225_600_000
Graduate = Callable[..., Report]


def test_a_running_broker(data_dir: Path, out: Path, run: Graduate) -> None:
    with Broker(data_dir=data_dir), pytest.raises(Refused, match=r"a broker is running on .*: stop it first"):
        run()
    assert not out.exists()
    run()


def test_a_directory_that_was_not_closed_in_order(data_dir: Path, out: Path, run: Graduate) -> None:
    (data_dir / "broker-1" / ".kafka_cleanshutdown").unlink()
    with pytest.raises(
        Refused, match=r"not closed in order: let kmini recover it \(kmini serve --data-dir [^ ]*data\)"
    ):
        run()
    assert not out.exists()


def test_a_follower_that_was_not_closed_in_order(data_dir: Path, run: Graduate) -> None:
    (data_dir / "broker-2").mkdir()
    with pytest.raises(Refused, match=r"broker-2 was not closed in order: .* --brokers 2\)"):
        run()


def test_what_is_no_data_directory(tmp_path: Path, out: Path) -> None:
    (empty := tmp_path / "empty").mkdir()
    with pytest.raises(Refused, match=r"empty holds no kmini\.db: name the data directory that a kmini ran on"):
        graduate(str(empty), str(out), now_ms=NOW_MS)
    (empty / "notes.txt").touch()
    with pytest.raises(Refused, match=r"empty is neither empty nor a data directory of kmini: it holds notes\.txt"):
        graduate(str(empty), str(out), now_ms=NOW_MS)


def test_a_log_directory_of_apache_kafka(data_dir: Path, out: Path, tmp_path: Path) -> None:
    shutil.copytree(data_dir / "broker-1", tmp_path / "kafka")
    with pytest.raises(Refused, match=r"kafka is a log directory of Apache Kafka's node 1, for it holds meta"):
        graduate(str(tmp_path / "kafka"), str(out), now_ms=NOW_MS)


def test_the_log_directory_of_one_broker(data_dir: Path, out: Path) -> None:
    with pytest.raises(Refused, match="is the log directory of one broker of kmini: name the data directory"):
        graduate(str(data_dir / "broker-1"), str(out), now_ms=NOW_MS)


def test_a_data_directory_without_logs(data_dir: Path, run: Graduate) -> None:
    shutil.rmtree(data_dir / "broker-1")
    with pytest.raises(Refused, match="no broker has run on it yet"):
        run()


def test_a_directory_that_is_not_empty(out: Path, run: Graduate) -> None:
    out.mkdir()
    (out / "precious").write_text("data")
    with pytest.raises(Refused, match="is not empty"):
        run()
    assert [path.name for path in out.iterdir()] == ["precious"]


def test_an_empty_directory_is_fine(out: Path, run: Graduate) -> None:
    out.mkdir()
    run()
    assert (out / "meta.properties").exists()


def test_a_file_in_the_way(out: Path, run: Graduate) -> None:
    out.write_text("data")
    with pytest.raises(Refused, match="is no directory"):
        run()
    assert out.read_text() == "data"


@pytest.mark.parametrize("name", [".", "kafka", "broker-1/kafka"])
def test_a_directory_in_the_data_directory(data_dir: Path, name: str) -> None:
    with pytest.raises(Refused, match=r"lies in .*: name a directory outside of it"):
        graduate(str(data_dir), str(data_dir / name), now_ms=NOW_MS)
    assert not (data_dir / "kafka").exists()


def test_a_comma_in_the_name(data_dir: Path, tmp_path: Path) -> None:
    with pytest.raises(Refused, match="comma"):
        graduate(str(data_dir), str(tmp_path / "a,b"), now_ms=NOW_MS)


def test_a_partition_without_a_log(data_dir: Path, out: Path, run: Graduate) -> None:
    shutil.rmtree(data_dir / "broker-1" / "orders-1")
    with pytest.raises(Refused, match="orders-1 has no log in broker-1: delete the topic, or bring the folder back"):
        run()
    assert not out.exists()


def test_a_folder_of_another_topic_of_that_name(data_dir: Path, run: Graduate) -> None:
    path = data_dir / "broker-1" / "orders-1" / "partition.metadata"
    path.write_text("version: 0\ntopic_id: AAAAAAAAAAAAAAAAAAAAAQ")
    with pytest.raises(Refused, match="orders-1 has no log in broker-1"):
        run()


@pytest.mark.parametrize("name", ["recovery-point-offset-checkpoint", "orders-0/leader-epoch-checkpoint"])
def test_checkpoints_that_cannot_be_read(data_dir: Path, run: Graduate, name: str) -> None:
    (data_dir / "broker-1" / name).write_text("0\n5\n")
    with pytest.raises(Refused, match=r"5 entries announced, 0 there; let kmini start and stop once on it"):
        run()


def test_another_clusters_folder(data_dir: Path, run: Graduate) -> None:
    path = data_dir / "broker-1" / "meta.properties"
    path.write_text(path.read_text().replace("cluster.id=", "cluster.id=x"))
    with pytest.raises(Refused, match="is not the log directory of broker 1 of this cluster"):
        run()


def test_a_database_of_a_later_kmini(data_dir: Path, run: Graduate) -> None:
    (data_dir / "kmini.db").write_bytes(b"kmini.db 99\n")
    with pytest.raises(Refused, match="later kmini"):
        run()


def test_a_damaged_database(data_dir: Path, run: Graduate) -> None:
    (data_dir / "kmini.db").write_bytes(b"no database at all, " * 200)
    with pytest.raises(Refused, match=r"data/kmini\.db is damaged"):
        run()


def test_an_unfinished_cleaning(data_dir: Path, out: Path, run: Graduate) -> None:
    folder = data_dir / "broker-1" / "orders-0"
    shutil.copy(folder / f"{0:020d}.log", folder / f"{0:020d}.log.swap")
    with pytest.raises(Refused, match="unfinished cleaning"):
        run()
    assert not out.exists()


def test_files_that_wait_for_their_deletion_do_not_matter(data_dir: Path, out: Path, run: Graduate) -> None:
    folder = data_dir / "broker-1" / "orders-0"
    for suffix in (".deleted", ".cleaned"):
        shutil.copy(folder / f"{0:020d}.log", folder / f"{0:020d}.log{suffix}")
    run()
    assert not [path for path in (out / "orders-0").iterdir() if path.suffix in (".deleted", ".cleaned")]


def test_damage_where_a_flagged_tombstone_may_be(tmp_path: Path, out: Path) -> None:
    data_dir = tmp_path / "flagged"
    with Broker(data_dir=data_dir) as broker:
        broker.create_topic("profiles", config={"kmini.tombstone.flag.enable": "true"})
        broker.produce("profiles", **tombstone(b"alice", b"." * 100))
    log = data_dir / "broker-1" / "profiles-0" / f"{0:020d}.log"
    data = bytearray(log.read_bytes())
    data[90] ^= 1
    log.write_bytes(data)
    with pytest.raises(Refused, match=r"at position 0: .* kmini log dump .* shows the damage"):
        graduate(str(data_dir), str(out), now_ms=NOW_MS)
    assert not out.exists()


def test_links_where_there_can_be_none(data_dir: Path, out: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with Broker(data_dir=data_dir) as broker:
        broker.topic("orders").roll()

    def refuse(source: str, target: str) -> None:
        raise OSError(18, "Invalid cross-device link", source)

    monkeypatch.setattr(partition_files.os, "link", refuse)
    with pytest.raises(Refused, match=r"Invalid cross-device link\): leave out --link"):
        graduate(str(data_dir), str(out), now_ms=NOW_MS, link=True)
    assert not out.exists()


def test_a_disk_that_fails_midway_leaves_nothing(
    data_dir: Path, out: Path, run: Graduate, monkeypatch: pytest.MonkeyPatch
) -> None:
    calls = 0
    real = os.fsync

    def fail_later(number: int) -> None:
        nonlocal calls
        calls += 1
        if calls == 5:
            raise OSError(28, "No space left on device")
        real(number)

    out.mkdir()
    monkeypatch.setattr(partition_files.os, "fsync", fail_later)
    with pytest.raises(OSError, match="No space left"):
        run()
    assert not list(out.iterdir())


@pytest.mark.parametrize("listeners", ["nonsense", "CONTROLLER://:9092"], ids=["nonsense", "a reserved name"])
def test_settings_that_cannot_be_kafkas(out: Path, run: Graduate, listeners: str) -> None:
    configured = {"listeners": listeners, "listener.security.protocol.map": "CONTROLLER:PLAINTEXT"}
    with pytest.raises(Refused, match="listener"):
        run(configured=configured)
    assert not out.exists()
