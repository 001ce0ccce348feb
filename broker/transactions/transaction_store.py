"""The transaction store: writes transactional ids to `__transaction_state`, and reads them again."""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import TYPE_CHECKING

from ...protocol.errors import InvalidRequest
from ...protocol.topics import TRANSACTION_STATE
from ...storage.log import PartitionLog
from ..coordinators.coordinator_topic import MAX_NAME_BYTES, CoordinatorTopic, Take
from ..coordinators.internal_records import CorruptRecord, LastValues, replayed
from .transaction_records import Entry, decode_entry, decode_key, encode_entry, encode_key

if TYPE_CHECKING:
    from ..coordinators.loader import Steps
    from ..replication.partition import Partition
    from ..replication.replica_manager import ReplicaManager

log = logging.getLogger("kmini.internal_topics")

FLEXIBLE_SINCE = 1
"""The level of the feature `transaction.version` from which on values have version 1."""


class TransactionStore:
    """The log side of the transaction coordinator. Belongs to the broker's loop."""

    def __init__(
        self,
        replica_manager: ReplicaManager,
        create_topic: Callable[[str], object],
        transaction_version: Callable[[], int],
    ) -> None:
        """`transaction_version` gives the level of that feature that is in force."""
        self._config = replica_manager.config
        self._transaction_version = transaction_version
        self.topic = CoordinatorTopic(TRANSACTION_STATE, replica_manager, create_topic)

    @property
    def transaction_version(self) -> int:
        """The level of the feature `transaction.version` that is in force."""
        return self._transaction_version()

    def check(self, transactional_id: str) -> None:
        """Check that this broker coordinates the id. Raises InvalidRequest for an invalid id, NotCoordinator if another
        broker leads its partition or the partition does not exist, CoordinatorLoadInProgress while it is loading."""
        if not transactional_id:
            raise InvalidRequest("a transactional id cannot be empty")
        if len(transactional_id.encode()) > MAX_NAME_BYTES:
            raise InvalidRequest(f"a transactional id has at most {MAX_NAME_BYTES} bytes")
        self.topic.partition_of(transactional_id)

    def epoch_of(self, transactional_id: str) -> int:
        """The coordinator epoch: the leader epoch of the id's partition. Raises NotCoordinator."""
        return self.topic.partition_of(transactional_id).leader_epoch

    async def write(self, transactional_id: str, entry: Entry | None) -> None:
        """Store an entry; None deletes the id. Raises CoordinatorNotAvailable, NotCoordinator or UnknownServerError."""
        version = 1 if self.transaction_version >= FLEXIBLE_SINCE else 0
        value = None if entry is None else encode_entry(entry, version)
        await self.topic.append(
            transactional_id,
            [(encode_key(transactional_id), value)],
            timeout_ms=self._config.current.request_timeout_ms,
        )

    def load(self, partition: Partition, take: Take[Entry]) -> Steps:
        """Read the ids of a partition that this broker leads, in steps; `take` is called with each."""
        return self.topic.load(partition, _replay, take)


def _replay(partition_log: PartitionLog, entries: dict[str, Entry]) -> Steps:
    """Put the last entry of every id of a partition into `entries`; unreadable ones are logged and left out."""
    last = LastValues()
    yield from replayed(partition_log, last)
    while last.values:
        key, value = last.values.popitem()
        try:
            transactional_id = decode_key(key)
            if transactional_id is not None:
                entries[transactional_id] = decode_entry(value)
        except CorruptRecord as error:
            log.error("%s: a transactional id is left out: %s", partition_log.topic_partition, error)
        yield
