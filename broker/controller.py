"""What the cluster agrees on: brokers, topics and who leads them, settings made while it runs, producer ids.

One object for all brokers of a process, over one SQLite file, `DATA_DIR/kmini.db`. Reading is from memory. A change is
one transaction, written before it shows in memory, so a caller that was answered finds it again after `kill -9` and
after loss of power: a topic's settings, or that it is deleted, can be read nowhere else.

The journal is SQLite's write-ahead log, because it needs one sync a commit (0.2 ms on a common disk) where a rollback
journal needs three, and none to open. Where nothing is to outlive the process (`synced=False`) it is left to the
operating system, which still keeps it when the process is killed: 20 µs a commit.
"""

import os
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, NamedTuple

from ..protocol.errors import InvalidPartitions, InvalidReplicationFactor, KafkaStorageError
from ..protocol.uuids import format_uuid, random_uuid
from ..storage.filenames import DATABASE
from ..storage.filesystem import OsFileSystem
from ..storage.log_dir_files import CorruptMetadata, read_meta_properties

if TYPE_CHECKING:
    import sqlite3

PRODUCER_ID_BLOCK = 1000
"""Producer ids are reserved in blocks; what is left of one at the end is never used."""

TOPIC = 2
BROKER = 4
"""Resource types of settings, as in the configuration APIs."""

CLIENT_QUOTA = -1
"""Where client quotas are kept, beside the settings: no resource type of Kafka's."""

_FORMAT = 1

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


class ControllerError(Exception):
    """The database cannot be used. The message says why, and what to do, in one sentence."""


class PartitionState(NamedTuple):
    """Who holds a partition and who leads it."""

    replicas: tuple[int, ...]
    """Node ids; the first is the preferred leader."""
    isr: tuple[int, ...]
    """The replicas that are in sync, in the order in which they joined."""
    leader: int
    """-1 while there is none."""
    leader_epoch: int = 0
    """Raised by one with every election."""
    partition_epoch: int = 0
    """Raised by one with every change of leader, ISR or replicas."""


class Topic(NamedTuple):
    """A topic as the cluster knows it. A change makes a new one."""

    name: str
    id: bytes
    partitions: tuple[PartitionState, ...]
    """By partition number."""
    configs: dict[str, str]
    """The topic's own settings, as they were given."""

    @property
    def replication_factor(self) -> int:
        return len(self.partitions[0].replicas)


class BrokerRegistration(NamedTuple):
    """A live broker."""

    node_id: int
    rack: str | None = None


class Controller:
    """The cluster's metadata. Belongs to one thread; no method waits for more than the disk cache."""

    def __init__(self, database: "sqlite3.Connection", new_cluster_id: str) -> None:
        """`new_cluster_id` is for a database that is new; empty: a random one."""
        self._database = database
        self._topics: dict[str, Topic] = {}
        self._by_id: dict[bytes, Topic] = {}
        self._folded_names: dict[str, set[str]] = {}
        self._broker_configs: dict[str, dict[str, str]] = {}
        self._client_quotas: dict[str, dict[str, str]] = {}
        self._feature_levels: dict[str, int] = {}
        self.features_epoch = 0
        """How often levels of features were set."""
        self._brokers: dict[int, BrokerRegistration] = {}
        self._leaving: dict[bytes, str] = {}
        self._next_in_block = self._block_end = 0
        self._turn = 0
        self.cluster_id: str = self._load(new_cluster_id)
        """22 characters of url-safe base64, set when the database is made and never changed."""

    @classmethod
    def open(
        cls,
        data_dir: str,
        *,
        node_id: int | None = None,
        rack: str | None = None,
        synced: bool = True,
        cluster_id: str = "",
    ) -> "Controller":
        """Open the database of `data_dir`, making it if there is none, and register the broker `node_id` if given.

        `cluster_id` is what a new cluster shall be called, and an old one has to be. Raises ControllerError for a file
        that is damaged, of a later format, of another cluster, or in use by another process.
        """
        import sqlite3  # here, because the command line's clients do without

        path = os.path.join(data_dir, DATABASE)
        known_id = "" if os.path.exists(path) else _cluster_id_of_logs(data_dir)
        try:
            database = sqlite3.connect(path, isolation_level=None, timeout=0)
            try:
                # The one process that has the file open needs no shared memory beside it, which some mounts lack.
                database.execute("PRAGMA locking_mode = EXCLUSIVE")
                database.execute("PRAGMA journal_mode = WAL")
                database.execute(f"PRAGMA synchronous = {'FULL' if synced else 'OFF'}")
                controller = cls(database, known_id or cluster_id)
                if cluster_id and controller.cluster_id != cluster_id:
                    raise ControllerError(f"{data_dir} belongs to cluster {controller.cluster_id}, not to {cluster_id}")
            except BaseException:
                database.close()
                raise
        except sqlite3.OperationalError as error:
            raise ControllerError(f"cannot open {path}: {error}; is another broker using this directory?") from error
        except (sqlite3.DatabaseError, ValueError) as error:
            remedy = "move it away, and topics are found again from their folders, without their settings"
            raise ControllerError(f"{path} is damaged ({error}): {remedy}") from error
        if node_id is not None:
            controller.register(BrokerRegistration(node_id, rack))
        return controller

    def close(self) -> None:
        self._database.close()

    # --- brokers

    @property
    def brokers(self) -> list[BrokerRegistration]:
        """The live brokers, by node id."""
        return [self._brokers[node_id] for node_id in sorted(self._brokers)]

    @property
    def controller_id(self) -> int:
        """The broker that clients send administrative requests to; any would do."""
        return min(self._brokers, default=-1)

    def register(self, broker: BrokerRegistration) -> None:
        self._brokers[broker.node_id] = broker

    def is_live(self, node_id: int) -> bool:
        return node_id in self._brokers

    def unregister(self, node_id: int) -> None:
        self._brokers.pop(node_id, None)

    # --- topics

    @property
    def topics(self) -> dict[str, Topic]:
        """All topics by name; to be read only."""
        return self._topics

    def topic(self, name: str) -> Topic | None:
        return self._topics.get(name)

    def topic_by_id(self, topic_id: bytes) -> Topic | None:
        return self._by_id.get(topic_id)

    def colliding_topic(self, name: str) -> str | None:
        """A topic whose name differs from `name` in `.` and `_` only: the two would be one in the names of metrics."""
        return min(self._folded_names.get(_fold(name), set()) - {name}, default=None)

    def assign(self, partitions: int, replication_factor: int) -> list[tuple[int, ...]]:
        """Replicas for each of `partitions` new partitions, spread over the live brokers.

        Raises InvalidPartitions or InvalidReplicationFactor.
        """
        if partitions < 1:
            raise InvalidPartitions(f"a topic has at least 1 partition, not {partitions}")
        if replication_factor < 1:
            raise InvalidReplicationFactor(f"a topic has at least 1 replica, not {replication_factor}")
        nodes = sorted(self._brokers)
        if replication_factor > len(nodes):
            raise InvalidReplicationFactor(
                f"{replication_factor} replicas need as many brokers; {len(nodes)} registered"
            )
        first, self._turn = self._turn, (self._turn + partitions) % len(nodes)
        return [
            tuple(nodes[(first + number + copy) % len(nodes)] for copy in range(replication_factor))
            for number in range(partitions)
        ]

    def new_topic(self, name: str, assignment: Iterable[Sequence[int]], configs: dict[str, str]) -> Topic:
        """A topic with a new id, led by the first replica of each partition; `create_topics` makes it real."""
        partitions = tuple(
            PartitionState(replicas=tuple(replicas), isr=tuple(replicas), leader=replicas[0]) for replicas in assignment
        )
        return Topic(name, random_uuid(), partitions, configs)

    def create_topics(self, topics: Sequence[Topic]) -> None:
        """Write new topics, all or none, before their folders exist. Raises KafkaStorageError if they cannot be."""
        with _transaction(self._database) as database:
            database.executemany("INSERT INTO topic VALUES (?, ?)", [(topic.id, topic.name) for topic in topics])
            database.executemany(
                "INSERT INTO partition VALUES (?, ?, ?, ?, ?, ?, ?)",
                [_row(topic, number) for topic in topics for number in range(len(topic.partitions))],
            )
            database.executemany(
                "INSERT INTO config VALUES (?, ?, ?, ?)",
                [(TOPIC, topic.name, *item) for topic in topics for item in topic.configs.items()],
            )
        for topic in topics:
            self._remember(topic)

    def add_partitions(self, topic: Topic, assignment: Iterable[Sequence[int]]) -> Topic:
        """Give a topic further partitions, before their folders exist; returns what it is now. Raises
        KafkaStorageError."""
        new = [PartitionState(tuple(replicas), tuple(replicas), replicas[0]) for replicas in assignment]
        grown = topic._replace(partitions=(*topic.partitions, *new))
        with _transaction(self._database) as database:
            database.executemany(
                "INSERT INTO partition VALUES (?, ?, ?, ?, ?, ?, ?)",
                [_row(grown, number) for number in range(len(topic.partitions), len(grown.partitions))],
            )
        self._remember(grown)
        return grown

    def take_back_partitions(self, topic: Topic, count: int) -> None:
        """Undo `add_partitions`, down to `count`, where they could not be made."""
        with _transaction(self._database) as database:
            database.execute("DELETE FROM partition WHERE topic_id = ? AND number >= ?", (topic.id, count))
        self._remember(topic._replace(partitions=topic.partitions[:count]))

    def begin_leader_epochs(self, node_id: int) -> None:
        """Start a new leader epoch in every partition that `node_id` leads: it was away, and may have lost the end of a
        log.

        By the epoch readers notice that what they have read is not what is there now (KIP-320).
        """
        if not self._topics:
            return
        with _transaction(self._database) as database:
            database.execute(
                "UPDATE partition SET leader_epoch = leader_epoch + 1, partition_epoch = partition_epoch + 1"
                " WHERE leader = ?",
                (node_id,),
            )
        for topic in list(self._topics.values()):
            partitions = tuple(
                state._replace(leader_epoch=state.leader_epoch + 1, partition_epoch=state.partition_epoch + 1)
                if state.leader == node_id
                else state
                for state in topic.partitions
            )
            self._remember(topic._replace(partitions=partitions))

    def delete_topics(self, topics: Sequence[Topic]) -> None:
        """Forget topics, all or none, before their folders go; until `forget_deleted` it is known that they should."""
        with _transaction(self._database) as database:
            ids = [(topic.id,) for topic in topics]
            database.executemany("DELETE FROM topic WHERE id = ?", ids)
            database.executemany("DELETE FROM partition WHERE topic_id = ?", ids)
            database.executemany(
                "DELETE FROM config WHERE resource_type = ? AND resource_name = ?",
                [(TOPIC, topic.name) for topic in topics],
            )
            database.executemany("INSERT INTO deleted_topic VALUES (?)", ids)
        for topic in topics:
            del self._topics[topic.name]
            del self._by_id[topic.id]
            same_folded = self._folded_names[_fold(topic.name)]
            same_folded.discard(topic.name)
            if not same_folded:
                del self._folded_names[_fold(topic.name)]
            self._leaving[topic.id] = topic.name

    def is_leaving(self, name: str) -> bool:
        """Whether a deleted topic of this name may still have folders that a new one would run into."""
        return name in self._leaving.values()

    def deleted_topic_ids(self) -> set[bytes]:
        """Topics that are deleted and whose folders may not be."""
        return {topic_id for (topic_id,) in self._database.execute("SELECT id FROM deleted_topic")}

    def forget_deleted(self, topic_ids: Collection[bytes]) -> None:
        """The folders of these deleted topics are gone, or marked as going."""
        if topic_ids:
            with _transaction(self._database) as database:
                database.executemany("DELETE FROM deleted_topic WHERE id = ?", [(topic_id,) for topic_id in topic_ids])
        for topic_id in topic_ids:
            self._leaving.pop(topic_id, None)

    # --- settings

    def broker_configs(self, name: str) -> dict[str, str]:
        """What was set while brokers ran: for the broker of this number, or for all (the empty name)."""
        return self._broker_configs.get(name, {})

    def set_broker_configs(self, name: str, configs: Mapping[str, str]) -> None:
        """Replace `broker_configs`. Raises KafkaStorageError."""
        self._write_configs(BROKER, name, configs)
        self._broker_configs[name] = dict(configs)

    def set_topic_configs(self, topic: Topic, configs: Mapping[str, str]) -> None:
        """Replace a topic's settings. Raises KafkaStorageError."""
        self._write_configs(TOPIC, topic.name, configs)
        self._remember(topic._replace(configs=dict(configs)))

    @property
    def client_quotas(self) -> Mapping[str, Mapping[str, str]]:
        """The quotas of each entity that has any, by their keys (see `client_quotas.py`)."""
        return self._client_quotas

    def set_client_quotas(self, entity: str, quotas: Mapping[str, str]) -> None:
        """Replace an entity's quotas. Raises KafkaStorageError."""
        self._write_configs(CLIENT_QUOTA, entity, quotas)
        if quotas:
            self._client_quotas[entity] = dict(quotas)
        else:
            self._client_quotas.pop(entity, None)

    def _write_configs(self, resource_type: int, name: str, configs: Mapping[str, str]) -> None:
        with _transaction(self._database) as database:
            resource = (resource_type, name)
            database.execute("DELETE FROM config WHERE resource_type = ? AND resource_name = ?", resource)
            database.executemany(
                "INSERT INTO config VALUES (?, ?, ?, ?)", [(*resource, *item) for item in configs.items()]
            )

    # --- features

    @property
    def feature_levels(self) -> Mapping[str, int]:
        """The levels of features (KIP-584) that were set; others have their release's."""
        return self._feature_levels

    def set_feature_levels(self, levels: Mapping[str, int]) -> None:
        """Set levels of features. Raises KafkaStorageError."""
        epoch = self.features_epoch + 1
        with _transaction(self._database) as database:
            database.executemany(
                "INSERT OR REPLACE INTO property VALUES (?, ?)",
                [*((_FEATURE + name, level) for name, level in levels.items()), ("features_epoch", epoch)],
            )
        self._feature_levels.update(levels)
        self.features_epoch = epoch

    # --- producer ids

    def next_producer_id(self) -> int:
        """An id that was never given out and never will be again. Raises KafkaStorageError if none can be reserved."""
        if self._next_in_block == self._block_end:
            self._reserve_producer_ids()
        producer_id = self._next_in_block
        self._next_in_block += 1
        return producer_id

    def _reserve_producer_ids(self) -> None:
        with _transaction(self._database) as database:
            (first,) = database.execute("SELECT value FROM property WHERE name = 'next_producer_id'").fetchone()
            end = first + PRODUCER_ID_BLOCK
            database.execute("UPDATE property SET value = ? WHERE name = 'next_producer_id'", (end,))
        self._next_in_block, self._block_end = first, end

    # --- the database

    def _load(self, new_cluster_id: str) -> str:
        """Read everything into memory; make the tables first if the file is new. Returns the cluster id."""
        database = self._database
        (version,) = database.execute("PRAGMA user_version").fetchone()
        if version > _FORMAT:
            raise ControllerError(f"{DATABASE} was written by a later kmini (format {version}): upgrade to read it")
        if version == 0:
            self._make_tables(new_cluster_id or format_uuid(random_uuid()))
        self._broker_configs = self._read_configs(BROKER)
        self._client_quotas = self._read_configs(CLIENT_QUOTA)
        for topic in self._read_topics():
            self._remember(topic)
        properties = dict(database.execute("SELECT name, value FROM property"))
        self._feature_levels = {
            name.removeprefix(_FEATURE): level for name, level in properties.items() if name.startswith(_FEATURE)
        }
        self.features_epoch = properties.get("features_epoch", 0)
        return str(properties["cluster_id"])

    def _make_tables(self, cluster_id: str) -> None:
        with _transaction(self._database) as database:
            for statement in _SCHEMA.split(";"):
                database.execute(statement)
            properties = [("cluster_id", cluster_id), ("next_producer_id", 0)]
            database.executemany("INSERT INTO property VALUES (?, ?)", properties)
            database.execute(f"PRAGMA user_version = {_FORMAT}")

    def _read_topics(self) -> Iterable[Topic]:
        database = self._database
        partitions: dict[bytes, list[PartitionState]] = {}
        for topic_id, _, replicas, isr, *leadership in database.execute(
            "SELECT * FROM partition ORDER BY topic_id, number"
        ):
            state = PartitionState(_numbers(replicas), _numbers(isr), *leadership)
            partitions.setdefault(topic_id, []).append(state)
        configs = self._read_configs(TOPIC)
        for topic_id, name in database.execute("SELECT id, name FROM topic"):
            yield Topic(name, topic_id, tuple(partitions[topic_id]), configs.get(name, {}))

    def _read_configs(self, resource_type: int) -> dict[str, dict[str, str]]:
        """The settings of all resources of a type, by the resources' names."""
        configs: dict[str, dict[str, str]] = {}
        for resource_name, name, value in self._database.execute(
            "SELECT resource_name, name, value FROM config WHERE resource_type = ?", (resource_type,)
        ):
            configs.setdefault(resource_name, {})[name] = value
        return configs

    def _remember(self, topic: Topic) -> None:
        self._topics[topic.name] = topic
        self._by_id[topic.id] = topic
        self._folded_names.setdefault(_fold(topic.name), set()).add(topic.name)


@contextmanager
def _transaction(database: "sqlite3.Connection") -> Iterator["sqlite3.Connection"]:
    """All or nothing; KafkaStorageError if SQLite cannot."""
    import sqlite3

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


def _cluster_id_of_logs(data_dir: str) -> str:
    """The cluster that the log directories in `data_dir` belong to, if any: a database made beside them is theirs."""
    for name in sorted(os.listdir(data_dir)):
        if name.startswith("broker-"):
            try:
                meta = read_meta_properties(OsFileSystem(), os.path.join(data_dir, name))
            except (CorruptMetadata, OSError):
                continue
            if meta is not None and meta.cluster_id:
                return meta.cluster_id
    return ""


def _row(topic: Topic, number: int) -> tuple[object, ...]:
    state = topic.partitions[number]
    return (topic.id, number, _text(state.replicas), _text(state.isr), *state[2:])


def _text(numbers: Sequence[int]) -> str:
    return ",".join(map(str, numbers))


def _numbers(text: str) -> tuple[int, ...]:
    return tuple(map(int, text.split(","))) if text else ()


def _fold(name: str) -> str:
    return name.replace(".", "_")
