"""The logs of a log directory in another directory, and back: whole files are linked, not copied, where the volume has
links.

Only files that are complete are linked. A file that is changed by one of its names is copied first (the seam sees to
it, `FileSystem.link`), so what happens to a log later leaves its snapshot as it is.
"""

from __future__ import annotations

import contextlib
import os

from . import filenames
from .filenames import LOG, PRODUCER_SNAPSHOT, SEGMENT_KINDS, parse_segment_file, segment_path
from .filesystem import FileSystem
from .log import PartitionLog
from .log_dir_files import write_clean_shutdown
from .log_manager import LogManager
from .offset_checkpoint_file import write_log_start_offsets, write_offsets

_BYTES_A_COPY = 1 << 20
"""Bytes of a file that are copied at a time."""


def is_sealed(manager: LogManager) -> bool:
    """Whether everything in the logs is in sealed segments whose files are complete: `save` may be called."""
    environment = manager.environment
    return not environment.background and all(map(is_log_sealed, manager.logs.values()))


def is_log_sealed(log: PartitionLog) -> bool:
    """Whether the active segment is empty, and the indexes of the others are on the disk."""
    *sealed, active = log.segments
    return active.size == 0 and all(segment.indexes_are_on_disk for segment in sealed)


def save(manager: LogManager, target: str) -> None:
    """Write the logs to the directory `target`, which this makes, as a clean shutdown leaves them. The logs must be
    sealed (`is_sealed`). Blocks. OSError if the disk refuses."""
    filesystem = manager.filesystem
    filesystem.make_directory(target)
    for log in manager.logs.values():
        _save_log(filesystem, log, os.path.join(target, os.path.basename(log.directory)))
    with contextlib.suppress(FileNotFoundError):
        name = filenames.CLEANER_CHECKPOINT
        copy(filesystem, os.path.join(manager.directory, name), os.path.join(target, name))
    ends = {name: log.log_end_offset for name, log in manager.logs.items()}
    write_offsets(filesystem, os.path.join(target, filenames.RECOVERY_POINT_CHECKPOINT), ends)
    write_offsets(filesystem, os.path.join(target, filenames.HIGH_WATERMARK_CHECKPOINT), manager.high_watermarks())
    write_log_start_offsets(filesystem, target, manager.log_start_offsets())
    write_clean_shutdown(filesystem, target)


def _save_log(filesystem: FileSystem, log: PartitionLog, target: str) -> None:
    filesystem.make_directory(target)
    active = log.segments.active.base_offset
    for name in filesystem.list(log.directory):
        found = parse_segment_file(name)
        path = os.path.join(log.directory, name)
        if found is None:
            if not name.endswith(filenames.TEMPORARY):
                copy(filesystem, path, os.path.join(target, name))
        elif found.kind == PRODUCER_SNAPSHOT and not found.suffix:
            copy(filesystem, path, os.path.join(target, name))
        elif not found.suffix and found.base_offset < active:
            _link(filesystem, path, os.path.join(target, name))
    filesystem.open(segment_path(target, active, LOG), create=True).close()


def fill(manager: LogManager, source: str) -> None:
    """Put the files that `save` has written to `source` into the log directory of a manager that has no logs. The
    caller loads them. Blocks. OSError if the disk refuses."""
    filesystem = manager.filesystem
    for name in filesystem.list(source):
        path, target = os.path.join(source, name), os.path.join(manager.directory, name)
        if filesystem.is_directory(path):
            filesystem.make_directory(target)
            for file in filesystem.list(path):
                _take(filesystem, os.path.join(path, file), os.path.join(target, file))
        else:
            copy(filesystem, path, target)


def _take(filesystem: FileSystem, source: str, target: str) -> None:
    """Link a file of a sealed segment; copy others, which change."""
    found = parse_segment_file(os.path.basename(source))
    if found is not None and found.kind in SEGMENT_KINDS and filesystem.size(source):
        _link(filesystem, source, target)
    else:
        copy(filesystem, source, target)


def _link(filesystem: FileSystem, source: str, target: str) -> None:
    """Link a file; copy it where the volume has no links, or is another one."""
    try:
        filesystem.link(source, target)
    except OSError:
        if filesystem.exists(target):
            raise
        copy(filesystem, source, target)


def copy(filesystem: FileSystem, source: str, target: str) -> None:
    """Copy a file with the time of its last change."""
    with (
        contextlib.closing(filesystem.open(source)) as original,
        contextlib.closing(filesystem.open(target, create=True)) as copied,
    ):
        copied.truncate(0)
        position = 0
        while data := original.read_at(position, _BYTES_A_COPY):
            copied.append(data)
            position += len(data)
        copied.sync()
    filesystem.set_modified_ms(target, filesystem.modified_ms(source))
