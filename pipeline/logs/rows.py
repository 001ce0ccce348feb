"""The columns of the log source, and scanned rows in these columns."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    BooleanType,
    ByteType,
    DataType,
    IntegerType,
    LongType,
    ShortType,
    StringType,
    StructField,
    StructType,
    TimestampType,
)

from ...protocol.records.compression import Codec
from . import arrow_columns


class _Column(NamedTuple):
    type: DataType
    of: str
    """The column of `segment_scan` that it is made from; empty if a segment has one value for all rows."""
    is_default: bool = True


_HEADERS = ArrayType(StructType([StructField("key", StringType()), StructField("value", BinaryType())]))

COLUMNS: dict[str, _Column] = {
    "key": _Column(BinaryType(), "key"),
    "value": _Column(BinaryType(), "value"),
    "topic": _Column(StringType(), ""),
    "partition": _Column(IntegerType(), ""),
    "offset": _Column(LongType(), "offset"),
    "timestamp": _Column(TimestampType(), "timestamp"),
    "timestampType": _Column(IntegerType(), "timestamp_type"),
    "headers": _Column(_HEADERS, "headers", is_default=False),
    "isTombstone": _Column(BooleanType(), "is_tombstone"),
    "error": _Column(StringType(), "error"),
    "isControl": _Column(BooleanType(), "is_control", is_default=False),
    "controlType": _Column(ShortType(), "control_type", is_default=False),
    "isTransactional": _Column(BooleanType(), "is_transactional", is_default=False),
    "producerId": _Column(LongType(), "producer_id", is_default=False),
    "producerEpoch": _Column(ShortType(), "producer_epoch", is_default=False),
    "sequence": _Column(IntegerType(), "sequence", is_default=False),
    "leaderEpoch": _Column(IntegerType(), "leader_epoch", is_default=False),
    "deleteHorizon": _Column(TimestampType(), "delete_horizon_ms", is_default=False),
    "sizeBytes": _Column(IntegerType(), "size_bytes", is_default=False),
    "magic": _Column(ByteType(), "magic", is_default=False),
    "compressionType": _Column(StringType(), "codec", is_default=False),
    "file": _Column(StringType(), "", is_default=False),
    "position": _Column(LongType(), "position", is_default=False),
    "batchSizeBytes": _Column(LongType(), "batch_size_bytes", is_default=False),
}
"""The columns of Spark's Kafka source, then kmini's. A read without chosen columns gives the default ones, and
`headers` if they are included."""

_MICROSECONDS = pa.timestamp("us", tz="UTC")
_ARROW = {
    "topic": pa.string(),
    "partition": pa.int32(),
    "file": pa.string(),
    "timestamp": _MICROSECONDS,
    "deleteHorizon": _MICROSECONDS,
    "compressionType": pa.string(),
}
"""Types of columns whose type differs from the scanned one."""
_CODEC_NAMES = pa.array([codec.name.lower() for codec in sorted(Codec)])


class LogRows:
    """Makes rows with these columns for one partition."""

    def __init__(self, names: Sequence[str], topic: str | None, partition: int | None) -> None:
        self.scanned = list(dict.fromkeys([*(COLUMNS[name].of for name in names if COLUMNS[name].of), *_OF_DAMAGE]))
        """The columns of `segment_scan` that are needed."""
        self._schema = pa.schema([pa.field(name, _arrow_type(name)) for name in names])
        self._same: dict[str, Any] = {"topic": topic, "partition": partition, "file": None}
        self._repeated: dict[str, pa.Array] = {}

    def of(self, batch: pa.RecordBatch, path: str) -> pa.RecordBatch:
        """Convert the rows that were scanned in the file at `path`."""
        if self._same["file"] != path:
            self._same["file"] = path
            self._repeated.pop("file", None)
        arrays = [self._array(name, batch) for name in self._schema.names]
        return pa.RecordBatch.from_arrays(arrays, schema=self._schema)

    def damage(self, problem: str, file: str | None, scanned: Mapping[str, Any] | None) -> pa.RecordBatch:
        """Make a row for damage; `scanned` is the row of the scan."""
        row = self._same | {"file": file, "error": problem}
        if scanned is not None:
            row |= {"position": scanned["position"], "batchSizeBytes": scanned["batch_size_bytes"]}
        return pa.RecordBatch.from_pylist([row], schema=self._schema)

    def _array(self, name: str, batch: pa.RecordBatch) -> pa.Array:
        if not COLUMNS[name].of:
            same = self._repeated.get(name)
            if same is None or len(same) < batch.num_rows:
                scalar = pa.scalar(self._same[name], _arrow_type(name))
                same = self._repeated[name] = pa.repeat(scalar, batch.num_rows)
            return same.slice(0, batch.num_rows)
        array = batch.column(COLUMNS[name].of)
        if isinstance(COLUMNS[name].type, TimestampType):
            return _microseconds(array)
        return _CODEC_NAMES.take(array) if name == "compressionType" else array


_OF_DAMAGE = ("position", "batch_size_bytes", "error")


def _arrow_type(name: str) -> pa.DataType:
    return _ARROW.get(name) or arrow_columns.COLUMNS[COLUMNS[name].of]


def _microseconds(milliseconds: pa.Array) -> pa.Array:
    """Timestamps as Spark takes them; null for a year with more than six digits."""
    try:
        return pc.multiply_checked(milliseconds, 1000).view(_MICROSECONDS)
    except pa.ArrowInvalid:
        most = ((1 << 63) - 1) // 1000
        fits = pc.and_(pc.less_equal(milliseconds, most), pc.greater_equal(milliseconds, -most))
        return pc.multiply(pc.if_else(fits, milliseconds, None), 1000).view(_MICROSECONDS)
