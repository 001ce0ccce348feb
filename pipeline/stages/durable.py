"""Have files survive a loss of power before the records are deleted that they were made from.

Spark writes checkpoints, state and output through Hadoop's file systems, which on this machine leave them in the page
cache; a broker keeps a purge. After a loss of power a query would go on before its last commit, and what it asks for
again would be gone. On HDFS and object stores a file that was closed is safe already, and there is nothing to do.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterable
from contextlib import suppress
from itertools import islice
from pathlib import Path
from urllib.parse import unquote, urlsplit

AT_ONCE = 64
"""Files that are open at the same time."""


class DurableFolder:
    """A folder and all below it. Files in it are written once and renamed into place, as Spark does."""

    def __init__(self, path: str | Path) -> None:
        self.path = Path(path)
        self._synced: set[str] = set()

    def sync(self) -> int:
        """fsync each file that is new, and the folders they are in; return how many files. Raises OSError."""
        there: set[str] = set()
        for folder, _, names in os.walk(self.path):
            there |= {os.path.join(folder, name) for name in names if not name.endswith(".tmp")}
        new = there - self._synced
        count = _sync(new)
        _sync({os.path.dirname(path) for path in new})
        self._synced = there
        return count


class DurableOutput:
    """What Spark's file sink has written, by its log (`_spark_metadata`): only what that names is output."""

    def __init__(self, path: str | Path) -> None:
        self.path = Path(path)
        self._log = DurableFolder(self.path / "_spark_metadata")
        self._read: set[str] = set()
        self._synced: set[str] = set()

    def sync(self) -> int:
        """fsync the files that were added since, then the log. Raises OSError."""
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
        except FileNotFoundError:  # compacted into a later one
            return
        for line in lines:
            yield unquote(urlsplit(json.loads(line)["path"]).path)


def _sync(paths: Iterable[str]) -> int:
    """fsync files or folders; return how many of them there are still.

    All are told to begin to write first. Otherwise each fsync has the file system commit its journal once more, and
    who creates a file meanwhile, as a micro-batch does, waits for each of these.
    """
    count = 0
    remaining = iter(paths)
    while some := [*islice(remaining, AT_ONCE)]:
        descriptors = []
        try:
            for path in some:
                with suppress(FileNotFoundError):
                    descriptors.append(os.open(path, os.O_RDONLY))
            if hasattr(os, "posix_fadvise"):
                for descriptor in descriptors:
                    with suppress(OSError):  # not of a folder, on some file systems
                        os.posix_fadvise(descriptor, 0, 0, os.POSIX_FADV_DONTNEED)
            for descriptor in descriptors:
                os.fsync(descriptor)
        finally:
            for descriptor in descriptors:
                os.close(descriptor)
        count += len(descriptors)
    return count
