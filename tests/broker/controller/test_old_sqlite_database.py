"""Databases of formats 1 and 2, which were SQLite's, are taken over."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable
from pathlib import Path

import pytest

from kmini.broker.controller.controller import (
    Controller,
    ControllerError,
)
from kmini.broker.controller.database import ControllerDatabase, read_database
from kmini.broker.controller.database_entries import Stored
from kmini.storage.filenames import DATABASE
from kmini.storage.filesystem import OsFileSystem
from support import sqlite_databases

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
