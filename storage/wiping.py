"""Emptying a log directory that stays locked: the files move away at once, and are removed later."""

from __future__ import annotations

import logging
import os
from collections.abc import Callable, Iterable

from ..protocol.topics import TopicPartition
from ..protocol.uuids import random_uuid
from . import filenames
from .background_work import Deletions
from .filesystem import FileSystem
from .log_config import LogConfig
from .log_manager import LogManager

_EMPTIED = TopicPartition("emptied", 0)
"""The files of before wait for their removal under the name of a deleted log, so that the next start removes them."""


logger = logging.getLogger("kmini.storage")


def empty(
    manager: LogManager, config_of: Callable[[str], LogConfig], *, keep: Iterable[str] = ()
) -> tuple[LogManager, str]:
    """Close every log and move all files into one directory; return a manager of the empty log directory, under the
    same lock, and the path of that directory, which the caller removes.

    Leaves the entries of the log directory alone that `keep` names. The first manager may not be used any more. OSError
    if the disk refuses.
    """
    for log in manager.logs.values():
        log.segments.close()
    filesystem, directory = manager.filesystem, manager.directory
    gone = filenames.deleted_partition_directory(_EMPTIED, random_uuid())
    path = os.path.join(directory, gone)
    filesystem.make_directory(path)
    left = {filenames.LOCK, filenames.META_PROPERTIES, gone, *keep}
    for name in filesystem.list(directory):
        if name not in left:
            filesystem.rename(os.path.join(directory, name), os.path.join(path, name))
    environment = manager.environment._replace(background=[], deletions=Deletions(filesystem))
    return LogManager(environment, directory, manager.lock, manager.meta, config_of), path


def remove(filesystem: FileSystem, path: str) -> None:
    """Remove the directory that `empty` has returned. Blocks. What cannot be removed is left to the next start."""
    try:
        filesystem.remove_tree(path)
    except OSError as error:
        logger.warning("could not remove %s: %s", path, error)
