"""Damage to answers: to the records of a fetch before they are encoded, and to the bytes that go to the client."""

from __future__ import annotations

import struct
from collections.abc import Callable
from typing import Any, Literal

from ...protocol.framing import response_frame
from ...protocol.records.batch import iter_batches
from ...protocol.records.crc import crc32c
from ...protocol.records.layout import (
    ATTRIBUTES_AT,
    CHECKED_FROM,
    CODEC_MASK,
    CRC_AT,
    LENGTH_AT,
    LOG_OVERHEAD,
    MAGIC,
    MAGIC_AT,
)
from ...protocol.schema import Response
from .topology_answers import Means

Damage = Literal["crc", "codec", "partial", "correlation_id", "length", "garbage"]
OF_FETCH: tuple[Damage, ...] = ("crc", "codec", "partial")
"""The damage that only the records of a fetch can have."""

_OLD_CRC_AT = 12
"""Where the CRC of a message of magic 0 and 1 is."""
_SIZE_BYTES = 4
_TOO_LARGE = 0x7FFFFFFF
"""The size of an answer that no client takes."""
_FLIPPED = 0x5A


def damage_records(answer: Any, what: Damage) -> bool:
    """Damage the first records in the answer to a fetch. Returns False where it has none."""
    for topic in answer.responses:
        for partition in topic.partitions:
            if partition.records:
                records = bytearray(partition.records)
                partition.records = bytes(_RECORDS[what](records))
                return True
    return False


def empty_records(answer: Any, means: Means | None, topic_name: Callable[[bytes], str | None]) -> bool:
    """Take the records out of the answer to a fetch, as if there were none. Returns False where it has none."""
    found = False
    for topic in answer.responses:
        name = topic.topic or topic_name(topic.topic_id)
        for partition in topic.partitions:
            if partition.records and (means is None or means(name, partition.partition_index)):
                partition.records = b""
                found = True
    return found


def _wrong_crc(records: bytearray) -> bytearray:
    records[CRC_AT if records[MAGIC_AT] == MAGIC else _OLD_CRC_AT] ^= _FLIPPED
    return records


def _unknown_codec(records: bytearray) -> bytearray:
    """A codec that Kafka does not have, under a checksum that is right."""
    if records[MAGIC_AT] != MAGIC:
        return _wrong_crc(records)
    records[ATTRIBUTES_AT] |= CODEC_MASK
    (length,) = struct.unpack_from(">i", records, LENGTH_AT)
    checksum = crc32c(memoryview(records)[CHECKED_FROM : LOG_OVERHEAD + length])
    struct.pack_into(">I", records, CRC_AT, checksum)
    return records


def _partial(records: bytearray) -> bytearray:
    """The last batch cut in the middle, as where the fetch's limit of bytes ends."""
    starts = [position for position, _ in iter_batches(bytes(records))]
    last = starts[-1] if starts else 0
    return records[: last + (len(records) - last) // 2]


_RECORDS: dict[str, Callable[[bytearray], bytearray]] = {
    "crc": _wrong_crc,
    "codec": _unknown_codec,
    "partial": _partial,
}


def frame_of(correlation_id: int, version: int, response: Response) -> bytearray:
    """The bytes of an answer, its size first."""
    return bytearray(b"".join(response_frame(correlation_id, response, version)))


def damage_frame(frame: bytearray, what: Damage) -> None:
    """Damage the bytes of an answer, in place."""
    if what == "length":
        struct.pack_into(">i", frame, 0, _TOO_LARGE)
    elif what == "correlation_id":
        (correlation_id,) = struct.unpack_from(">i", frame, _SIZE_BYTES)
        struct.pack_into(">i", frame, _SIZE_BYTES, correlation_id ^ 0x10000)
    else:
        for at in range(2 * _SIZE_BYTES, len(frame)):
            frame[at] = 0xFF - frame[at]
