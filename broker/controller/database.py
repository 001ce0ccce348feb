"""`DATA_DIR/kmini.db`: what the controller must not forget, in one journal (`storage/journal.py`).

A change is one line, and one sync.
"""

from __future__ import annotations

import contextlib
import logging
import os
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from typing import TYPE_CHECKING, Any

from ...protocol.errors import AnswerError, KafkaStorageError
from ...protocol.messages.describe_configs import TOPIC
from ...protocol.uuids import format_uuid, random_uuid
from ...storage.filenames import DATABASE, LOCK, parse_broker_directory
from ...storage.filesystem import FileSystem, Lock, LockHeld
from ...storage.journal import CorruptJournal, Journal, Key, LaterFormat, read_journal
from ..security.acls import AclBinding
from . import database_entries as of
from .database_entries import CLIENT_QUOTA, Stored
from .old_sqlite_database import LEFTOVERS, MAGIC, read_sqlite_database
from .topology import Topic

if TYPE_CHECKING:
    from ...protocol.scram import ScramCredential
    from ..security.delegation_tokens import DelegationToken

__all__ = ["CLIENT_QUOTA", "ControllerDatabase", "ControllerError", "Stored", "read_database"]

log = logging.getLogger("kmini.broker")


class ControllerError(AnswerError):
    """The data directory or its database cannot be used. The message says why, and what to do."""


class ControllerDatabase:
    """The open file. Belongs to one thread. Every change is made as a whole or not at all, and outlives the process
    and a loss of power when its method returns. Raises KafkaStorageError if the disk refuses."""

    def __init__(self, journal: Journal, lock: Lock) -> None:
        """For `open`."""
        self._journal = journal
        self._lock = lock

    @classmethod
    def open(cls, filesystem: FileSystem, data_dir: str, *, new_cluster_id: str) -> tuple[ControllerDatabase, Stored]:
        """Lock the data directory, open the file in it, making it if there is none, and read it. Blocks.

        `new_cluster_id` is for a file that is new; empty: a random one. A file of format 1 or 2 is replaced by one of
        this format. Raises ControllerError for a file that is damaged, foreign or of a later format, and for a
        directory in use; OSError if the disk refuses.
        """
        path = os.path.join(data_dir, DATABASE)
        with ExitStack() as undone:
            lock = _lock(filesystem, data_dir)
            undone.callback(lock.release)
            if not filesystem.exists(path):
                entries = of.entries_of(_new(new_cluster_id))
                journal = Journal.create(filesystem, path, entries)
            elif _is_of_sqlite(filesystem, path):
                journal = _take_over(filesystem, data_dir)
            else:
                with _told_by_name(path):
                    journal = Journal.open(filesystem, path)
            undone.callback(journal.close, clean=False)
            with _told_by_name(path):
                stored = of.stored_of(journal.entries)
            for suffix in LEFTOVERS:
                if filesystem.exists(path + suffix):
                    filesystem.remove(path + suffix)
            undone.pop_all()
        return cls(journal, lock), stored

    def close(self, *, clean: bool = True) -> None:
        """Close the file, and let others have the directory. Blocks. With `clean` the file is a snapshot: every
        incomplete line in it is damage."""
        try:
            self._journal.close(clean=clean)
        finally:
            self._lock.release()

    def empty(self) -> Stored:
        """Forget everything but the cluster id and which producer ids are reserved; return what is left. Raises
        KafkaStorageError."""
        return self._replace(of.entries_of(_new(self._journal.entries[of.CLUSTER_ID])))

    def save(self, filesystem: FileSystem, path: str) -> None:
        """Write a file with the present entries to `path`. Blocks. OSError if the disk refuses."""
        Journal.create(filesystem, path, dict(self._journal.entries)).close()

    def restore(self, filesystem: FileSystem, path: str) -> Stored:
        """Take over the entries that `save` has written to `path`, but for the cluster id and the ids of producers that
        are reserved. Blocks. Raises ControllerError for a damaged file, KafkaStorageError, and OSError."""
        with _told_by_name(path):
            entries = read_journal(filesystem.read(path)).entries
            of.stored_of(entries)
        return self._replace(entries)

    def _replace(self, entries: dict[Key, Any]) -> Stored:
        ours = self._journal.entries
        next_producer_id = max(int(entries[of.NEXT_PRODUCER_ID]), int(ours[of.NEXT_PRODUCER_ID]))
        kept = {**entries, of.CLUSTER_ID: ours[of.CLUSTER_ID], of.NEXT_PRODUCER_ID: next_producer_id}
        try:
            self._journal.replace(kept)
        except OSError as error:
            raise KafkaStorageError(f"{DATABASE} cannot be written: {error}") from error
        return of.stored_of(kept)

    # --- changes

    def insert_topics(self, topics: Sequence[Topic]) -> None:
        """Add topics, with their partitions and settings."""
        self._change(of.topic_entries(topics))

    def insert_partitions(self, topic: Topic, first: int) -> None:
        """Add those partitions of a topic that are numbered from `first` on."""
        self.update_partitions((topic, number) for number in range(first, len(topic.partitions)))

    def delete_partitions(self, topic: Topic, first: int) -> None:
        """Remove those partitions of a topic that are numbered from `first` on."""
        self._change(dict.fromkeys(self._partition_keys(topic.id, first)))

    def update_partitions(self, changes: Iterable[tuple[Topic, int]]) -> None:
        """Write partitions, by topic and number, as they are now."""
        self._change({of.partition_key(topic.id, number): topic.partitions[number] for topic, number in changes})

    def delete_topics(self, topics: Sequence[Topic]) -> None:
        """Remove topics with their partitions and settings, and note that their folders have to go."""
        changes: dict[Key, Any] = {}
        for topic in topics:
            changes[of.topic_key(topic.id)] = None
            changes[of.config_key(TOPIC, topic.name)] = None
            changes.update(dict.fromkeys(self._partition_keys(topic.id, 0)))
            changes[of.deleted_topic_key(topic.id)] = topic.name
        self._change(changes)

    def deleted_topics(self) -> dict[bytes, str]:
        """The ids and names of deleted topics whose folders have to go."""
        return of.deleted_topics(self._journal.entries)

    def forget_deleted(self, topic_ids: Collection[bytes]) -> None:
        """Note that the folders of these deleted topics are gone."""
        self._change(dict.fromkeys(map(of.deleted_topic_key, topic_ids)))

    def replace_configs(self, resource_type: int, name: str, configs: Mapping[str, str]) -> None:
        """Give a resource these settings, and no others. Its type is TOPIC, BROKER, GROUP or CLIENT_QUOTA."""
        self._change({of.config_key(resource_type, name): dict(configs) or None})

    def insert_acls(self, acls: Iterable[AclBinding]) -> None:
        """Add access rules."""
        self._change(dict.fromkeys(map(of.acl_key, acls), True))

    def delete_acls(self, acls: Iterable[AclBinding]) -> None:
        """Remove access rules."""
        self._change(dict.fromkeys(map(of.acl_key, acls)))

    def alter_scram_credentials(
        self, changed: Mapping[tuple[str, int], ScramCredential], deleted: Collection[tuple[str, int]]
    ) -> None:
        """Delete credentials, then set others, by user and number of the mechanism."""
        changes: dict[Key, Any] = {of.scram_key(*key): None for key in deleted}
        changes.update({of.scram_key(*key): of.scram_value(credential) for key, credential in changed.items()})
        self._change(changes)

    def put_delegation_token(self, token: DelegationToken) -> None:
        """Add a token, or replace the one with its id."""
        self._change({of.token_key(token.token_id): of.token_value(token)})

    def remove_delegation_tokens(self, token_ids: Iterable[str]) -> None:
        """Remove tokens, by their ids."""
        self._change(dict.fromkeys(map(of.token_key, token_ids)))

    def set_feature_levels(self, levels: Mapping[str, int], epoch: int) -> None:
        """Set the levels of some features, and how often that was done."""
        self._change({of.FEATURES_EPOCH: epoch, **{of.feature_key(name): level for name, level in levels.items()}})

    def reserve_producer_ids(self, count: int) -> int:
        """Reserve `count` ids that no other call returns; returns the first."""
        first = int(self._journal.entries[of.NEXT_PRODUCER_ID])
        self._change({of.NEXT_PRODUCER_ID: first + count})
        return first

    def _partition_keys(self, topic_id: bytes, first: int) -> Iterator[Key]:
        """The keys of a topic's partitions that there are, from a number on."""
        while (key := of.partition_key(topic_id, first)) in self._journal.entries:
            yield key
            first += 1

    def _change(self, changes: Mapping[Key, Any]) -> None:
        try:
            self._journal.change(changes)
        except OSError as error:
            raise KafkaStorageError(f"{DATABASE} cannot be written: {error}") from error


def read_database(filesystem: FileSystem, path: str) -> Stored:
    """Read the file at `path`, of any format, without changing anything; a broker may be running on it.

    Raises ControllerError for a file that is damaged, foreign or of a later format, OSError if the disk refuses.
    """
    with _told_by_name(path):
        if _is_of_sqlite(filesystem, path):
            return read_sqlite_database(filesystem, path)
        return of.stored_of(read_journal(filesystem.read(path)).entries)


@contextlib.contextmanager
def _told_by_name(path: str) -> Iterator[None]:
    """Turn what is wrong with the file into a sentence that names it, and the remedy."""
    try:
        yield
    except LaterFormat as error:
        raise ControllerError(f"{path} was written by a later kmini ({error}): upgrade kmini to read it") from error
    except (CorruptJournal, ValueError, TypeError, LookupError, AttributeError) as error:
        remedy = (
            "Bring back a copy of it; or move it away, and topics are found again from their folders, without "
            "settings, users, access rules and quotas"
        )
        raise ControllerError(f"{path} is damaged, or not kmini's: {error}. {remedy}") from error


def _new(cluster_id: str) -> Stored:
    return Stored(cluster_id or format_uuid(random_uuid()), [], {}, {}, {}, [], {}, {}, 0, 0, {}, {})


def _is_of_sqlite(filesystem: FileSystem, path: str) -> bool:
    return filesystem.read(path).startswith(MAGIC)


def _take_over(filesystem: FileSystem, data_dir: str) -> Journal:
    """Replace a database of SQLite by a file of this format. The kmini that wrote it did not lock the data directory,
    but its log directories: their locks show that it does not run."""
    with ExitStack() as held:
        for name in filesystem.list(data_dir):
            if parse_broker_directory(name) is not None:
                held.callback(_lock(filesystem, os.path.join(data_dir, name)).release)
        path = os.path.join(data_dir, DATABASE)
        entries = of.entries_of(read_database(filesystem, path))
        journal = Journal.create(filesystem, path, entries)
    log.info("%s has a new format now, which earlier versions of kmini cannot read", path)
    return journal


def _lock(filesystem: FileSystem, directory: str) -> Lock:
    try:
        return filesystem.lock(os.path.join(directory, LOCK))
    except LockHeld as error:
        raise ControllerError(str(error)) from error
