"""The map step: read a whole segment file, in order and without its indexes, and make facts of its records.

Properties of a single record are counted here: damage, horizons, aborted data, requested keys. Everything that depends
on other records of its key goes on as a fact (`supersession.py`).
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from ...protocol.records.load_kernel import load_sieve
from ...storage.config_key import MAX_LONG
from ..logs.segment_scan import scan_segment
from .audit_plan import LogContext, Scope, SegmentTask
from .supersession import FACTS, HAS_NO_VALUE, IS_APART, IS_EXPIRED, IS_TOMBSTONE, combine
from .tally import ABORTED, MARKER, MATCHES, TOMBSTONE, Damage, Example, Match, Tally, bins_of, oldest_of

PART_ROWS = 1 << 18
"""Facts that `combine` takes at a time."""

WENT_AWAY = "it went away while the audit ran: run it again"
"""The problem of a file that a cleaner or retention of a running broker removed; its records may be in another file."""

MAX_DAMAGES = 100
"""Most damaged places that the report names in one file."""

MAX_KEYS_BY_BYTES = 1000
"""Most requested keys whose bytes are searched for in damaged parts; more would take too long and prove nothing."""

_BLOCK_BYTES = 1 << 20

_ALWAYS = ("offset", "key", "is_control", "is_tombstone", "value_size_bytes", "delete_horizon_ms", "timestamp")
_FOR_KEYS = (*_ALWAYS, "position", "batch_size_bytes", "error")
_FOR_FACTS = (*_FOR_KEYS, "is_transactional", "producer_id", "size_bytes")


class KeyHasher:
    """Hashes key columns of Arrow with SipHash: 128 bits, with the audit's secret."""

    def __init__(self, secret: bytes) -> None:
        self._table = load_sieve().KeyTable(bytearray(24), secret, 1)

    def hashes(self, keys: pa.BinaryArray) -> tuple[Any, Any]:
        """The two halves of each key's hash; the hash of a null is meaningless."""
        count = len(keys)
        low, high = np.empty(count, np.uint64), np.empty(count, np.uint64)
        _, bounds, data = keys.buffers()
        ends = np.frombuffer(bounds, np.int32, count + 1, keys.offset * 4)
        held = np.frombuffer(data, np.uint8) if data is not None else np.empty(0, np.uint8)
        columns: tuple[Any, ...] = (held, ends, low, high)
        self._table.hash_column(*(memoryview(column) for column in columns))
        return low, high


def map_segment(task: SegmentTask, context: LogContext, scope: Scope, tally: Tally) -> Iterator[pa.RecordBatch]:
    """Yield the facts of one file in parts; add everything else to `tally`.

    The tally notes a file that is gone or unreadable.
    """
    parts: list[pa.RecordBatch] = []
    rows = 0
    try:
        for facts in _facts(task, context, scope, tally):
            parts.append(facts)
            rows += facts.num_rows
            if rows >= PART_ROWS:
                yield _part(parts, task, context, scope, tally)
                parts, rows = [], 0
    except FileNotFoundError:
        if task.is_live:  # other files are supposed to disappear
            tally.unread.append((task.number, WENT_AWAY))
    except OSError as error:
        tally.unread.append((task.number, f"cannot be read: {error.strerror or error}"))
    if rows:
        yield _part(parts, task, context, scope, tally)


def _part(
    parts: list[pa.RecordBatch], task: SegmentTask, context: LogContext, scope: Scope, tally: Tally
) -> pa.RecordBatch:
    facts = pa.Table.from_batches(parts, FACTS).combine_chunks().to_batches()[0]
    return combine(facts, context, scope, tally) if task.is_live else facts


def _facts(task: SegmentTask, context: LogContext, scope: Scope, tally: Tally) -> Iterator[pa.RecordBatch]:
    hasher = KeyHasher(scope.secret)
    requested = pa.array(scope.keys, pa.binary()) if scope.keys else None
    tally.bytes_read += task.size_bytes
    for batch in scan_segment(task.path, columns=_FOR_FACTS if context.is_compared else _FOR_KEYS):
        if batch.column("error").null_count < batch.num_rows:
            batch = _note_damages(batch, task, scope, tally)
        tally.records += batch.num_rows
        if not task.is_live:
            tally.left_records += batch.num_rows
        if requested is not None:
            _note_matches(batch, requested, task, context, tally)
        if context.is_compared and batch.num_rows:
            yield _judge(batch, task, context, scope, hasher, tally)


class _Rows(NamedTuple):
    """Records as arrays, one for each column."""

    offset: Any
    timestamp: Any
    """Milliseconds since the epoch; the file's modification time for a record without a timestamp."""
    horizon: Any
    """Delete horizon in milliseconds since the epoch; -1: none."""
    size: Any
    is_control: Any
    is_tombstone: Any
    has_value: Any

    @classmethod
    def of(cls, batch: pa.RecordBatch, task: SegmentTask, context: LogContext) -> _Rows:
        timestamp = _numbers(batch, "timestamp")
        has_value = batch.column("value_size_bytes").is_valid().to_numpy(zero_copy_only=False)
        return cls(
            offset=_numbers(batch, "offset"),
            timestamp=np.where(timestamp < 0, task.modified_ms, timestamp),
            horizon=_numbers(batch, "delete_horizon_ms", -1),
            size=_numbers(batch, "size_bytes").astype(np.int64),
            is_control=_flags(batch, "is_control"),
            is_tombstone=_flags(batch, "is_tombstone") & (~has_value | context.policy.has_flagged_tombstones),
            has_value=has_value,
        )

    def take(self, which: Any) -> _Rows:
        return _Rows(*(column[which] for column in self))

    def count_and_size(self, which: Any) -> tuple[int, int]:
        return int(which.sum()), int(self.size[which].sum())


def _judge(
    batch: pa.RecordBatch, task: SegmentTask, context: LogContext, scope: Scope, hasher: KeyHasher, tally: Tally
) -> pa.RecordBatch:
    """Count the properties of single records; return the facts of the records that must be compared."""
    rows = _Rows.of(batch, task, context)
    if task.is_live:
        _note_horizons(rows, task, scope, tally)
        _note_place(rows, context, scope, tally)
    visible = ~rows.is_control & batch.column("key").is_valid().to_numpy(zero_copy_only=False)
    in_transaction = np.flatnonzero(_flags(batch, "is_transactional") & ~rows.is_control)
    if len(in_transaction):
        producers = _numbers(batch, "producer_id", -1)[in_transaction]
        died, is_open = context.outcomes.of(producers, rows.offset[in_transaction])
        is_aborted = died < MAX_LONG
        visible[in_transaction[is_aborted | is_open]] = False
        if is_aborted.any():
            aborted = rows.take(in_transaction[is_aborted])
            _note_aborted(aborted, died[is_aborted], task, context, scope, tally)
    which = np.flatnonzero(visible)
    if task.is_live:
        tally.live_bytes += int(rows.size[which].sum())
    low, high = hasher.hashes(batch.column("key"))
    is_expired = rows.is_tombstone & (rows.horizon >= 0) & (rows.horizon <= scope.now_ms)
    kind = ~rows.has_value * HAS_NO_VALUE | rows.is_tombstone * IS_TOMBSTONE | is_expired * IS_EXPIRED
    kind |= 0 if task.is_live else IS_APART
    file = np.full(len(kind), task.number)
    columns = (low, high, rows.offset, rows.timestamp, rows.size, file, kind)
    return pa.RecordBatch.from_arrays(
        [pa.array(column[which], field.type, safe=False) for column, field in zip(columns, FACTS, strict=True)],
        schema=FACTS,
    )


def _note_place(rows: _Rows, context: LogContext, scope: Scope, tally: Tally) -> None:
    """Count the records below the log start offset, and the dirty ones."""
    count, size = rows.count_and_size(~rows.is_control & (rows.offset < context.log_start_offset))
    tally.below_start_records += count
    tally.below_start_bytes += size
    dirty = ~rows.is_control & (rows.offset >= context.first_dirty_offset)
    tally.uncompacted_records += int(dirty.sum())
    ages = bins_of(scope.now_ms - rows.timestamp[dirty])
    tally.uncompacted += np.bincount(ages, rows.size[dirty], len(tally.uncompacted)).astype(np.int64)


def _note_horizons(rows: _Rows, task: SegmentTask, scope: Scope, tally: Tally) -> None:
    tally.tombstones += int(rows.is_tombstone.sum())
    tally.flagged_values += int((rows.is_tombstone & rows.has_value).sum())
    waiting = (rows.horizon >= 0) & (rows.is_control | rows.is_tombstone)
    if not waiting.any():
        return
    tally.note_horizon(int(rows.horizon[waiting].min()))
    past = waiting & (rows.horizon < scope.now_ms - scope.grace_ms)
    for kind, mask in ((MARKER, past & rows.is_control), (TOMBSTONE, past & ~rows.is_control)):
        if mask.any():
            late = rows.take(mask)
            tally.note_late(kind, *rows.count_and_size(mask), _oldest(late, late.horizon, task))
    # A cleaning pass drops records past their horizon; it knows no grace. (Tombstones: `supersession.reduce`.)
    count, size = rows.count_and_size(waiting & rows.is_control & (rows.horizon <= scope.now_ms))
    tally.freeable_records += count
    tally.freeable_bytes += size


def _note_aborted(rows: _Rows, died: Any, task: SegmentTask, context: LogContext, scope: Scope, tally: Tally) -> None:
    """Count the data of aborted transactions. `died` is the time of each record's abort marker."""
    age = scope.now_ms - died
    tally.dead_records += len(died)
    tally.dead_bytes += int(rows.size.sum())
    tally.dead += np.bincount(bins_of(age), rows.size, len(tally.dead)).astype(np.int64)
    if task.is_live:
        count, size = rows.count_and_size(rows.offset < context.end_offset)
        tally.freeable_records += count
        tally.freeable_bytes += size
    if rows.has_value.any():
        tally.note_dead(_oldest(rows.take(rows.has_value), died[rows.has_value], task))
    if context.policy.bound_ms is not None:
        late = rows.has_value & (age > context.policy.bound_ms + scope.grace_ms)
        if late.any():
            tally.note_late(ABORTED, *rows.count_and_size(late), _oldest(rows.take(late), died[late], task))


def _oldest(rows: _Rows, since: Any, task: SegmentTask) -> Example:
    return oldest_of(since, np.full(len(since), task.number), rows.offset, rows.timestamp)


def _numbers(batch: pa.RecordBatch, name: str, missing: int = 0) -> Any:
    column = batch.column(name)
    if column.null_count:
        column = pc.fill_null(column, missing)
    return column.to_numpy(zero_copy_only=False)


def _flags(batch: pa.RecordBatch, name: str) -> Any:
    return pc.fill_null(batch.column(name), False).to_numpy(zero_copy_only=False)


# --- damage, and keys


def _note_damages(batch: pa.RecordBatch, task: SegmentTask, scope: Scope, tally: Tally) -> pa.RecordBatch:
    """Note the damaged rows and return the others. The bytes of a damaged part are searched for the keys."""
    is_damage = batch.column("error").is_valid()
    damaged = batch.filter(is_damage).select(["position", "batch_size_bytes", "error"])
    for row in damaged.to_pylist():
        position, size = row["position"] or 0, row["batch_size_bytes"] or 0
        if task.is_last and position + size >= task.size_bytes and _is_unused(task.path, position):
            continue
        found = _keys_in(task.path, position, size, scope.keys)
        tally.damage_counts[task.number] += 1
        if found or tally.damage_counts[task.number] <= MAX_DAMAGES:
            tally.damages.append(Damage(task.number, position, size, row["error"], found))
    return batch.filter(pc.invert(is_damage))


def _is_unused(path: str, position: int) -> bool:
    """Whether only zeros follow: unused space of a preallocated file (`preallocate`)."""
    with open(path, "rb") as file:
        file.seek(position)
        return not any(any(block) for block in iter(lambda: file.read(_BLOCK_BYTES), b""))


def _keys_in(path: str, position: int, size: int, keys: tuple[bytes, ...]) -> tuple[int, ...]:
    """The numbers of the keys whose bytes are in this part of the file. An empty key is never found."""
    found: set[int] = set()
    longest = max(map(len, keys), default=0)
    if not longest or len(keys) > MAX_KEYS_BY_BYTES:
        return ()
    with open(path, "rb") as file:
        file.seek(position)
        before, left = b"", size
        while left > 0 and (block := file.read(min(_BLOCK_BYTES, left))):
            left -= len(block)
            text = before + block
            found.update(number for number, key in enumerate(keys) if key and key in text)
            before = text[-(longest - 1) :] if longest > 1 else b""
    return tuple(sorted(found))


def _note_matches(
    batch: pa.RecordBatch, requested: pa.Array, task: SegmentTask, context: LogContext, tally: Tally
) -> None:
    found = pc.and_(pc.is_in(batch.column("key"), value_set=requested), pc.invert(batch.column("is_control")))
    if not pc.any(found).as_py():
        return
    rows = batch.filter(found)
    numbers = pc.index_in(rows.column("key"), value_set=requested).to_pylist()
    flagged_too = context.policy.has_flagged_tombstones
    named = sum(match.file == task.number for match in tally.matches)
    for number, row in zip(numbers, rows.drop_columns(["key"]).to_pylist(), strict=True):
        is_tombstone = row["is_tombstone"] and (flagged_too or row["value_size_bytes"] is None)
        tally.match_counts[number, task.number, is_tombstone] += 1
        if named < MATCHES:
            named += 1
            value_bytes = -1 if row["value_size_bytes"] is None else row["value_size_bytes"]
            horizon_ms = -1 if row["delete_horizon_ms"] is None else row["delete_horizon_ms"]
            where = (number, task.number, row["offset"], row["position"], row["timestamp"])
            tally.matches.append(Match(*where, is_tombstone, value_bytes, horizon_ms))
