"""The bytes of a batch after cleaning.

| what is left                       | what is written                                                               |
|------------------------------------|-------------------------------------------------------------------------------|
| everything, as it was              | the same bytes (by the caller)                                                |
| some records                       | same header and codec; counts, checksum and, with create time, the largest    |
|                                    | timestamp anew; an earlier delete horizon stays                               |
| tombstones, or an emptied marker,  | the same, with a delete horizon for base timestamp, attribute bit 6, and      |
| for the first time                 | timestamp deltas from the horizon (KIP-534)                                   |
| no record, but the header stays    | the header: no records, no codec, no horizon, base timestamp -1, the largest  |
|                                    | timestamp as before                                                           |

Offsets, sequences, producer and leader epoch stay; the first or last offset of a batch may have no record. Larger
deltas may make a batch larger than max.message.bytes, which limits producers only. Messages of magic 0 and 1 become
batches of magic 2, as in Kafka 4.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

from ...protocol.records.batch import (
    CODEC_MASK,
    DELETE_HORIZON,
    HEADER_SIZE,
    LOG_APPEND_TIME,
    LOG_OVERHEAD,
    MAGIC,
    NO_TIMESTAMP,
    BatchHeader,
    build_batch,
    read_header,
    rewrite_header,
)
from ...protocol.records.compression import compress, compress_chunks
from ...protocol.records.record import Record
from ..filesystem import Buffer
from .block import Block


class KeptRecords(NamedTuple):
    """Which records of a batch stay."""

    pieces: list[tuple[int, bytearray]]
    """For each piece of the block: where its last whole record ends, and a verdict on each of its records."""
    kept: int
    """Records that stay."""
    max_timestamp: int
    """The largest timestamp of the records that stay."""


class Rewritten(NamedTuple):
    header: BatchHeader
    batch: Buffer


def emptied(header: BatchHeader) -> Rewritten:
    """Return the header alone, which keeps the offsets and the producer's sequence."""
    return _finished(
        header._replace(
            magic=MAGIC,
            attributes=header.attributes & ~(CODEC_MASK | DELETE_HORIZON),
            base_timestamp=NO_TIMESTAMP,
            record_count=0,
        ),
        b"",
    )


def rebuilt(
    sieve: Any, block: Block, header: BatchHeader, kept_records: KeptRecords, *, delete_horizon_ms: int | None = None
) -> Rewritten:
    """Return the batch with the selected records, at least one; with `delete_horizon_ms` it gets that horizon.

    `sieve` is the module protocol.records.kernels.sieve.
    """
    attributes, base_timestamp = header.attributes, header.base_timestamp
    shift, fixed_delta = 0, None
    if delete_horizon_ms is not None:
        attributes |= DELETE_HORIZON
        base_timestamp = delete_horizon_ms
        if header.is_log_append_time:
            fixed_delta = header.max_timestamp - delete_horizon_ms
        else:
            shift = header.base_timestamp - delete_horizon_ms

    def remaining() -> Iterator[Buffer]:
        verdicts = iter(kept_records.pieces)
        for piece in block.pieces():
            block.taken, verdict = next(verdicts)
            yield sieve.rewrite(piece, verdict, shift, fixed_delta)

    if len(kept_records.pieces) == 1:
        left = compress(header.codec, next(remaining()))
    else:
        left = b"".join(compress_chunks(header.codec, remaining()))
    return _finished(
        header._replace(
            attributes=attributes,
            base_timestamp=base_timestamp,
            max_timestamp=header.max_timestamp if header.attributes & LOG_APPEND_TIME else kept_records.max_timestamp,
            record_count=kept_records.kept,
        ),
        left,
    )


def upgraded(header: BatchHeader, records: Sequence[Record], *, delete_horizon_ms: int | None = None) -> Rewritten:
    """Return these records of a message of magic 0 or 1, at least one, as a batch of magic 2, with that horizon if
    any."""
    batch = build_batch(
        records,
        base_offset=records[0].offset,
        last_offset=records[-1].offset,
        codec=header.codec,
        log_append_time_ms=header.max_timestamp if header.is_log_append_time else None,
        delete_horizon_ms=delete_horizon_ms,
    )
    return Rewritten(read_header(batch), batch)


def _finished(header: BatchHeader, block: bytes) -> Rewritten:
    batch = bytearray(HEADER_SIZE)
    batch += block
    return Rewritten(rewrite_header(batch, 0, header._replace(batch_length=len(batch) - LOG_OVERHEAD)), batch)
