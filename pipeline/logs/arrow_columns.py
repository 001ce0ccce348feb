"""Arrow arrays from the columns that the kernel fills (protocol/records/kernels/columns.py), without copying."""

from __future__ import annotations

import struct
from collections.abc import Sequence
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from ...protocol.records.batch import CONTROL, DELETE_HORIZON, LOG_APPEND_TIME, MAX_SEQUENCE, TRANSACTIONAL
from ...protocol.records.kernels.column_parts import GROUPS, MOST_BYTES, NOTES, PARTS
from ...protocol.records.load_kernel import load

HEADERS = pa.list_(pa.struct([pa.field("key", pa.string()), pa.field("value", pa.binary())]))

COLUMNS: dict[str, pa.DataType] = {
    "offset": pa.int64(),
    "timestamp": pa.int64(),
    "timestamp_type": pa.int32(),
    "key": pa.binary(),
    "value": pa.binary(),
    "headers": HEADERS,
    "is_control": pa.bool_(),
    "control_type": pa.int16(),
    "is_transactional": pa.bool_(),
    "producer_id": pa.int64(),
    "producer_epoch": pa.int16(),
    "sequence": pa.int32(),
    "leader_epoch": pa.int32(),
    "is_tombstone": pa.bool_(),
    "delete_horizon_ms": pa.int64(),
    "size_bytes": pa.int32(),
    "value_size_bytes": pa.int32(),
    "magic": pa.int8(),
    "codec": pa.int8(),
    "position": pa.int64(),
    "batch_size_bytes": pa.int64(),
    "error": pa.string(),
}
"""The columns of a record, in their default order.

| column | |
|--------|-|
| timestamp | ms since the epoch, -1 without one; with log append time, the broker's |
| timestamp_type | 0 create time, 1 log append time, -1 none (magic 0) |
| headers | null without any |
| control_type | of a control record: 0 ABORT, 1 COMMIT, … (`ControlType`); null if its key has none, and elsewhere |
| producer_id, producer_epoch, sequence, leader_epoch, delete_horizon_ms | null without one |
| is_tombstone | the value is null, or bit 5 of its attributes is set (KIP-87); never true for a control record |
| size_bytes | of the decompressed record, with its length field (magic 0, 1: its size in magic 2) |
| value_size_bytes | of the value; null for a null value |
| position, batch_size_bytes | of its batch in the file, as stored |
| error | null; otherwise the row is damage and not a record, and only its position and size are set |
"""

RecordColumns: Any = load("columns").RecordColumns

_NEEDS: dict[str, tuple[str, ...]] = {
    "offset": ("offset",),
    "timestamp": ("timestamp",),
    "key": ("key",),
    "value": ("value",),
    "headers": ("headers",),
    "size_bytes": ("size",),
    "value_size_bytes": ("value_size",),
    "is_tombstone": ("tombstone",),
    "control_type": ("batch", "key"),
    "sequence": ("batch", "offset"),
    "error": (),
}
"""Groups of parts that the kernel fills for a column; other columns need the group of the batch."""

_KEY_START = struct.Struct(">hh")


class ArrowColumns:
    """Memory for the rows of one Arrow batch after the other. `kernel` fills it."""

    def __init__(
        self,
        columns: Sequence[str],
        *,
        start_offset: int,
        end_offset: int,
        max_record_bytes: int,
        max_rows: int,
        max_data_bytes: int,
    ) -> None:
        """ValueError for a column that does not exist."""
        if unknown := set(columns) - COLUMNS.keys():
            raise ValueError(f"there is no column {', '.join(sorted(unknown))}")
        self._schema = pa.schema([pa.field(name, COLUMNS[name]) for name in columns])
        self._parts = {part for name in columns for group in _NEEDS.get(name, ("batch",)) for part in GROUPS[group]}
        self._max_rows = max_rows
        self._max_data_bytes = min(max_data_bytes, MOST_BYTES)
        self.kernel = RecordColumns(start_offset, end_offset, max_record_bytes)
        self._buffers: dict[str, pa.Buffer] = {}
        self._renew({})

    def make_room(self) -> None:
        """Called before the first row: makes room for the record that did not fit, whatever its size."""
        self._renew(self.kernel.needed())

    def take(self) -> pa.RecordBatch:
        """Take the rows so far as a batch; afterwards all memory is free again."""
        arrays = [self._array(field.name) for field in self._schema]
        batch = pa.RecordBatch.from_arrays(arrays, schema=self._schema)
        self._renew({})
        return batch

    def damage(self, position: int, size_bytes: int, problem: str) -> pa.RecordBatch:
        """Make a row for damage at a position of the file, `size_bytes` long."""
        row = {"position": position, "batch_size_bytes": size_bytes, "error": problem}
        return pa.RecordBatch.from_pylist([row], schema=self._schema)

    def _renew(self, needed: dict[str, int]) -> None:
        rows = self._max_rows
        headers = max(rows, needed.get("headers", 0))
        self._buffers = {}
        for part in self._parts:
            size = PARTS[part].least_bytes(rows, headers)
            if PARTS[part].per == "byte":
                size = max(self._max_data_bytes, needed.get(part, 0))
            self._buffers[part] = pa.allocate_buffer(size)
        self.kernel.give(self._buffers, rows)

    # The kernel's memory as arrays

    def _array(self, name: str) -> pa.Array:
        rows, buffers = self.kernel.rows, self._buffers
        if name in ("offset", "timestamp"):
            return pa.Array.from_buffers(pa.int64(), rows, [None, buffers[name]])
        if name in ("key", "value"):
            return self._binary(name, rows)
        if name == "headers":
            return self._headers()
        if name == "is_tombstone":
            return pa.Array.from_buffers(pa.bool_(), rows, [None, buffers["tombstone"]])
        if name == "size_bytes":
            return pa.Array.from_buffers(pa.int32(), rows, [None, buffers["size"]])
        if name == "value_size_bytes":
            sizes = pa.Array.from_buffers(pa.int32(), rows, [None, buffers["value_size"]])
            return pc.if_else(pc.greater_equal(sizes, 0), sizes, None)
        if name == "error":
            return pa.nulls(rows, pa.string())
        if name == "sequence":
            return self._sequence()
        if name == "control_type":
            return self._control_type()
        return self._of_rows(self._of_batches(name).cast(COLUMNS[name]))

    def _binary(self, name: str, rows: int) -> pa.Array:
        parts = [self._buffers[f"{name}_valid"], self._buffers[f"{name}_ends"], self._buffers[name]]
        return pa.Array.from_buffers(pa.binary(), rows, parts)

    def _headers(self) -> pa.Array:
        kernel, buffers = self.kernel, self._buffers
        names = pa.Array.from_buffers(pa.string(), kernel.headers, [None, buffers["name_ends"], buffers["name"]])
        if not bytes(memoryview(buffers["name"])[: kernel.used()["name"]]).isascii():
            names = _as_text(names)
        contents = self._binary("content", kernel.headers)
        headers = pa.StructArray.from_arrays([names, contents], fields=list(HEADERS.value_type))
        parts = [buffers["headers_valid"], buffers["headers_ends"]]
        return pa.Array.from_buffers(HEADERS, kernel.rows, parts, children=[headers])

    def _note(self, name: str) -> pa.Array:
        """One note of every batch that has rows."""
        start = NOTES.index(name) * self._max_rows
        return pa.Array.from_buffers(pa.int64(), self.kernel.batches, [None, self._buffers["notes"]], offset=start)

    def _has(self, attribute: int) -> pa.Array:
        return pc.not_equal(pc.bit_wise_and(self._note("attributes"), attribute), 0)

    def _of_rows(self, of_batches: pa.Array) -> pa.Array:
        number = pa.Array.from_buffers(pa.int32(), self.kernel.rows, [None, self._buffers["batch"]])
        return of_batches.take(number)

    def _of_batches(self, name: str) -> pa.Array:
        if name == "timestamp_type":
            is_append_time = self._has(LOG_APPEND_TIME).cast(pa.int32())
            return pc.if_else(pc.equal(self._note("magic"), 0), -1, is_append_time)
        if name == "is_control":
            return self._has(CONTROL)
        if name == "is_transactional":
            return self._has(TRANSACTIONAL)
        if name == "codec":
            return pc.bit_wise_and(self._note("attributes"), 7)
        if name == "delete_horizon_ms":
            return pc.if_else(self._has(DELETE_HORIZON), self._note("base_timestamp"), None)
        if name in ("producer_id", "producer_epoch", "leader_epoch"):
            note = self._note(name)
            return pc.if_else(pc.greater_equal(note, 0), note, None)
        return self._note({"batch_size_bytes": "size"}.get(name, name))

    def _sequence(self) -> pa.Array:
        first = self._of_rows(
            pc.if_else(pc.greater_equal(self._note("base_sequence"), 0), self._note("base_sequence"), None)
        )
        offset = self._array("offset")
        sequence = pc.add(first, pc.subtract(offset, self._of_rows(self._note("base_offset"))))
        return pc.bit_wise_and(sequence, MAX_SEQUENCE).cast(pa.int32())

    def _control_type(self) -> pa.Array:
        rows = self.kernel.rows
        is_control = self._of_rows(self._has(CONTROL))
        if not pc.any(is_control).as_py():
            return pa.nulls(rows, pa.int16())
        keys = self._binary("key", rows)
        kinds: list[int | None] = [None] * rows
        for row in pc.indices_nonzero(is_control).to_pylist():
            key = keys[row].as_py()
            if key is not None and len(key) >= _KEY_START.size:
                version, kind = _KEY_START.unpack_from(key)
                kinds[row] = kind if version >= 0 else None
        return pa.array(kinds, pa.int16())


def _as_text(names: pa.Array) -> pa.Array:
    """The names of headers as text, with replacement characters for invalid UTF-8."""
    try:
        names.validate(full=True)
    except pa.ArrowInvalid:
        return pa.array([name.decode("utf-8", "replace") for name in names.cast(pa.binary()).to_pylist()], pa.string())
    return names
