"""Log lines about the mistakes of peers: escaped, shortened, and limited to a few a second.

A peer chooses the bytes that it sends, but neither the form of the log nor its rate of growth.
"""

import logging
import time
from typing import TypeVar

K = TypeVar("K")
V = TypeVar("V")

_MAX_CHARACTERS = 200
"""Characters of an argument that a line shows."""
_BURST = 20
"""Lines a second; further lines are suppressed, and their number is logged before the next line."""

MAX_CLIENTS = 1_000
"""Clients that are remembered for each kind of hint; one more removes the oldest."""


def remembered(name: str | None) -> str:
    """What is remembered of a name that a peer chose: enough to tell names apart."""
    return (name or "")[:_MAX_CHARACTERS]


def remember(clients: dict[K, V], client: K, value: V) -> V | None:
    """Put something about a client into a table of `MAX_CLIENTS`; return what was known of the client that goes for
    it, if one does."""
    is_full = len(clients) >= MAX_CLIENTS and client not in clients
    forgotten = clients.pop(next(iter(clients))) if is_full else None
    clients[client] = value
    return forgotten


def printable(text: object, *, limit: int = _MAX_CHARACTERS) -> str:
    """`text` without control or non-ASCII characters, cut to `limit`, which is 200 by default."""
    escaped = str(text)[: limit + 1].encode("ascii", "backslashreplace").decode("ascii")
    escaped = "".join(c if c.isprintable() else f"\\x{ord(c):02x}" for c in escaped)
    return escaped if len(escaped) <= limit else escaped[: limit - 3] + "..."


class PeerLog:
    """A rate limit over one logger."""

    def __init__(self, logger: logging.Logger) -> None:
        self._logger = logger
        self._second = 0
        self._lines = 0
        self._suppressed = 0

    def warning(self, message: str, *args: object) -> None:
        """Log `message % args`, arguments except numbers escaped, unless this second has had its share of lines."""
        self._log(logging.WARNING, message, args)

    def info(self, message: str, *args: object) -> None:
        """Like `warning`, for behaviour that is no mistake."""
        if self._logger.isEnabledFor(logging.INFO):
            self._log(logging.INFO, message, args)

    def _log(self, level: int, message: str, args: tuple[object, ...]) -> None:
        second = int(time.monotonic())
        if second != self._second:
            self._second, self._lines = second, 0
        self._lines += 1
        if self._lines > _BURST:
            self._suppressed += 1
            return
        suppressed, self._suppressed = self._suppressed, 0
        if suppressed:
            self._logger.log(level, "%d lines like the next one were left out", suppressed)
        self._logger.log(level, message, *(arg if isinstance(arg, int) else printable(arg) for arg in args))
