"""Explicit tombstones (KIP-87): records that delete their key and may have a value all the same.

A record of magic 2 says it twice: by bit 5 of its attributes, which brokers read, and by a header, which applications
can write and read. The header may have any value or none; a value that says no contradicts it, and a check of the
records refuses the record. The caller knows which topics have the tombstone flag.

The first such topic imports this module: it brings a kernel of its own.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any, TypeVar

from ..errors import InvalidRecord
from ..primitives import read_unsigned_varint
from .batch import BatchHeader, records_of
from .compression import Buffer, decompress_chunks
from .layout import MARK_DENIED, MARK_FLAG, MARK_HEADER, MARK_NULL
from .load_kernel import load
from .record import Record

NULL, FLAG, HEADER, DENIED = MARK_NULL, MARK_FLAG, MARK_HEADER, MARK_DENIED
"""The parts of a mark."""

_SETTLED = bytes((0, FLAG | HEADER, NULL | FLAG | HEADER))
"""Marks of records that say the same by bit, header and value, or nothing."""

_kernel: Any = load("flagging")

T = TypeVar("T")


def marks_of(piece: Buffer) -> tuple[int, bytearray]:
    """Where the last whole record in `piece` ends, and a mark for each. InvalidRecord for what is no record."""
    return _checked(_kernel.marks_of, piece)


def are_settled(marks: bytearray) -> bool:
    """Whether records with these marks, tombstones or not, need no change."""
    return not marks.translate(None, _SETTLED)


def flagged(piece: Buffer, marks: bytearray) -> Buffer:
    """The records that `marks` are of: the bit brings the header and the header the bit, and a null value both."""
    result: memoryview = _kernel.flagged(piece, marks)
    return result


def without_flagged_values(records: Sequence[Record], marks: bytearray) -> list[Record]:
    """The records, with a null value where the bit says that they are tombstones."""
    return [
        record._replace(value=None) if mark & FLAG else record for record, mark in zip(records, marks, strict=False)
    ]


def marked_pieces(
    buffer: Buffer, position: int, header: BatchHeader, batch_limit: int
) -> Iterator[tuple[Buffer, bytearray]]:
    """The records of a batch of magic 2, some at a time, and their marks. Part of a record may follow them.

    Holds one record at a time, or what is decompressed at once; use a piece before asking for the next. For records
    that `check_records` has passed, which bounds each of them; raises InvalidRecord for what is none, or above
    `batch_limit` bytes in all, and what decompression raises.
    """
    rest = bytearray()
    missing = 0  # of the record that `rest` begins with: what it takes to look at a record must not grow with its parts
    for chunk in decompress_chunks(header.codec, records_of(buffer, position, header), batch_limit):
        missing -= len(chunk)
        if missing > 0:
            rest += chunk
            continue
        piece = chunk
        if rest:
            rest += chunk
            piece = rest
        end, marks = marks_of(piece)
        if end:
            yield piece, marks
            rest = bytearray(memoryview(piece)[end:])
        elif not rest:
            rest = bytearray(chunk)
        missing = _first_record(rest)[0] - len(rest)
    if rest:
        raise InvalidRecord("the batch ends within a record")


def flagged_pieces(buffer: Buffer, position: int, header: BatchHeader, batch_limit: int) -> Iterator[Buffer]:
    """The records of a batch of magic 2, some at a time, `flagged`. As `marked_pieces` otherwise."""
    for piece, marks in marked_pieces(buffer, position, header, batch_limit):
        yield flagged(piece, marks)


def cleared_pieces(buffer: Buffer, position: int, header: BatchHeader, batch_limit: int) -> Iterator[Buffer]:
    """The records of a batch of magic 2, some ten KiB at a time, with no attribute set. A large record comes in parts,
    so that none is held. Raises as `marked_pieces` does."""
    rest = b""
    within = 0  # bytes to come of a record whose beginning was given
    for chunk in decompress_chunks(header.codec, records_of(buffer, position, header), batch_limit):
        if within:
            yield memoryview(chunk)[:within]
            taken = min(within, len(chunk))
            within -= taken
            chunk = memoryview(chunk)[taken:]
        piece = rest + bytes(chunk) if rest else chunk
        end, records = _checked(_kernel.cleared, piece)
        yield records
        rest = bytes(memoryview(piece)[end:])
        size, attributes_at = _first_record(rest)
        if attributes_at < len(rest):
            yield b"".join((rest[:attributes_at], b"\0", rest[attributes_at + 1 :]))
            rest, within = b"", size - len(rest)
    if rest or within:
        raise InvalidRecord("the batch ends within a record")


def _first_record(piece: Buffer) -> tuple[int, int]:
    """Bytes of the record that a piece begins with, and where its attributes are; behind the piece, if its length is
    not there whole."""
    try:
        length, attributes_at = read_unsigned_varint(memoryview(piece), 0)
    except IndexError:
        return 0, len(piece)
    return attributes_at + (length >> 1), attributes_at


def _checked(function: Callable[[Buffer], tuple[int, T]], piece: Buffer) -> tuple[int, T]:
    try:
        return function(piece)
    except ValueError as error:
        raise InvalidRecord(str(error)) from None
