# cython: boundscheck=False, wraparound=False, initializedcheck=False
"""SipHash-2-4 with a result of 128 bits, keyed by a secret: producers cannot choose keys whose hashes collide."""

from __future__ import annotations

from ... import cython_words as cython
from .numbers import MASK_64, Bytes


@cython.final
@cython.cclass
class SipHash:
    """The hash under one secret."""

    v0: cython.ulonglong
    v1: cython.ulonglong
    v2: cython.ulonglong
    v3: cython.ulonglong

    def __init__(self, secret: bytes) -> None:
        """`secret`: 16 bytes."""
        k0 = int.from_bytes(secret[:8], "little")
        k1 = int.from_bytes(secret[8:16], "little")
        self.v0 = k0 ^ 0x736F6D6570736575
        self.v1 = k1 ^ 0x646F72616E646F6D ^ 0xEE
        self.v2 = k0 ^ 0x6C7967656E657261
        self.v3 = k1 ^ 0x7465646279746573

    @cython.cfunc
    @cython.nogil
    @cython.exceptval(check=False)
    def hash(
        self, data: Bytes, at: cython.Py_ssize_t, length: cython.longlong
    ) -> tuple[cython.ulonglong, cython.ulonglong]:
        """The lower and the higher half of the hash of `length` bytes."""
        v0: cython.ulonglong = self.v0
        v1: cython.ulonglong = self.v1
        v2: cython.ulonglong = self.v2
        v3: cython.ulonglong = self.v3
        word: cython.ulonglong
        low: cython.ulonglong
        left: cython.longlong = length
        while left >= 8:
            word = _word(data, at)
            v3 ^= word
            v0, v1, v2, v3 = _round(v0, v1, v2, v3)
            v0, v1, v2, v3 = _round(v0, v1, v2, v3)
            v0 ^= word
            at += 8
            left -= 8
        word = length & 0xFF
        for _ in range(7 - left):
            word <<= 8
        while left > 0:
            left -= 1
            word = word << 8 | data[at + left]
        v3 ^= word
        v0, v1, v2, v3 = _round(v0, v1, v2, v3)
        v0, v1, v2, v3 = _round(v0, v1, v2, v3)
        v0 ^= word
        v2 ^= 0xEE
        for _ in range(4):
            v0, v1, v2, v3 = _round(v0, v1, v2, v3)
        low = v0 ^ v1 ^ v2 ^ v3
        v1 ^= 0xDD
        for _ in range(4):
            v0, v1, v2, v3 = _round(v0, v1, v2, v3)
        return low, v0 ^ v1 ^ v2 ^ v3


def sip_hash_128(secret: bytes, data: bytes) -> bytes:
    """The hash of `data` under a secret of 16 bytes."""
    view: cython.const[cython.uchar][::1] = data
    low, high = SipHash(secret).hash(cython.address(view[0]) if cython.compiled else data, 0, len(data))
    return low.to_bytes(8, "little") + high.to_bytes(8, "little")


@cython.cfunc
@cython.nogil
@cython.inline
@cython.exceptval(check=False)
def _word(data: Bytes, at: cython.Py_ssize_t) -> cython.ulonglong:
    """Eight bytes, the lowest first."""
    word: cython.ulonglong = data[at + 7]
    word = word << 8 | data[at + 6]
    word = word << 8 | data[at + 5]
    word = word << 8 | data[at + 4]
    word = word << 8 | data[at + 3]
    word = word << 8 | data[at + 2]
    word = word << 8 | data[at + 1]
    return word << 8 | data[at]


@cython.cfunc
@cython.nogil
@cython.inline
@cython.exceptval(check=False)
def _round(
    v0: cython.ulonglong, v1: cython.ulonglong, v2: cython.ulonglong, v3: cython.ulonglong
) -> tuple[cython.ulonglong, cython.ulonglong, cython.ulonglong, cython.ulonglong]:
    v0 = _wrapped(v0 + v1)
    v1 = _rotated(v1, 13) ^ v0
    v0 = _rotated(v0, 32)
    v2 = _wrapped(v2 + v3)
    v3 = _rotated(v3, 16) ^ v2
    v0 = _wrapped(v0 + v3)
    v3 = _rotated(v3, 21) ^ v0
    v2 = _wrapped(v2 + v1)
    v1 = _rotated(v1, 17) ^ v2
    return v0, v1, _rotated(v2, 32), v3


@cython.cfunc
@cython.nogil
@cython.inline
@cython.exceptval(check=False)
def _wrapped(word: cython.ulonglong) -> cython.ulonglong:
    return word if cython.compiled else word & MASK_64


@cython.cfunc
@cython.nogil
@cython.inline
@cython.exceptval(check=False)
def _rotated(word: cython.ulonglong, bits: cython.int) -> cython.ulonglong:
    return _wrapped(word << bits | word >> (64 - bits))
