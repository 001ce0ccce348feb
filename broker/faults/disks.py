"""Rules about the disk: the file system of a broker asks them before each operation, while there is one.

A file system without a rule has no trace of this: its objects get another class while rules are set
(`storage/filesystem/live_faults.py`).
"""

from __future__ import annotations

import errno
import os
import time
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from ...storage.filesystem.live_faults import CHANGES, SYNCS, fail_operations, is_failing
from .acts import Disk, Slow, SlowFsync

if TYPE_CHECKING:
    from .active_rule import ActiveRule
    from .faulted_broker import FaultedBroker

_ERRORS = {"full": errno.ENOSPC, "fail": errno.EIO, "fail_fsync": errno.EIO, "read_only": errno.EROFS}
_GROWS = frozenset({"append", "write_at", "create", "make_directory", "link"})
"""Operations that need room."""


def place_disk_faults(broker: FaultedBroker, rules: Sequence[ActiveRule]) -> None:
    """Have the file system of a broker ask these rules, the newest first; without rules it asks nothing any more."""
    filesystem = broker.logs.filesystem
    node_id = broker.services.node_id
    meant = [active for active in rules if active.rule.when.broker in (None, node_id)]
    if meant or is_failing(filesystem):
        fail_operations(filesystem, _before(meant) if meant else None)


def _before(rules: Sequence[ActiveRule]) -> Callable[[str, str], None]:
    """What happens before an operation on a path: it may wait, and raise OSError."""

    def before(operation: str, path: str) -> None:
        error = 0
        for active in rules:
            (act,) = active.rule.do
            if not _means_operation(act, operation) or not _means_path(active, path):
                continue
            if isinstance(act, Slow):
                if active.takes_operation():
                    time.sleep(act.ms / 1000)  # as the disk would: the caller waits, on whichever thread it runs
            elif not error and active.takes_operation():
                assert isinstance(act, Disk)
                error = _ERRORS[act.fault]
        if error:
            raise OSError(error, os.strerror(error), path)

    return before


def _means_operation(act: object, operation: str) -> bool:
    if isinstance(act, Slow):
        return not isinstance(act, SlowFsync) or operation in SYNCS
    assert isinstance(act, Disk)
    if act.fault == "full":
        return operation in _GROWS
    if act.fault == "fail_fsync":
        return operation in SYNCS
    return act.fault == "fail" or operation in CHANGES


def _means_path(active: ActiveRule, path: str) -> bool:
    """Whether a rule means a path: that of a file in a partition's directory, where the rule has a topic."""
    when = active.rule.when
    if when.topic is None and when.partition is None:
        return True
    directory = os.path.basename(os.path.dirname(path))
    topic, _, number = directory.rpartition("-")
    if not topic or not number.isdigit():
        return False
    return active.means_entry is not None and active.means_entry(topic, int(number))
