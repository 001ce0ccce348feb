"""Where transactional ids are kept: writing to `__transaction_state`, and finding in it what was open or half ended."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ...protocol.errors import InvalidRequest
from ...protocol.records.record import Record
from ...protocol.topics import TRANSACTION_STATE
from ...storage.log import PartitionLog
from ..internal_records import last_records, take_in
from ..internal_topic import MAX_NAME_BYTES, InternalTopic
from .records import Entry, decode_entry, decode_key, encode_entry, encode_key

if TYPE_CHECKING:
    from ..broker import Broker

FLEXIBLE_SINCE = 1
"""The level of the feature `transaction.version` from which on values have version 1."""


class TransactionStore:
    """The log side of the transaction coordinator. Belongs to the broker's loop."""

    def __init__(self, broker: Broker) -> None:
        self._broker = broker
        self.topic = InternalTopic(broker, TRANSACTION_STATE)

    @property
    def _value_version(self) -> int:
        level = next((one.level for one in self._broker.features if one.name == "transaction.version"), 0)
        return 1 if level >= FLEXIBLE_SINCE else 0

    def check(self, transactional_id: str) -> None:
        """Raise unless this broker coordinates the id: InvalidRequest for one that cannot be, NotCoordinator if its
        partition is led elsewhere or there is none."""
        if not transactional_id:
            raise InvalidRequest("a transactional id cannot be empty")
        if len(transactional_id.encode()) > MAX_NAME_BYTES:
            raise InvalidRequest(f"a transactional id has at most {MAX_NAME_BYTES} bytes")
        self.topic.partition_of(transactional_id)

    def epoch_of(self, transactional_id: str) -> int:
        """The epoch of the coordinator: that of the leader of the id's partition. Raises NotCoordinator."""
        return self.topic.partition_of(transactional_id).leader_epoch

    async def write(self, transactional_id: str, entry: Entry | None) -> None:
        """Keep an id as it is now; None forgets it. Raises CoordinatorNotAvailable, NotCoordinator or
        UnknownServerError."""
        value = None if entry is None else encode_entry(entry, self._value_version)
        await self.topic.append(
            transactional_id,
            [(encode_key(transactional_id), value)],
            timeout_ms=self._broker.config.request_timeout_ms,
        )

    def load(self, number: int | None = None) -> dict[str, Entry]:
        """The ids in the partitions that this broker leads, or in one of them. Blocks."""
        return self.topic.load(_replay, number)


def _replay(partition_log: PartitionLog) -> dict[str, Entry]:
    """The last entry of every id in a partition. Blocks; what cannot be read is logged and left out."""
    entries: dict[str, Entry] = {}

    def add(key: bytes, record: Record) -> None:
        if record.value is None:
            return
        transactional_id = decode_key(key)
        if transactional_id is not None:
            entries[transactional_id] = decode_entry(record.value)

    latest, _ = last_records(partition_log)
    take_in(partition_log, latest, add)
    return entries
