"""Message sets of magic 0 and 1 that an old producer could send, and what a hostile one makes of them."""

from __future__ import annotations

import random
import struct
from zlib import crc32

from kmini.protocol.records.batch import build_batch
from kmini.protocol.records.compression import Codec, compress
from kmini.protocol.records.old_formats.messages import build_messages, build_wrapper
from kmini.protocol.records.record import Record
from support.fuzz.mutations import mutated

_CODECS = (Codec.GZIP, Codec.SNAPPY, Codec.LZ4)


def random_message_set(dice: random.Random, *, timestamp: int = 1_700_000_000_000) -> bytes:
    """Messages, or a wrapper around some."""
    first = dice.choice((0, 0, 1, 1000))
    records = [
        Record(
            first + number,
            timestamp + dice.choice((0, 1, 1000)),
            dice.choice((None, b"", b"key", dice.randbytes(20))),
            dice.choice((None, b"", b"value" * dice.randrange(1, 40), dice.randbytes(100))),
        )
        for number in range(dice.choice((1, 1, 2, 7, 40)))
    ]
    magic = dice.randrange(2)
    if dice.random() < 0.4:
        return bytes(build_messages(records, magic))
    return build_wrapper([records], magic, dice.choice(_CODECS))


def mutated_message_set(valid: bytes, dice: random.Random) -> bytearray:
    """A set that is wrong somewhere; most have good checksums all the same, or nothing behind them is reached."""
    match dice.randrange(6):
        case 0:  # anything, anywhere
            return mutated(valid, dice)
        case 1:  # in a message
            return _with_right_checksums(mutated(valid, dice, keep=16))
        case 2:  # what the codec reads
            return _wrapper(dice, mutated(compress(codec := dice.choice(_CODECS), valid), dice), codec)
        case 3:  # what is behind the codec
            codec = dice.choice((*_CODECS, Codec.ZSTD))
            return _wrapper(dice, compress(codec, _with_right_checksums(mutated(valid, dice))), codec)
        case 4:  # several of them, or something else between
            return bytearray(valid + dice.choice((valid, bytes(build_batch([Record(0, 1, b"k", b"v")])))))
        case _:  # the offset
            changed = bytearray(valid)
            changed[:8] = dice.choice((bytes(8), b"\xff" * 8, b"\x7f" + b"\xff" * 7, struct.pack(">q", 1)))
            return changed


def _wrapper(dice: random.Random, value: bytes | bytearray, codec: Codec) -> bytearray:
    magic = dice.randrange(2)
    content = struct.pack(">BB", magic, codec | dice.choice((0, 0, 8))) + (b"" if magic == 0 else bytes(8))
    content += struct.pack(">ii", -1, len(value)) + value
    return bytearray(struct.pack(">qiI", dice.choice((0, 1, 39, 1000)), len(content) + 4, crc32(content)) + content)


def _with_right_checksums(messages: bytearray) -> bytearray:
    """The set with all checksums put right, as far as it can be walked over."""
    position = 0
    while len(messages) - position >= 26:
        (length,) = struct.unpack_from(">i", messages, position + 8)
        end = position + 12 + length
        if length < 14 or end > len(messages):
            break
        struct.pack_into(">I", messages, position + 12, crc32(messages[position + 16 : end]))
        position = end
    return messages
