"""Valid requests and record batches, and what a hostile peer makes of them. Everything follows from a seed."""

from __future__ import annotations

import random
import struct
from collections.abc import Iterator
from typing import Any

from kmini.protocol.framing import frame_of
from kmini.protocol.messages import REQUESTS
from kmini.protocol.messages.headers import RequestHeader
from kmini.protocol.primitives import unsigned_varint
from kmini.protocol.records.batch import HEADER_SIZE, build_batch, read_header, rewrite_header
from kmini.protocol.records.compression import compress, decompress
from kmini.protocol.records.record import Record
from kmini.protocol.schema import Message, Request, Struct, Type

INTEGER_BITS = {"b": 8, "h": 16, "H": 16, "i": 32, "I": 32, "q": 64}

LENGTHS = [b"\0", b"\xff", b"\x7f", b"\x80", b"\0\0", b"\xff\xff", b"\x7f\xff", b"\x80\0"]
LENGTHS += [struct.pack(">i", n) for n in (0, 1, -1, -2, 0x7FFFFFFF, -0x80000000, 0x00FFFFFF)]
LENGTHS += [struct.pack(">q", n) for n in (-1, 0x7FFFFFFFFFFFFFFF, -0x8000000000000000)]
LENGTHS += [unsigned_varint(n) for n in (128, 0x7FFF, 0x7FFFFFFF, 0xFFFFFFFF)] + [b"\xff" * 5, b"\xff" * 10]
"""What lengths, counts and offsets are made of, at their edges."""


def mutated(valid: bytes | bytearray, dice: random.Random, *, keep: int = 0) -> bytearray:
    """`valid` with one to three changes behind its first `keep` bytes."""
    data = bytearray(valid)
    for _ in range(dice.choice((1, 1, 1, 2, 3))):
        at = dice.randrange(keep, len(data) + 1) if len(data) >= keep else len(data)
        match dice.randrange(7):
            case 0:
                data[at : at + 1] = bytes((dice.randrange(256),))
            case 1:
                data[at : at + 1] = bytes((data[at] ^ 1 << dice.randrange(8),)) if at < len(data) else b"\0"
            case 2:
                extreme = dice.choice(LENGTHS)
                data[at : at + len(extreme)] = extreme
            case 3:
                data[at:at] = dice.choice(LENGTHS)
            case 4:
                del data[at : at + dice.randrange(1, 20)]
            case 5:
                data[at:at] = data[at : at + dice.randrange(60)]
            case 6:
                del data[at:]
    return data


# --- messages


class Names:
    """What a peer may find out before it attacks: the names and ids of topics there are."""

    def __init__(self, topics: tuple[str, ...] = ("t",), ids: tuple[bytes, ...] = (bytes(15) + b"\1",)) -> None:
        self.topics = topics
        self.ids = ids


def random_message(cls: type[Message], version: int, dice: random.Random, names: Names) -> Any:
    """A message of that version: each value plausible, extreme or neither."""
    return _struct(cls, version, dice, names)


def _struct(cls: type[Struct], version: int, dice: random.Random, names: Names) -> Any:
    values = {}
    for field in cls.__fields__:
        if not field.exists_in(version) or (field.tag is not None and dice.random() < 0.5):
            values[field.name] = [] if field.default == [] else field.default
        elif field.is_nullable_in(version) and field.tag is None and dice.random() < 0.15:
            values[field.name] = None
        else:
            values[field.name] = _value(field.name, field.type, version, dice, names)
    return cls(**values)


def _value(name: str, type_: Type, version: int, dice: random.Random, names: Names) -> Any:
    if type_.struct is not None:
        return _struct(type_.struct, version, dice, names)
    if type_.element is not None:
        return [_value(name, type_.element, version, dice, names) for _ in range(dice.choice((0, 1, 1, 2, 5)))]
    assert type_.wire is not None
    match type_.wire.name:
        case "boolean":
            return dice.random() < 0.5
        case "uuid":
            return dice.choice((*names.ids, bytes(16), dice.randbytes(16)))
        case "string":
            return _text(dice, names)
        case "bytes":
            return dice.randbytes(dice.choice((0, 1, 61, 300)))
        case "records":
            batch = random_batch(dice)
            return bytes(dice.choice((batch, batch, mutated_batch(batch, dice), dice.randbytes(61))))
    return _number(name, type_.wire.code, dice)


def _number(name: str, code: str, dice: random.Random) -> float:
    if code == "d":
        return dice.choice((0.0, -1.5, 1e300, float("inf"), float("nan")))
    if name == "acks":
        return dice.choice((0, 1, -1, -1, 7))
    if name in ("timeout_ms", "max_wait_ms") and dice.random() < 0.8:
        return dice.choice((-1, 0, 1, 20))
    if name in ("session_epoch", "replica_id") and dice.random() < 0.8:
        return -1
    if name in ("num_partitions", "count"):
        return dice.choice((-1, 0, 1, 2))
    bits = INTEGER_BITS[code]
    low, high = (0, (1 << bits) - 1) if code.isupper() else (-(1 << bits - 1), (1 << bits - 1) - 1)
    return dice.choice((0, 0, 0, 1, 1, 2, low, high, dice.randint(low, high)))


def _text(dice: random.Random, names: Names) -> str:
    choice = dice.randrange(8)
    if choice < 4:
        return dice.choice(names.topics)
    if choice == 4:
        return dice.choice(("retention.ms", "cleanup.policy", "1", "0", "", "kmini", "1.0", "__consumer_offsets"))
    letters = dice.choice(("abc-._09", "aé", "ж漢字", "a😀", "\0\n\r\x1b[31m", "../"))
    return "".join(dice.choice(letters) for _ in range(dice.choice((1, 7, 130, 300))))


def request_frame(request: Request, version: int, correlation_id: int, client_id: str | None = "fuzz") -> bytearray:
    """A request as it goes over the wire, its size in front."""
    header = RequestHeader(request.api_key, version, correlation_id, client_id).encode(request.header_version(version))
    return bytearray(b"".join(frame_of(header, request.encode(version))))


def every_version(classes: Iterator[type[Message]]) -> list[tuple[type[Message], int]]:
    return [(cls, version) for cls in classes for version in range(cls.min_version, cls.max_version + 1)]


def requests_and_responses() -> Iterator[type[Message]]:
    for request in REQUESTS.values():
        yield request
        yield request.response


# --- record batches


def random_batch(dice: random.Random, *, timestamp: int = 1_700_000_000_000) -> bytearray:
    """A batch that a producer could send."""
    records = [
        Record(
            0,
            timestamp + dice.choice((0, 0, 1, 1000)),
            dice.choice((None, b"", b"key", dice.randbytes(20))),
            dice.choice((None, b"", b"value" * dice.randrange(1, 40), dice.randbytes(100))),
            dice.choice(((), (), (("h", b"v"), ("n", None)))),
        )
        for _ in range(dice.choice((1, 1, 2, 7, 40)))
    ]
    producer = {}
    if dice.random() < 0.2:
        producer = {"producer_id": dice.randrange(3), "producer_epoch": 0, "base_sequence": dice.choice((0, 0, 1, 40))}
    return build_batch(records, codec=dice.randrange(5), transactional=dice.random() < 0.05, **producer)


def mutated_batch(valid: bytearray, dice: random.Random) -> bytearray:
    """A batch that is wrong somewhere; most have a good checksum all the same, or nothing behind it is reached."""
    match dice.randrange(5):
        case 0:  # anything, anywhere
            return mutated(valid, dice)
        case 1:  # the header's fields
            fields = read_header(valid)
            name = dice.choice(("attributes", "last_offset_delta", "record_count", "base_timestamp", "max_timestamp"))
            bits = {"attributes": 16, "last_offset_delta": 32, "record_count": 32}.get(name, 64)
            extreme = dice.choice((0, 1, 2, -1, (1 << bits - 1) - 1, -(1 << bits - 1), dice.randrange(1 << bits - 1)))
            batch = bytearray(valid)
            rewrite_header(batch, 0, fields._replace(**{name: extreme}))
            return batch
        case 2:  # what the codec reads
            return _with_block(valid, mutated(valid[HEADER_SIZE:], dice))
        case _:  # what is behind the codec
            header = read_header(valid)
            block = mutated(decompress(header.codec, valid[HEADER_SIZE:], 1 << 20), dice)
            return _with_block(valid, compress(header.codec, bytes(block)))


def _with_block(batch: bytearray, block: bytes | bytearray) -> bytearray:
    """The batch with another block of records, its length and checksum put right."""
    changed = batch[:HEADER_SIZE] + block
    rewrite_header(changed, 0, read_header(batch)._replace(batch_length=len(changed) - 12))
    return changed
