"""`kmini.db` in formats 1 and 2, which were databases of SQLite: read, and never written.

The first start of a broker takes such a file over into format 3 (`controller/database.py`). SQLite opens files of the
real disk only, so it gets a copy of the bytes that the file system has, in a temporary directory.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import TYPE_CHECKING

from ...protocol.messages.describe_configs import BROKER, TOPIC
from ...storage.filesystem import FileSystem
from ...storage.journal import CorruptJournal, LaterFormat
from ..security.acls import AclBinding
from .database_entries import CLIENT_QUOTA, Stored
from .topology import PartitionState, Topic

if TYPE_CHECKING:
    import sqlite3

    from ...protocol.scram import ScramCredential

MAGIC = b"SQLite format 3\0"
"""The first bytes of every file of SQLite."""

_NEWEST_FORMAT = 2
_WAL = "-wal"
_FEATURE = "feature:"
"""Beginning of the names of properties that are levels of features."""

LEFTOVERS = (_WAL, "-shm", "-journal")
"""Suffixes of the files that SQLite keeps beside a database."""


def read_sqlite_database(filesystem: FileSystem, path: str) -> Stored:
    """Read the database at `path`, with the changes that its write-ahead log holds.

    Raises CorruptJournal, LaterFormat, OSError if the disk refuses.
    """
    import sqlite3  # here, because almost no start needs these
    import tempfile

    with tempfile.TemporaryDirectory(prefix="kmini-database-") as directory:
        copy = os.path.join(directory, os.path.basename(path))
        for suffix in ("", _WAL):
            if not suffix or filesystem.exists(path + suffix):
                with open(copy + suffix, "wb") as file:
                    file.write(filesystem.read(path + suffix))
        connection = sqlite3.connect(copy)
        try:
            return _read(connection)
        except (sqlite3.Error, ValueError, TypeError, LookupError) as error:
            raise CorruptJournal(f"SQLite cannot read it: {error}") from error
        finally:
            connection.close()


def _read(database: sqlite3.Connection) -> Stored:
    (finding,) = database.execute("PRAGMA quick_check(1)").fetchone()
    if finding != "ok":
        raise CorruptJournal(f"SQLite finds that {finding}")
    (version,) = database.execute("PRAGMA user_version").fetchone()
    tables = sorted(name for (name,) in database.execute("SELECT name FROM sqlite_master WHERE type = 'table'"))
    if version > _NEWEST_FORMAT and "property" in tables:
        raise LaterFormat(f"format {version}")
    if not 1 <= version <= _NEWEST_FORMAT or "property" not in tables:
        found = f"the tables {', '.join(tables)}" if tables else "no tables"
        raise CorruptJournal(f"it is a database of SQLite with {found}, and not one of kmini's")
    is_second = version == 2  # the first had no access rules, credentials or reassignments
    properties = dict(database.execute("SELECT name, value FROM property"))
    return Stored(
        cluster_id=str(properties["cluster_id"]),
        topics=list(_topics(database, _reassigned(database) if is_second else {})),
        broker_configs=_configs(database, BROKER),
        group_configs={},
        client_quotas=_configs(database, CLIENT_QUOTA),
        acls=_acls(database) if is_second else [],
        scram_credentials=_scram_credentials(database) if is_second else {},
        feature_levels={
            name.removeprefix(_FEATURE): level for name, level in properties.items() if name.startswith(_FEATURE)
        },
        features_epoch=properties.get("features_epoch", 0),
        next_producer_id=properties["next_producer_id"],
        deleted_topics={topic_id: "" for (topic_id,) in database.execute("SELECT id FROM deleted_topic")},
        delegation_tokens={},
    )


def _acls(database: sqlite3.Connection) -> list[AclBinding]:
    """In the order in which they were made."""
    columns = ", ".join(AclBinding._fields)
    return [AclBinding(*row) for row in database.execute(f"SELECT {columns} FROM acl ORDER BY rowid")]


def _scram_credentials(database: sqlite3.Connection) -> dict[tuple[str, int], ScramCredential]:
    from ...protocol.scram import ScramCredential

    return {
        (user, mechanism): ScramCredential(*credential)
        for user, mechanism, *credential in database.execute("SELECT * FROM scram_credential")
    }


_Numbers = tuple[int, ...]


def _reassigned(database: sqlite3.Connection) -> dict[tuple[bytes, int], tuple[_Numbers, _Numbers]]:
    """Replicas that are being added and removed, by topic id and partition."""
    return {
        (topic_id, number): (_numbers(adding), _numbers(removing))
        for topic_id, number, adding, removing in database.execute("SELECT * FROM reassignment")
    }


def _topics(
    database: sqlite3.Connection, reassigned: dict[tuple[bytes, int], tuple[_Numbers, _Numbers]]
) -> Iterator[Topic]:
    partitions: dict[bytes, list[PartitionState]] = {}
    for topic_id, number, replicas, isr, *leadership in database.execute(
        "SELECT * FROM partition ORDER BY topic_id, number"
    ):
        adding, removing = reassigned.get((topic_id, number), ((), ()))
        state = PartitionState(_numbers(replicas), _numbers(isr), *leadership)._replace(
            adding=adding, removing=removing
        )
        partitions.setdefault(topic_id, []).append(state)
    configs = _configs(database, TOPIC)
    for topic_id, name in database.execute("SELECT id, name FROM topic"):
        yield Topic(name, topic_id, tuple(partitions[topic_id]), configs.get(name, {}))


def _configs(database: sqlite3.Connection, resource_type: int) -> dict[str, dict[str, str]]:
    """The settings of all resources of a type, by the resources' names."""
    configs: dict[str, dict[str, str]] = {}
    for resource_name, name, value in database.execute(
        "SELECT resource_name, name, value FROM config WHERE resource_type = ?", (resource_type,)
    ):
        configs.setdefault(resource_name, {})[name] = value
    return configs


def _numbers(text: str) -> _Numbers:
    return tuple(map(int, text.split(","))) if text else ()
