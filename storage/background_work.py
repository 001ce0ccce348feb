"""Work that may block for long: prepared on the loop, done in a thread.

A log never waits for the disk. It hands over every sync, and every write of a file that no reader needs yet, as
`BackgroundWork`. The owner of the logs calls `run` in any thread, and then `finish` on the loop. `run` uses only what
was captured when the work was made (files, sealed indexes, bytes), never the log; only `finish` changes the log. Pieces
of work of one log may overlap and finish in any order.
"""

from __future__ import annotations

import heapq
import logging
import threading
from collections.abc import Collection, Iterable
from typing import Protocol

from .filesystem import FileSystem

logger = logging.getLogger("kmini.storage")


class BackgroundWork(Protocol):
    def run(self) -> None:
        """Do the blocking part. Keeps an error of the disk for `finish`."""

    def finish(self) -> None:
        """Apply the outcome to the log. KafkaStorageError if the disk failed."""


class Deletions:
    """Files and directories that are removed once `file.delete.delay.ms` has passed.

    Any thread may use it: the loop adds paths, threads that may block remove them. The queue is in memory only: the
    paths that a shutdown leaves have names that the next start recognises.
    """

    def __init__(self, filesystem: FileSystem) -> None:
        self._filesystem = filesystem
        self.waiting: list[tuple[int, str]] = []
        self._lock = threading.Lock()

    def __len__(self) -> int:
        return len(self.waiting)

    @property
    def next_due_ms(self) -> int | None:
        """When the next removal falls due; None if nothing waits."""
        with self._lock:
            return self.waiting[0][0] if self.waiting else None

    def add(self, paths: Iterable[str], due_ms: int) -> None:
        with self._lock:
            for path in paths:
                heapq.heappush(self.waiting, (due_ms, path))

    def forget(self, paths: Collection[str]) -> None:
        """Leave these paths to others."""
        with self._lock:
            self.waiting = [one for one in self.waiting if one[1] not in paths]
            heapq.heapify(self.waiting)

    def delete_due(self, now_ms: int) -> int:
        """Remove the paths that are due; return how many. The next start removes those that fail here. Blocks."""
        count = 0
        while True:
            with self._lock:
                if not self.waiting or self.waiting[0][0] > now_ms:
                    return count
                _, path = heapq.heappop(self.waiting)
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
