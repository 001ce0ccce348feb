"""Frames out of a stream of bytes: the buffers of a connection, without its socket.

On the wire every message is a frame: its size as an int32, and that many bytes. The two ends of a connection are frame
readers. This module is a part of `framing.py`, with which it is compiled: its classes are imported from there, and an
edit here takes effect with the next installation.

What serves requests needs to know only that a frame is a view of a buffer, good until its release. The kinds of buffers
matter to memory alone.

Theory of operation
-------------------
Frames are read in place. The input of a connection that is not consumed yet is in one buffer, in the order of arrival:

    | consumed | the frame handed out | complete frames | start of a frame | free |
                                      ^ start                              ^ end

One frame is handed out at a time, as Kafka serves the requests of a connection one by one. A frame is a view of the
buffer, and its bytes stay in place until the frame is released: record batches reach the log without a copy. If bytes
must move to make room meanwhile, they move to another buffer, and the frame keeps the old one.

The buffer is at any time one of three:

- none: all input is consumed, and the reader is at rest. It costs no memory.
- borrowed: a `ReceiveBuffer`, which all connections of a server share. Bytes of a reader at rest arrive there. Most
  requests are small and answered at once, so their reader is at rest again before another connection is read.
- owned: for what has to stay. The shared buffer is wanted back when bytes of any reader are to arrive in it, and only
  then (`settle`). The borrower then copies the start of a frame, or frames not served yet, to a buffer of its own. If a
  frame is handed out, views of its bytes may be in use: the borrower keeps the buffer, and the server gets a new one.

So the shared buffer has at most one borrower, and no byte of it is overwritten while a reader counts on it. The event
loop gives a buffer back (`buffer_updated`) before it asks for another (`get_buffer`), or drops it unused.

Bytes of a reader with a buffer of its own arrive there: the bytes of a large frame come together in it, and are copied
only when it grows. A reader drops its buffer when all of it is consumed, unless a frame that would not have fitted into
the shared buffer came lately. So producers that send large batches find their buffer ready.

A frame's size is a claim. It is checked as soon as its four bytes have arrived, and it reserves nothing: the buffer
doubles as bytes arrive, and beyond KEPT_BYTES it grows in small steps where it is; it extends at most READ_BYTES past
the frame. A large size therefore costs the peer as much as it costs the broker, and no other connection its turn.
"""

from __future__ import annotations

import struct

from . import cython_words as cython
from .errors import FrameTooLarge, MalformedMessage
from .primitives import Buffer
from .records.kernels.numbers import int32_at

READ_BYTES = 16 * 1024
"""Bytes of a new buffer, of the shared one, and those at most by which a growing buffer extends past its frame."""

SCARCE_BYTES = 4 * 1024
"""Bytes of free space below which pending bytes move to the front of the buffer."""

KEPT_BYTES = 1024 * 1024 + 2 * READ_BYTES
"""Bytes up to which a reader keeps its buffer for the next frame; it drops a larger one as soon as that is empty.
Producers send up to 1 MiB by default."""

GROWTH_BYTES = 64 * 1024
"""Bytes by which a buffer that is larger than KEPT_BYTES grows at a time, so that no read of a large frame holds the
loop."""

SMALL_FRAMES_BEFORE_SHRINKING = 32
"""Consecutive small frames after which the reader drops its buffer: each of them fits into the shared buffer, or into a
quarter of its own."""

SIZE_BYTES = cython.declare(cython.Py_ssize_t, 4)
"""Bytes of a frame's size."""

_SIZE = struct.Struct(">i")
_ZEROS = bytes(GROWTH_BYTES)
_NO_BUFFER = bytearray()
_NO_VIEW = memoryview(_NO_BUFFER)
"""The buffer of a reader at rest, and its view."""


@cython.final
@cython.cclass
class ReceiveBuffer:
    """A buffer in which the bytes of many connections arrive, one after the other. All are served by one event loop."""

    buffer: bytearray
    view: memoryview
    borrower: FrameReader | None
    """The reader that has bytes in the buffer, or None."""

    def __init__(self) -> None:
        self.renew()

    @cython.ccall
    def renew(self) -> object:
        """Begin with a new buffer: the borrower keeps the old one."""
        self.buffer = bytearray(READ_BYTES)
        self.view = memoryview(self.buffer)
        self.borrower = None
        return None


@cython.cclass
class FrameReader:
    """Makes frames of bytes, at both ends of a connection.

    No other method may be called between `get_buffer` and `buffer_updated`. Without a `shared` buffer it has always one
    of its own.
    """

    _max_frame_bytes: cython.Py_ssize_t
    _shared: ReceiveBuffer | None
    _borrowed: ReceiveBuffer | None
    """The shared buffer, while it has bytes of this reader."""
    _buffer: bytearray
    _view: memoryview
    _start: cython.Py_ssize_t
    """Start of the next frame to hand out."""
    _end: cython.Py_ssize_t
    """Where the bytes that have arrived end."""
    _is_held: cython.bint
    """Whether a frame is handed out."""
    _is_held_here: cython.bint
    """Whether a frame is handed out that is in the present buffer."""
    _small_frames: cython.Py_ssize_t

    def __init__(self, max_frame_bytes: int, shared: ReceiveBuffer | None = None) -> None:
        self._max_frame_bytes = max_frame_bytes
        self._shared = shared
        self._borrowed = None
        self._is_held = False
        self._drop_buffer()

    def allow(self, max_frame_bytes: int) -> None:
        """Allow frames of `max_frame_bytes` from now on: the peer has authenticated."""
        self._max_frame_bytes = max_frame_bytes

    @property
    def pending_bytes(self) -> int:
        """Bytes that the peer has sent ahead: they have arrived and are in no frame handed out."""
        return self._end - self._start

    @property
    def missing_bytes(self) -> int:
        """Bytes that have not arrived yet of the next frame; 0 if that is complete, or its size has not arrived."""
        pending: cython.Py_ssize_t = self._end - self._start
        if pending < SIZE_BYTES:
            return 0
        missing: int = SIZE_BYTES + _SIZE.unpack_from(self._buffer, self._start)[0] - pending
        return max(missing, 0)

    @property
    def owned_bytes(self) -> int:
        """Bytes of the buffer that the reader has for itself; 0 at rest."""
        return 0 if self._borrowed is not None else len(self._buffer)

    def get_buffer(self, size_hint: object = -1) -> memoryview:
        """Free space for the next bytes, whatever size is hinted; never empty, valid until `buffer_updated`.

        - At rest (no buffer): the shared buffer, from which another reader's bytes move first.
        - While it borrows that: its own bytes move to a buffer of its own first, and the space is behind them.
        - With a buffer of its own: the end of that, after it made room where that is scarce.

        If a frame is handed out in the shared buffer, the borrower keeps it as its own (`settle`).
        """
        shared: ReceiveBuffer | None = self._shared
        if shared is not None and (self._borrowed is not None or not len(self._buffer)):
            if shared.borrower is not None:  # another reader, or this one
                shared.borrower.settle()
            if not len(self._buffer):
                return shared.view
        if len(self._buffer) - self._end < SCARCE_BYTES:
            self._make_room()
        return self._view[self._end :] if self._end else self._view

    def buffer_updated(self, count: cython.Py_ssize_t) -> None:
        """Note that the first `count` bytes of the free space are filled."""
        shared: ReceiveBuffer | None = self._shared
        if shared is not None and not len(self._buffer) and count:
            self._buffer, self._view = shared.buffer, shared.view
            self._borrowed = shared
            shared.borrower = self
        self._end += count

    @cython.cfunc
    def _copy(self, data: Buffer) -> object:
        """Take bytes that are in another buffer, in place of `get_buffer` and `buffer_updated`."""
        count: cython.Py_ssize_t
        rest = memoryview(data)
        while rest:
            free = self.get_buffer()
            count = min(len(free), len(rest))
            free[:count] = rest[:count]
            self.buffer_updated(count)
            rest = rest[count:]
        return None

    def settle(self) -> None:
        """Leave the shared buffer to others: what has to stay moves to an own buffer, or the buffer becomes the own
        one."""
        borrowed: ReceiveBuffer | None = self._borrowed
        pending: cython.Py_ssize_t = self._end - self._start
        if borrowed is None:
            return
        if self._is_held_here:
            borrowed.renew()
            self._borrowed = None
        else:
            self._move(pending, self._capacity_for(pending))

    def trim(self) -> None:
        """Free the buffer if it is empty: the caller does so when a connection is idle."""
        if self._start == self._end and not self._is_held_here:
            self._drop_buffer()

    @cython.cfunc
    @cython.exceptval(-1)
    def _take(self) -> cython.Py_ssize_t:
        """Take the next frame, if it is complete, and return its end in the buffer; else 0. An incomplete frame has its
        size checked."""
        begin: cython.Py_ssize_t = self._start + SIZE_BYTES
        size: cython.Py_ssize_t
        if self._is_held:
            raise RuntimeError("the last frame was not released")
        if begin > self._end:
            return 0
        if cython.compiled:
            size = int32_at(self._buffer, self._start)
        else:
            (size,) = _SIZE.unpack_from(self._buffer, self._start)
        if not 0 <= size <= self._max_frame_bytes:
            if size < 0:
                raise MalformedMessage(f"a frame cannot have {size} bytes")
            raise FrameTooLarge(size, self._max_frame_bytes)
        if size > self._end - begin:
            return 0
        self._start = begin + size
        self._is_held = self._is_held_here = True
        if self._borrowed is None:
            is_small = SIZE_BYTES + size <= READ_BYTES or size < len(self._buffer) // 4
            self._small_frames = self._small_frames + 1 if is_small else 0
        return self._start

    @cython.cfunc
    def _next_content(self) -> memoryview | None:
        """The next frame without its size, a memoryview; None until it is complete."""
        begin: cython.Py_ssize_t = self._start + SIZE_BYTES
        stop: cython.Py_ssize_t = self._take()
        return self._view[begin:stop] if stop else None

    @cython.cfunc
    def _release(self) -> object:
        """Take the frame back: its bytes may be overwritten."""
        self._is_held = False
        self._forget_frame()
        return None

    @cython.cfunc
    def _forget_frame(self) -> object:
        """Allow the bytes of the frame handed out to be overwritten. A buffer that is empty then is given back, dropped
        or kept."""
        size: cython.Py_ssize_t
        self._is_held_here = False
        if self._start < self._end:
            return None
        self._start = self._end = 0
        if self._borrowed is not None:
            self._drop_buffer()
            return None
        size = len(self._buffer)
        may_drop: cython.bint = size > READ_BYTES or self._shared is not None
        if may_drop and (size > KEPT_BYTES or self._small_frames >= SMALL_FRAMES_BEFORE_SHRINKING):
            self._drop_buffer()
        return None

    @cython.cfunc
    def _make_room(self) -> object:
        """Make free space in an own buffer: move the pending bytes to the front of it, or to a larger one."""
        pending: cython.Py_ssize_t = self._end - self._start
        capacity: cython.Py_ssize_t = self._capacity_for(pending)
        if self._is_held_here or capacity > len(self._buffer):
            is_full: cython.bint = self._end == len(self._buffer)  # a copy to a larger buffer waits for that
            if is_full and (pending < KEPT_BYTES or not self._lengthen(capacity)):
                self._move(pending, capacity)
        else:
            self._view[:pending] = self._view[self._start : self._end]
            self._start, self._end = 0, pending
        return None

    @cython.cfunc
    @cython.exceptval(-1)
    def _capacity_for(self, pending: cython.Py_ssize_t) -> cython.Py_ssize_t:
        """Bytes of a buffer for the pending bytes: twice as many, but at most one read behind the frame."""
        frame: cython.Py_ssize_t
        if pending < SIZE_BYTES:
            return READ_BYTES
        frame = SIZE_BYTES + _SIZE.unpack_from(self._buffer, self._start)[0]
        if not pending < frame <= SIZE_BYTES + self._max_frame_bytes:
            return pending + READ_BYTES  # whole frames are pending, or a size that no frame has
        return max(READ_BYTES, min(2 * pending, frame + READ_BYTES))

    @cython.cfunc
    @cython.exceptval(check=True)
    def _lengthen(self, capacity: cython.Py_ssize_t) -> cython.bint:
        """Make the buffer a step longer, at most `capacity`, where it is: a copy of many megabytes would hold the loop.
        False, and nothing has changed, where the frame is not at its front, or views of it are in use."""
        if self._start or self._is_held_here or self._borrowed is not None:
            return False
        try:
            self._view.release()
            self._buffer += _ZEROS[: capacity - len(self._buffer)]
        except BufferError:
            return False
        finally:
            self._view = memoryview(self._buffer)
        return True

    @cython.cfunc
    def _move(self, pending: cython.Py_ssize_t, capacity: cython.Py_ssize_t) -> object:
        """Move the pending bytes to a new buffer; the old one lives as long as a view of it."""
        buffer: bytearray = bytearray(capacity)
        buffer[:pending] = self._view[self._start : self._end]
        self._drop_buffer()
        self._buffer, self._view = buffer, memoryview(buffer)
        self._end = pending
        return None

    @cython.cfunc
    def _drop_buffer(self) -> object:
        """Have no buffer. A borrowed one is given back; one of its own lives as long as a view of it."""
        if self._borrowed is not None:
            self._borrowed.borrower = None
            self._borrowed = None
        self._buffer, self._view = _NO_BUFFER, _NO_VIEW
        self._start = self._end = 0
        self._is_held_here = False
        # A new buffer is dropped when it is empty for the first time, unless a large frame came in it.
        self._small_frames = SMALL_FRAMES_BEFORE_SHRINKING
        return None
