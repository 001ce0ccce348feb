"""`kmini.db` as earlier versions of kmini wrote it: databases of SQLite, of format 1 and 2."""

from __future__ import annotations

import shutil
import sqlite3
import tempfile
from pathlib import Path

from kmini.broker.controller.database_entries import Stored
from kmini.broker.controller.topology import PartitionState, Topic
from kmini.broker.security.acls import AclBinding
from kmini.protocol.scram import ScramCredential

FORMATS = (1, 2)

_TABLES = """
    CREATE TABLE property (name TEXT PRIMARY KEY, value) WITHOUT ROWID;
    CREATE TABLE topic (id BLOB PRIMARY KEY, name TEXT NOT NULL UNIQUE) WITHOUT ROWID;
    CREATE TABLE partition (
        topic_id BLOB, number INTEGER, replicas TEXT NOT NULL, isr TEXT NOT NULL,
        leader INTEGER NOT NULL, leader_epoch INTEGER NOT NULL, partition_epoch INTEGER NOT NULL,
        PRIMARY KEY (topic_id, number)
    ) WITHOUT ROWID;
    CREATE TABLE config (
        resource_type INTEGER, resource_name TEXT, name TEXT, value TEXT NOT NULL,
        PRIMARY KEY (resource_type, resource_name, name)
    ) WITHOUT ROWID;
    CREATE TABLE deleted_topic (id BLOB PRIMARY KEY) WITHOUT ROWID;
"""
_TABLES_OF_2 = """
    CREATE TABLE acl (
        id BLOB PRIMARY KEY, resource_type INTEGER NOT NULL, pattern_type INTEGER NOT NULL, resource_name TEXT NOT NULL,
        principal TEXT NOT NULL, host TEXT NOT NULL, operation INTEGER NOT NULL, permission_type INTEGER NOT NULL
    );
    CREATE TABLE scram_credential (
        user TEXT, mechanism INTEGER, salt BLOB NOT NULL, iterations INTEGER NOT NULL,
        stored_key BLOB NOT NULL, server_key BLOB NOT NULL,
        PRIMARY KEY (user, mechanism)
    ) WITHOUT ROWID;
    CREATE TABLE reassignment (
        topic_id BLOB, number INTEGER, adding TEXT NOT NULL, removing TEXT NOT NULL, PRIMARY KEY (topic_id, number)
    ) WITHOUT ROWID;
"""

ORDERS, USERS, GONE = bytes(range(1, 17)), bytes(range(2, 18)), bytes(range(3, 19))
_RULES = [AclBinding(2, 3, "orders", "User:zoe", "*", 3, 3), AclBinding(2, 3, "orders", "User:adam", "*", 3, 3)]


def write_sqlite_database(
    path: Path,
    version: int,
    *,
    cluster_id: str = "MkU3OEVBNTcwNTJENDM2Qg",
    topics: tuple[Topic, ...] | None = None,
    is_killed: bool = True,
) -> Stored:
    """Write a database to `path`, and return what it says. With `is_killed` its last changes are in the write-ahead log
    beside it, as a killed broker leaves them."""
    stored = _content(version, cluster_id, topics)
    with tempfile.TemporaryDirectory() as directory:
        database = sqlite3.connect(Path(directory) / path.name, isolation_level=None)
        database.execute("PRAGMA locking_mode = EXCLUSIVE")
        database.execute("PRAGMA journal_mode = WAL")
        for statement in (_TABLES + (_TABLES_OF_2 if version >= 2 else "")).split(";"):
            database.execute(statement)
        database.execute(f"PRAGMA user_version = {version}")
        database.execute("PRAGMA wal_checkpoint(TRUNCATE)")
        _fill(database, stored, version)
        if is_killed:
            shutil.copy(Path(directory) / f"{path.name}-wal", f"{path}-wal")
            shutil.copy(Path(directory) / path.name, path)
        database.close()
        if not is_killed:
            shutil.copy(Path(directory) / path.name, path)
    return stored


def _content(version: int, cluster_id: str, topics: tuple[Topic, ...] | None) -> Stored:
    moving = PartitionState((2, 3), (2,), 2, 4, 5, (3,), ()) if version >= 2 else PartitionState((2, 3), (2,), 2, 4, 5)
    made = (
        Topic("orders", ORDERS, (PartitionState((1,), (1,), 1, 3, 2), moving), {"retention.ms": "5"}),
        Topic("users", USERS, (PartitionState((1,), (), -1),), {}),
    )
    return Stored(
        cluster_id,
        list(made if topics is None else topics),
        broker_configs={"": {"log.retention.ms": "8"}, "1": {"log.roll.ms": "10"}},
        group_configs={},
        client_quotas={'{"user": "adam"}': {"consumer_byte_rate": "0.5"}},
        acls=_RULES if version >= 2 else [],
        scram_credentials={("adam", 1): ScramCredential(b"salt\xff", 4096, b"stored", b"server")}
        if version >= 2
        else {},
        feature_levels={"metadata.version": 21},
        features_epoch=4,
        next_producer_id=3000,
        deleted_topics={GONE: ""},
        delegation_tokens={},
    )


def _fill(database: sqlite3.Connection, stored: Stored, version: int) -> None:
    def text(numbers: tuple[int, ...]) -> str:
        return ",".join(map(str, numbers))

    def insert(table: str, *row: object) -> None:
        database.execute(f"INSERT INTO {table} VALUES ({', '.join('?' * len(row))})", row)

    insert("property", "cluster_id", stored.cluster_id)
    insert("property", "next_producer_id", stored.next_producer_id)
    insert("property", "features_epoch", stored.features_epoch)
    for feature, level in stored.feature_levels.items():
        insert("property", f"feature:{feature}", level)
    for topic in stored.topics:
        insert("topic", topic.id, topic.name)
        for number, state in enumerate(topic.partitions):
            insert("partition", topic.id, number, text(state.replicas), text(state.isr), *state[2:5])
            if state.is_reassigned:
                insert("reassignment", topic.id, number, text(state.adding), text(state.removing))
    configs = [(2, {topic.name: topic.configs for topic in stored.topics})]
    configs += [(4, stored.broker_configs), (-1, stored.client_quotas)]
    for resource_type, resources in configs:
        for resource, settings in resources.items():
            for key, value in settings.items():
                insert("config", resource_type, resource, key, value)
    for topic_id in stored.deleted_topics:
        insert("deleted_topic", topic_id)
    for number, rule in enumerate(stored.acls):
        insert("acl", bytes([255 - number]) * 16, *rule)
    for (user, mechanism), credential in stored.scram_credentials.items():
        insert("scram_credential", user, mechanism, *credential)
