"""What a partition of an internal topic holds, read again when the broker starts: the last record of a key counts.

What a key and a value say is the business of whoever coordinates: `groups.records`, `transactions.records`.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator

from ..protocol.errors import KafkaError
from ..protocol.records.batch import HEADER_SIZE, MAGIC, BatchHeader
from ..protocol.records.compression import Codec
from ..protocol.records.load_kernel import RecordReader
from ..protocol.records.record import Record, decode_records
from ..storage.log import PartitionLog

log = logging.getLogger("kmini.internal_topics")


class CorruptRecord(ValueError):
    """A record that is none of those that its key or its version announces."""


LastRecords = dict[bytes, Record]
"""The last record of every key, tombstones included: a transaction that is decided late must not undo a later one."""


def last_records(partition_log: PartitionLog) -> tuple[LastRecords, dict[int, LastRecords]]:
    """What counts in a partition, and what transactions that are not decided want to count, by producer id. Blocks;
    batches that cannot be read are logged and left out.

    Records of a transaction count from where it is committed on, if it is.
    """
    latest: LastRecords = {}
    pending: dict[int, LastRecords] = {}
    start = partition_log.log_start_offset
    for header, batch in stored_batches(partition_log):
        try:
            if header.is_control:
                _decide(latest, pending, header, batch)
                continue
            records = stored_records(header, batch)
        except (KafkaError, ValueError) as error:
            log.error("%s: the batch at %d is left out: %s", partition_log.topic_partition, header.base_offset, error)
            continue
        into = pending.setdefault(header.producer_id, {}) if header.is_transactional else latest
        for record in records:
            if record.key is not None and record.offset >= start:
                into[record.key] = record
    return latest, pending


def _decide(latest: LastRecords, pending: dict[int, LastRecords], header: BatchHeader, batch: memoryview) -> None:
    """A marker: what its producer had pending counts now, or never."""
    from ..protocol.records.control import parse_end_transaction_marker  # transactions are rare

    marker = parse_end_transaction_marker(batch)
    if marker is None:
        return
    for key, record in pending.pop(header.producer_id, {}).items():
        known = latest.get(key)
        if not marker.is_abort and (known is None or known.offset < record.offset):
            latest[key] = record


def take_in(partition_log: PartitionLog, records: LastRecords, take: Callable[[bytes, Record], None]) -> None:
    """Give each record to `take`, with its key; one that this calls a CorruptRecord is logged and left out."""
    for key, record in records.items():
        try:
            take(key, record)
        except CorruptRecord as error:
            log.error("%s: the record at %d is left out: %s", partition_log.topic_partition, record.offset, error)


def stored_batches(partition_log: PartitionLog) -> Iterator[tuple[BatchHeader, memoryview]]:
    """The batches of a partition, from its start. Blocks; what cannot be read is logged and left out."""
    start = partition_log.log_start_offset
    for segment in partition_log.segments.since(start):
        try:
            position = segment.position_of(start) if segment.base_offset < start else 0
            for _, header, batch in segment.batches(position):
                yield header, batch
        except (KafkaError, OSError) as error:
            log.error("%s cannot be read to its end: %s", partition_log.topic_partition, error)


def stored_records(header: BatchHeader, batch: memoryview) -> list[Record]:
    """The records of a batch. Nearly all that we have written ourselves are not compressed, and hold one. Raises
    ValueError or KafkaError."""
    if header.magic == MAGIC and header.codec == Codec.NONE and not header.is_log_append_time:
        reader = RecordReader(batch[HEADER_SIZE:])
        records: list[Record] = reader.records(
            Record._make, header.record_count, header.base_offset, header.base_timestamp, None
        )
        return records
    return decode_records(batch, 0, header)
