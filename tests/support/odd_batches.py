"""Batches as producers may send them: plain ones, odd ones, and ones that are damaged in each way that a rule meets."""

from __future__ import annotations

import random
import struct
from collections.abc import Iterator

from kmini.protocol.records.batch import BatchHeader, build_batch, read_header, rewrite_header
from kmini.protocol.records.compression import Codec
from kmini.protocol.records.crc import crc32c
from kmini.protocol.records.layout import CHECKED_FROM, CRC_AT, HEADER_FORMAT, HEADER_SIZE
from kmini.protocol.records.record import Record

NOW_MS = 1_700_000_000_000

_BITS = {"q": 64, "i": 32, "I": 32, "h": 16, "b": 8}
_WIDTHS = dict(zip(BatchHeader._fields, HEADER_FORMAT[1:], strict=True))


def records(count: int, *, key: bytes | None = b"k", timestamp: int = NOW_MS) -> list[Record]:
    return [Record(0, timestamp + number, key, b"v%d" % number, (("h", b"1"),)) for number in range(count)]


def plain_batches() -> Iterator[bytearray]:
    """Batches that nothing is wrong with, and that a topic with defaults stores as they are."""
    for count in (1, 2, 3, 200):
        yield build_batch(records(count))
        yield build_batch(records(count), producer_id=7, producer_epoch=3, base_sequence=2**31 - 1)
        yield build_batch(records(count), producer_id=0, producer_epoch=0, base_sequence=0)
    yield build_batch(records(1, key=b""))
    yield build_batch([Record(0, -1, b"k", b"v", ())])
    yield build_batch([Record(0, NOW_MS, b"k", None, ())])
    yield build_batch(records(600, timestamp=NOW_MS - 1_000))


def odd_batches() -> Iterator[bytearray]:
    """Whole batches with a right checksum that ask for a correction, for decompression, or for a refusal."""
    for codec in Codec:
        yield build_batch(records(3), codec=codec)
    yield build_batch(records(2, key=None))
    yield build_batch(records(2, timestamp=NOW_MS + 3_600_001))
    yield build_batch(records(2, timestamp=NOW_MS - 86_400_001))
    yield build_batch(records(2), transactional=True, producer_id=7, producer_epoch=3, base_sequence=1)
    yield build_batch(records(1), control=True)
    yield build_batch(records(2), log_append_time_ms=NOW_MS)
    yield build_batch(records(2), log_append_time_ms=-1)
    yield build_batch(records(2), delete_horizon_ms=NOW_MS)
    yield with_header(build_batch(records(2)), record_count=3, last_offset_delta=2)
    yield with_header(build_batch([*records(1), *records(1)]), record_count=1, last_offset_delta=0)
    longer = build_batch(records(1)) + b"\0" * 7
    yield with_header(longer, batch_length=len(longer) - 12)
    for deltas in ((1, 0), (0, 2), (1, 2), (0, 1, 1)):
        built = build_batch([records(1)[0]._replace(offset=5 + delta) for delta in deltas], base_offset=5)
        yield with_header(built, base_offset=0, last_offset_delta=len(deltas) - 1)
    yield build_batch(records(1)) + build_batch(records(1))
    yield build_batch(records(1)) + b"\0" * 5


def with_header(batch: bytearray, **fields: int) -> bytearray:
    """The batch with other fields in its header, and the checksum that goes with them."""
    rewrite_header(batch, 0, read_header(batch)._replace(**fields))
    return batch


def with_fields_at_their_bounds(batch: bytearray) -> Iterator[bytearray]:
    """The batch with each field of its header at each bound, and beside what it is; with the checksum of that, and with
    that of before."""
    header = read_header(batch)
    for field, width in _WIDTHS.items():
        bits = _BITS[width]
        low, high = (0, 2**bits - 1) if width.isupper() else (-(2 ** (bits - 1)), 2 ** (bits - 1) - 1)
        now = getattr(header, field)
        for value in {low, low + 1, -1, 0, 1, now - 1, now + 1, high - 1, high} - {now}:
            if low <= value <= high:
                changed = header._replace(**{field: value})
                if field in ("batch_length", "crc"):  # they decide what the checksum is of, or are it
                    yield _packed(batch, changed)
                else:
                    yield with_header(bytearray(batch), **{field: value})
                    yield _packed(batch, changed)


def truncated(batch: bytearray) -> Iterator[bytearray]:
    """The batch cut off after every byte; then with the length and the checksum that go with the cut."""
    for size in range(len(batch)):
        yield batch[:size]
        if size >= HEADER_SIZE:
            yield with_header(batch[:size], batch_length=size - 12)


def with_flipped_bits(batch: bytearray) -> Iterator[bytearray]:
    """The batch with one bit flipped, each in turn; with the old checksum and with the right one."""
    for at in range(len(batch)):
        for bit in range(8):
            flipped = bytearray(batch)
            flipped[at] ^= 1 << bit
            yield flipped
            if at >= CHECKED_FROM:
                yield with_checksum(bytearray(flipped))


def with_random_bytes(batch: bytearray, count: int, seed: int) -> Iterator[bytearray]:
    """The batch with some bytes overwritten, and the right checksum."""
    dice = random.Random(seed)
    for _ in range(count):
        mutated = bytearray(batch)
        for _ in range(dice.randint(1, 4)):
            byte = dice.choice((0, 1, 0x7F, 0x80, 0xFF, dice.randrange(256)))
            mutated[dice.randrange(CHECKED_FROM, len(batch))] = byte
        yield with_checksum(mutated)


def with_checksum(batch: bytearray) -> bytearray:
    """The batch with the checksum of its bytes as they are."""
    batch[CRC_AT:CHECKED_FROM] = crc32c(batch[CHECKED_FROM:]).to_bytes(4, "big")
    return batch


def _packed(batch: bytearray, header: BatchHeader) -> bytearray:
    packed = bytearray(batch)
    struct.pack_into(HEADER_FORMAT, packed, 0, *header)
    return packed


def every_batch() -> Iterator[bytearray]:
    """All of them, some thousands."""
    yield from plain_batches()
    yield from odd_batches()
    for seed, batch in enumerate(
        (
            build_batch(records(2)),
            build_batch(records(2, key=None), producer_id=7, producer_epoch=3, base_sequence=4),
            build_batch(records(2), codec=Codec.LZ4),
        )
    ):
        yield from with_fields_at_their_bounds(batch)
        yield from truncated(batch)
        yield from with_flipped_bits(batch)
        yield from with_random_bytes(batch, 200, seed)
