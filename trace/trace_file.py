"""A file of exchanges, which `kmini trace FILE` shows again.

The first line is `{"kmini trace": 1, "target": "HOST:PORT", "began": MS}`; each further line is an exchange as
`kmini trace --format json` prints it. It has what requests name, and never their records, passwords or settings.
"""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from typing import IO

from kmini.trace.lines import exchange_of, json_line
from kmini.trace.observer import TracedExchange

MARK = "kmini trace"
VERSION = 1
MAX_LINE_CHARACTERS = 64 * 1024 * 1024


class DamagedTrace(ValueError):
    """A file that is no trace, or that is damaged from a line on."""


class TraceWriter:
    """Writes exchanges to a file as they pass."""

    def __init__(self, file: IO[str], target: str) -> None:
        self._file = file
        file.write(json.dumps({MARK: VERSION, "target": target, "began": round(time.time() * 1000)}) + "\n")
        file.flush()

    def write(self, exchange: TracedExchange) -> None:
        """Write an exchange. Raises OSError."""
        self._file.write(json_line(exchange) + "\n")

    def flush(self) -> None:
        """Hand what is written to the system. Raises OSError."""
        self._file.flush()

    def close(self) -> None:
        self._file.close()


def read_exchanges(file: IO[str]) -> Iterator[TracedExchange]:
    """The exchanges of a file, up to the first line that is damaged: then DamagedTrace, which says where."""
    try:
        begin = json.loads(file.readline(MAX_LINE_CHARACTERS))
    except ValueError:
        begin = None
    if not isinstance(begin, dict) or MARK not in begin:
        raise DamagedTrace("it is no file that kmini trace --save has written")
    if begin[MARK] != VERSION:
        raise DamagedTrace(f"it has format {begin[MARK]}, this kmini reads format {VERSION}")
    number = 1
    while True:
        number += 1
        try:
            line = file.readline(MAX_LINE_CHARACTERS)
            if not line:
                return
            if not line.endswith("\n"):
                raise ValueError("it ends there in the middle")
            exchange = exchange_of(line)
        except ValueError as error:
            whole = number - 2
            raise DamagedTrace(
                f"line {number} is damaged ({error}); the {whole} exchanges before it are whole"
            ) from None
        yield exchange
