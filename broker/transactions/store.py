"""Where transactional ids are kept: writing to `__transaction_state`, and finding in it what was open or half ended."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from ...protocol.errors import InvalidRequest, KafkaError
from ...protocol.topics import TRANSACTION_STATE
from ..internal_topic import InternalTopic, stored_batches, stored_records
from .records import CorruptRecord, Entry, decode_entry, decode_key, encode_entry, encode_key

if TYPE_CHECKING:
    from ..broker import Broker
    from ..partition import Partition

log = logging.getLogger("kmini.transactions")

MAX_ID_BYTES = 0x7FFF
"""What a key in the log has room for."""

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
        if len(transactional_id.encode()) > MAX_ID_BYTES:
            raise InvalidRequest(f"a transactional id has at most {MAX_ID_BYTES} bytes")
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

    def load(self) -> dict[str, Entry]:
        """The ids in the partitions that this broker leads. For the start, before anyone is served."""
        found: dict[str, Entry] = {}
        for partition in self.topic.partitions():
            number = partition.topic_partition.partition
            mine = {}
            strangers = 0
            for transactional_id, entry in _replay(partition).items():
                if self.topic.number_of(transactional_id) == number:
                    mine[transactional_id] = entry
                else:
                    strangers += 1
            if strangers:
                log.warning(
                    "%d transactional ids in %s belong elsewhere since the number of partitions changed: left out",
                    *(strangers, partition.topic_partition),
                )
            found.update(mine)
        return found


def _replay(partition: Partition) -> dict[str, Entry]:
    """The last entry of every id in a partition. Blocks; what cannot be read is logged and left out."""
    latest: dict[bytes, tuple[int, bytes | None]] = {}
    start = partition.log.log_start_offset
    for header, batch in stored_batches(partition.log):
        if header.is_control:
            continue
        try:
            for record in stored_records(header, batch):
                if record.key is not None and record.offset >= start:
                    latest[record.key] = (record.offset, record.value)
        except (KafkaError, ValueError) as error:
            log.error("%s: the batch at %d is left out: %s", partition.topic_partition, header.base_offset, error)
    entries: dict[str, Entry] = {}
    for key, (offset, value) in latest.items():
        if value is None:
            continue
        try:
            transactional_id = decode_key(key)
            if transactional_id is not None:
                entries[transactional_id] = decode_entry(value)
        except CorruptRecord as error:
            log.error("%s: the record at %d is left out: %s", partition.topic_partition, offset, error)
    return entries
