"""The folder of a partition in the new directory: its segments and Kafka's files beside them."""

from __future__ import annotations

import errno
import os
import shutil
import sys
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import closing, contextmanager
from typing import NamedTuple

from ..protocol.errors import CorruptMessage
from ..storage import filenames
from ..storage.cleaner.cleaned_segment import CleanedSegment
from ..storage.filenames import parse_segment_file
from ..storage.filesystem import FileSystem
from ..storage.log_config import LogConfig
from ..storage.segments import rename_segment
from .source import Refused
from .tombstone_conversion import converted, holds_flagged_values

_CHUNK_BYTES = 8 * 1024 * 1024
_BUFFER_BYTES = 1024 * 1024
_CONFIG = LogConfig()

_KEPT = (filenames.PARTITION_METADATA, filenames.LEADER_EPOCH_CHECKPOINT)
"""Files that are copied beside segments and snapshots."""

OnBytes = Callable[[int], None]


class CopiedFolder(NamedTuple):
    """The result for a partition or a segment. Sizes are bytes of batches."""

    copied_bytes: int
    linked_bytes: int
    converted_bytes: int
    """Bytes before the conversion."""
    tombstones: int
    """Flagged tombstones whose value was removed."""


class Copier:
    """Copies files; all are on the disk when it is closed. Threads sync one file while others are copied."""

    def __init__(self, filesystem: FileSystem, *, link: bool, on_bytes: OnBytes = lambda _: None) -> None:
        """With `link`, sealed segments are linked and not copied. `on_bytes` is called with the bytes of each step."""
        self._filesystem = filesystem
        self._link = link
        self._on_bytes = on_bytes
        self._executor = ThreadPoolExecutor(2, "kmini-graduate-sync")
        self._syncing: list[Future[None]] = []

    @classmethod
    @contextmanager
    def open(cls, filesystem: FileSystem, *, link: bool, on_bytes: OnBytes) -> Iterator[Copier]:
        """Open a copier. OSError, also at its end, if the disk refuses."""
        copier = cls(filesystem, link=link, on_bytes=on_bytes)
        try:
            yield copier
            copier._wait(0)
        finally:
            copier._executor.shutdown(cancel_futures=True)

    def copy_partition(self, source: str, target: str, *, converts: bool) -> CopiedFolder:
        """Make the folder `target` from the folder `source`; with `converts`, convert flagged tombstones.

        Refused for an unfinished cleaning, and for damage in a segment whose records must be read.
        """
        self._filesystem.make_directory(target)
        names = self._filesystem.list(source)
        files = [file for file in map(parse_segment_file, names) if file is not None]
        if any(file.suffix == filenames.SWAP for file in files):
            raise Refused(f"{source} holds an unfinished cleaning: let kmini start and stop once on it, and try again")
        files = [file for file in files if not file.suffix]
        bases = sorted(file.base_offset for file in files if file.kind == filenames.LOG)
        copied = {base: self._copy_log(source, target, base, base == bases[-1], converts) for base in bases}
        for file in files:
            is_index = file.kind in (filenames.OFFSET_INDEX, filenames.TIME_INDEX)
            is_rewritten = is_index and file.base_offset in copied and copied[file.base_offset].tombstones
            if file.kind != filenames.LOG and not is_rewritten:
                self._copy(filenames.segment_path(source, *file), filenames.segment_path(target, *file))
        for name in _KEPT:
            if name in names:
                self._copy(os.path.join(source, name), os.path.join(target, name))
        self._complete_indexes(target, bases)
        self._sync(target)
        return CopiedFolder(*map(sum, zip(*copied.values(), strict=True))) if copied else CopiedFolder(0, 0, 0, 0)

    def _copy_log(self, source: str, target: str, base: int, is_active: bool, converts: bool) -> CopiedFolder:
        """Copy one segment without its indexes."""
        path, new = (filenames.segment_path(folder, base, filenames.LOG) for folder in (source, target))
        size = os.stat(path).st_size
        tombstones = self._convert(path, target, base) if converts else 0
        if tombstones:
            self._on_bytes(size)
            return CopiedFolder(0, 0, size, tombstones)
        if self._link and not is_active:
            _link(path, new)
            self._on_bytes(size)
            return CopiedFolder(0, size, 0, 0)
        self._copy(path, new, self._on_bytes)
        return CopiedFolder(size, 0, 0, 0)

    def _complete_indexes(self, target: str, bases: list[int]) -> None:
        """Create the index files of empty segments: kmini may omit them, and Kafka requires them."""
        for base in bases:
            if not os.stat(filenames.segment_path(target, base, filenames.LOG)).st_size:
                for kind in (filenames.OFFSET_INDEX, filenames.TIME_INDEX):
                    self._filesystem.open(filenames.segment_path(target, base, kind), create=True).close()

    def _convert(self, path: str, target: str, base_offset: int) -> int:
        """Write a segment again, with its indexes, if it holds flagged tombstones with values; return their number."""
        with closing(self._filesystem.open(path)) as log:
            try:
                if not holds_flagged_values(log):
                    return 0
                modified_ms = self._filesystem.modified_ms(path)
                new = CleanedSegment(self._filesystem, target, base_offset, _CONFIG, modified_ms, _BUFFER_BYTES)
                count = 0
                for header, batch, dropped in converted(log):
                    new.append(batch, header)
                    count += dropped
            except CorruptMessage as error:
                raise Refused(
                    f"{error.message}: a flagged tombstone may stand behind it; kmini log dump {path} shows the damage"
                ) from error
            segment = new.finish(modified_ms)
            rename_segment(self._filesystem, segment, "")
            segment.close()
            return count

    def _copy(self, source: str, target: str, on_bytes: OnBytes = lambda _: None) -> None:
        with open(source, "rb") as read, open(target, "xb") as written:
            _copy_bytes(read.fileno(), written.fileno(), on_bytes)
            stat = os.fstat(read.fileno())
        os.utime(target, ns=(stat.st_mtime_ns, stat.st_mtime_ns))  # retention uses it where records have no timestamp
        self._sync(target)

    def _sync(self, path: str) -> None:
        self._syncing.append(self._executor.submit(_sync, path))
        self._wait(64)

    def _wait(self, left: int) -> None:
        """Wait until at most `left` files are being synced."""
        while len(self._syncing) > left:
            self._syncing.pop(0).result()


def _copy_bytes(source: int, target: int, on_bytes: OnBytes) -> None:
    """Copy one descriptor to another, by the kernel where it can: some file systems then share the blocks."""
    if hasattr(os, "copy_file_range"):
        try:
            while copied := os.copy_file_range(source, target, _CHUNK_BYTES):
                on_bytes(copied)
            return
        except OSError as error:
            if error.errno not in (errno.ENOSYS, errno.EXDEV, errno.EINVAL, errno.EOPNOTSUPP):
                raise
    while data := os.read(source, _CHUNK_BYTES):
        view = memoryview(data)
        while view:
            view = view[os.write(target, view) :]
        on_bytes(len(data))


def _sync(path: str) -> None:
    if sys.platform == "win32" and os.path.isdir(path):
        return
    number = os.open(path, os.O_RDONLY if sys.platform != "win32" else os.O_RDWR)
    try:
        os.fsync(number)
    finally:
        os.close(number)


def _link(source: str, target: str) -> None:
    try:
        os.link(source, target)
    except OSError as error:
        if error.errno in (errno.EXDEV, errno.EPERM, errno.EOPNOTSUPP, errno.EMLINK):
            raise Refused(f"{source} cannot be linked from {target} ({error.strerror}): leave out --link") from error
        raise


def remove_contents(directory: str) -> None:
    """Remove everything in a directory."""
    with os.scandir(directory) as entries:
        for entry in entries:
            if entry.is_dir(follow_symlinks=False):
                shutil.rmtree(entry.path)
            else:
                os.remove(entry.path)
