"""The files of a pipeline's checkpoints, on this machine or where Spark can write, and kmini's own file in each."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from .locations import local_path
from .spark_checkpoint import CheckpointFiles, LocalFiles

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

IDENTITY_FILE = "kmini.json"
"""Names the cluster and the topics that a checkpoint's offsets belong to, and has an id of the pipeline. It lies beside
Spark's files; Spark ignores it."""

SHOWN_WHEN_CLOSED = "fs.capability.outputstream.abortable"
"""Hadoop's name for what file systems of object stores can: a file that is being written is not there yet."""

REPLACED = ("org.apache.hadoop.fs.ChecksumException", "org.apache.hadoop.fs.s3a.RemoteFileChangedException")
"""What Hadoop says of a file that is replaced while it is read. A file and its checksum are replaced one after the
other; S3A asks for the version of a file that it found when it opened it."""
LOOKS, SETTLE_S = 5, 0.1
"""How often a file is read that is being replaced, and seconds in between."""


class SparkFiles:
    """A checkpoint on a file system that Spark knows: HDFS, an object store."""

    def __init__(self, spark: SparkSession, location: str) -> None:
        self._location = location.rstrip("/")
        self._spark: Any = spark
        self._jvm: Any = spark._jvm
        self._configuration = self._spark._jsc.hadoopConfiguration()
        self._file_system = self._path("").getFileSystem(self._configuration)

    def _path(self, name: str) -> Any:
        return self._jvm.org.apache.hadoop.fs.Path(f"{self._location}/{name}" if name else self._location)

    def names(self, folder: str) -> list[str]:
        try:
            found = self._if_there(folder, lambda: self._file_system.listStatus(self._path(folder)))
        except FileNotFoundError:
            return []
        return [status.getPath().getName() for status in found]

    def read(self, name: str) -> bytes:
        def content() -> bytes:
            stream = self._file_system.open(self._path(name))
            try:
                return bytes(self._jvm.org.apache.commons.io.IOUtils.toByteArray(stream))
            finally:
                stream.close()

        found: bytes = self._if_there(name, content)
        return found

    def write(self, name: str, content: bytes) -> None:
        """Write a file. Readers never see a part of it; on some file systems they see no file for a moment.

        An object store shows a file when it is closed. To rename a file there is to delete the former one first. On
        another file system the new file is renamed into its place.
        """
        path = self._path(name)
        is_store = self._file_system.hasPathCapability(path, SHOWN_WHEN_CLOSED)
        written = path if is_store else self._jvm.org.apache.hadoop.fs.Path(path.getParent(), f".{path.getName()}.tmp")
        stream = self._file_system.create(written, True)
        try:
            stream.write(bytearray(content))
        finally:
            stream.close()
        if not is_store:
            hadoop = self._jvm.org.apache.hadoop.fs
            options = self._spark._sc._gateway.new_array(hadoop.Options.Rename, 1)
            options[0] = hadoop.Options.Rename.OVERWRITE
            hadoop.FileContext.getFileContext(path.toUri(), self._configuration).rename(written, path, options)

    def delete(self, name: str) -> None:
        """Delete a file, if it is there."""
        self._file_system.delete(self._path(name), False)

    def _if_there(self, name: str, ask: Callable[[], Any]) -> Any:
        """The answer of a file system; each question costs a request. Raises FileNotFoundError."""
        from py4j.protocol import Py4JJavaError

        left = LOOKS
        while True:
            left -= 1
            try:
                return ask()
            except Py4JJavaError as error:
                kind = error.java_exception.getClass().getName()
                if kind == "java.io.FileNotFoundException":
                    raise FileNotFoundError(f"{self}/{name}") from None
                if kind not in REPLACED or not left:
                    raise
            time.sleep(SETTLE_S)

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
    """Write `IDENTITY_FILE`, all of it or nothing."""
    content = json.dumps(dict(identity), indent=1).encode()
    if isinstance(files, SparkFiles):
        files.write(IDENTITY_FILE, content)
    elif isinstance(files, LocalFiles):
        files.path.mkdir(parents=True, exist_ok=True)
        temporary = files.path / f".{IDENTITY_FILE}.tmp"
        temporary.write_bytes(content)
        os.replace(temporary, files.path / IDENTITY_FILE)
