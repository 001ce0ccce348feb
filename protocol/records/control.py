"""Control batches: the markers that end transactions (KIP-98). Each has an offset; consumers skip it."""

from __future__ import annotations

import struct
from enum import IntEnum
from typing import NamedTuple

from ..errors import InvalidRecord
from .batch import build_batch, read_header
from .batch_records import decode_records
from .compression import Buffer
from .record import Record


class ControlType(IntEnum):
    """The type of a control record. All but the first two are in Kafka's metadata log only."""

    ABORT = 0
    COMMIT = 1
    LEADER_CHANGE = 2
    SNAPSHOT_HEADER = 3
    SNAPSHOT_FOOTER = 4
    KRAFT_VERSION = 5
    KRAFT_VOTERS = 6


class EndTransactionMarker(NamedTuple):
    """The outcome of a transaction, and the epoch of the coordinator that wrote it."""

    is_abort: bool
    coordinator_epoch: int


_KEY = struct.Struct(">hh")
_VALUE = struct.Struct(">hi")


def build_end_transaction_marker(
    marker: EndTransactionMarker,
    *,
    producer_id: int,
    producer_epoch: int,
    timestamp: int,
    base_offset: int = 0,
    leader_epoch: int = -1,
) -> bytearray:
    """The control batch that ends a transaction: one record, 78 bytes."""
    key = _KEY.pack(0, ControlType.ABORT if marker.is_abort else ControlType.COMMIT)
    value = _VALUE.pack(0, marker.coordinator_epoch)
    return build_batch(
        [Record(base_offset, timestamp, key, value)],
        base_offset=base_offset,
        leader_epoch=leader_epoch,
        producer_id=producer_id,
        producer_epoch=producer_epoch,
        transactional=True,
        control=True,
    )


def control_type(key: bytes | None) -> int:
    """The type in a control record's key, which may be unknown. Raises InvalidRecord for a key without one."""
    if key is None or len(key) < _KEY.size:
        raise InvalidRecord("the key of a control record has at least 4 bytes")
    version, kind = _KEY.unpack_from(key)
    if version < 0:
        raise InvalidRecord(f"a control record cannot have version {version}")
    return int(kind)


def parse_end_transaction_marker(batch: Buffer) -> EndTransactionMarker | None:
    """The marker in a control batch; None for another type, or for a batch that compaction has emptied.

    Raises InvalidRecord for a malformed marker.
    """
    header = read_header(batch)
    if header.record_count == 0:
        return None
    record = decode_records(batch, 0, header)[0]
    kind = control_type(record.key)
    if kind not in (ControlType.ABORT, ControlType.COMMIT):
        return None
    if record.value is None or len(record.value) < _VALUE.size:
        raise InvalidRecord("the value of an end transaction marker has at least 6 bytes")
    _, coordinator_epoch = _VALUE.unpack_from(record.value)
    return EndTransactionMarker(kind == ControlType.ABORT, coordinator_epoch)
