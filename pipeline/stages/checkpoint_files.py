"""The files of a pipeline's checkpoints, on this machine or where Spark can write, and kmini's own file in each."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from .locations import local_path
from .spark_checkpoint import CheckpointFiles, LocalFiles

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

IDENTITY_FILE = "kmini.json"
"""Names the cluster and the topics that a checkpoint's offsets belong to, and has an id of the pipeline. It lies beside
Spark's files; Spark ignores it."""


class SparkFiles:
    """A checkpoint on a file system that Spark knows: HDFS, an object store."""

    def __init__(self, spark: SparkSession, location: str) -> None:
        self._location = location.rstrip("/")
        self._jvm: Any = spark._jvm
        self._file_system = self._path("").getFileSystem(spark._jsc.hadoopConfiguration())

    def _path(self, name: str) -> Any:
        return self._jvm.org.apache.hadoop.fs.Path(f"{self._location}/{name}" if name else self._location)

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
        return self._location


def checkpoint_files(spark: SparkSession, location: str) -> CheckpointFiles:
    """The files of the checkpoint at `location`."""
    path = local_path(location)
    return SparkFiles(spark, location) if path is None else LocalFiles(path)


def read_identity(files: CheckpointFiles) -> dict[str, Any]:
    """The content of `IDENTITY_FILE`; empty where the file is missing or unreadable."""
    try:
        content = json.loads(files.read(IDENTITY_FILE))
    except (FileNotFoundError, ValueError):
        return {}
    return content if isinstance(content, dict) else {}


def write_identity(files: CheckpointFiles, identity: Mapping[str, Any]) -> None:
    """Write `IDENTITY_FILE`; on this machine all of it or nothing."""
    content = json.dumps(dict(identity), indent=1).encode()
    if isinstance(files, SparkFiles):
        files.write(IDENTITY_FILE, content)
    elif isinstance(files, LocalFiles):
        files.path.mkdir(parents=True, exist_ok=True)
        temporary = files.path / f".{IDENTITY_FILE}.tmp"
        temporary.write_bytes(content)
        os.replace(temporary, files.path / IDENTITY_FILE)
