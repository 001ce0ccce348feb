"""Standard output, so that a failure to write it is told apart from every other error.

A full disk and a closed pipe are OSErrors like those of sockets and data files. Here they are OutputFailed, wherever
in a command the output is written.
"""

from __future__ import annotations

import errno
import io
import os
import sys
from typing import Any

CLOSED_PIPE = 141
"""The exit code after the reader of a pipe is gone: 128 + SIGPIPE, as of programs that this signal ends."""


class OutputFailed(Exception):
    """Standard output cannot be written. No OSError, because handlers of those blame other files."""

    def __init__(self, error: OSError) -> None:
        super().__init__(error.strerror or str(error))
        self.is_closed_pipe = error.errno in (errno.EPIPE, errno.ESHUTDOWN)


class _Output(io.FileIO):
    """A descriptor whose errors are OutputFailed."""

    def write(self, data: Any) -> int:
        try:
            return super().write(data)
        except OSError as error:
            raise OutputFailed(error) from error


def guard_output() -> None:
    """Let writing the process's standard output raise OutputFailed. A stream put in its place stays as it is."""
    stream = sys.stdout
    if not isinstance(stream, io.TextIOWrapper) or stream is not sys.__stdout__:
        return
    raw = _Output(stream.fileno(), "wb", closefd=False)
    sys.stdout = io.TextIOWrapper(
        io.BufferedWriter(raw), stream.encoding, stream.errors, line_buffering=stream.line_buffering
    )


def give_up_output() -> None:
    """Send what is still buffered nowhere, so that the interpreter's last flush succeeds."""
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, sys.stdout.fileno())
    os.close(nowhere)
