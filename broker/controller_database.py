"""`DATA_DIR/kmini.db`: what the controller must not forget, in one SQLite file.

A change is one transaction. The journal is SQLite's write-ahead log, because it needs one sync a commit (0.2 ms on a
common disk) where a rollback journal needs three, and none to open. Where nothing is to outlive the process
(`synced=False`) it is left to the operating system, which still keeps it when the process is killed: 20 µs a commit.
"""

from __future__ import annotations

import os
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, NamedTuple

from ..protocol.errors import KafkaStorageError
from ..protocol.messages.describe_configs import BROKER, TOPIC
from ..protocol.scram import ScramCredential
from ..protocol.uuids import format_uuid, random_uuid
from ..storage.filenames import DATABASE
from .security.acls import AclBinding
from .topology import PartitionState, Topic

if TYPE_CHECKING:
    import sqlite3

CLIENT_QUOTA = -1
"""Where client quotas are kept, beside the settings: no resource type of Kafka's."""

_FORMAT = 2

_FEATURE = "feature:"
"""What the names of properties begin with that are levels of features."""

_SCHEMA = """
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


_SCHEMA_OF_2 = """
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
"""What format 2 has besides. The rows of `acl` stay in the order in which they were made; a partition without an entry
in `reassignment` is not being reassigned."""


_INSERT_PARTITION = "INSERT INTO partition VALUES (?, ?, ?, ?, ?, ?, ?)"


class ControllerError(Exception):
    """The database cannot be used. The message says why, and what to do, in one sentence."""


class Stored(NamedTuple):
    """What the file holds when it is opened."""

    cluster_id: str
    topics: list[Topic]
    broker_configs: dict[str, dict[str, str]]
    """By node id as text; empty: for all brokers."""
    client_quotas: dict[str, dict[str, str]]
    """By entity."""
    acls: list[AclBinding]
    """In the order in which they were made."""
    scram_credentials: dict[tuple[str, int], ScramCredential]
    """By user and number of the mechanism."""
    feature_levels: dict[str, int]
    features_epoch: int


class ControllerDatabase:
    """The open file. Belongs to one thread. Every change is made as a whole or not at all, and outlives the process
    when its method returns, with `synced` a loss of power too. Raises KafkaStorageError if SQLite cannot."""

    def __init__(self, connection: sqlite3.Connection) -> None:
        self.connection = connection

    @classmethod
    def open(cls, path: str, *, synced: bool, new_cluster_id: str) -> tuple[ControllerDatabase, Stored]:
        """Open the file, making it if there is none, and read it.

        `new_cluster_id` is for a file that is new; empty: a random one. Raises ControllerError for a file that is
        damaged, of a later format, or in use by another process. Raises OSError if the disk refuses.
        """
        import sqlite3  # here, because the command line's clients do without

        try:
            _keep_to_owner(path)
            connection = sqlite3.connect(path, isolation_level=None, timeout=0)
            try:
                # The one process that has the file open needs no shared memory beside it, which some mounts lack.
                connection.execute("PRAGMA locking_mode = EXCLUSIVE")
                connection.execute("PRAGMA journal_mode = WAL")
                connection.execute(f"PRAGMA synchronous = {'FULL' if synced else 'OFF'}")
                database = cls(connection)
                return database, database._load(new_cluster_id)
            except BaseException:
                connection.close()
                raise
        except sqlite3.OperationalError as error:
            raise ControllerError(f"cannot open {path}: {error}; is another broker using this directory?") from error
        except (sqlite3.DatabaseError, ValueError) as error:
            remedy = "move it away, and topics are found again from their folders, without their settings"
            raise ControllerError(f"{path} is damaged ({error}): {remedy}") from error

    def close(self) -> None:
        self.connection.close()

    # --- reading

    def _load(self, new_cluster_id: str) -> Stored:
        """Everything; make the tables first if the file is new, or lacks some."""
        connection = self.connection
        (version,) = connection.execute("PRAGMA user_version").fetchone()
        if version > _FORMAT:
            raise ControllerError(f"{DATABASE} was written by a later kmini (format {version}): upgrade to read it")
        if version == 0:
            self._make_tables(new_cluster_id or format_uuid(random_uuid()))
        elif version < 2:
            self._make_tables_of_2()
        properties = dict(connection.execute("SELECT name, value FROM property"))
        columns = ", ".join(AclBinding._fields)
        return Stored(
            cluster_id=str(properties["cluster_id"]),
            topics=list(self._read_topics()),
            broker_configs=self._read_configs(BROKER),
            client_quotas=self._read_configs(CLIENT_QUOTA),
            acls=[AclBinding(*row) for row in connection.execute(f"SELECT {columns} FROM acl ORDER BY rowid")],
            scram_credentials={
                (user, mechanism): ScramCredential(*credential)
                for user, mechanism, *credential in connection.execute("SELECT * FROM scram_credential")
            },
            feature_levels={
                name.removeprefix(_FEATURE): level for name, level in properties.items() if name.startswith(_FEATURE)
            },
            features_epoch=properties.get("features_epoch", 0),
        )

    def _make_tables(self, cluster_id: str) -> None:
        with self._transaction() as database:
            for statement in (_SCHEMA + _SCHEMA_OF_2).split(";"):
                database.execute(statement)
            properties = [("cluster_id", cluster_id), ("next_producer_id", 0)]
            database.executemany("INSERT INTO property VALUES (?, ?)", properties)
            database.execute(f"PRAGMA user_version = {_FORMAT}")

    def _make_tables_of_2(self) -> None:
        with self._transaction() as database:
            for statement in _SCHEMA_OF_2.split(";"):
                database.execute(statement)
            database.execute(f"PRAGMA user_version = {_FORMAT}")

    def _read_topics(self) -> Iterable[Topic]:
        partitions: dict[bytes, list[PartitionState]] = {}
        reassigned = {
            (topic_id, number): (_numbers(adding), _numbers(removing))
            for topic_id, number, adding, removing in self.connection.execute("SELECT * FROM reassignment")
        }
        for topic_id, number, replicas, isr, *leadership in self.connection.execute(
            "SELECT * FROM partition ORDER BY topic_id, number"
        ):
            state = PartitionState(_numbers(replicas), _numbers(isr), *leadership)
            if (topic_id, number) in reassigned:
                adding, removing = reassigned[topic_id, number]
                state = state._replace(adding=adding, removing=removing)
            partitions.setdefault(topic_id, []).append(state)
        configs = self._read_configs(TOPIC)
        for topic_id, name in self.connection.execute("SELECT id, name FROM topic"):
            yield Topic(name, topic_id, tuple(partitions[topic_id]), configs.get(name, {}))

    def _read_configs(self, resource_type: int) -> dict[str, dict[str, str]]:
        """The settings of all resources of a type, by the resources' names."""
        configs: dict[str, dict[str, str]] = {}
        for resource_name, name, value in self.connection.execute(
            "SELECT resource_name, name, value FROM config WHERE resource_type = ?", (resource_type,)
        ):
            configs.setdefault(resource_name, {})[name] = value
        return configs

    # --- changes

    def insert_topics(self, topics: Sequence[Topic]) -> None:
        """Add topics, with their partitions and settings."""
        with self._transaction() as database:
            database.executemany("INSERT INTO topic VALUES (?, ?)", [(topic.id, topic.name) for topic in topics])
            database.executemany(_INSERT_PARTITION, [row for topic in topics for row in _rows(topic)])
            database.executemany(
                "INSERT INTO config VALUES (?, ?, ?, ?)",
                [(TOPIC, topic.name, *item) for topic in topics for item in topic.configs.items()],
            )

    def insert_partitions(self, topic: Topic, first: int) -> None:
        """Add those partitions of a topic that are numbered from `first` on."""
        with self._transaction() as database:
            database.executemany(_INSERT_PARTITION, list(_rows(topic))[first:])

    def delete_partitions(self, topic: Topic, first: int) -> None:
        """Remove those partitions of a topic that are numbered from `first` on."""
        with self._transaction() as database:
            database.execute("DELETE FROM partition WHERE topic_id = ? AND number >= ?", (topic.id, first))

    def update_partitions(self, changes: Iterable[tuple[Topic, int]]) -> None:
        """Write partitions, by topic and number, as they are now."""
        changed = [(topic.id, number, topic.partitions[number]) for topic, number in changes]
        with self._transaction() as database:
            database.executemany(
                "INSERT OR REPLACE INTO partition VALUES (?, ?, ?, ?, ?, ?, ?)", [_row(*one) for one in changed]
            )
            database.executemany(
                "DELETE FROM reassignment WHERE topic_id = ? AND number = ?",
                [(topic_id, number) for topic_id, number, state in changed if not state.is_reassigned],
            )
            database.executemany(
                "INSERT OR REPLACE INTO reassignment VALUES (?, ?, ?, ?)",
                [
                    (topic_id, number, _text(state.adding), _text(state.removing))
                    for topic_id, number, state in changed
                    if state.is_reassigned
                ],
            )

    def delete_topics(self, topics: Sequence[Topic]) -> None:
        """Remove topics, with all that is theirs, and note that their folders have to go."""
        with self._transaction() as database:
            ids = [(topic.id,) for topic in topics]
            database.executemany("DELETE FROM topic WHERE id = ?", ids)
            database.executemany("DELETE FROM partition WHERE topic_id = ?", ids)
            database.executemany("DELETE FROM reassignment WHERE topic_id = ?", ids)
            database.executemany(
                "DELETE FROM config WHERE resource_type = ? AND resource_name = ?",
                [(TOPIC, topic.name) for topic in topics],
            )
            database.executemany("INSERT INTO deleted_topic VALUES (?)", ids)

    def deleted_topic_ids(self) -> set[bytes]:
        """The topics of which that is noted."""
        return {topic_id for (topic_id,) in self.connection.execute("SELECT id FROM deleted_topic")}

    def forget_deleted(self, topic_ids: Collection[bytes]) -> None:
        """Take the note back."""
        with self._transaction() as database:
            database.executemany("DELETE FROM deleted_topic WHERE id = ?", [(topic_id,) for topic_id in topic_ids])

    def replace_configs(self, resource_type: int, name: str, configs: Mapping[str, str]) -> None:
        """Give a resource these settings, and no others. Its type is TOPIC, BROKER or CLIENT_QUOTA."""
        with self._transaction() as database:
            resource = (resource_type, name)
            database.execute("DELETE FROM config WHERE resource_type = ? AND resource_name = ?", resource)
            database.executemany(
                "INSERT INTO config VALUES (?, ?, ?, ?)", [(*resource, *item) for item in configs.items()]
            )

    def insert_acls(self, acls: Iterable[AclBinding]) -> None:
        """Add access rules."""
        with self._transaction() as database:
            database.executemany(
                "INSERT INTO acl VALUES (?, ?, ?, ?, ?, ?, ?, ?)", [(random_uuid(), *acl) for acl in acls]
            )

    def delete_acls(self, acls: Iterable[AclBinding]) -> None:
        """Remove access rules."""
        columns = " AND ".join(f"{name} = ?" for name in AclBinding._fields)
        with self._transaction() as database:
            database.executemany(f"DELETE FROM acl WHERE {columns}", acls)

    def alter_scram_credentials(
        self, changed: Mapping[tuple[str, int], ScramCredential], deleted: Collection[tuple[str, int]]
    ) -> None:
        """Delete credentials, then set others, by user and number of the mechanism."""
        with self._transaction() as database:
            database.executemany("DELETE FROM scram_credential WHERE user = ? AND mechanism = ?", list(deleted))
            database.executemany(
                "INSERT OR REPLACE INTO scram_credential VALUES (?, ?, ?, ?, ?, ?)",
                [(*key, *credential) for key, credential in changed.items()],
            )

    def set_feature_levels(self, levels: Mapping[str, int], epoch: int) -> None:
        """Set the levels of some features, and how often that was done."""
        with self._transaction() as database:
            database.executemany(
                "INSERT OR REPLACE INTO property VALUES (?, ?)",
                [*((_FEATURE + name, level) for name, level in levels.items()), ("features_epoch", epoch)],
            )

    def reserve_producer_ids(self, count: int) -> int:
        """The first of `count` ids that nobody else will get."""
        with self._transaction() as database:
            (first,) = database.execute("SELECT value FROM property WHERE name = 'next_producer_id'").fetchone()
            database.execute("UPDATE property SET value = ? WHERE name = 'next_producer_id'", (first + count,))
        return int(first)

    @contextmanager
    def _transaction(self) -> Iterator[sqlite3.Connection]:
        """All or nothing; KafkaStorageError if SQLite cannot."""
        import sqlite3

        database = self.connection
        try:
            database.execute("BEGIN IMMEDIATE")
            yield database
            database.execute("COMMIT")
        except BaseException as error:
            if database.in_transaction:
                database.execute("ROLLBACK")
            if isinstance(error, sqlite3.Error):
                raise KafkaStorageError(f"{DATABASE} cannot be written: {error}") from error
            raise


def _keep_to_owner(path: str) -> None:
    """Make the file, if need be, and let nobody but its owner read it: it holds credentials. SQLite gives the files
    that it makes beside it the same rights."""
    os.close(os.open(path, os.O_RDWR | os.O_CREAT, 0o600))
    if os.name != "nt":
        for name in (path, f"{path}-wal", f"{path}-shm"):
            if os.path.exists(name) and os.stat(name).st_mode & 0o077:
                os.chmod(name, 0o600)


def _rows(topic: Topic) -> Iterator[tuple[object, ...]]:
    """The partitions of a topic, by number."""
    for number, state in enumerate(topic.partitions):
        yield _row(topic.id, number, state)


def _row(topic_id: bytes, number: int, state: PartitionState) -> tuple[object, ...]:
    return (
        topic_id,
        number,
        _text(state.replicas),
        _text(state.isr),
        state.leader,
        state.leader_epoch,
        state.partition_epoch,
    )


def _text(numbers: Sequence[int]) -> str:
    return ",".join(map(str, numbers))


def _numbers(text: str) -> tuple[int, ...]:
    return tuple(map(int, text.split(","))) if text else ()
