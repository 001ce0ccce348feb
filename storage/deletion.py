"""Deleting the oldest records of a log: the order that DeleteRecords and followers keep. Retention omits step 2.

1. *Offset.* The log start offset rises in memory: from here on no reader gets what lies below it.
2. *Checkpoint.* log-start-offset-checkpoint has the new offset, on the disk.
3. *Files.* Segments whose offsets all lie below the log start leave the log.

Memory comes first, because the checkpoint is written from it. The checkpoint comes before any answer: a client that had
the answer of DeleteRecords, or a leader that had the fetch of a follower, would otherwise see the offset go back after
a power loss (KIP-107). The files come last, so that a failed checkpoint costs no file. A failure after step 1 leaves
files for the next retention, which takes everything below the log start.

No step waits, and none needs an event loop: the broker writes the checkpoint in a thread and then runs step 3; the
crash tests (tests/crash) write it at once, with a fault at each operation.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol, TypeAlias

AfterCheckpoint: TypeAlias = Callable[[Callable[[], object]], object]
"""Gets step 3, and calls it once log-start-offset-checkpoint has the log start offsets as they are now (step 2)."""


class DeletableLog(Protocol):
    """What a deletion asks of a log. See `PartitionLog`."""

    def raise_log_start_offset(self, offset: int) -> bool: ...

    def delete_segments_below_log_start(self) -> int: ...


def delete_records_below(log: DeletableLog, offset: int, after_checkpoint: AfterCheckpoint) -> bool:
    """Delete the records below `offset` in the order above; return whether the log start offset moved.

    Steps 2 and 3 follow even if it did not: an earlier deletion may have failed between the steps. Raises
    OffsetOutOfRange above the high watermark. Step 3 raises KafkaStorageError if the disk refuses.
    """
    has_moved = log.raise_log_start_offset(offset)
    after_checkpoint(log.delete_segments_below_log_start)
    return has_moved


def without_checkpoint(delete_files: Callable[[], object]) -> None:
    """Go on to step 3 at once: for retention, which promises nothing. After a power loss the log starts where its first
    file does, and the next retention finishes the deletion."""
    delete_files()
