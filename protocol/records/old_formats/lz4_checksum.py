"""The header of lz4 frames in messages of magic 0, where it has a checksum that is wrong.

Kafka took the checksum over the frame's magic number too, and compared it so. Since KIP-57 that is put right in magic
1. In magic 0 writers still write the wrong checksum, because old readers insist on it, and readers ignore it.
"""

from __future__ import annotations

from ..compression import Buffer

_MAGIC_SIZE = 4
_HAS_CONTENT_SIZE, _HAS_DICTIONARY = 0x08, 0x01
_32_BITS = 0xFFFFFFFF
_PRIMES = (0x9E3779B1, 0x85EBCA77, 0xC2B2AE3D, 0x27D4EB2F, 0x165667B1)


def with_right_checksum(frame: Buffer) -> bytes | bytearray:
    """`frame` as any lz4 library reads it. What is too short to be one comes back as it is."""
    return _with_checksum_from(frame, _MAGIC_SIZE)


def with_wrong_checksum(frame: Buffer) -> bytes:
    """`frame` as messages of magic 0 hold it."""
    return bytes(_with_checksum_from(frame, 0))


def _with_checksum_from(frame: Buffer, start: int) -> bytes | bytearray:
    changed = bytearray(frame)
    if len(changed) > _MAGIC_SIZE:
        flags = changed[_MAGIC_SIZE]
        at = _MAGIC_SIZE + 2 + (8 if flags & _HAS_CONTENT_SIZE else 0) + (4 if flags & _HAS_DICTIONARY else 0)
        if at < len(changed):
            changed[at] = _short_xxh32(bytes(changed[start:at])) >> 8 & 0xFF
    return changed


def _short_xxh32(data: bytes) -> int:
    """XXH32 with seed 0 of less than 16 bytes: it has another, faster way with more."""
    value = _PRIMES[4] + len(data)
    whole = len(data) & ~3
    for at in range(0, whole, 4):
        value = value + int.from_bytes(data[at : at + 4], "little") * _PRIMES[2] & _32_BITS
        value = _rotated(value, 17) * _PRIMES[3] & _32_BITS
    for byte in data[whole:]:
        value = value + byte * _PRIMES[4] & _32_BITS
        value = _rotated(value, 11) * _PRIMES[0] & _32_BITS
    value = (value ^ value >> 15) * _PRIMES[1] & _32_BITS
    value = (value ^ value >> 13) * _PRIMES[2] & _32_BITS
    return value ^ value >> 16


def _rotated(value: int, bits: int) -> int:
    return (value << bits | value >> 32 - bits) & _32_BITS
