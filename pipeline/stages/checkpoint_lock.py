"""One process at a time writes a checkpoint."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

from .locations import local_path

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

LOCK_WAIT_S = 20.0
"""Seconds to wait for a lock: the JVM of a driver that was just killed takes a moment to end."""


class CheckpointInUseError(Exception):
    """Another query writes this checkpoint."""


def is_locked(checkpoint: str) -> bool | None:
    """Whether a process holds the lock of a checkpoint; None where that cannot be known. The lock is not taken from a
    process that starts at this moment: that one tries again."""
    path = local_path(checkpoint)
    if path is None:
        return None
    try:
        import fcntl

        with open(f"{path}.lock", "rb") as file:
            try:
                fcntl.lockf(file, fcntl.LOCK_SH | fcntl.LOCK_NB)  # closing the file releases it
            except BlockingIOError:
                return True
            return False
    except FileNotFoundError:
        return False
    except (OSError, ImportError):  # no right to read it, locks unknown to the file system, Windows
        return None


class CheckpointLock:
    """Keeps other queries from writing a checkpoint until it is released or the JVM ends.

    The JVM holds the lock, not this process: the JVM writes the checkpoint, and outlives a killed driver for a moment.
    Only checkpoints on this machine are locked; elsewhere Spark itself notices two queries that write one checkpoint.
    """

    def __init__(self, spark: SparkSession, checkpoint: str, *, wait_s: float = LOCK_WAIT_S) -> None:
        """Wait for the lock, and take it. Raises `CheckpointInUseError` after `wait_s`."""
        self._file: Any = None
        path = local_path(checkpoint)
        if path is None:
            return
        path.parent.mkdir(parents=True, exist_ok=True)
        self._file = spark._jvm.java.io.RandomAccessFile(f"{path}.lock", "rw")  # type: ignore[union-attr]
        deadline = time.monotonic() + wait_s
        while not self._try_lock():
            if time.monotonic() > deadline:
                self.release()
                raise CheckpointInUseError(f"{path} is in use: another query writes this checkpoint")
            time.sleep(0.1)

    def _try_lock(self) -> bool:
        from py4j.protocol import Py4JJavaError

        try:
            return self._file.getChannel().tryLock() is not None
        except Py4JJavaError as error:
            if "OverlappingFileLockException" in str(error.java_exception):  # another pipeline in this JVM holds it
                return False
            raise

    def release(self) -> None:
        if self._file is not None:
            self._file.close()
            self._file = None
