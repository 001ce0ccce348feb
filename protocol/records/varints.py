"""Numbers in records and headers, for kernels that run interpreted; compiled ones have the same from varints.pxd."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from .compression import Buffer

_32_BITS = 0xFFFFFFFF
_64_BITS = 0xFFFFFFFFFFFFFFFF
_SIGN = 1 << 63


def number(data: Buffer, position: int, end: int, most: int) -> tuple[int, int]:
    """The varint (at `most` 35 bits) or varlong (70) at `position`, and where it ends: behind `end` if it is none."""
    if position >= end:
        return 0, end + 1
    raw = data[position]
    position += 1
    if raw >= 0x80:
        byte = raw
        raw &= 0x7F
        shift = 7
        while byte >= 0x80:
            if position >= end or shift >= most:
                return 0, end + 1
            byte = data[position]
            position += 1
            raw |= (byte & 0x7F) << shift
            shift += 7
        raw &= _32_BITS if most == 35 else _64_BITS
    return raw >> 1 ^ -(raw & 1), position


def int32_at(data: Buffer, at: int) -> int:
    return int.from_bytes(data[at : at + 4], "big", signed=True)


def int64_at(data: Buffer, at: int) -> int:
    return int.from_bytes(data[at : at + 8], "big", signed=True)


def wrapping_sum(a: int, b: int) -> int:
    """a + b in 64 bits, as Java adds."""
    return (a + b + _SIGN & _64_BITS) - _SIGN


def append_number(out: bytearray, value: int) -> None:
    """Write the varint or varlong of a number behind what is there."""
    raw = value & _64_BITS
    raw = (raw << 1 ^ -(raw >> 63)) & _64_BITS
    while raw >= 0x80:
        out.append(raw & 0x7F | 0x80)
        raw >>= 7
    out.append(raw)


def number_size(value: int) -> int:
    """Bytes of the varint or varlong of a number."""
    return max((value << 1 ^ value >> 63).bit_length() + 6, 7) // 7


def write_number(out: bytearray | memoryview, position: int, value: int) -> int:
    """Write the varint or varlong of a number at `position`; return where it ends."""
    raw = value << 1 ^ value >> 63
    while raw >= 0x80:
        out[position] = raw & 0x7F | 0x80
        raw >>= 7
        position += 1
    out[position] = raw
    return position + 1
