"""Standard output whose failures are distinct from all other errors.

A full disk and a closed pipe are OSErrors like those of sockets and data files. Here they are OutputFailed, wherever a
command writes its output.
"""

from __future__ import annotations

import errno
import io
import os
import sys
from typing import Any

CLOSED_PIPE = 141
"""Exit code after the reader of a pipe is gone: 128 + SIGPIPE, as of programs that this signal ends."""


class OutputFailed(Exception):
    """Standard output cannot be written. This is no OSError, because handlers of OSError name other files."""

    def __init__(self, error: OSError) -> None:
        super().__init__(error.strerror or str(error))
        self.is_closed_pipe = error.errno in (errno.EPIPE, errno.ESHUTDOWN)


class _Output(io.RawIOBase):
    """A descriptor whose errors are OutputFailed; None stands for one that was closed before the program began."""

    def __init__(self, descriptor: int | None) -> None:
        self._descriptor = descriptor
        self.is_given_up = False
        """Whether bytes are discarded, so that the interpreter's last flush succeeds."""

    def write(self, data: Any) -> int:
        if self.is_given_up:
            return len(data)
        try:
            return os.write(self.fileno(), data)
        except OSError as error:
            raise OutputFailed(error) from error

    def writable(self) -> bool:
        return True

    def isatty(self) -> bool:
        return self._descriptor is not None and os.isatty(self._descriptor)

    def fileno(self) -> int:
        if self._descriptor is None:
            raise OSError(errno.EBADF, "it is closed")
        return self._descriptor


_guarded: list[_Output] = []
"""The streams that replaced the process's standard output."""


def guard_output() -> None:
    """Make writes to the process's standard output raise OutputFailed. A stream put in its place stays as it is."""
    stream = sys.stdout
    if os.name == "nt":  # a console there takes characters, and no bytes
        return
    if stream is None:
        raw, encoding, errors, line_buffering = _Output(None), "utf-8", "strict", False
    elif isinstance(stream, io.TextIOWrapper) and stream is sys.__stdout__:
        raw, encoding, errors = _Output(stream.fileno()), stream.encoding, stream.errors or "strict"
        line_buffering = stream.line_buffering
    else:
        return
    _guarded.append(raw)
    sys.stdout = io.TextIOWrapper(io.BufferedWriter(raw), encoding, errors, line_buffering=line_buffering)


def give_up_output() -> None:
    """Discard buffered and later output."""
    for raw in _guarded:
        raw.is_given_up = True
