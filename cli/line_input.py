"""The lines of a file, a pipe or a terminal, as they arrive."""

from __future__ import annotations

import asyncio
import io
import os
import stat
import threading
from collections.abc import AsyncIterator, Callable
from typing import BinaryIO

import click

READ_BYTES = 256 * 1024
"""Bytes read at a time."""
READ_AHEAD = 2
"""Most reads ahead of the lines that are taken."""


async def lines_of(source: BinaryIO) -> AsyncIterator[bytes]:
    """Yield texts of whole lines; lines that are available together come together. The last line need not end with a
    newline."""
    loop = asyncio.get_running_loop()
    queue: asyncio.Queue[bytes | OSError] = asyncio.Queue()
    free = threading.Semaphore(READ_AHEAD)
    read = _reader_of(source)

    def pump() -> None:
        chunk: bytes | OSError = b"\n"
        while chunk and not isinstance(chunk, OSError):
            free.acquire()
            try:
                chunk = read()
            except OSError as error:
                chunk = error
            try:
                loop.call_soon_threadsafe(queue.put_nowait, chunk)
            except RuntimeError:
                return  # the loop is closed, so the command has ended

    # A daemon, because a thread that waits for a terminal cannot be woken when the command is interrupted.
    threading.Thread(target=pump, name="input", daemon=True).start()
    rest: list[bytes] = []
    while chunk := await queue.get():
        if isinstance(chunk, OSError):
            raise click.ClickException(f"cannot read on: {chunk.strerror}") from chunk
        end = chunk.rfind(b"\n") + 1
        if end:
            yield b"".join((*rest, chunk[:end]))
            rest = []
        if end < len(chunk):
            rest.append(chunk[end:])
        free.release()
    if rest:
        yield b"".join((*rest, b"\n"))


def size_of(source: BinaryIO) -> int | None:
    """The size of the input in bytes if it is a file; None for pipes and terminals."""
    try:
        status = os.fstat(source.fileno())
    except (OSError, io.UnsupportedOperation):
        return None
    return status.st_size if stat.S_ISREG(status.st_mode) else None


def _reader_of(source: BinaryIO) -> Callable[[], bytes]:
    """A function that reads available bytes and waits only if there are none. It bypasses Python's buffer if there is a
    descriptor: a thread inside that buffer's lock would keep the interpreter from ending."""
    try:
        descriptor = source.fileno()
    except io.UnsupportedOperation:
        return lambda: source.read(READ_BYTES)
    return lambda: os.read(descriptor, READ_BYTES)
