"""One process at a time writes a checkpoint."""

from __future__ import annotations

import logging
import os
import socket
import threading
import time
import uuid
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from .checkpoint_files import SparkFiles
from .locations import local_path

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

log = logging.getLogger("kmini.pipeline")

LOCK_WAIT_S = 20.0
"""Seconds to wait for a lock: the JVM of a driver that was just killed takes a moment to end."""
LEASE_FILE = "kmini.lease"
RENEW_EVERY_S, EXPIRES_AFTER_S = 10.0, 30.0
LOOK_EVERY_S = 1.0
"""Seconds between two looks at a lease that one waits for."""
SETTLE_S = 0.3
"""Seconds between two looks at the lease file that decide whether the lease is free, or was taken by two at once."""


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


def lock_checkpoint(spark: SparkSession, location: str) -> CheckpointLock | CheckpointLease:
    """Keep other queries from writing a checkpoint. Waits for one that ends, and raises `CheckpointInUseError` for one
    that goes on."""
    path = local_path(location)
    return CheckpointLease(SparkFiles(spark, location)) if path is None else CheckpointLock(spark, path)


class CheckpointLock:
    """Keeps other queries from writing a checkpoint on this machine until it is released or the JVM ends.

    The JVM holds the lock, not this process: the JVM writes the checkpoint, and outlives a killed driver for a moment.
    """

    is_lost = False

    def __init__(self, spark: SparkSession, path: Path, *, wait_s: float = LOCK_WAIT_S) -> None:
        """Wait for the lock, and take it. Raises `CheckpointInUseError` after `wait_s`."""
        path.parent.mkdir(parents=True, exist_ok=True)
        self._file: Any = spark._jvm.java.io.RandomAccessFile(f"{path}.lock", "rw")  # type: ignore[union-attr]
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


class LeaseFiles(Protocol):
    """The part of `SparkFiles` that a lease needs."""

    def read(self, name: str) -> bytes: ...

    def write(self, name: str, content: bytes) -> None: ...

    def delete(self, name: str) -> None: ...


class CheckpointLease:
    """Keeps other queries from writing a checkpoint that is not on this machine.

    A file in the checkpoint names the query's process, which writes the file again every `RENEW_EVERY_S`. Another
    process takes the lease if the file does not change for `EXPIRES_AFTER_S`; so the clocks of several machines need
    not agree. If two processes take it at the same time, both look again, and the last one that wrote the file has it.
    """

    def __init__(
        self,
        files: LeaseFiles,
        *,
        now: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        """Wait for the lease, and take it. Raises `CheckpointInUseError`."""
        self._files = files
        self._sleep = sleep
        self._holder = f"{socket.gethostname()} {os.getpid()} {uuid.uuid4().hex}"
        self._renewals = 0
        self.is_lost = False
        """Whether another query has taken the lease, because this one could not renew it in time."""
        first, began = self._found(), now()
        while first and now() - began < EXPIRES_AFTER_S:
            sleep(LOOK_EVERY_S)
            if (found := self._found()) != first:
                if found:
                    host, process, *_ = found.split()
                    raise CheckpointInUseError(f"{files} is in use: process {process} on {host} writes this checkpoint")
                break
        self._write()
        sleep(SETTLE_S)
        self.renew()
        if self.is_lost:
            raise CheckpointInUseError(f"{files} is in use: another query has begun to write this checkpoint")
        self._ends = threading.Event()
        self._thread = threading.Thread(target=self._renew, name="kmini-lease", daemon=True)
        self._thread.start()

    def renew(self) -> None:
        """Write the lease again, unless another query has taken it."""
        self.is_lost = not self._found().startswith(self._holder)
        if not self.is_lost:
            self._write()

    def release(self) -> None:
        self._ends.set()
        self._thread.join()
        if self._found().startswith(self._holder):
            self._files.delete(LEASE_FILE)

    def _renew(self) -> None:
        while not self.is_lost and not self._ends.wait(RENEW_EVERY_S):
            try:
                self.renew()
            except Exception as error:  # the store may be away for a moment
                log.warning("the lease of checkpoint %s is not renewed: %s", self._files, error)

    def _found(self) -> str:
        """The process that has the lease and the number of its renewals; empty if the lease is free. A file system may
        show no file for a moment while one replaces another, so only a second look says that the lease is free."""
        for _ in range(2):
            try:
                return self._files.read(LEASE_FILE).decode(errors="replace")
            except FileNotFoundError:
                self._sleep(SETTLE_S)
        return ""

    def _write(self) -> None:
        self._renewals += 1
        self._files.write(LEASE_FILE, f"{self._holder} {self._renewals}".encode())
