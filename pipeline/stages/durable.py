"""Sync a stage's files to the disk before the records they were made from are deleted.

Spark writes checkpoints, state and output through Hadoop's file systems, which on this machine leave them in the page
cache; a broker's purge is durable. After a power loss a query would restart before its last commit and read again
records that are gone. On HDFS and object stores a closed file is durable already, and nothing is synced.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterable
from contextlib import suppress
from itertools import islice
from pathlib import Path
from urllib.parse import unquote, urlsplit

from .declaration import Files, Stage
from .locations import local_path

MAX_OPEN_FILES = 64
"""Most files that one sync has open at the same time."""


def stage_sync(stage: Stage, checkpoint: str, output: str | None) -> Callable[[], None]:
    """Make the function that syncs what a stage has written on this machine: its output files, then its checkpoint."""
    folders: list[DurableFolder | DurableOutput] = []
    if isinstance(stage.writes, Files) and output is not None and (path := local_path(output)) is not None:
        folders.append(DurableOutput(path))
    if (path := local_path(checkpoint)) is not None:
        folders.append(DurableFolder(path))

    def sync() -> None:
        for folder in folders:
            folder.sync()

    return sync


class DurableFolder:
    """A folder and everything below it. Its files are written once and renamed into place, as Spark does."""

    def __init__(self, path: str | Path) -> None:
        self.path = Path(path)
        self._synced: set[str] = set()

    def sync(self) -> int:
        """fsync each new file and the folders of these files; return the number of files. Raises OSError."""
        present: set[str] = set()
        for folder, _, names in os.walk(self.path):
            present |= {os.path.join(folder, name) for name in names if not name.endswith(".tmp")}
        new = present - self._synced
        count = _sync(new)
        _sync({os.path.dirname(path) for path in new})
        self._synced = present
        return count


class DurableOutput:
    """The output of Spark's file sink: the files that its log (`_spark_metadata`) names."""

    def __init__(self, path: str | Path) -> None:
        self.path = Path(path)
        self._log = DurableFolder(self.path / "_spark_metadata")
        self._read: set[str] = set()
        self._synced: set[str] = set()

    def sync(self) -> int:
        """fsync the files added since the last call, then the log; return the number of files. Raises OSError."""
        try:
            names = {entry.name for entry in self._log.path.iterdir() if entry.name.split(".")[0].isdigit()}
        except FileNotFoundError:
            return 0
        new = {path for name in names - self._read for path in self._files_in(name)} - self._synced
        _sync(new)
        _sync({os.path.dirname(path) for path in new} | ({str(self.path)} if new else set()))
        self._log.sync()
        self._synced |= new
        self._read = names
        return len(new)

    def _files_in(self, name: str) -> Iterable[str]:
        try:
            lines = (self._log.path / name).read_text(encoding="utf-8").splitlines()[1:]
        except FileNotFoundError:  # compacted into a later file
            return
        for line in lines:
            yield unquote(urlsplit(json.loads(line)["path"]).path)


def _sync(paths: Iterable[str]) -> int:
    """fsync files or folders; return how many of them still exist.

    The kernel is asked to begin writing all of them first. Otherwise each fsync makes the file system commit its
    journal once more, and a micro-batch that creates a file meanwhile waits for each of these commits.
    """
    count = 0
    remaining = iter(paths)
    while some := [*islice(remaining, MAX_OPEN_FILES)]:
        descriptors = []
        try:
            for path in some:
                with suppress(FileNotFoundError):
                    descriptors.append(os.open(path, os.O_RDONLY))
            if hasattr(os, "posix_fadvise"):
                for descriptor in descriptors:
                    with suppress(OSError):  # some file systems refuse it for a folder
                        os.posix_fadvise(descriptor, 0, 0, os.POSIX_FADV_DONTNEED)
            for descriptor in descriptors:
                os.fsync(descriptor)
        finally:
            for descriptor in descriptors:
                os.close(descriptor)
        count += len(descriptors)
    return count
