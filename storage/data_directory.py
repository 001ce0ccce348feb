"""Is a directory kmini's data directory, is it empty, or does it belong to another program?

The rule. A data directory holds `kmini.db`, or the log directory `broker-N` of at least one broker. A directory whose
only entries `is_harmless` accepts counts as empty, and becomes a data directory. kmini refuses every other directory,
and changes nothing in it: Apache Kafka's log directory, for example, holds records that kmini would not serve. That no
other process serves it, two locks see to: of `log_manager.py`, and of `broker/controller/database.py`.
"""

from __future__ import annotations

import errno
import logging
import os
from collections.abc import Collection, Sequence
from typing import NamedTuple

from .filenames import DATABASE, META_PROPERTIES, broker_directory, is_harmless, parse_broker_directory
from .filesystem import FileSystem, make_directory_durable
from .log_dir_files import CorruptMetadata, read_meta_properties

logger = logging.getLogger("kmini.storage")

_NAMED_ENTRIES = 3
"""Foreign entries of a directory that a message names; it counts the others."""


class NotADataDirectory(Exception):
    """The directory is not kmini's, or not that of the brokers that start. The message says what the directory holds,
    and what to do, in one sentence or two."""


class Foreign(NamedTuple):
    """A finding in a directory that is not kmini's."""

    found: str
    """A sentence without its full stop."""
    remedy: str
    """What to do for a broker to start: sentences, the last one without its full stop."""


def prepare_data_directory(filesystem: FileSystem, path: str, node_ids: Collection[int] = ()) -> Sequence[str]:
    """Make the data directory, or check the directory that is there, for a start of the brokers `node_ids`. Returns the
    names in it.

    Raises NotADataDirectory for a directory that the rule refuses, and for one that has log directories, but none of
    these brokers. Raises NotADirectoryError for a file in the place of a directory, OSError if the disk refuses.
    """
    if not filesystem.exists(path):
        make_directory_durable(filesystem, path)
        return ()
    _check_is_directory(filesystem, path)
    names = filesystem.list(path)
    found = {node_id: name for name in names if (node_id := parse_broker_directory(name)) is not None}
    if foreign := _find_foreign(filesystem, path, names):
        raise NotADataDirectory(f"{foreign.found}. {foreign.remedy}")
    for name in found.values():
        _check_is_directory(filesystem, os.path.join(path, name))
    if found and node_ids and not found.keys() & set(node_ids):
        wanted = ", ".join(map(broker_directory, sorted(node_ids)))
        raise NotADataDirectory(
            f"{path} holds {', '.join(found.values())}, and no {wanted}. To serve its records, set node.id to "
            f"{min(found)}. To begin without records, name an empty directory"
        )
    if META_PROPERTIES in names:
        logger.warning("%s is left alone: kmini serves the log directories %s/broker-N", META_PROPERTIES, path)
    return names


def find_foreign(filesystem: FileSystem, path: str) -> Foreign | None:
    """Return what the directory at `path` holds, unless it is a data directory or counts as empty."""
    return _find_foreign(filesystem, path, filesystem.list(path))


def _find_foreign(filesystem: FileSystem, path: str, names: Sequence[str]) -> Foreign | None:
    if DATABASE in names:
        return None
    if META_PROPERTIES in names:
        return _log_directory(filesystem, path)
    if any(parse_broker_directory(name) is not None for name in names):
        return None
    entries = [name for name in names if not is_harmless(name)]
    for name in entries:
        below = os.path.join(path, name)
        if filesystem.exists(os.path.join(below, META_PROPERTIES)):
            return _log_directory(filesystem, below)
    if not entries:
        return None
    more = len(entries) - _NAMED_ENTRIES
    found = ", ".join(entries[:_NAMED_ENTRIES]) + (f" and {more} more" if more > 0 else "")
    return Foreign(
        f"{path} is neither empty nor a data directory of kmini: it holds {found}, and no {DATABASE}",
        "Name an empty directory, or one that does not exist yet",
    )


def _log_directory(filesystem: FileSystem, path: str) -> Foreign:
    above, name = os.path.split(os.path.abspath(path))
    if parse_broker_directory(name) is not None and filesystem.exists(os.path.join(above, DATABASE)):
        return Foreign(
            f"{path} is the log directory of one broker of kmini", f"Name the data directory above it, {above}"
        )
    try:
        meta = read_meta_properties(filesystem, path)
    except CorruptMetadata:
        meta = None
    node_id = 1 if meta is None else meta.node_id
    setting = "" if node_id == 1 else f" and set node.id to {node_id}"
    return Foreign(
        f"{path} is a log directory of Apache Kafka's node {node_id}, for it holds {META_PROPERTIES}",
        f"To serve its records, stop Kafka, copy {path} to {broker_directory(node_id)} in a new directory, name the "
        f"new directory{setting}. To begin without records, name an empty directory",
    )


def _check_is_directory(filesystem: FileSystem, path: str) -> None:
    if not filesystem.is_directory(path):
        raise NotADirectoryError(errno.ENOTDIR, "it is a file, and a directory was expected", path)
