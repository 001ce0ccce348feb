"""The input of a pass: the log as captured on the loop, limits, and the watch that may stop it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple, Protocol

from ...protocol.records.record import DEFAULT_LIMIT
from ..filesystem import FileSystem
from ..indexes.transaction_index import AbortedTransaction
from ..log_config import LogConfig
from ..segment import Segment
from ..segments import aborted_transactions


class ProducerTail(NamedTuple):
    """The last batch and the epoch of an active producer, which a pass must keep."""

    last_data_offset: int | None
    """The last offset of its last batch with data; None if it has only ever ended transactions here."""
    epoch: int


class CleanableLog(NamedTuple):
    """A log as it was on the loop when the pass was prepared. Any thread may use it."""

    filesystem: FileSystem
    directory: str
    config: LogConfig
    segments: Sequence[Segment]
    """The segments that may be cleaned, from the oldest on: sealed, below the last stable offset, and old enough."""
    later_segments: Sequence[Segment]
    """All other segments: markers in them may abort transactions whose data is in the cleanable ones."""
    first_dirty_offset: int
    end_offset: int
    """The base offset of the first of the later segments. At least `first_dirty_offset`."""
    producers: Mapping[int, ProducerTail]
    """The active ones, by producer id."""
    tombstone_bit: int = 0
    """The bit of a record's attributes that makes it a tombstone whatever its value (KIP-87); 0 for none."""

    @property
    def dirty_segments(self) -> list[Segment]:
        """The cleanable segments that reach beyond the first dirty offset."""
        return [segment for segment in self.segments if segment.next_offset > self.first_dirty_offset]

    def aborted_transactions(self, segments: Sequence[Segment]) -> list[AbortedTransaction]:
        """Return the aborted transactions with records in these segments, the last of which is the last cleanable one.
        Their markers may be in later segments."""
        if not segments:
            return []
        return aborted_transactions((*segments, *self.later_segments), segments[0].base_offset, self.end_offset)


class Limits(NamedTuple):
    """The memory that a pass may take."""

    map_bytes: int = 134_217_728
    """`log.cleaner.dedupe.buffer.size` by thread."""
    load_factor: float = 0.9
    buffer_bytes: int = 262_144
    """Bytes read, and bytes written, at a time: half of `log.cleaner.io.buffer.size` by thread."""
    record_bytes: int = DEFAULT_LIMIT
    """Bytes of a decompressed record, at most: `kmini.max.decompressed.message.bytes`."""
    sifts_ahead: bool = True
    """Whether a second thread may help to rewrite what takes long to compress (chunk_filter.py). The two share
    `buffer_bytes`."""


class CleaningAborted(Exception):
    """The watch has stopped the pass. Only the groups that were swapped in remain of it."""


class Watch(Protocol):
    def on_bytes(self, count: int) -> None:
        """Called when the pass has read or written `count` bytes. May sleep; raises CleaningAborted to end the pass."""
