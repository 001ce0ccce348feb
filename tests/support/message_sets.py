"""Message sets of magic 0 and 1 written by hand, right or deliberately wrong, without the code under test."""

from __future__ import annotations

import random
import struct
import zlib
from collections.abc import Iterator, Sequence

from support.batches import COMPRESS, batch

CODECS = (1, 2, 3)
"""gzip, snappy, lz4."""
APPEND_TIME = 8


def message(
    magic: int, offset: int, value: bytes, *, key: bytes | None = None, attributes: int = 0, timestamp: int = 0
) -> bytes:
    """A message with a right checksum."""
    content = struct.pack(">BB", magic, attributes) + (struct.pack(">q", timestamp) if magic else b"")
    content += struct.pack(">i", -1) if key is None else struct.pack(">i", len(key)) + key
    content += struct.pack(">i", len(value)) + value
    return struct.pack(">qiI", offset, len(content) + 4, zlib.crc32(content)) + content


def wrapper(magic: int, offset: int, inner: bytes, codec: int, *, attributes: int = 0, timestamp: int = 0) -> bytes:
    """A message around others, or around whatever else."""
    value = COMPRESS[codec](inner)
    return message(magic, offset, value, attributes=codec | attributes, timestamp=timestamp)


def plain(magic: int, keys: Sequence[bytes | None], times: Sequence[int], *, attributes: int = 0) -> bytes:
    """Messages one after the other, from offset 0 on."""
    return b"".join(
        message(magic, number, b"v%d" % number, key=key, attributes=attributes, timestamp=time)
        for number, (key, time) in enumerate(zip(keys, times, strict=True))
    )


def sets_that_producers_send(dice: random.Random, now_ms: int) -> Iterator[bytes]:
    """Right ones and wrong ones: each thing that is asked of a message set is met both ways."""
    for magic in (0, 1):
        for count in (1, 3):
            times = [now_ms + dice.choice((0, 0, 5, -999, 1001, -2000, -10_000_000)) for _ in range(count)]
            keys = [dice.choice((b"k", b"k", None)) for _ in range(count)]
            inner = plain(magic, keys, times)
            yield plain(magic, keys, times, attributes=APPEND_TIME)
            yield from around_and_wrong(magic, inner, count)
            for codec in CODECS:
                yield wrapper(magic, count - 1, inner, codec, attributes=APPEND_TIME, timestamp=now_ms)
                right = wrapper(magic, count - 1, inner, codec, timestamp=max(times))
                yield from around_and_wrong(magic, right, count)


def around_and_wrong(magic: int, data: bytes, count: int) -> Iterator[bytes]:
    """The set, what it becomes where something is wrong with it, and wrappers around that."""
    yield data
    yield data[:-1]
    yield data + data
    yield data[:-1] + b"?"
    yield data[:16] + bytes((magic ^ 1,)) + data[17:]
    yield message(1, 0, b"first", key=b"k") + data
    yield data + batch()
    for codec in CODECS:
        for offset in (0, 1, count - 1, 7):
            yield wrapper(magic, offset, data, codec)
        yield wrapper(magic, 2, data[:-1], codec)
        yield wrapper(magic, 2, data[:-1] + b"?", codec)
        yield wrapper(magic ^ 1, 2, data, codec)
        yield wrapper(magic, 0, b"", codec)
