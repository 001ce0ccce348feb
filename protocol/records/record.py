"""Records, and the limits of their size. `batch_records` checks, finds and decodes the records of a batch.

A `limit` (`max.decompressed.message.bytes`) bounds one record of a compressed batch. The batch as a whole may have
`BATCH_FACTOR` times as much, which bounds the time that a few bytes can cost.
"""

from __future__ import annotations

from typing import NamedTuple

from .layout import TOMBSTONE_BIT, TOMBSTONE_HEADER

__all__ = [
    "BATCH_FACTOR",
    "DEFAULT_LIMIT",
    "TOMBSTONE_BIT",
    "TOMBSTONE_HEADER",
    "Header",
    "Record",
    "RecordFacts",
    "SuspectRecord",
]

DEFAULT_LIMIT = 64 * 1024 * 1024
"""Bytes that a record may have, decompressed, unless the caller sets another limit."""

BATCH_FACTOR = 16
"""How many times the limit of one record a whole batch may have, decompressed."""

Header = tuple[str, "bytes | None"]


class Record(NamedTuple):
    """A record, with the offset that it has in its partition."""

    offset: int
    timestamp: int
    """Milliseconds since the epoch; -1 if it has none."""
    key: bytes | None
    value: bytes | None
    """None is a tombstone: on a compacted topic it deletes its key. (So may a record with a value: tombstones.py.)"""
    headers: tuple[Header, ...] = ()


class RecordFacts(NamedTuple):
    """The findings of a check of a batch's records. Timestamps are the records' own, with log append time too."""

    record_count: int
    null_keys: int
    is_sequential: bool
    """Whether the offset deltas are 0, 1, 2, …"""
    min_timestamp: int
    """Of the records that have one."""
    max_timestamp: int
    max_timestamp_delta: int
    """The offset delta of the first record with the largest timestamp; all three are -1 without records."""


class SuspectRecord(NamedTuple):
    """A record that a caller of `suspect_records` asked for."""

    number: int
    """Its place in the batch, from 0."""
    timestamp: int
    key_is_null: bool
