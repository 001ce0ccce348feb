"""The types that a field can have, in Python and on the wire.

A type is written as an annotation (`offset: Int64`): type checkers see the Python type, the schema finds the wire type
beside it. Numbers are big-endian. A length is an int16 (strings) or int32, -1 for null; in the flexible versions of a
message (KIP-482) it is an unsigned varint, one higher than the length, 0 for null. A length that is larger than what is
left of the message is found out where strings, bytes and arrays are read: `decoder_source.py`.
"""

from __future__ import annotations

from typing import Annotated, NamedTuple, TypeAlias, TypeVar

from .errors import MalformedMessage

Buffer: TypeAlias = bytes | bytearray | memoryview

MAX_UNKNOWN_TAGS = 64
"""Unknown tags that a struct may have; the count of its tagged fields is then always a single byte."""


class WireType(NamedTuple):
    """The encoding of a type, and the memory that decoding a value may take."""

    name: str
    code: str
    """The `struct` letter of the value or, if its size is not fixed, of its length in versions not flexible."""
    size: int
    """Bytes of `code`."""
    memory: int
    """Bytes of the decoded object at most, as `sys.getsizeof` counts, without the contents of sized types: they take
    one byte each, or decoding charges for them. 0 for objects of which Python has one copy."""
    is_fixed: bool
    is_nullable: bool = False


BOOLEAN = WireType("boolean", "?", 1, 0, True)
INT8 = WireType("int8", "b", 1, 28, True)
INT16 = WireType("int16", "h", 2, 28, True)
UINT16 = WireType("uint16", "H", 2, 28, True)
INT32 = WireType("int32", "i", 4, 32, True)
UINT32 = WireType("uint32", "I", 4, 32, True)
INT64 = WireType("int64", "q", 8, 36, True)
FLOAT64 = WireType("float64", "d", 8, 24, True)
UUID = WireType("uuid", "16s", 16, 49, True)

STRING = WireType("string", "h", 2, 49, False)
NULLABLE_STRING = STRING._replace(is_nullable=True)
BYTES = WireType("bytes", "i", 4, 33, False)
NULLABLE_BYTES = BYTES._replace(is_nullable=True)
RECORDS = WireType("records", "i", 4, 200, False, is_nullable=True)
ARRAY = WireType("array", "i", 4, 56, False)
NULLABLE_ARRAY = ARRAY._replace(is_nullable=True)

T = TypeVar("T")

Boolean = Annotated[bool, BOOLEAN]
Int8 = Annotated[int, INT8]
Int16 = Annotated[int, INT16]
Uint16 = Annotated[int, UINT16]
Int32 = Annotated[int, INT32]
Uint32 = Annotated[int, UINT32]
Int64 = Annotated[int, INT64]
Float64 = Annotated[float, FLOAT64]
Uuid = Annotated[bytes, UUID]
"""Sixteen bytes; see `uuids` for the form that people read."""
String = Annotated[str, STRING]
NullableString = Annotated[str | None, NULLABLE_STRING]
Bytes = Annotated[bytes, BYTES]
NullableBytes = Annotated[bytes | None, NULLABLE_BYTES]
Records = Annotated[Buffer | None, RECORDS]
"""Record batches, or None. Decoded it is a memoryview into the buffer that was decoded, never a copy: writable if that
is, and valid no longer than its owner says. Encoded it may be any buffer of bytes."""
Array = Annotated[list[T], ARRAY]
NullableArray = Annotated[list[T] | None, NULLABLE_ARRAY]

ErrorCode = Annotated[int, INT16]
"""`errors.NONE` or the code of a KafkaError."""
Timestamp = Annotated[int, INT64]
"""Milliseconds since 1970 UTC; -1 for none."""


def unsigned_varint(value: int) -> bytes:
    """Seven bits a byte, the lowest first, the high bit set on all but the last; for 0 <= value < 2**32."""
    if not 0 <= value < 1 << 32:
        raise ValueError(f"{value} is no unsigned 32-bit number")
    encoded = bytearray()
    while value > 0x7F:
        encoded.append(value & 0x7F | 0x80)
        value >>= 7
    encoded.append(value)
    return bytes(encoded)


def read_unsigned_varint(buffer: bytes | memoryview, position: int) -> tuple[int, int]:
    """The number at `position` and the position behind it; IndexError if the buffer ends first."""
    value = 0
    for shift in (0, 7, 14, 21, 28):
        byte = buffer[position]
        position += 1
        value |= (byte & 0x7F) << shift
        if byte <= 0x7F and value < 1 << 32:
            return value, position
    raise MalformedMessage("a varint has more than 32 bits")


def skip_tags(buffer: bytes | memoryview, position: int, count: int) -> int:
    """The position behind `count` tagged fields none of which is known; at most MAX_UNKNOWN_TAGS."""
    if count > MAX_UNKNOWN_TAGS:
        raise MalformedMessage("there are too many tagged fields")
    for _ in range(count):
        _, position, _ = read_tag(buffer, position)
    return position


def read_tag(buffer: bytes | memoryview, position: int) -> tuple[int, int, int]:
    """The number of the tagged field at `position`, where its value ends, and where it begins."""
    tag, position = read_unsigned_varint(buffer, position)
    size, position = read_unsigned_varint(buffer, position)
    if size > len(buffer) - position:
        raise MalformedMessage("a tagged field is longer than the message")
    return tag, position + size, position
