# cython: boundscheck=False, wraparound=False, initializedcheck=False
"""Columns of Apache Arrow in memory that the caller gives. A column that is not given takes values and keeps none."""

from __future__ import annotations

from ... import cython_words as cython
from .numbers import LARGEST, Bytes, Room

if cython.compiled:
    from cython.cimports.libc.string import memcpy

Longs = cython.typedef(cython.pointer[cython.longlong])
Ints = cython.typedef(cython.pointer[cython.int])
"""Numbers to write: in C pointers, NULL where there is no memory; interpreted memoryviews."""


@cython.final
@cython.cclass
class LongColumn:
    """Numbers of 64 bits."""

    values: Longs
    owner: cython.longlong[::1]

    @cython.cfunc
    def give(self, room: dict, part: str) -> object:
        """Begin anew in the memory of this part of the room, if it is there."""
        self.owner = _view(room, part, "q")
        self.values = _longs(self.owner)

    @cython.cfunc
    @cython.nogil
    @cython.inline
    @cython.exceptval(check=False)
    def put(self, row: cython.longlong, value: cython.longlong) -> cython.void:
        if self.values:
            self.values[row] = value


@cython.final
@cython.cclass
class IntColumn:
    """Numbers of 32 bits."""

    values: Ints
    owner: cython.int[::1]

    @cython.cfunc
    def give(self, room: dict, part: str) -> object:
        """Begin anew in the memory of this part of the room, if it is there."""
        self.owner = _view(room, part, "i")
        self.values = _ints(self.owner)

    @cython.cfunc
    @cython.nogil
    @cython.inline
    @cython.exceptval(check=False)
    def put(self, row: cython.longlong, value: cython.longlong) -> cython.void:
        if self.values:
            self.values[row] = value


@cython.final
@cython.cclass
class BitColumn:
    """Bits."""

    values: Room
    owner: cython.uchar[::1]

    @cython.cfunc
    def give(self, room: dict, part: str) -> object:
        """Begin anew in the memory of this part of the room, if it is there."""
        self.owner = _view(room, part, "B")
        self.values = _octets(self.owner)

    @cython.cfunc
    @cython.nogil
    @cython.inline
    @cython.exceptval(check=False)
    def put(self, row: cython.longlong, bit: cython.bint) -> cython.void:
        if self.values:
            _put_bit(self.values, row, bit)


@cython.final
@cython.cclass
class BinaryColumn:
    """Elements of any length, one behind the other."""

    used: cython.longlong
    """Bytes of the elements so far."""
    room: cython.longlong
    """Bytes that the data may have; no bound if the column is not given."""
    valid: Room
    ends: Ints
    data: Room
    valid_owner: cython.uchar[::1]
    ends_owner: cython.int[::1]
    data_owner: cython.uchar[::1]

    @cython.cfunc
    def give(self, room: dict, part: str) -> object:
        """Begin with no elements. A column without a part `…_valid` has no null elements."""
        self.valid_owner = _view(room, part + "_valid", "B")
        self.ends_owner = _view(room, part + "_ends", "i")
        self.data_owner = _view(room, part, "B")
        self.valid = _octets(self.valid_owner)
        self.ends = _ints(self.ends_owner)
        self.data = _octets(self.data_owner)
        self.room = len(self.data_owner) if part in room else LARGEST
        self.used = 0
        if self.ends:
            self.ends[0] = 0

    @cython.cfunc
    @cython.nogil
    @cython.inline
    @cython.exceptval(check=False)
    def has_room(self, length: cython.longlong) -> cython.bint:
        """Whether so many more bytes fit."""
        return length <= self.room - self.used

    @cython.cfunc
    @cython.nogil
    @cython.inline
    @cython.exceptval(check=False)
    def put(self, row: cython.longlong, data: Bytes, start: cython.Py_ssize_t, length: cython.longlong) -> cython.void:
        """Put the element of `length` bytes at `start`; a negative length is null. There must be room for it."""
        used: cython.longlong = self.used
        if not self.ends:
            return
        if self.valid:
            _put_bit(self.valid, row, length >= 0)
        if length > 0:
            if cython.compiled:
                memcpy(self.data + used, data + start, length)
            else:
                self.data[used : used + length] = data[start : start + length]
            used += length
            self.used = used
        self.ends[row + 1] = used


@cython.cfunc
@cython.nogil
@cython.inline
@cython.exceptval(check=False)
def _put_bit(bits: Room, row: cython.longlong, bit: cython.bint) -> cython.void:
    """Set or clear a bit. They are put in order: a bit clears those behind it in its byte."""
    at: cython.longlong = row >> 3
    place: cython.int = row & 7
    if place == 0:
        bits[at] = 1 if bit else 0
    else:
        bits[at] = bits[at] & ((1 << place) - 1) | (1 if bit else 0) << place


def _view(room: dict, part: str, kind: str) -> memoryview:
    return memoryview(room.get(part, bytearray())).cast("B").cast(kind)


@cython.cfunc
def _longs(view: cython.longlong[::1]) -> Longs:
    if not cython.compiled:
        return view
    return cython.address(view[0]) if len(view) else cython.NULL


@cython.cfunc
def _ints(view: cython.int[::1]) -> Ints:
    if not cython.compiled:
        return view
    return cython.address(view[0]) if len(view) else cython.NULL


@cython.cfunc
def _octets(view: cython.uchar[::1]) -> Room:
    if not cython.compiled:
        return view
    return cython.address(view[0]) if len(view) else cython.NULL
