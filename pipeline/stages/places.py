"""Where the checkpoints of a pipeline lie, on this machine or where Spark can write; one process has each at a time."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from .checkpoint import CheckpointFiles, LocalFiles
from .declaration import HAS_SCHEME, Files
from .durable import DurableFolder, DurableOutput

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from .declaration import Stage

OURS = "kmini.json"
"""Which cluster and topics a checkpoint's offsets are about: ours, beside Spark's files, which leaves it alone."""

LOCK_WAIT_S = 20.0
"""So long the JVM of a driver that was just killed may take to go."""


class InUseError(Exception):
    """A checkpoint that another query writes."""


def local_path(place: str) -> Path | None:
    """The path of a place on this machine; None for one that is elsewhere."""
    if place.startswith("file:"):
        return Path("/" + place.removeprefix("file:").lstrip("/"))
    return None if HAS_SCHEME.match(place) else Path(place)


class SparkFiles:
    """A checkpoint on a file system that Spark knows: HDFS, an object store."""

    def __init__(self, spark: SparkSession, place: str) -> None:
        self._place = place.rstrip("/")
        self._jvm: Any = spark._jvm
        self._file_system = self._path("").getFileSystem(spark._jsc.hadoopConfiguration())

    def _path(self, name: str) -> Any:
        return self._jvm.org.apache.hadoop.fs.Path(f"{self._place}/{name}" if name else self._place)

    def names(self, folder: str) -> list[str]:
        path = self._path(folder)
        if not self._file_system.exists(path):
            return []
        return [status.getPath().getName() for status in self._file_system.listStatus(path)]

    def read(self, name: str) -> bytes:
        if not self._file_system.exists(self._path(name)):
            raise FileNotFoundError(f"{self}/{name}")
        stream = self._file_system.open(self._path(name))
        try:
            return bytes(self._jvm.org.apache.commons.io.IOUtils.toByteArray(stream))
        finally:
            stream.close()

    def write(self, name: str, content: bytes) -> None:
        stream = self._file_system.create(self._path(name), True)
        try:
            stream.write(bytearray(content))
        finally:
            stream.close()

    def __str__(self) -> str:
        return self._place


def checkpoint_files(spark: SparkSession, place: str) -> CheckpointFiles:
    """The files of a checkpoint, wherever it is."""
    path = local_path(place)
    return SparkFiles(spark, place) if path is None else LocalFiles(path)


def write_file(files: CheckpointFiles, name: str, content: bytes) -> None:
    """Write a file of ours into a checkpoint, at once or not at all on this machine."""
    if isinstance(files, SparkFiles):
        files.write(name, content)
    elif isinstance(files, LocalFiles):
        files.path.mkdir(parents=True, exist_ok=True)
        temporary = files.path / f".{name}.tmp"
        temporary.write_bytes(content)
        os.replace(temporary, files.path / name)


def durability(stage: Stage, checkpoint: str, output: str | None) -> Callable[[], None]:
    """What has to reach the disk before the input of a stage may go: its checkpoint, and files that it wrote."""
    synced: list[DurableFolder | DurableOutput] = []
    if isinstance(stage.writes, Files) and output is not None and (path := local_path(output)) is not None:
        synced.append(DurableOutput(path))
    if (path := local_path(checkpoint)) is not None:
        synced.append(DurableFolder(path))

    def make_durable() -> None:
        for folder in synced:
            folder.sync()

    return make_durable


class CheckpointLock:
    """Keeps others from writing a checkpoint, until it is released or the JVM ends.

    The JVM holds it, not this process: it is the one that writes, and it outlives its driver for a moment if that is
    killed. Only for checkpoints on this machine; elsewhere Spark notices by itself when two write one.
    """

    def __init__(self, spark: SparkSession, checkpoint: str, *, wait_s: float = LOCK_WAIT_S) -> None:
        """Wait for it, and take it. Raises `InUseError`."""
        self._file: Any = None
        path = local_path(checkpoint)
        if path is None:
            return
        path.parent.mkdir(parents=True, exist_ok=True)
        self._file = spark._jvm.java.io.RandomAccessFile(f"{path}.lock", "rw")  # type: ignore[union-attr]
        deadline = time.monotonic() + wait_s
        while not self._is_taken():
            if time.monotonic() > deadline:
                self.release()
                raise InUseError(f"{path} is in use: another query writes this checkpoint")
            time.sleep(0.1)

    def _is_taken(self) -> bool:
        from py4j.protocol import Py4JJavaError

        try:
            return self._file.getChannel().tryLock() is not None
        except Py4JJavaError as error:
            if "OverlappingFileLockException" in str(error.java_exception):  # this JVM has it: another pipeline here
                return False
            raise

    def release(self) -> None:
        if self._file is not None:
            self._file.close()
            self._file = None


def read_identity(files: CheckpointFiles) -> dict[str, Any]:
    """What `OURS` says; empty if it says nothing."""
    try:
        content = json.loads(files.read(OURS))
    except (FileNotFoundError, ValueError):
        return {}
    return content if isinstance(content, dict) else {}


def write_identity(files: CheckpointFiles, cluster_id: str, topic_ids: Mapping[str, str]) -> None:
    content = json.dumps({"cluster_id": cluster_id, "topic_ids": dict(topic_ids)}, indent=1)
    write_file(files, OURS, content.encode())
