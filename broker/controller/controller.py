"""The metadata of the cluster: brokers, topics and their leaders, settings made while it runs, producer ids.

One object for all brokers of a process, over one file (`controller/database.py`). Reading is from memory. A change is
in the file before it shows in memory, so a caller that was answered finds it again after `kill -9` and after loss of
power: a topic's settings, or that it is deleted, can be read nowhere else.
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING

from ...protocol.errors import InvalidReplicationFactor
from ...protocol.messages.describe_configs import BROKER, GROUP, TOPIC
from ...protocol.uuids import random_uuid
from ...storage.data_directory import NotADataDirectory, prepare_data_directory
from ...storage.filenames import DATABASE, parse_broker_directory
from ...storage.filesystem import FileSystem, OsFileSystem
from ...storage.log_dir_files import CorruptMetadata, read_meta_properties
from ..scheduler import PausedTasks
from ..security.acls import AclBinding, AclIndex
from .database import CLIENT_QUOTA, ControllerDatabase, ControllerError, Stored
from .placement import check_replication, place, racks_of
from .topology import NO_LEADER, BrokerRegistration, PartitionState, Topic

if TYPE_CHECKING:
    from ...protocol.scram import ScramCredential
    from ..security.delegation_tokens import DelegationToken

__all__ = [
    "NO_LEADER",
    "PRODUCER_ID_BLOCK",
    "BrokerRegistration",
    "Controller",
    "ControllerError",
    "PartitionState",
    "Topic",
]

PRODUCER_ID_BLOCK = 1000
"""Producer ids are reserved in blocks; what is left of one at the end is never used."""


class Controller:
    """The cluster's metadata. Belongs to one thread; no method waits for more than the disk cache."""

    def __init__(self, database: ControllerDatabase, stored: Stored, node_ids: Collection[int]) -> None:
        self._database = database
        self.node_ids = frozenset(node_ids)
        """The brokers that the cluster consists of, live or not."""
        self.paused_tasks = PausedTasks()
        """Tasks that run again once a topic, a partition, the live brokers or a delegation token have changed."""
        self._topics: dict[str, Topic] = {}
        self.topic_changes = 0
        """Rises with every change of topics, their partitions and their settings."""
        self._by_id: dict[bytes, Topic] = {}
        self._folded_names: dict[str, set[str]] = {}
        self._broker_configs = stored.broker_configs
        self.group_configs = stored.group_configs
        """The settings of each group that has any, by group id; to be read only. A change replaces the mapping."""
        self._client_quotas = stored.client_quotas
        self.acls = AclIndex()
        """The access rules; to be read only."""
        self.scram_credentials = stored.scram_credentials
        """By user and number of the mechanism; to be read only."""
        self.delegation_tokens = stored.delegation_tokens
        """By token id; to be read only."""
        self._feature_levels = stored.feature_levels
        self.features_epoch = stored.features_epoch
        """How often levels of features were set."""
        self._brokers: dict[int, BrokerRegistration] = {}
        self._racks: dict[int, str | None] = {}
        """The rack of each registered broker."""
        self._broker_epochs: Counter[int] = Counter()
        self._leaving: dict[bytes, str] = {}
        self._gone_from: dict[bytes, set[int]] = {}
        """Which brokers have put the folders of a deleted topic away."""
        self._next_in_block = self._block_end = 0
        self._turn = 0
        self.cluster_id = stored.cluster_id
        """22 characters of url-safe base64, set when the database is made and never changed."""
        self.acls.add(stored.acls)
        for topic in stored.topics:
            self._remember(topic)

    @classmethod
    def open(
        cls,
        data_dir: str,
        *,
        node_ids: Collection[int] = (),
        cluster_id: str = "",
        filesystem: FileSystem | None = None,
    ) -> Controller:
        """Open the database of `data_dir`, making both if there are none, for a cluster of the brokers `node_ids`.

        `cluster_id` is what a new cluster shall be called, and an old one has to be. Raises ControllerError for a
        directory that `data_directory.py` refuses, and for a file that is damaged, of a later format, of another
        cluster, or in use by another process. Raises OSError if the disk refuses. Blocks.
        """
        filesystem = filesystem or OsFileSystem()
        try:
            names = prepare_data_directory(filesystem, data_dir, node_ids)
        except NotADataDirectory as error:
            raise ControllerError(str(error)) from error
        known_id = "" if DATABASE in names else _cluster_id_of_logs(filesystem, data_dir, names)
        database, stored = ControllerDatabase.open(filesystem, data_dir, new_cluster_id=known_id or cluster_id)
        if cluster_id and stored.cluster_id != cluster_id:
            database.close()
            raise ControllerError(f"{data_dir} belongs to cluster {stored.cluster_id}, not to {cluster_id}")
        return cls(database, stored, node_ids)

    def emptied(self) -> Controller:
        """A controller of the same cluster over the same file, as after its first start; this one may not be used any
        more. The ids of producers go on. Raises KafkaStorageError."""
        return self._succeeded(self._database.empty())

    def save(self, filesystem: FileSystem, path: str) -> None:
        """Write what the file has to another one. Blocks. OSError if the disk refuses."""
        self._database.save(filesystem, path)

    def restored(self, filesystem: FileSystem, path: str) -> Controller:
        """A controller like `emptied`, with what `save` has written; leaders begin a new epoch. Blocks. Raises
        ControllerError for a damaged file, KafkaStorageError, and OSError."""
        successor = self._succeeded(self._database.restore(filesystem, path))
        successor.begin_leader_epochs(successor.node_ids)
        return successor

    def _succeeded(self, stored: Stored) -> Controller:
        successor = Controller(self._database, stored, self.node_ids)
        successor._next_in_block, successor._block_end = self._next_in_block, self._block_end
        successor._racks, successor._broker_epochs = self._racks, self._broker_epochs
        return successor

    def close(self, *, clean: bool = True) -> None:
        """Close the file; with `clean`, as `ControllerDatabase.close` does. Blocks."""
        self._database.close(clean=clean)

    # --- brokers

    @property
    def brokers(self) -> list[BrokerRegistration]:
        """The live brokers, by node id."""
        return [self._brokers[node_id] for node_id in sorted(self._brokers)]

    @property
    def controller_id(self) -> int:
        """The broker that clients send administrative requests to; any would do."""
        return min(self._brokers, default=-1)

    @property
    def registered(self) -> Collection[int]:
        """The node ids of brokers that are live, or were and may come back: new partitions have replicas there, too."""
        return self._racks.keys()

    def register(self, broker: BrokerRegistration) -> None:
        self._brokers[broker.node_id] = broker
        self._racks[broker.node_id] = broker.rack
        self.paused_tasks.resume()

    def begin_broker_epoch(self, node_id: int) -> int:
        """A broker starts: what it sent before, and comes later, has an earlier epoch (KIP-903)."""
        self._broker_epochs[node_id] += 1
        return self._broker_epochs[node_id]

    def broker_epoch(self, node_id: int) -> int:
        """The epoch that a broker began with its last start."""
        return self._broker_epochs[node_id]

    def broker(self, node_id: int) -> BrokerRegistration | None:
        """The live broker of this number, if there is one."""
        return self._brokers.get(node_id)

    def is_live(self, node_id: int) -> bool:
        return node_id in self._brokers

    def fence(self, node_id: int) -> None:
        """A broker is live no more. It stays registered."""
        self._brokers.pop(node_id, None)
        self.paused_tasks.resume()

    def unregister(self, node_id: int) -> None:
        """Forget a broker that is not live, until it joins again. KeyError if it is not registered."""
        del self._racks[node_id]

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

    def assign(self, partitions: int, replication_factor: int, first: int | None = None) -> list[tuple[int, ...]]:
        """Replicas for each of `partitions` new partitions, spread over the registered brokers: after those that were
        assigned before, or, given the number of the `first` partition, the same in each run.

        Raises InvalidPartitions or InvalidReplicationFactor.
        """
        check_replication(partitions, replication_factor, len(self._racks))
        if not self._brokers:
            raise InvalidReplicationFactor("no broker is live")
        if first is None:
            first, self._turn = self._turn, self._turn + partitions
        racks, dead = racks_of(self._racks.items()), self._racks.keys() - self._brokers.keys()
        return [place(racks, first + number, replication_factor, dead=dead) for number in range(partitions)]

    def new_topic(self, name: str, assignment: Iterable[Sequence[int]], configs: dict[str, str]) -> Topic:
        """A topic with a new id; `create_topics` makes it real."""
        return Topic(name, random_uuid(), tuple(map(self._new_partition, assignment)), configs)

    def _new_partition(self, replicas: Sequence[int]) -> PartitionState:
        """A partition that the first live replica leads, while the live ones are in sync. One of them must be live."""
        isr = tuple(node_id for node_id in replicas if node_id in self._brokers)
        return PartitionState(tuple(replicas), isr, isr[0])

    def create_topics(self, topics: Sequence[Topic]) -> None:
        """Write new topics, all or none, before their folders exist. Raises KafkaStorageError if they cannot be."""
        self._database.insert_topics(topics)
        for topic in topics:
            self._remember(topic)

    def add_partitions(self, topic: Topic, assignment: Iterable[Sequence[int]]) -> Topic:
        """Give a topic further partitions, before their folders exist; returns what it is now. Raises
        KafkaStorageError."""
        grown = topic._replace(partitions=(*topic.partitions, *map(self._new_partition, assignment)))
        self._database.insert_partitions(grown, len(topic.partitions))
        self._remember(grown)
        return grown

    def take_back_partitions(self, topic: Topic, count: int) -> None:
        """Undo `add_partitions`, down to `count`, where they could not be made."""
        self._database.delete_partitions(topic, count)
        self._remember(topic._replace(partitions=topic.partitions[:count]))

    def begin_leader_epochs(self, node_ids: Collection[int]) -> None:
        """Start a new leader epoch in every partition that one of these brokers leads, before any of them starts: they
        were away, and may have lost the end of a log.

        By the epoch readers notice that what they have read is not what is there now (KIP-320).
        """
        self.change_partitions(
            {
                (topic.id, number): state._replace(leader_epoch=state.leader_epoch + 1)
                for topic in self._topics.values()
                for number, state in enumerate(topic.partitions)
                if state.leader in node_ids
            }
        )

    def change_partitions(self, changes: Mapping[tuple[bytes, int], PartitionState]) -> None:
        """Give partitions, by topic id and number, other states; `partition_epoch` rises by itself. All or none, and
        then every live broker is told. Raises KafkaStorageError."""
        changed: dict[bytes, dict[int, PartitionState]] = {}
        for (topic_id, number), state in changes.items():
            changed.setdefault(topic_id, {})[number] = state._replace(partition_epoch=state.partition_epoch + 1)
        told: list[tuple[Topic, int]] = []
        topics: list[Topic] = []
        for topic_id, states in changed.items():
            known = self._by_id[topic_id]
            partitions = tuple([states.get(number, state) for number, state in enumerate(known.partitions)])
            topic = known._replace(partitions=partitions)
            topics.append(topic)
            told += [(topic, number) for number in states]
        if not told:
            return
        self._database.update_partitions(told)
        for topic in topics:
            self._remember(topic)
        for topic, number in told:
            for registered in self.brokers:
                current = self._by_id.get(topic.id)  # the broker that heard it first may have changed it again
                if registered.broker is not None and current is not None:
                    registered.broker.replica_manager.partition_changed(current, number)

    def delete_topics(self, topics: Sequence[Topic]) -> None:
        """Forget topics, all or none, before their folders go. Their ids are kept until each broker has called
        `gone_from`."""
        self._database.delete_topics(topics)
        self.topic_changes += 1
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

    def deleted_topics(self, node_id: int) -> dict[bytes, str]:
        """The ids and names of topics that are deleted while their folders on this broker may not be. The name is empty
        where it is not known."""
        return {
            topic_id: name
            for topic_id, name in self._database.deleted_topics().items()
            if node_id not in self._gone_from.get(topic_id, ())
        }

    def release_names(self, topic_ids: Iterable[bytes]) -> None:
        """Every live broker has put the folders of these deleted topics away: others may be called so."""
        for topic_id in topic_ids:
            self._leaving.pop(topic_id, None)

    def gone_from(self, node_id: int, topic_ids: Iterable[bytes]) -> None:
        """A broker has no folder of these deleted topics any more. When that is so of every broker, they are
        forgotten. Raises KafkaStorageError."""
        forgotten = []
        for topic_id in topic_ids:
            brokers = self._gone_from.setdefault(topic_id, set())
            brokers.add(node_id)
            if brokers >= self.node_ids:
                forgotten.append(topic_id)
        if forgotten:
            self._database.forget_deleted(forgotten)
        for topic_id in forgotten:
            del self._gone_from[topic_id]

    # --- settings

    def broker_configs(self, name: str) -> dict[str, str]:
        """Settings made while brokers ran: for the broker of this number, or for all (the empty name)."""
        return self._broker_configs.get(name, {})

    def set_broker_configs(self, name: str, configs: Mapping[str, str]) -> None:
        """Replace `broker_configs`. Raises KafkaStorageError."""
        self._database.replace_configs(BROKER, name, configs)
        self._broker_configs[name] = dict(configs)

    def set_topic_configs(self, topic: Topic, configs: Mapping[str, str]) -> None:
        """Replace a topic's settings. Raises KafkaStorageError."""
        self._database.replace_configs(TOPIC, topic.name, configs)
        self._remember(topic._replace(configs=dict(configs)))

    def set_group_configs(self, group_id: str, configs: Mapping[str, str]) -> None:
        """Replace a group's settings. Raises KafkaStorageError."""
        self._database.replace_configs(GROUP, group_id, configs)
        if configs:
            self.group_configs[group_id] = dict(configs)
        else:
            self.group_configs.pop(group_id, None)

    @property
    def client_quotas(self) -> Mapping[str, Mapping[str, str]]:
        """The quotas of each entity that has any, by their keys (see `client_quotas.py`)."""
        return self._client_quotas

    def set_client_quotas(self, entity: str, quotas: Mapping[str, str]) -> None:
        """Replace an entity's quotas. Raises KafkaStorageError."""
        self._database.replace_configs(CLIENT_QUOTA, entity, quotas)
        if quotas:
            self._client_quotas[entity] = dict(quotas)
        else:
            self._client_quotas.pop(entity, None)

    # --- security

    def create_acls(self, acls: Iterable[AclBinding]) -> None:
        """Add access rules, all or none; those that there are stay as they are. Raises KafkaStorageError."""
        new = [acl for acl in dict.fromkeys(acls) if acl not in self.acls]
        if not new:
            return
        self._database.insert_acls(new)
        self.acls.add(new)

    def delete_acls(self, acls: Iterable[AclBinding]) -> None:
        """Remove access rules, all or none. Raises KafkaStorageError."""
        gone = [acl for acl in dict.fromkeys(acls) if acl in self.acls]
        if not gone:
            return
        self._database.delete_acls(gone)
        self.acls.remove(gone)

    def alter_scram_credentials(
        self, changed: Mapping[tuple[str, int], ScramCredential], deleted: Collection[tuple[str, int]]
    ) -> None:
        """Set and delete credentials, by user and number of the mechanism, all or none. Raises KafkaStorageError."""
        if not changed and not deleted:
            return
        self._database.alter_scram_credentials(changed, deleted)
        for key in deleted:
            self.scram_credentials.pop(key, None)
        self.scram_credentials.update(changed)

    def put_delegation_token(self, token: DelegationToken) -> None:
        """Add a token, or replace the one with its id. Raises KafkaStorageError."""
        self._database.put_delegation_token(token)
        self.delegation_tokens[token.token_id] = token
        self.paused_tasks.resume()

    def remove_delegation_tokens(self, token_ids: Collection[str]) -> None:
        """Remove tokens, all or none. Raises KafkaStorageError."""
        if not token_ids:
            return
        self._database.remove_delegation_tokens(token_ids)
        for token_id in token_ids:
            self.delegation_tokens.pop(token_id, None)

    # --- features

    @property
    def feature_levels(self) -> Mapping[str, int]:
        """The levels of features (KIP-584) that were set; others have their release's."""
        return self._feature_levels

    def set_feature_levels(self, levels: Mapping[str, int]) -> None:
        """Set levels of features. Raises KafkaStorageError."""
        epoch = self.features_epoch + 1
        self._database.set_feature_levels(levels, epoch)
        self._feature_levels.update(levels)
        self.features_epoch = epoch

    # --- producer ids

    def next_producer_id(self) -> int:
        """An id that was never given out and never will be again. Raises KafkaStorageError if none can be reserved."""
        if self._next_in_block == self._block_end:
            self._next_in_block = self._database.reserve_producer_ids(PRODUCER_ID_BLOCK)
            self._block_end = self._next_in_block + PRODUCER_ID_BLOCK
        producer_id = self._next_in_block
        self._next_in_block += 1
        return producer_id

    def _remember(self, topic: Topic) -> None:
        if self.paused_tasks:
            self.paused_tasks.resume()
        self.topic_changes += 1
        self._topics[topic.name] = topic
        self._by_id[topic.id] = topic
        self._folded_names.setdefault(_fold(topic.name), set()).add(topic.name)


def _cluster_id_of_logs(filesystem: FileSystem, data_dir: str, names: Iterable[str]) -> str:
    """The cluster that the log directories in `data_dir` belong to, if any: a database made beside them is theirs.
    `names` are those in the directory."""
    for name in names:
        if parse_broker_directory(name) is not None:
            try:
                meta = read_meta_properties(filesystem, os.path.join(data_dir, name))
            except (CorruptMetadata, OSError):
                continue
            if meta is not None and meta.cluster_id:
                return meta.cluster_id
    return ""


def _fold(name: str) -> str:
    return name.replace(".", "_")
