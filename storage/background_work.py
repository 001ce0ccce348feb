"""Work that may block for long, prepared where the logs live and done elsewhere.

A log never waits for the disk on its own: whatever syncs, or writes files that no reader needs yet, it hands over as
`BackgroundWork`. Its owner runs `run` in any thread, and then `finish` where the logs live (the event loop). The
ownership rule: `run` touches only what was captured when the work was made (files, sealed indexes, bytes), never the
log; `finish` alone changes the log. Work of one log may overlap and finish in any order.
"""

from __future__ import annotations

import heapq
import logging
import threading
from collections.abc import Iterable
from typing import Protocol

from .filesystem import FileSystem

logger = logging.getLogger("kmini.storage")


class BackgroundWork(Protocol):
    def run(self) -> None:
        """Do what blocks. Never raises for a failing disk: it is remembered for `finish`."""

    def finish(self) -> None:
        """Make the outcome part of the log. KafkaStorageError if the disk failed."""


class Deletions:
    """Files and directories that wait for `file.delete.delay.ms` to pass before they are removed.

    Safe to use from any thread: things are added where the logs live, and removed wherever blocking is allowed. What
    is still waiting at shutdown carries a name that start-up recognises, so nothing is written down.
    """

    def __init__(self, filesystem: FileSystem) -> None:
        self._filesystem = filesystem
        self._waiting: list[tuple[int, str]] = []
        self._lock = threading.Lock()

    def __len__(self) -> int:
        return len(self._waiting)

    @property
    def next_due_ms(self) -> int | None:
        """When the next removal falls due; None if nothing waits."""
        with self._lock:
            return self._waiting[0][0] if self._waiting else None

    def add(self, paths: Iterable[str], due_ms: int) -> None:
        with self._lock:
            for path in paths:
                heapq.heappush(self._waiting, (due_ms, path))

    def delete_due(self, now_ms: int) -> int:
        """Remove what is due; returns how many. What cannot be removed is logged and left to the next start. Blocks."""
        count = 0
        while True:
            with self._lock:
                if not self._waiting or self._waiting[0][0] > now_ms:
                    return count
                _, path = heapq.heappop(self._waiting)
            try:
                if self._filesystem.is_directory(path):
                    self._filesystem.remove_tree(path)
                else:
                    self._filesystem.remove(path)
            except FileNotFoundError:
                continue  # a segment of a topic that was deleted meanwhile: its directory has moved
            except OSError as error:
                logger.warning("could not remove %s: %s", path, error)
            count += 1
