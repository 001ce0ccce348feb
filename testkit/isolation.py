"""What keeps tests apart: a broker or a cluster as it was right after its start, or when a snapshot was taken.

`broker/reset.py` does it, and `pytest_plugin/lending.py` asks for it after each test.
"""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import Collection
from typing import TYPE_CHECKING

from kmini.testkit.handle import takes_long

if TYPE_CHECKING:
    from kmini.broker.local_cluster import LocalCluster
    from kmini.broker.reset import ResetReport
    from kmini.broker.snapshots import Saved, Snapshot


class IsolationOperations:
    """The operations that make a broker or a cluster what it was."""

    def __init__(self, core: LocalCluster) -> None:
        self.core = core
        self._one_at_a_time = asyncio.Lock()
        """Held by a reset, and by what may not run beside one."""
        self.began_s = time.time()
        """When the broker or the cluster started, or was last reset or restored, in seconds since the epoch."""

    async def reset(self, *, keep: Collection[str] = ()) -> ResetReport:
        """Make everything as it was right after the start, in milliseconds: topics, groups, producers, transactions,
        access rules, users, quotas, features, settings, fault rules, the journal, the advertised address and the clock.

        Topics that were given at the start are there again, empty and with new ids. The ports, the number of each
        broker and the cluster id stay; ids of producers go on, because a connected producer must not share one.
        Brokers of a cluster that do not run are started.

        Connections made since the last reset are closed, and the report names their clients, except those whose client
        id matches a pattern of `keep`, as "app-*"; these also outlive later resets. A call of another thread that waits
        raises RuntimeError. Raises KafkaStorageError and OSError if the disk refuses: then the broker has stopped.
        """
        async with self._one_at_a_time:
            return await self._begin_anew(keep)

    @takes_long
    async def snapshot(self, name: str | None = None) -> Snapshot:
        """Save everything: records, topics, groups, producers, transactions, access rules, users, settings, and how far
        the clock is ahead. `restore` brings it back. Segments are linked, so size costs neither time nor room; each
        partition takes a roll and some files, and no request is served meanwhile.

        The snapshot is in the directory `snapshots` of the data directory, and goes with a private one. It replaces one
        of the same name; without a name it gets a number. Raises SnapshotError if a broker of the cluster does not run,
        ValueError for a name that is none for a directory, KafkaStorageError and OSError.
        """
        from kmini.broker import snapshots  # start-up time counts

        missing = self.core.controller.node_ids - self.core.brokers.keys()
        if missing:
            raise snapshots.SnapshotError(f"broker {min(missing)} does not run: restart it before a snapshot")
        async with self._one_at_a_time:
            return await snapshots.take([*self.core.brokers.values()], self.core.data_dir, name)

    @takes_long
    async def load(self, path: str | os.PathLike[str], *, topic: str | None = None) -> dict[str, int]:
        """Fill topics from a file or a directory; return the number of records by topic.

        A file has a JSON object on each line, as `kmini consume --format json` prints them: `topic`, `value`, and if
        wanted `key`, `partition`, `timestamp` and `headers`; a key or value is a text, {"base64": ...}, null, or any
        other JSON, which is stored as its text. With `topic` each line is a value, as for `kmini produce`. Missing
        topics are created as for a client.

        A directory is an archive of `kmini archive` (extra `audit`), whose topics are created with their settings, or
        a copy of a log directory of Apache Kafka, or of kmini, whose topics keep their offsets, and which brings its
        groups and transactions. It may not hold a topic that there is.

        Raises SeedError, a ValueError, for anything else, FileNotFoundError, ArchiveError and KafkaError.
        """
        from kmini.testkit.operations import Operations
        from kmini.testkit.seeds import Here, load

        assert isinstance(self, Operations)
        return await load(Here(self), os.fspath(path), topic)

    @takes_long
    async def restore(self, snapshot: Snapshot | str | os.PathLike[str], *, keep: Collection[str] = ()) -> ResetReport:
        """Make everything as it was when a snapshot was taken, in milliseconds. It is given as `snapshot` returned it,
        by its name, or by the path of its directory, which may be of another broker.

        The ports, the number of each broker and the cluster id stay, and ids of producers go on. Connections are closed
        as by `reset`, and the report names their clients. Topics that were given at the start and are not in the
        snapshot are there, empty. Raises SnapshotError for a snapshot that does not exist, has another format, or is of
        other brokers, and what `reset` raises.
        """
        from kmini.broker import snapshots

        saved = snapshots.find(self.core.data_dir, snapshot, [*self.core.controller.node_ids])
        async with self._one_at_a_time:
            return await self._begin_anew(keep, saved)

    async def _begin_anew(self, keep: Collection[str], saved: Saved | None = None) -> ResetReport:
        report = await self.core.reset(keep, saved)
        self.began_s = time.time()
        return report
