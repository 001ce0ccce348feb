"""The reduce step: find the dead records among facts, and the time of each death.

A fact is a record that consumers of the log see, without its key and value:

| column | |
|--------|-|
| hash_low, hash_high | 128 bits of a keyed hash of its key |
| offset, timestamp   | ms since the epoch; the file's modification time if the record has no timestamp |
| size_bytes          | of the decompressed record |
| file                | number of its file |
| kind                | the bits below |

A record is *superseded* once its key has a later one, and dead from the later one's time on. All records of a key are
in one bucket, so buckets need nothing of each other.

`combine` does the same for a part of one file: a record with a later record of its key in the same part is judged at
once. Of each key only two facts go on: the first record, as judged, because it tells earlier records when they died,
and the last record. So a part has at most two facts of a key, however often the key was written.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa

from .audit_plan import LogContext, Scope
from .tally import DELETED, SUPERSEDED, Example, Tally, bins_of, oldest_of

HAS_NO_VALUE, IS_TOMBSTONE, IS_APART, IS_JUDGED, IS_EXPIRED = 1, 2, 4, 8, 16
"""Bits of `kind`: the value is null; the record deletes its key, with a value (KIP-87) or without; it is in a file
outside the log; `combine` has judged it; its delete horizon has passed (KIP-534)."""

FACTS = pa.schema(
    [
        ("hash_low", pa.uint64()),
        ("hash_high", pa.uint64()),
        ("offset", pa.int64()),
        ("timestamp", pa.int64()),
        ("size_bytes", pa.int32()),
        ("file", pa.int32()),
        ("kind", pa.uint8()),
    ]
)


class _Columns(NamedTuple):
    """The columns of facts as arrays."""

    low: Any
    high: Any
    offset: Any
    timestamp: Any
    size_bytes: Any
    file: Any
    kind: Any

    def take(self, rows: Any) -> _Columns:
        return _Columns(*(column[rows] for column in self))


def combine(facts: pa.RecordBatch, context: LogContext, scope: Scope, tally: Tally) -> pa.RecordBatch:
    """Reduce the facts of a part of one live file, in the order of offsets, to the ones that must go on; count the
    judged ones."""
    columns = _columns(facts)
    order, following, starts = _compare(columns)
    has_later = following >= 0
    if not has_later.any():
        return facts
    rows = columns.take(order)
    _judge(rows, has_later, following, context, scope, tally)
    kind = columns.kind.copy()
    kind[order[has_later]] |= IS_JUDGED
    stays = np.zeros(len(kind), bool)
    stays[order[~has_later | starts]] = True
    return _batch(columns._replace(kind=kind).take(np.flatnonzero(stays)))


def reduce(facts: pa.Table, context: LogContext, scope: Scope) -> Tally:
    """Tally all facts of a bucket."""
    tally = Tally()
    if facts.num_rows:
        columns = _columns(facts.combine_chunks())
        order, following, _ = _compare(columns)
        rows = columns.take(order)
        del columns
        _judge(rows, following >= 0, following, context, scope, tally)
        goes = (following < 0) & ((rows.kind & (IS_EXPIRED | IS_APART)) == IS_EXPIRED)
        tally.freeable_records += int(goes.sum())
        tally.freeable_bytes += int(rows.size_bytes[goes].sum())
    return tally


def _columns(facts: pa.Table | pa.RecordBatch) -> _Columns:
    return _Columns(*(_array(facts.column(name)) for name in FACTS.names))


def _array(column: Any) -> Any:
    if isinstance(column, pa.ChunkedArray):
        column = column.combine_chunks() if column.num_chunks != 1 else column.chunk(0)
    return column.to_numpy(zero_copy_only=False)


def _batch(columns: _Columns) -> pa.RecordBatch:
    arrays = [pa.array(column, field.type) for column, field in zip(columns, FACTS, strict=True)]
    return pa.RecordBatch.from_arrays(arrays, schema=FACTS)


def _compare(columns: _Columns) -> tuple[Any, Any, Any]:
    """Order the rows by key and offset. Returns the order; for each row in this order, the index of the next later
    record of the log with the same key (-1: none); and which rows are the first of their keys."""
    order = _order(columns)
    low, high, offset = columns.low[order], columns.high[order], columns.offset[order]
    count = len(order)
    starts = np.ones(count, bool)  # of a key
    starts[1:] = (low[1:] != low[:-1]) | (high[1:] != high[:-1])
    begins = starts.copy()  # a key at an offset; copies of one record have the same
    begins[1:] |= offset[1:] != offset[:-1]
    key = np.cumsum(starts)
    # Backwards: the next row that belongs to the log itself.
    is_live = (columns.kind[order] & IS_APART) == 0
    nearest = np.full(count + 1, count, np.int64)
    nearest[:-1] = np.where(is_live, np.arange(count), count)
    nearest = np.minimum.accumulate(nearest[::-1])[::-1]
    # Copies of a record look from behind the last of them.
    ends = np.append(np.flatnonzero(begins)[1:], count)
    following = nearest[ends[np.cumsum(begins) - 1]]
    has_later = following < count
    has_later[has_later] = key[following[has_later]] == key[has_later]
    return order, np.where(has_later, following, -1), starts


def _order(columns: _Columns) -> Any:
    if np.any(columns.kind & IS_APART):
        return np.lexsort((columns.kind & IS_APART, columns.offset, columns.high, columns.low))
    if np.any(columns.offset[1:] < columns.offset[:-1]):
        return np.lexsort((columns.offset, columns.high, columns.low))
    # One number a row, of its hash and its place, is sorted several times as fast as places by hash.
    count = len(columns.low)
    bits = np.uint64(max(count - 1, 1).bit_length())
    places = (np.uint64(1) << bits) - np.uint64(1)
    rows = columns.low & ~places | np.arange(count, dtype=np.uint64)
    rows.sort()
    order = (rows & places).astype(np.int64)
    rows >>= bits
    low, high = columns.low[order], columns.high[order]
    is_same = rows[1:] == rows[:-1]
    if np.any(is_same & ((low[1:] != low[:-1]) | (high[1:] != high[:-1]))):  # the rest of the hash tells them apart
        return np.lexsort((columns.offset, columns.high, columns.low))
    return order


def _judge(rows: _Columns, has_later: Any, following: Any, context: LogContext, scope: Scope, tally: Tally) -> None:
    """Count the dead rows. The rows are in the order of `_compare`."""
    is_apart = (rows.kind & IS_APART) != 0
    is_copy = np.zeros(len(rows.kind), bool)  # of the row before it
    is_copy[1:] = (
        (rows.offset[1:] == rows.offset[:-1]) & (rows.low[1:] == rows.low[:-1]) & (rows.high[1:] == rows.high[:-1])
    )
    has_value = (rows.kind & HAS_NO_VALUE) == 0
    orphans, counts = np.unique(rows.file[is_apart & ~is_copy & ~has_later & has_value], return_counts=True)
    tally.orphans.update(dict(zip(orphans.tolist(), counts.tolist(), strict=True)))
    # A copy in a file outside the log is one more copy on the disk. The log itself has one of each record, unless files
    # were swapped while they were read.
    is_counted = (is_apart | ~is_copy) & ((rows.kind & IS_JUDGED) == 0)
    dead = np.flatnonzero(is_counted & has_later)
    if not len(dead):
        return
    later = following[dead]
    died = rows.timestamp[later]
    sizes = rows.size_bytes[dead].astype(np.int64)
    age = scope.now_ms - died
    tally.dead_records += len(dead)
    tally.dead_bytes += int(sizes.sum())
    tally.dead += np.bincount(bins_of(age), sizes, len(tally.dead)).astype(np.int64)
    goes = ~is_apart[dead] & (rows.offset[later] < context.end_offset)
    tally.freeable_records += int(goes.sum())
    tally.freeable_bytes += int(sizes[goes].sum())
    is_value = has_value[dead]
    if is_value.any():
        tally.note_dead(_oldest(rows, dead[is_value], died[is_value]))
    if context.policy.bound_ms is not None:
        is_late = is_value & (age > context.policy.bound_ms + scope.grace_ms)
        is_deletion = (rows.kind[later] & IS_TOMBSTONE) != 0
        for kind, mask in ((DELETED, is_late & is_deletion), (SUPERSEDED, is_late & ~is_deletion)):
            if count := int(mask.sum()):
                tally.note_late(kind, count, int(sizes[mask].sum()), _oldest(rows, dead[mask], died[mask]))


def _oldest(rows: _Columns, which: Any, died: Any) -> Example:
    return oldest_of(died, rows.file[which], rows.offset[which], rows.timestamp[which])
